// A driver for tests: it plays executor and clients of one Instance, with random output lengths,
// arrivals and cancellations, in single or macro steps. What happens is a function of the seed and
// of the number of repetitions done, never of how they were grouped.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/rng.h"
#include "runtime/policy/instance.h"

namespace orrery::policy::test {

// Hash of a generated block: of the request's session (0: never shared), so that two requests of
// one session that generate share their blocks when their prompts are equal.
class SessionHasher : public BlockHasher {
 public:
  std::map<std::uint64_t, std::uint64_t> content;  // by request id
  std::int64_t asked = 0;
  BlockHash hash_block(RequestId id, std::uint32_t, std::int64_t index, BlockHash parent) override {
    ++asked;
    const std::uint64_t c = content[id.value];
    return c == 0 ? BlockHash{}
                  : chain_hash(parent, c * 1000003 + static_cast<std::uint64_t>(index));
  }
};

struct Arrival {
  std::int64_t at_repetition = 0;  // before this repetition's completion, i.e. while it is out
  Request request;
  std::int64_t output = 1;         // of the executor; the brain must not see it
  bool fails = false;              // ends with kError instead of kStop
  std::int64_t cancel_after = -1;  // repetitions after the arrival; -1: not cancelled
};

struct Outcome {
  std::map<std::uint64_t, std::vector<Finished>> ended;  // by id
  std::map<std::uint64_t, SubmitResult> answers;
  std::map<std::uint64_t, std::int64_t> ended_at;  // repetitions done when it ended
  std::map<std::uint64_t, bool> cancelled;
  std::int64_t repetitions = 0, calls = 0;
  std::uint64_t hash = 0;
  std::vector<JournalRecord> records;
  std::vector<std::string> decisions;  // one line a repetition, when wanted
  InstanceLoad load;
};

struct DriveOptions {
  bool macro = false;
  bool check = true;  // invariants and laws after every call
  bool keep_decisions = false;
  std::int64_t most_repetitions = 2'000'000;
  int flush_one_in = 0;          // flush the journal at random moments, as a rotating file does
  std::uint64_t group_seed = 0;  // != 0: macro steps of random size up to the horizon
};

class Driver {
 public:
  Driver(const InstanceSettings& settings, std::vector<Arrival> arrivals, DriveOptions options)
      : instance_(settings), options_(options), grouping_(options.group_seed) {
    for (Arrival& a : arrivals) {
      output_[a.request.id.value] = {a.output, a.fails};
      const std::int64_t at = a.at_repetition;
      if (a.cancel_after >= 0) events_.push_back({at + a.cancel_after, false, a});
      events_.push_back({at, true, std::move(a)});
    }
    std::stable_sort(events_.begin(), events_.end(),
                     [](const Event& a, const Event& b) { return a.at < b.at; });
    instance_.journal().set_sink(
        [this](std::uint32_t kind, std::span<const std::uint64_t> words, std::uint64_t) {
          out_.records.push_back({kind, {words.begin(), words.end()}});
        });
  }

  Outcome run() {
    while (true) {
      if (!step_) {
        next();
        if (!step_ && events_.empty()) break;
        if (!step_) clock_ = std::max(clock_, events_.front().at);
      }
      deliver();  // while the step is out
      maybe_flush();
      if (step_) finish_some();
      maybe_flush();
      if (out_.repetitions > options_.most_repetitions) {
        ADD_FAILURE() << "not done after " << out_.repetitions << " repetitions";
        break;
      }
    }
    instance_.flush_journal();
    out_.hash = instance_.journal().hash();
    out_.load = instance_.load();
    if (options_.check) instance_.check_invariants();
    return std::move(out_);
  }
  Instance& instance() { return instance_; }

 private:
  struct Event {
    std::int64_t at;
    bool arrival;
    Arrival what;
  };

  void next() {
    const std::optional<Step> step = instance_.next_step(Time(clock_));
    ++out_.calls;
    if (options_.check) instance_.check_invariants();
    if (!step) {
      EXPECT_FALSE(instance_.has_work());
      return;
    }
    step_ = *step;
    items_.assign(step->items.begin(), step->items.end());
    if (options_.check) check_step(*step);
    if (options_.keep_decisions) note(*step);
  }

  void check_step(const Step& step) {
    const InstanceSettings& s = instance_.settings();
    std::int64_t tokens = 0;
    ASSERT_FALSE(step.items.empty());
    ASSERT_EQ(step.horizon, instance_.horizon());
    cost::StepShape shape;
    for (const StepItem& item : step.items) {
      tokens += item.count;
      ASSERT_GE(item.count, 1);
      ASSERT_GE(static_cast<std::int64_t>(instance_.block_table(item.slot).size()) *
                    s.block_tokens.value(),
                item.first + item.count);
      ASSERT_TRUE(step.horizon == 1 || (item.count == 1 && item.samples));
      shape.tokens += item.count, ++shape.sequences, shape.sampled += item.samples;
      if (item.count == 1 && item.samples) {
        ++shape.decode_sequences;
        shape.decode_context += item.first + 1;
        continue;
      }
      shape.prefill_tokens += item.count;
      shape.prefill_context += item.first + item.count;
      for (std::int64_t i = 0; i < item.count; ++i) shape.prefill_pairs += item.first + i + 1;
    }
    ASSERT_EQ(shape, step.shape);
    ASSERT_LE(tokens, s.max_batched_tokens.value());
    ASSERT_LE(static_cast<std::int64_t>(step.items.size()), s.max_running);
    ASSERT_TRUE(step.preempted.empty() || step.admitted.empty());
  }

