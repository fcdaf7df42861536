// The Instance decides as its naive twin does: items, and the blocks behind each request.
#include <gtest/gtest.h>

#include "runtime/policy/bench/naive_instance.h"
#include "runtime/policy/scheduler/orders.h"
#include "runtime/policy/scheduler/victims.h"
#include "tests/laws/instance_driver.h"
#include "tests/laws/random_settings.h"

namespace orrery::policy::test {
namespace {

class Twins {
 public:
  Twins(const InstanceSettings& s, std::vector<Arrival> load)
      : instance_(s), naive_(s), load_(std::move(load)) {}

  void run() {
    while (next_ < load_.size() || instance_.has_work()) {
      const std::optional<Step> step = instance_.next_step(Time(clock_));
      std::vector<StepItem> items;  // the step's spans end with the next call
      if (step) {
        items.assign(step->items.begin(), step->items.end());
        ASSERT_NO_FATAL_FAILURE(compare(*step));
      }
      events();
      if (step) complete(step->id, items);
      ++clock_;
      preemptions = instance_.load().preemptions;
    }
    ASSERT_TRUE(naive_.live().empty());
    ASSERT_EQ(naive_.pool().free_count(), instance_.load().blocks_free.value());
  }
  std::int64_t preemptions = 0;

 private:
  void compare(const Step& step) {
    std::vector<NaiveInstance::Item> items;
    for (const StepItem& i : step.items) items.push_back({i.id.value, i.first, i.count, i.samples});
    ASSERT_EQ(items, naive_.next_step()) << "step " << step.id;
    for (const StepItem& i : step.items) {
      const auto table = instance_.block_table(i.slot);
      ASSERT_TRUE(std::ranges::equal(table, naive_.live().at(i.id.value).table))
          << "step " << step.id << ", blocks of " << i.id.value;
    }
  }
  void events() {
    for (; next_ < load_.size() && load_[next_].at_repetition <= clock_; ++next_) {
      Arrival& a = load_[next_];
      a.request.arrival = Time(clock_);
      hasher_.content[a.request.id.value] = a.request.session.value;
      if (instance_.submit(a.request, Time(clock_)).accepted()) naive_.submit(a.request);
      outputs_[a.request.id.value] = &a;
    }
    for (const auto& [id, a] : outputs_) {
      if (a->cancel_after < 0 || clock_ != a->at_repetition + a->cancel_after) continue;
      if (instance_.cancel({id}, Time(clock_))) naive_.cancel(id), cancelled_[id] = true;
    }
  }
  void complete(std::uint64_t step, const std::vector<StepItem>& items) {
    std::vector<StepFinish> finishes;
    std::map<std::uint64_t, bool> stops;
    for (std::uint32_t i = 0; i < items.size(); ++i) {
      const Arrival& a = *outputs_.at(items[i].id.value);
      if (!items[i].samples || cancelled_.contains(items[i].id.value)) continue;
      if (instance_.generated(items[i].slot).value() + 1 < a.output) continue;
      finishes.push_back({i, a.fails ? FinishReason::kError : FinishReason::kStop});
      stops[items[i].id.value] = a.fails;
    }
    instance_.complete(step, 1, finishes, &hasher_, Time(clock_));
    naive_.complete(stops, &hasher_);
  }

  Instance instance_;
  NaiveInstance naive_;
  std::vector<Arrival> load_;
  std::size_t next_ = 0;
  std::int64_t clock_ = 0;
  std::map<std::uint64_t, Arrival*> outputs_;
  std::map<std::uint64_t, bool> cancelled_;
  SessionHasher hasher_;
};

TEST(NaiveTwin, chooses_the_same_items_and_the_same_blocks) {
  std::int64_t preemptions = 0;
  for (const NamedOrder& order : registered_orders()) {
    for (const NamedVictim& victim : registered_victims()) {
      for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(std::string(order.name) + ", " + std::string(victim.name) + ", seed " +
                     std::to_string(seed));
        const InstanceSettings s =
            random_settings(seed, std::string(order.name), std::string(victim.name));
        const std::int64_t pool = s.block_tokens.value() * s.kv_blocks.value();
        Twins twins(s, random_load(seed, s, 40, std::min<std::int64_t>(1 + pool * 2 / 3, 90)));
        ASSERT_NO_FATAL_FAILURE(twins.run());
        preemptions += twins.preemptions;
      }
    }
  }
  EXPECT_GT(preemptions, 200);
}

}  // namespace
}  // namespace orrery::policy::test
