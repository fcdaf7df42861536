#include "traces/block_table.h"

#include <utility>

#include "runtime/base/hash.h"

namespace orrery::traces {

std::int64_t BlockTable::add(const TraceRequest& request) {
  const std::size_t full = request.full_blocks();
  std::uint64_t chain = static_cast<std::uint64_t>(request.block_tokens);
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < request.hash_ids.size(); ++i) {
    chain = hash_combine(chain, request.hash_ids[i]);
    const std::uint64_t key = chain | kFlags;
    if (!sampled(key)) continue;
    const Flag flag = i < full ? kFull : kTail;
    const std::uint64_t before = mark(key, flag);
    if (flag == kFull && (before & kFull) != 0) seen += request.block_tokens << shift_;
    if ((before & kFlags) != 0 && (before & flag) == 0) both_ways_ += one_in();
  }
  return seen;
}

std::uint64_t BlockTable::mark(std::uint64_t key, Flag flag) {
  if (slots_.empty() || used_ * 10 > slots_.size() * 6) grow();
  if (!sampled(key)) return 0;  // growing may have thinned the sample
  std::uint64_t& slot = slot_of(key);
  const std::uint64_t before = slot & kFlags;
  if (slot == 0) slot = key & ~std::uint64_t{kFlags}, ++used_;
  slot |= flag;
  return before;
}

std::uint64_t& BlockTable::slot_of(std::uint64_t key) {
  const std::uint64_t mask = slots_.size() - 1, wanted = key & ~std::uint64_t{kFlags};
  std::uint64_t i = key >> 20 & mask;
  while (slots_[i] != 0 && (slots_[i] & ~std::uint64_t{kFlags}) != wanted) i = (i + 1) & mask;
  return slots_[i];
}

void BlockTable::grow() {
  std::vector<std::uint64_t> old = std::exchange(slots_, {});
  std::size_t size = old.empty() ? 1024 : old.size() * 2;
  if (size > most_slots_) size = old.size(), ++shift_;
  slots_.assign(size, 0);
  used_ = 0;
  for (const std::uint64_t entry : old) {
    if (entry == 0 || !sampled(entry)) continue;
    slot_of(entry) = entry;
    ++used_;
  }
}

}  // namespace orrery::traces
