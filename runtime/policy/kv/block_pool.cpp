#include "runtime/policy/kv/block_pool.h"

#include "runtime/base/check.h"

namespace orrery::policy {

BlockPool::BlockPool(Blocks count) : index_(static_cast<std::size_t>(count.value())) {
  ORRERY_CHECK(count.value() >= 1 && count.value() <= (1 << 24));
  const auto n = static_cast<std::uint32_t>(count.value());
  blocks_.resize(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    blocks_[i].previous = i == 0 ? kNone : i - 1;
    blocks_[i].next = i + 1 == n ? kNone : i + 1;
  }
  front_ = 0, back_ = n - 1, free_count_ = n;
}

BlockPool::Taken BlockPool::allocate() {
  ORRERY_CHECK(front_ != kNone, "no free block");
  const std::uint32_t id = front_;
  unlink(id);
  Block& block = blocks_[id];
  const BlockHash evicted = block.hash;
  if (evicted.value != 0) drop_hash(id);
  block.references = 1;
  return {BlockId{id}, evicted};
}

std::optional<BlockId> BlockPool::find(BlockHash hash) const {
  if (hash.value == 0) return std::nullopt;
  const std::uint32_t id = index_.at(index_.place_of(hash.value, hash_by_id()));
  if (id == kNone) return std::nullopt;
  return BlockId{id};
}

void BlockPool::share(BlockId block) {
  Block& b = blocks_[block.value];
  if (b.references == 0) unlink(block.value);
  ++b.references;
}

void BlockPool::publish(BlockId block, BlockHash hash) {
  Block& b = blocks_[block.value];
  ORRERY_CHECK(hash.value != 0 && b.hash.value == 0 && b.references > 0);
  b.hash = hash;
  ++hashed_count_;
  const std::size_t place = index_.place_of(hash.value, hash_by_id());
  if (index_.at(place) == kNone) {
    index_.set(place, block.value);
    return;
  }
  // Behind all that carry it already. Duplicates are few: they were computed at the same time.
  std::uint32_t last = index_.at(place);
  while (blocks_[last].newer != kNone) last = blocks_[last].newer;
  blocks_[last].newer = block.value;
  b.older = last;
}

void BlockPool::release(std::span<const BlockId> table) {
  for (std::size_t i = table.size(); i-- > 0;) release_one(table[i].value);
}

void BlockPool::release_one(std::uint32_t id) {
  Block& block = blocks_[id];
  ORRERY_CHECK(block.references > 0, "block released twice");
  if (--block.references > 0) return;
  ++free_count_;
  if (block.hash.value != 0) {
    block.previous = back_, block.next = kNone;
    (back_ == kNone ? front_ : blocks_[back_].next) = id;
    back_ = id;
  } else {
    block.next = front_, block.previous = kNone;
    (front_ == kNone ? back_ : blocks_[front_].previous) = id;
    front_ = id;
  }
}

void BlockPool::unlink(std::uint32_t id) {
  Block& block = blocks_[id];
  (block.previous == kNone ? front_ : blocks_[block.previous].next) = block.next;
  (block.next == kNone ? back_ : blocks_[block.next].previous) = block.previous;
  block.previous = block.next = kNone;
  --free_count_;
}

void BlockPool::drop_hash(std::uint32_t id) {
  Block& block = blocks_[id];
  if (block.older != kNone) {
    blocks_[block.older].newer = block.newer;
    if (block.newer != kNone) blocks_[block.newer].older = block.older;
  } else {
    const std::size_t place = index_.place_of(block.hash.value, hash_by_id());
    if (block.newer != kNone) {
      index_.set(place, block.newer);
      blocks_[block.newer].older = kNone;
    } else {
      index_.erase(place, hash_by_id());
    }
  }
  block.hash = {}, block.newer = block.older = kNone;
  --hashed_count_;
}

std::vector<BlockId> BlockPool::free_list() const {
  std::vector<BlockId> list;
  for (std::uint32_t id = front_; id != kNone; id = blocks_[id].next) list.push_back({id});
  return list;
}

void BlockPool::check_invariants() const {
  std::int64_t listed = 0, unheld = 0, hashed = 0, indexed = 0;
  std::uint32_t previous = kNone;
  for (std::uint32_t id = front_; id != kNone; id = blocks_[id].next) {
    ORRERY_CHECK(blocks_[id].references == 0 && blocks_[id].previous == previous);
    previous = id;
    ORRERY_CHECK(++listed <= size(), "the free list has a cycle");
  }
  ORRERY_CHECK(previous == back_);
  for (const Block& block : blocks_) {
    unheld += block.references == 0;
    hashed += block.hash.value != 0;
  }
  for (std::size_t p = 0; p < index_.places(); ++p) {
    const std::uint32_t head = index_.at(p);
    if (head == kNone) continue;
    ORRERY_CHECK(blocks_[head].older == kNone && find(blocks_[head].hash) == BlockId{head});
    for (std::uint32_t id = head; id != kNone; id = blocks_[id].newer) {
      ORRERY_CHECK(blocks_[id].hash == blocks_[head].hash && ++indexed <= size());
    }
  }
  ORRERY_CHECK(listed == free_count_ && unheld == free_count_);
  ORRERY_CHECK(hashed == hashed_count_ && indexed == hashed);
}

}  // namespace orrery::policy
