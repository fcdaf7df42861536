// BlockTable: which blocks of prompts have been seen, in bounded memory. Exact up to about 1.2
// million distinct blocks; beyond, it keeps a uniform sample of them by hash (each block then
// stands for 2^k), as in SHARDS (Waldspurger et al., FAST 2015), so shares stay unbiased.
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
  std::int64_t distinct() const { return static_cast<std::int64_t>(used_) << shift_; }

 private:
  enum Flag : std::uint64_t { kFull = 1, kTail = 2, kFlags = 3 };
  bool sampled(std::uint64_t key) const {
    return (key >> 2 & ((std::uint64_t{1} << shift_) - 1)) == 0;
  }
  // Sets the flag on this key; returns the flags before.
  std::uint64_t mark(std::uint64_t key, Flag flag);
  std::uint64_t& slot_of(std::uint64_t key);
  void grow();

  const std::size_t most_slots_;
  std::vector<std::uint64_t> slots_;  // key with its two low bits replaced by flags; 0: free
  std::size_t used_ = 0;
  int shift_ = 0;
  std::int64_t both_ways_ = 0;
};

}  // namespace orrery::traces
