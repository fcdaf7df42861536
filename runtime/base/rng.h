// Counter-based random streams, forked by name. A stream is (key, counter): draw i of a stream is
// a pure function of both, so adding draws to one stream never shifts another.
// Use: RandomStream root(seed); auto arrivals = root.fork("arrivals"); one draw an expression.
// No std distribution: their results differ between libraries. Logarithm and power are our own
// (portable_math.h), so draws have the same bits on every machine.
#pragma once
#include <cstdint>
#include <string_view>

#include "runtime/base/hash.h"

namespace orrery {

class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed) : key_(mix64(seed + 0x9e3779b97f4a7c15ULL)) {}

  // An independent stream for one purpose, or one purpose and index. Does not advance this one.
  RandomStream fork(std::string_view name, std::uint64_t index = 0) const {
    RandomStream child(0);
    child.key_ = hash_combine(hash_bytes(name, key_), index);
    return child;
  }
  std::uint64_t next_u64() { return at(counter_++); }
  // Uniform in [0, 1): 53 bits.
  double next_unit() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }
  // Uniform in [0, bound), bound > 0. Multiply-shift: bias below 2^-64 * bound.
  std::uint64_t next_below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next_u64()) * bound) >> 64);
  }
  // Exponential with mean 1.
  double next_exponential();
  // Gamma with this shape > 0 and scale 1 (Marsaglia and Tsang 2000; shape < 1 by boosting).
  double next_gamma(double shape);
  // Standard normal (Box-Muller, one of the pair used).
  double next_normal();

  // The i-th draw of this stream (SplitMix64 on key + i*golden, keyed twice).
  std::uint64_t at(std::uint64_t i) const {
    return mix64(mix64(key_ + i * 0x9e3779b97f4a7c15ULL) ^ key_);
  }

 private:
  std::uint64_t key_ = 0;
  std::uint64_t counter_ = 0;
};

}  // namespace orrery
