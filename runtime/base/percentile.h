// Percentile targets by the nearest-rank rule: "p99 of n values is at most L" holds when no more
// than allowed_over(99, n) of them are over L.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace orrery {

inline std::int64_t allowed_over(double percentile, std::int64_t n) {
  const auto rank = static_cast<std::int64_t>(std::ceil(percentile / 100 * static_cast<double>(n)));
  return n - std::clamp<std::int64_t>(rank, n > 0 ? 1 : 0, n);
}

}  // namespace orrery
