// NaivePool: the slow twin of BlockPool, written from its header's sentences with plain vectors.
// Tests compare the two; benchmarks print the ratio.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/units.h"

namespace orrery::policy {

class NaivePool {
 public:
  explicit NaivePool(Blocks count) : references_(static_cast<std::size_t>(count.value()), 0) {
    for (std::uint32_t i = 0; i < references_.size(); ++i) free_.push_back(i);
  }
  std::int64_t free_count() const { return static_cast<std::int64_t>(free_.size()); }
  bool is_free(BlockId b) const { return references_[b.value] == 0; }
  std::pair<BlockId, BlockHash> allocate() {
    const std::uint32_t id = free_.front();
    free_.erase(free_.begin());
    const BlockHash evicted = hash_of({id});
    std::erase_if(published_, [&](const auto& p) { return p.second == id; });
    references_[id] = 1;
    return {BlockId{id}, evicted};
  }
  std::optional<BlockId> find(BlockHash hash) const {
    for (const auto& [h, id] : published_)
      if (h == hash) return BlockId{id};
    return std::nullopt;
  }
  void share(BlockId b) {
    if (references_[b.value]++ == 0) std::erase(free_, b.value);
  }
  void publish(BlockId b, BlockHash hash) { published_.push_back({hash, b.value}); }
  void release(std::span<const BlockId> table) {
    for (std::size_t i = table.size(); i-- > 0;) {
      const std::uint32_t id = table[i].value;
      if (--references_[id] > 0) continue;
      free_.insert(hash_of({id}).value != 0 ? free_.end() : free_.begin(), id);
    }
  }
  BlockHash hash_of(BlockId b) const {
    for (const auto& [h, id] : published_)
      if (id == b.value) return h;
    return {};
  }
  std::int64_t references(BlockId b) const { return references_[b.value]; }
  const std::vector<std::uint32_t>& free_list() const { return free_; }

 private:
  std::vector<std::int64_t> references_;
  std::vector<std::uint32_t> free_;                             // first to be given out first
  std::vector<std::pair<BlockHash, std::uint32_t>> published_;  // oldest first
};

}  // namespace orrery::policy
