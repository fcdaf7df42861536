// 64-bit mixing used for block hashes, journal hashes and the names of random streams.
// Not cryptographic. Defined on integers and bytes, so the result is the same on every machine.
#pragma once
#include <cstdint>
#include <string_view>

#include "runtime/base/units.h"

namespace orrery {

// Finaliser of MurmurHash3 in its "variant 13" constants (D. Stafford): a bijection on 64 bits.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27, x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Order-dependent combination of a running hash with one more word.
constexpr std::uint64_t hash_combine(std::uint64_t h, std::uint64_t word) {
  return mix64(h ^ (mix64(word + 0x9e3779b97f4a7c15ULL) + (h << 6) + (h >> 2)));
}

constexpr std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed = 0) {
  std::uint64_t h = mix64(seed ^ text.size());
  std::uint64_t word = 0;
  int filled = 0;
  for (const char c : text) {
    word |= static_cast<std::uint64_t>(static_cast<unsigned char>(c)) << (8 * filled);
    if (++filled == 8) h = hash_combine(h, word), word = 0, filled = 0;
  }
  return filled > 0 ? hash_combine(h, word) : h;
}

// One link of a block-hash chain: h_i = H(h_{i-1}, content of block i). Never 0.
constexpr BlockHash chain_hash(BlockHash parent, std::uint64_t content) {
  const std::uint64_t h = hash_combine(parent.value, content);
  return BlockHash{h != 0 ? h : 1};
}

}  // namespace orrery
