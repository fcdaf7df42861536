#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "runtime/deploy/backend.h"
#include "runtime/deploy/diff.h"
#include "runtime/deploy/local/process.h"
#include "runtime/deploy/state_store.h"
#include "runtime/engine/settings.h"

namespace orrery::deploy {
namespace {

std::string temporary_dir(const char* name) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("orrery-deploy-" + std::to_string(getpid()) + "-" + name);
  std::filesystem::remove_all(path);
  return path.string();
}

std::vector<DesiredWorker> desired_of(int count) {
  return workers_of("embedded", count, engine::default_embedded_settings());
}

ActualWorker running(const DesiredWorker& want, std::int64_t instance) {
  ActualWorker have;
  have.slot = want.slot, have.spec = want.spec, have.instance = instance, have.state = "ready";
  return have;
}

int count_of(const std::vector<Change>& changes, ChangeKind kind) {
  return static_cast<int>(std::count_if(changes.begin(), changes.end(),
                                        [kind](const Change& c) { return c.kind == kind; }));
}

TEST(Diff, equal_states_give_only_keeps) {
  const auto desired = desired_of(3);
  std::vector<ActualWorker> actual;
  for (const auto& want : desired)
    actual.push_back(
        running(want, actual.empty() ? 5 : 6 + static_cast<std::int64_t>(actual.size())));
  const auto changes = diff(desired, actual);
  EXPECT_EQ(count_of(changes, ChangeKind::kKeep), 3);
  EXPECT_EQ(changes.size(), 3U);
}

TEST(Diff, scaling_down_stops_the_highest_places) {
  const auto four = desired_of(4);
  std::vector<ActualWorker> actual;
  for (const auto& want : four)
    actual.push_back(running(want, static_cast<std::int64_t>(actual.size()) + 1));
  std::set<std::string> stopped;
  for (const Change& change : diff(desired_of(2), actual)) {
    if (change.kind == ChangeKind::kStop) stopped.insert(change.slot);
  }
  EXPECT_EQ(stopped, (std::set<std::string>{"main-2", "main-3"}));
}

TEST(Diff, a_changed_spec_is_a_start_and_a_stop_and_a_failed_worker_is_tried_again) {
  const auto desired = desired_of(2);
  auto changed = running(desired[0], 1);
  changed.spec = "other";
  auto failed = running(desired[1], 2);
  failed.state = "failed";
  const auto changes = diff(desired, {changed, failed});
  EXPECT_EQ(count_of(changes, ChangeKind::kStart), 2);
  EXPECT_EQ(count_of(changes, ChangeKind::kStop), 2);
  EXPECT_EQ(count_of(changes, ChangeKind::kKeep), 0);
}

TEST(Diff, applying_it_to_what_runs_gives_what_is_desired) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    RandomStream random(seed);
    std::map<std::int64_t, ActualWorker> actual;
    for (std::int64_t i = static_cast<std::int64_t>(random.next_below(6)); i > 0; --i) {
      ActualWorker have;
      have.slot = "main-" + std::to_string(i), have.instance = i;
      have.spec = "spec" + std::to_string(random.next_below(2));
      const char* states[] = {"ready", "starting", "failed", "draining"};
      have.state = states[random.next_below(4)];
      actual[i] = have;
    }
    std::vector<DesiredWorker> desired;
    for (std::uint64_t i = 0; i < random.next_below(6); ++i) {
      DesiredWorker want;
      want.slot = "main-" + std::to_string(i), want.spec = "spec0";
      desired.push_back(want);
    }
    std::vector<ActualWorker> rows;
    for (const auto& entry : actual) rows.push_back(entry.second);
    std::int64_t next = 100;
    for (const Change& change : diff(desired, rows)) {
      if (change.kind == ChangeKind::kStop) actual.erase(change.instance);
      if (change.kind == ChangeKind::kStart)
        actual[next] = running(desired[change.worker], next), ++next;
    }
    std::multiset<std::string> have, want;
    for (const auto& entry : actual) {
      if (entry.second.state != "draining") have.insert(entry.second.slot + entry.second.spec);
    }
    for (const auto& worker : desired) want.insert(worker.slot + worker.spec);
    EXPECT_EQ(have, want) << "seed " << seed;
  }
}