  void note(const Step& step) {
    std::string line;
    for (const StepItem& i : step.items)
      line += std::to_string(i.id.value) + ":" + std::to_string(i.first) + "+" +
              std::to_string(i.count) + " ";
    for (const Admission& a : step.admitted)
      line += "admit " + std::to_string(a.id.value) + "/" + std::to_string(a.cached.value()) + " ";
    for (const RequestId id : step.preempted) line += "preempt " + std::to_string(id.value) + " ";
    for (const StepItem& i : step.items)
      for (const BlockId b : instance_.block_table(i.slot)) line += "," + std::to_string(b.value);
    out_.decisions.push_back(line);
  }

  void deliver() {
    while (!events_.empty() && events_.front().at <= clock_) {
      const Event event = std::move(events_.front());
      events_.pop_front();
      const std::uint64_t id = event.what.request.id.value;
      if (event.arrival) {
        Request request = event.what.request;
        request.arrival = Time(clock_);
        hasher_.content[id] = request.session.value;
        out_.answers[id] = instance_.submit(request, Time(clock_));
      } else {
        out_.cancelled[id] = instance_.cancel(request_of(event), Time(clock_));
      }
      ++out_.calls;
      if (options_.check) instance_.check_invariants();
    }
  }
  static RequestId request_of(const Event& event) { return event.what.request.id; }

  void maybe_flush() {
    if (options_.flush_one_in == 0) return;
    if (flushes_.next_below(static_cast<std::uint64_t>(options_.flush_one_in)) == 0)
      instance_.flush_journal();
  }

  // Repetitions until something happens that the driver knows of.
  std::int64_t repetitions() {
    std::int64_t n = instance_.horizon();
    if (!options_.macro) return 1;
    if (!events_.empty()) n = std::min(n, std::max<std::int64_t>(1, events_.front().at - clock_));
    for (const StepItem& item : items_) {
      if (!item.samples) continue;
      const std::int64_t made = instance_.generated(item.slot).value();
      n = std::min(n, std::max<std::int64_t>(1, output_[item.id.value].first - made));
    }
    if (options_.group_seed != 0 && n > 1)
      n = 1 + static_cast<std::int64_t>(grouping_.next_below(static_cast<std::uint64_t>(n)));
    return n;
  }

  void finish_some() {
    const std::int64_t n = repetitions();
    std::vector<StepFinish> finishes;
    for (std::uint32_t i = 0; i < items_.size(); ++i) {
      if (!items_[i].samples) continue;
      const auto [length, fails] = output_[items_[i].id.value];
      const bool gone = out_.cancelled[items_[i].id.value];
      if (!gone && instance_.generated(items_[i].slot).value() + n >= length)
        finishes.push_back({i, fails ? FinishReason::kError : FinishReason::kStop});
    }
    clock_ += n;
    out_.repetitions += n;
    for (const Finished& f : instance_.complete(step_->id, n, finishes, &hasher_, Time(clock_))) {
      out_.ended[f.id.value].push_back(f);
      out_.ended_at[f.id.value] = out_.repetitions;
    }
    step_.reset();
    ++out_.calls;
    if (options_.check) instance_.check_invariants();
  }

  Instance instance_;
  DriveOptions options_;
  RandomStream grouping_;
  RandomStream flushes_{7};
  std::deque<Event> events_;
  std::map<std::uint64_t, std::pair<std::int64_t, bool>> output_;
  SessionHasher hasher_;
  std::optional<Step> step_;
  std::vector<StepItem> items_;
  std::int64_t clock_ = 0;
  Outcome out_;
};

// Chain of the full blocks of a prompt made of `shared` tokens of text `text`, then tokens of its
// own.
inline std::vector<BlockHash> chain(std::int64_t tokens, std::int64_t block, std::uint64_t text,
                                    std::int64_t shared, std::uint64_t own) {
  std::vector<BlockHash> hashes;
  BlockHash parent{};
  for (std::int64_t i = 0; i < tokens / block; ++i) {
    const bool common = (i + 1) * block <= shared;
    parent = chain_hash(parent, (common ? text : own) * 7919 + static_cast<std::uint64_t>(i) + 1);
    hashes.push_back(parent);
  }
  return hashes;
}

// A random load that strains the pool: some requests never fit, share prefixes, fail or are
// cancelled at any time.
inline std::vector<Arrival> random_load(std::uint64_t seed, const InstanceSettings& s, int count,
                                        std::int64_t longest) {
  RandomStream r = RandomStream(seed).fork("load");
  const auto below = [&r](std::int64_t n) {
    return static_cast<std::int64_t>(
        r.next_below(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
  };
  std::vector<Arrival> load;
  std::int64_t at = 0;
  for (int i = 0; i < count; ++i) {
    Arrival a;
    a.at_repetition = at;
    if (below(3) > 0) at += below(12);
    a.request.id = RequestId{static_cast<std::uint64_t>(i) + 1};
    a.request.prompt_tokens = Tokens(1 + below(longest));
    a.output = 1 + below(longest);
    a.request.max_tokens = Tokens(std::max<std::int64_t>(1, a.output + below(20) - 5));
    a.request.priority = static_cast<std::int32_t>(below(3));
    a.request.session = SessionId{static_cast<std::uint64_t>(below(4))};
    const auto text = static_cast<std::uint64_t>(below(3));
    if (text > 0)
      a.request.block_hashes =
          chain(a.request.prompt_tokens.value(), s.block_tokens.value(), text,
                below(2 * a.request.prompt_tokens.value()), 1000 + static_cast<std::uint64_t>(i));
    a.fails = below(15) == 0;
    if (below(5) == 0) a.cancel_after = below(3 * longest);
    load.push_back(std::move(a));
  }
  return load;
}

}  // namespace orrery::policy::test
