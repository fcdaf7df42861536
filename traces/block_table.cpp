#include "traces/block_table.h"

#include <utility>

#include "runtime/base/hash.h"

namespace orrery::traces {
namespace {
constexpr int kMostShift = 19;  // the sample looks at 20 bits of the hash
}

std::int64_t BlockTable::add(const TraceRequest& request) {
  const std::size_t full = request.full_blocks();
  std::uint64_t chain = static_cast<std::uint64_t>(request.block_tokens);
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < request.hash_ids.size(); ++i) {
    chain = hash_combine(chain, request.hash_ids[i]);
    mark(chain & kKey, i < full ? kFull : kTail, request.block_tokens, seen);
  }
  return seen;
}

void BlockTable::mark(std::uint64_t key, Bits flag, std::int64_t tokens, std::int64_t& seen) {
  if (key == 0) key = kKey;
  if (slots_.empty() || used_ * 10 > slots_.size() * 6) grow();
  std::uint64_t& slot = slot_of(key);
  if (slot == 0) {
    if (!sampled(key)) return;
    slot = key | kWeight * static_cast<std::uint64_t>(shift_) | flag;
    ++used_;
    return;
  }
  if ((slot & flag) == 0) {  // seen, but in the other role
    both_ways_ += weight(slot);
    slot |= flag;
    return;
  }
  if (flag == kFull) seen += tokens * weight(slot);
  if ((slot & kHits) != kHits) slot += kHit;
}

std::uint64_t& BlockTable::slot_of(std::uint64_t key) {
  const std::uint64_t mask = slots_.size() - 1;
  std::uint64_t i = key >> 20 & mask;
  while (slots_[i] != 0 && (slots_[i] & kKey) != key) i = (i + 1) & mask;
  return slots_[i];
}

void BlockTable::grow() {
  const std::size_t size = slots_.empty() ? 1024 : slots_.size() * 2;
  if (size <= most_slots_) return rebuild(size, false, true);
  for (bool keep_hot = true; used_ * 2 > slots_.size(); keep_hot = false) {
    if (shift_ < kMostShift) ++shift_;
    rebuild(slots_.size(), true, keep_hot);
  }
}

void BlockTable::rebuild(std::size_t size, bool thin, bool keep_hot) {
  const std::vector<std::uint64_t> old = std::exchange(slots_, {});
  slots_.assign(size, 0);
  used_ = 0;
  for (std::uint64_t entry : old) {
    if (entry == 0) continue;
    if (thin && !(keep_hot && (entry & kHits) == kHits)) {
      if (!sampled(entry)) continue;
      entry = (entry & ~(kWeight * 31)) | kWeight * static_cast<std::uint64_t>(shift_);
    }
    slot_of(entry & kKey) = entry;
    ++used_;
  }
}

std::int64_t BlockTable::distinct() const {
  std::int64_t sum = 0;
  for (const std::uint64_t entry : slots_)
    if (entry != 0) sum += weight(entry);
  return sum;
}

}  // namespace orrery::traces
