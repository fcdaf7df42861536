// BlockPool against its naive twin, and the sentences of its header one by one.
#include "runtime/policy/kv/block_pool.h"

#include <gtest/gtest.h>

#include "runtime/base/rng.h"
#include "runtime/policy/bench/naive_pool.h"

namespace orrery::policy {
namespace {

void expect_equal(const BlockPool& pool, const NaivePool& naive) {
  pool.check_invariants();
  std::vector<std::uint32_t> list;
  for (const BlockId b : pool.free_list()) list.push_back(b.value);
  ASSERT_EQ(list, naive.free_list());
  for (std::uint32_t b = 0; b < pool.size(); ++b) {
    ASSERT_EQ(pool.references({b}), naive.references({b}));
    ASSERT_EQ(pool.hash_of({b}), naive.hash_of({b}));
  }
}

TEST(BlockPool, equals_the_naive_pool_under_random_operations) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomStream r(seed);
    const Blocks count(static_cast<std::int64_t>(1 + r.next_below(40)));
    // Few hashes, so that duplicates, hits on free blocks and evictions are common.
    const std::uint64_t kinds = 1 + r.next_below(60);
    BlockPool pool(count);
    NaivePool naive(count);
    std::vector<std::vector<BlockId>> tables(1 + r.next_below(6));
    for (int step = 0; step < 400; ++step) {
      std::vector<BlockId>& table = tables[r.next_below(tables.size())];
      const std::uint64_t what = r.next_below(10);
      if (what < 4 && pool.free_count() > 0) {
        const BlockPool::Taken taken = pool.allocate();
        ASSERT_EQ(std::pair(taken.block, taken.evicted), naive.allocate());
        table.push_back(taken.block);
      } else if (what < 6 && !table.empty()) {
        const BlockId block = table[r.next_below(table.size())];
        const BlockHash hash{1 + r.next_below(kinds)};
        if (pool.hash_of(block).value == 0) pool.publish(block, hash), naive.publish(block, hash);
      } else if (what < 8) {
        const BlockHash hash{1 + r.next_below(kinds)};
        const auto found = pool.find(hash);
        ASSERT_EQ(found, naive.find(hash));
        if (found) {
          pool.share(*found), naive.share(*found);
          table.push_back(*found);
        }
      } else if (what < 9) {
        pool.release(table), naive.release(table);
        table.clear();
      }
      ASSERT_NO_FATAL_FAILURE(expect_equal(pool, naive));
    }
    for (auto& table : tables) pool.release(table), naive.release(table);
    ASSERT_NO_FATAL_FAILURE(expect_equal(pool, naive));
    ASSERT_EQ(pool.free_count(), pool.size());
  }
}

TEST(BlockPool, blocks_without_hash_come_back_first_and_hashed_ones_last_tail_before_head) {
  BlockPool pool(Blocks(6));
  std::vector<BlockId> table;
  for (int i = 0; i < 4; ++i) table.push_back(pool.allocate().block);
  for (std::uint64_t i = 0; i < 3; ++i) pool.publish(table[i], {100 + i});
  pool.release(table);
  // 3 had no hash: at the front. Then the never used 4, 5, then 2, 1, 0: the tail is evicted first.
  const std::vector<BlockId> expected{{3}, {4}, {5}, {2}, {1}, {0}};
  EXPECT_EQ(pool.free_list(), expected);
  EXPECT_EQ(pool.find({101}), BlockId{1});
  pool.share({1});  // a hit takes it out of the list
  EXPECT_EQ(pool.free_count(), 5);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pool.allocate().evicted, BlockHash{});
  EXPECT_EQ(pool.allocate().evicted, BlockHash{102});
  EXPECT_EQ(pool.find({102}), std::nullopt);
  EXPECT_EQ(pool.allocate().evicted, BlockHash{100});
  EXPECT_EQ(pool.free_count(), 0);
  EXPECT_EQ(pool.find({101}), BlockId{1});
}

TEST(BlockPool, two_blocks_of_one_hash_are_both_kept_and_the_older_is_found) {
  BlockPool pool(Blocks(3));
  const BlockId a = pool.allocate().block, b = pool.allocate().block;
  pool.publish(b, {7});
  pool.publish(a, {7});
  EXPECT_EQ(pool.find({7}), b);
  EXPECT_EQ(pool.hashed_count(), 2);
  pool.release(std::vector{b});
  EXPECT_EQ(pool.find({7}), b);  // free, and still the older
  pool.allocate();               // the third, never used
  EXPECT_EQ(pool.allocate().evicted, BlockHash{7});
  EXPECT_EQ(pool.find({7}), a);
}

TEST(BlockPoolDeath, a_block_released_twice_stops) {
  BlockPool pool(Blocks(1));
  const std::vector<BlockId> table{pool.allocate().block};
  pool.release(table);
  EXPECT_DEATH(pool.release(table), "");
}

}  // namespace
}  // namespace orrery::policy
