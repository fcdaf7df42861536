// BlockTable: which blocks of prompts have been seen, in bounded memory. Exact up to about 1.2
// million distinct blocks; beyond, new blocks are kept by a uniform sample of their hashes and
// count 2^k each, as in SHARDS (Waldspurger et al., FAST 2015), while blocks that are asked for
// often are all kept: a few system prompts make half of the hits, and must not hang on one coin.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "traces/trace.h"

namespace orrery::traces {

class BlockTable {
 public:
  // Default: 2^21 slots of 8 bytes. Tests use fewer.
  explicit BlockTable(std::size_t most_slots = std::size_t{1} << 21) : most_slots_(most_slots) {}

  // Looks the request's full blocks up and adds them; returns the tokens of those seen before. A
  // block counts as seen only with all that precedes it. A partial tail never matches.
  std::int64_t add(const TraceRequest& request);
  // Ids that stood for a full block in one request and for a partial tail in another.
  std::int64_t used_both_ways() const { return both_ways_; }
  std::int64_t one_in() const { return std::int64_t{1} << shift_; }  // 1: exact
  std::int64_t distinct() const;

 private:
  // An entry: 53 bits of hash, then 5 bits k (it stands for 2^k), 4 bits of hits (saturating) and
  // two flags. 0: free.
  enum Bits : std::uint64_t { kFull = 1, kTail = 2, kHit = 4, kHits = 15 * 4, kWeight = 64 };
  static constexpr std::uint64_t kKey = ~std::uint64_t{0x7ff};
  static std::int64_t weight(std::uint64_t entry) {
    return std::int64_t{1} << (entry / kWeight & 31);
  }
  bool sampled(std::uint64_t key) const {
    return (key >> 44 & ((std::uint64_t{1} << shift_) - 1)) == 0;
  }
  void mark(std::uint64_t key, Bits flag, std::int64_t tokens, std::int64_t& seen);
  std::uint64_t& slot_of(std::uint64_t key);
  void grow();
  void rebuild(std::size_t size, bool thin, bool keep_hot);

  const std::size_t most_slots_;
  std::vector<std::uint64_t> slots_;
  std::size_t used_ = 0;
  int shift_ = 0;
  std::int64_t both_ways_ = 0;
};

}  // namespace orrery::traces
