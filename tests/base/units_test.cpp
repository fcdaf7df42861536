// Units, hashes, random streams and the running hash of a journal.
#include "runtime/base/units.h"

#include <array>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/base/hash.h"
#include "runtime/base/journal.h"
#include "runtime/base/portable_math.h"
#include "runtime/base/rng.h"

namespace orrery {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};

TEST(Units, no_operation_mixes_two_units) {
  static_assert(Addable<Tokens, Tokens> && Addable<Time, Duration>);
  static_assert(!Addable<Tokens, Blocks>);
  static_assert(!Addable<Time, Time>);
  static_assert(!Addable<Duration, Picos>);
  static_assert(!std::is_convertible_v<std::int64_t, Tokens>);
  static_assert(!std::is_same_v<RequestId, SessionId>);
  EXPECT_EQ(Tokens(7) / Tokens(2), 3);
}

TEST(Units, an_instance_clock_is_seen_rounded_up_to_nanoseconds) {
  for (const std::int64_t ps : {0, 1, 999, 1000, 1001, 1'000'000}) {
    const Time seen = to_time_ceil(Picos(ps));
    EXPECT_GE(to_picos(seen), Picos(ps));
    EXPECT_LT(to_picos(seen) - Picos(ps), Picos(1000));
  }
}

TEST(Units, blocks_hold_their_tokens_and_no_block_is_spare) {
  for (std::int64_t tokens = 0; tokens < 100; ++tokens) {
    const Blocks blocks = blocks_for(Tokens(tokens), Tokens(16));
    EXPECT_GE(blocks.value() * 16, tokens);
    EXPECT_LT((blocks.value() - 1) * 16, tokens);
  }
}

TEST(Hash, mixing_is_a_bijection_on_a_sample_and_order_counts) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 10000; ++i) seen.insert(mix64(i));
  EXPECT_EQ(seen.size(), 10000U);
  EXPECT_NE(hash_combine(hash_combine(1, 2), 3), hash_combine(hash_combine(1, 3), 2));
  EXPECT_NE(chain_hash(BlockHash{0}, 0).value, 0U);
}

TEST(Hash, texts_that_differ_only_in_length_or_tail_differ) {
  std::set<std::uint64_t> seen;
  std::string text;
  for (int i = 0; i < 40; ++i) {
    seen.insert(hash_bytes(text));
    text += '\0';
  }
  EXPECT_EQ(seen.size(), 40U);
  EXPECT_NE(hash_bytes("a", 1), hash_bytes("a", 2));
}

// The values are part of every journal and every seed: a change breaks what people have stored.
TEST(Hash, values_stay_as_they_were) {
  EXPECT_EQ(mix64(1), 0x5692161d100b05e5ULL);
  EXPECT_EQ(hash_bytes("orrery"), 0x8b488a68daa1ea2dULL);
  const RandomStream stream = RandomStream(1).fork("arrivals");
  EXPECT_EQ(stream.at(0), 0x3196d071e4115ebfULL);
  EXPECT_EQ(stream.at(1), 0xa1ec4794bd17c6c0ULL);
}

TEST(Random, a_fork_does_not_depend_on_how_much_was_drawn) {
  RandomStream a(7), b(7);
  for (int i = 0; i < 5; ++i) a.next_u64();
  EXPECT_EQ(a.fork("x").next_u64(), b.fork("x").next_u64());
  EXPECT_NE(b.fork("x").next_u64(), b.fork("y").next_u64());
  EXPECT_NE(b.fork("x", 0).next_u64(), b.fork("x", 1).next_u64());
}

TEST(Random, means_agree_with_the_distributions) {
  RandomStream random(3);
  constexpr int kDraws = 100000;
  double unit = 0, exponential = 0, gamma = 0, normal = 0, square = 0;
  for (int i = 0; i < kDraws; ++i) {
    unit += random.next_unit();
    exponential += random.next_exponential();
    gamma += random.next_gamma(0.5);
    const double z = random.next_normal();
    normal += z, square += z * z;
  }
  // Five standard errors of each mean.
  const double root = std::sqrt(static_cast<double>(kDraws));
  EXPECT_NEAR(unit / kDraws, 0.5, 5 * 0.2887 / root);
  EXPECT_NEAR(exponential / kDraws, 1, 5 / root);
  EXPECT_NEAR(gamma / kDraws, 0.5, 5 * 0.7071 / root);
  EXPECT_NEAR(normal / kDraws, 0, 5 / root);
  EXPECT_NEAR(square / kDraws, 1, 5 * 1.4142 / root);
}

TEST(Random, bounded_draws_stay_below_their_bound_and_reach_all) {
  RandomStream random(5);
  std::array<int, 7> counts{};
  for (int i = 0; i < 7000; ++i) ++counts.at(static_cast<std::size_t>(random.next_below(7)));
  for (const int n : counts) EXPECT_GT(n, 800);
}

TEST(PortableMath, agrees_with_libm_to_a_few_units_in_the_last_place) {
  RandomStream random(11);
  for (int i = 0; i < 20000; ++i) {
    const double x =
        std::ldexp(0.5 + random.next_unit(), static_cast<int>(random.next_below(200)) - 100);
    EXPECT_NEAR(portable_log(x), std::log(x), 4e-16 * (1 + std::abs(std::log(x))));
    const double y = 100 * (random.next_unit() - 0.5);
    EXPECT_NEAR(portable_exp(y) / std::exp(y), 1, 2e-15);
    const double turns = random.next_unit();
    EXPECT_NEAR(portable_sin_2pi(turns), std::sin(2 * M_PI * turns), 2e-15);
  }
}

TEST(Journal, texts_come_back_from_their_words) {
  std::vector<std::uint64_t> words;
  const std::vector<std::string> texts = {"", "a", "exactly8", "a bit longer than two words",
                                          "é\0z"};
  for (const std::string& text : texts) append_text(words, text);
  std::size_t at = 0;
  for (const std::string& text : texts) EXPECT_EQ(read_text(words, at), text);
  EXPECT_EQ(at, words.size());
  EXPECT_THROW(read_text(words, at), InputError);
  words = {1000, 1};  // claims more than there is
  at = 0;
  EXPECT_THROW(read_text(words, at), InputError);
}

TEST(Journal, the_running_hash_sees_kind_count_words_and_order) {
  const auto hash_of = [](const std::vector<JournalRecord>& records) {
    JournalWriter writer;
    for (const JournalRecord& r : records) writer.append(r.kind, r.words);
    return writer.hash();
  };
  const std::uint64_t base = hash_of({{1, {2, 3}}, {4, {}}});
  EXPECT_NE(base, hash_of({{4, {}}, {1, {2, 3}}}));
  EXPECT_NE(base, hash_of({{1, {3, 2}}, {4, {}}}));
  EXPECT_NE(base, hash_of({{1, {2}}, {3, {}}, {4, {}}}));
  EXPECT_NE(base, hash_of({{2, {2, 3}}, {4, {}}}));
  EXPECT_EQ(base, hash_of({{1, {2, 3}}, {4, {}}}));
}

}  // namespace
}  // namespace orrery
