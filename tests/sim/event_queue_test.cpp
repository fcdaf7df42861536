#include "sim/event_queue.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "runtime/base/rng.h"

namespace orrery::sim {
namespace {

// The slow twin: all events in a map by replica, the least found by looking at each.
TEST(ReplicaEvents, pops_in_order_of_time_kind_and_replica_under_random_changes) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RandomStream random(seed);
    ReplicaEvents events(17);
    std::map<std::uint32_t, Event> naive;
    for (int step = 0; step < 2000; ++step) {
      if (random.next_below(3) > 0 || naive.empty()) {
        Event e;
        e.replica = static_cast<std::uint32_t>(random.next_below(17));
        e.time = Time(static_cast<std::int64_t>(random.next_below(40)));
        e.kind = random.next_below(2) == 0 ? EventKind::kCompletion : EventKind::kKick;
        events.set(e.replica, e.time, e.kind);
        naive[e.replica] = e;
      } else {
        const auto least =
            std::min_element(naive.begin(), naive.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; });
        ASSERT_EQ(events.top().replica, least->first) << "seed " << seed << " step " << step;
        ASSERT_EQ(events.next_time(), least->second.time);
        ASSERT_EQ(events.top().kind, least->second.kind);
        events.pop();
        naive.erase(least);
      }
      ASSERT_EQ(events.empty(), naive.empty());
    }
  }
}

}  // namespace
}  // namespace orrery::sim
