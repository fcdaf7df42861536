// What simulated requests share.
#include "sim/prefix.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

Row with_ids(std::uint64_t id, std::int64_t input, std::vector<std::uint64_t> ids,
             std::int64_t size) {
  Row row;
  row.id = id, row.input_tokens = input;
  row.hash_ids = std::move(ids), row.hash_block_tokens = size;
  return row;
}

std::int64_t shared_tokens(const std::vector<BlockHash>& a, const std::vector<BlockHash>& b,
                           std::int64_t size) {
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return (differ.first - a.begin()) * size;
}

// The id of a full block comes again for a short tail: a tail never matches a full block.
TEST(PrefixHashes, a_partial_tail_never_matches_a_full_block) {
  PrefixHashes hashes(1);
  for (const std::int64_t size : {16, 64, 512}) {
    const auto full = hashes.prompt_chain(with_ids(1, 1024, {1, 2}, 512), Tokens(size));
    const auto tail = hashes.prompt_chain(with_ids(2, 694, {1, 2}, 512), Tokens(size));
    EXPECT_EQ(static_cast<std::int64_t>(full.size()), 1024 / size);
    EXPECT_EQ(static_cast<std::int64_t>(tail.size()), 694 / size);
    EXPECT_EQ(shared_tokens(full, tail, size), 512) << "block " << size;
    const auto again = hashes.prompt_chain(with_ids(3, 694, {1, 2}, 512), Tokens(size));
    EXPECT_EQ(tail, again) << "the same tail is the same text";
  }
}

TEST(PrefixHashes, blocks_that_straddle_trace_blocks_need_both_to_agree) {
  PrefixHashes hashes(1);
  // Trace blocks of 24, ours of 16: block 1 covers tokens 16..31, of trace blocks 0 and 1.
  const auto a = hashes.prompt_chain(with_ids(1, 48, {7, 8}, 24), Tokens(16));
  const auto b = hashes.prompt_chain(with_ids(2, 48, {7, 9}, 24), Tokens(16));
  EXPECT_EQ(shared_tokens(a, b, 16), 16);
}

TEST(PrefixHashes, content_after_a_different_block_never_matches) {
  PrefixHashes hashes(1);
  const auto ab = hashes.prompt_chain(with_ids(1, 32, {5, 6}, 16), Tokens(16));
  const auto ba = hashes.prompt_chain(with_ids(2, 32, {6, 5}, 16), Tokens(16));
  EXPECT_EQ(shared_tokens(ab, ba, 16), 0);
}

TEST(PrefixHashes, lengths_alone_share_nothing) {
  PrefixHashes hashes(1);
  Row row;
  row.id = 1, row.input_tokens = 4096;
  EXPECT_TRUE(hashes.prompt_chain(row, Tokens(16)).empty());
}

TEST(PrefixHashes, runs_of_different_seeds_share_no_hash) {
  PrefixHashes one(1), two(2);
  const Row row = with_ids(1, 64, {1, 2, 3, 4}, 16);
  EXPECT_EQ(one.prompt_chain(row, Tokens(16)), one.prompt_chain(row, Tokens(16)));
  EXPECT_EQ(shared_tokens(one.prompt_chain(row, Tokens(16)), two.prompt_chain(row, Tokens(16)), 16),
            0);
}

Row turn(std::uint64_t id, std::int64_t input, std::int64_t output, std::int64_t history) {
  Row row;
  row.id = id, row.session = 3;
  row.input_tokens = input, row.output_tokens = output, row.history_tokens = history;
  return row;
}

// Blocks of the answer to `row` that fill up, after its prompt's chain.
std::vector<BlockHash> with_answer(const PrefixHashes& hashes, const Row& row,
                                   std::vector<BlockHash> chain, std::int64_t size) {
  const std::int64_t computed = row.input_tokens + row.output_tokens - 1;
  for (auto i = static_cast<std::int64_t>(chain.size()); i < computed / size; ++i)
    chain.push_back(hashes.answer_block(row, hashes.latest_turn(row), i,
                                        chain.empty() ? BlockHash{0} : chain.back()));
  return chain;
}

TEST(PrefixHashes, a_session_that_appends_shares_all_of_its_earlier_turns) {
  PrefixHashes hashes(1);
  const Row first = turn(1, 2000, 100, 0), second = turn(2, 2400, 100, 2100);
  const Row third = turn(3, 3000, 100, 2500);
  const auto one = with_answer(hashes, first, hashes.prompt_chain(first, Tokens(16)), 16);
  const auto two = with_answer(hashes, second, hashes.prompt_chain(second, Tokens(16)), 16);
  const auto three = hashes.prompt_chain(third, Tokens(16));
  EXPECT_EQ(shared_tokens(one, two, 16), 2096);
  EXPECT_EQ(shared_tokens(two, three, 16), 2496);
}

TEST(PrefixHashes, a_session_that_drops_history_shares_only_what_it_kept) {
  PrefixHashes hashes(1);
  const Row first = turn(1, 1000, 100, 0), cut = turn(2, 1000, 100, 320);
  const Row after_cut = turn(3, 1300, 10, 1100), fresh = turn(4, 1300, 10, 0);
  const auto one = with_answer(hashes, first, hashes.prompt_chain(first, Tokens(16)), 16);
  const auto two = with_answer(hashes, cut, hashes.prompt_chain(cut, Tokens(16)), 16);
  EXPECT_EQ(shared_tokens(one, two, 16), 320);
  const auto three = hashes.prompt_chain(after_cut, Tokens(16));
  EXPECT_EQ(shared_tokens(two, three, 16), 1088);  // 1099 tokens were computed
  EXPECT_EQ(shared_tokens(three, hashes.prompt_chain(fresh, Tokens(16)), 16), 0);
}

}  // namespace
}  // namespace orrery::sim
