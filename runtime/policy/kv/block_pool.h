// BlockPool: the KV blocks of one instance and the index of those whose content is known.
// It owns who holds a block (reference counts), the order in which free blocks are given out again
// (an intrusive list), and which block carries which prefix hash.
//
// The free list's order is the order of eviction. A block that comes back without a hash goes to
// its front (last in, first out: nothing is lost by reusing it), one with a hash to its back (least
// recently used is evicted first). A table is released tail first, so the end of a sequence is
// evicted before its beginning. Two requests that compute the same prefix at once give two blocks
// of one hash; both are kept (tables stay append-only), and a lookup finds the older.
//
// Laws: a block is free exactly when nobody holds it; a free block may carry a hash and is then a
// cached one; taking a free block drops its hash; nothing is allocated after construction.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/units.h"
#include "runtime/policy/id_index.h"

namespace orrery::policy {

class BlockPool {
 public:
  explicit BlockPool(Blocks count);  // 1 .. 2^24

  std::int64_t size() const { return static_cast<std::int64_t>(blocks_.size()); }
  std::int64_t free_count() const { return free_count_; }
  std::int64_t hashed_count() const { return hashed_count_; }

  struct Taken {
    BlockId block;
    BlockHash evicted;  // the hash it carried, 0: none
  };
  // The first of the free list; there must be one. Its reference count is then 1.
  Taken allocate();
  // A block that carries this hash (the one that got it first), held or free.
  std::optional<BlockId> find(BlockHash hash) const;
  bool is_free(BlockId block) const { return blocks_[block.value].references == 0; }
  // One more holder; a free block leaves the free list.
  void share(BlockId block);
  // The block, held, is now full and its content is this prefix. It must carry no hash yet.
  void publish(BlockId block, BlockHash hash);
  // One holder less for each, tail first.
  void release(std::span<const BlockId> table);

  std::int64_t references(BlockId block) const { return blocks_[block.value].references; }
  BlockHash hash_of(BlockId block) const { return blocks_[block.value].hash; }
  // Free blocks in the order in which they would be given out. O(size): for tests.
  std::vector<BlockId> free_list() const;
  void check_invariants() const;

 private:
  static constexpr std::uint32_t kNone = IdIndex::kNone;
  struct Block {
    BlockHash hash;
    std::uint32_t references = 0;
    std::uint32_t previous = kNone, next = kNone;  // in the free list
    std::uint32_t newer = kNone, older = kNone;    // blocks of the same hash
  };

  void release_one(std::uint32_t id);
  void unlink(std::uint32_t id);
  auto hash_by_id() const {
    return [this](std::uint32_t id) { return blocks_[id].hash.value; };
  }
  void drop_hash(std::uint32_t id);

  std::vector<Block> blocks_;
  std::uint32_t front_ = kNone, back_ = kNone;
  std::int64_t free_count_ = 0, hashed_count_ = 0;
  IdIndex index_;  // by hash; an entry is the oldest block of that hash
};

}  // namespace orrery::policy
