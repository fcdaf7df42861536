#include "sim/backlog.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

// Requests every second, each staying as long as `stay(i)` says.
template <class F>
std::array<double, 4> residence(int n, F stay) {
  std::vector<std::pair<std::int64_t, int>> events;
  for (int i = 0; i < n; ++i) {
    events.emplace_back(i * 1'000'000'000LL, +1);
    events.emplace_back(i * 1'000'000'000LL + static_cast<std::int64_t>(stay(i) * 1e9), -1);
  }
  std::sort(events.begin(), events.end());
  Backlog backlog;
  for (const auto& [at, step] : events) {
    if (step > 0) {
      backlog.arrived(Time(at));
    } else {
      backlog.ended(Time(at));
    }
  }
  backlog.judge(Time(events.back().first));
  return backlog.residence_by_quarter();
}

TEST(Backlog, residence_is_littles_law_in_each_quarter) {
  const auto steady = residence(4000, [](int) { return 7.0; });
  for (int q = 1; q < 4; ++q) EXPECT_NEAR(steady[static_cast<std::size_t>(q)], 7, 0.1);
  // Stays grow by 0.1 s each second: the mean of a quarter's is what those in it have had.
  const auto growing = residence(4000, [](int i) { return 0.1 * i; });
  EXPECT_LT(growing[1], growing[2]);
  EXPECT_LT(growing[2], growing[3]);
}

TEST(Backlog, a_quarter_with_few_arrivals_says_nothing) {
  const auto few = residence(40, [](int i) { return 1.0 * i; });
  EXPECT_EQ(few[3], 0);
}

}  // namespace
}  // namespace orrery::sim