TEST(Plan, what_the_local_backend_cannot_run_is_named) {
  Plan plan;
  plan.pools.resize(2);
  plan.pools[0].model = plan.pools[1].model = "embedded";
  plan.pools[0].instance_type = "cpu-local", plan.pools[1].instance_type = "g6.xlarge";
  plan.pools[1].name = "gpu";
  try {
    workers_for_local_backend(plan, "plan.json");
    FAIL() << "accepted";
  } catch (const Unsupported& refusal) {
    EXPECT_NE(std::string(refusal.what()).find("g6.xlarge"), std::string::npos);
  }
  plan.pools[1].instance_type = "cpu-local";
  plan.pools[1].replicas = 2;
  EXPECT_EQ(workers_for_local_backend(plan, "plan.json").size(), 3U);
  plan.pools[1].role = "decode";
  EXPECT_THROW(workers_for_local_backend(plan, "plan.json"), Unsupported);
}

TEST(Backend, others_say_what_they_are_and_unknown_ones_are_bad_input) {
  const std::string dir = temporary_dir("backend");
  EXPECT_THROW(make_backend("twin", dir), Unsupported);
  EXPECT_THROW(make_backend("kubernetes", dir), Unsupported);
  EXPECT_THROW(make_backend("slurm", dir), InputError);
  EXPECT_FALSE(make_backend("local", dir)->actual().alive);
  std::filesystem::remove_all(dir);
}

TEST(StateStore, desired_and_actual_states_read_back_as_written) {
  const std::string dir = temporary_dir("store");
  Desired desired;
  desired.port = 1234, desired.router_policy = "prefix_aware", desired.source = "p \"q\" 'r'.json";
  desired.plan = "{\"a\":1}", desired.workers = desired_of(3);
  {
    StateStore store(dir);
    EXPECT_EQ(store.generation(), 0);
    EXPECT_FALSE(store.desired().has_value());
    EXPECT_EQ(store.set_desired(desired), 1);
    EXPECT_EQ(store.set_desired(desired), 2);
    store.request_stop();
  }
  StateStore store(dir);  // as another process sees it
  const auto read = store.desired();
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->generation, 3);
  EXPECT_TRUE(read->stop);
  EXPECT_EQ(read->port, 1234);
  EXPECT_EQ(read->source, desired.source);
  EXPECT_EQ(read->workers, desired.workers);
  FleetRow fleet;
  fleet.pid = 42, fleet.state = "ready", fleet.generation = 3;
  ActualWorker worker = running(desired.workers[1], 7);
  worker.pid = 99, worker.restarts = 2, worker.message = "two\nlines";
  store.set_actual(fleet, {worker});
  EXPECT_EQ(StateStore(dir).fleet()->pid, 42);
  ASSERT_EQ(StateStore(dir).workers().size(), 1U);
  EXPECT_EQ(StateStore(dir).workers()[0].message, "two\nlines");
  EXPECT_EQ(StateStore(dir).workers()[0].instance, 7);
  std::filesystem::remove_all(dir);
}

TEST(StateStore, a_folder_that_cannot_be_made_is_bad_input) {
  EXPECT_THROW(StateStore("/proc/no/such"), InputError);
}

TEST(FleetLock, one_holder_at_a_time_and_free_when_it_ends) {
  const std::string dir = temporary_dir("lock");
  EXPECT_FALSE(FleetLock::held(dir));
  {
    const auto first = FleetLock::try_take(dir);
    ASSERT_TRUE(first.has_value());
    EXPECT_TRUE(FleetLock::held(dir));
    EXPECT_FALSE(FleetLock::try_take(dir).has_value());
  }
  EXPECT_FALSE(FleetLock::held(dir));
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace orrery::deploy
