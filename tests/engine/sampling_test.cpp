#include "runtime/engine/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace orrery::engine::test {
namespace {

std::vector<float> random_logits(RandomStream& random, std::size_t n) {
  std::vector<float> logits;
  for (std::size_t i = 0; i < n; ++i)
    logits.push_back(static_cast<float>(random.next_normal() * 2));
  return logits;
}

}  // namespace

TEST(Sampling, greedy_takes_the_largest_and_the_lowest_id_of_equals) {
  const std::vector<float> logits = {1, 5, 3, 5, -2};
  EXPECT_EQ(sample_token(logits, {}, 0, {}), 1);
  const std::vector<TokenId> never = {1};
  EXPECT_EQ(sample_token(logits, {}, 0, never), 3);
}

TEST(Sampling, frequencies_follow_the_softmax_of_logits_over_temperature) {
  const std::vector<float> logits = {0, 1, 2, -1, 0.5F};
  constexpr int kDraws = 40000;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    std::vector<double> want(5), seen(5);
    double total = 0;
    for (std::size_t i = 0; i < 5; ++i)
      total += want[i] = std::exp(static_cast<double>(logits[i]) / temperature);
    SamplingParams params;
    params.temperature = temperature, params.seed = 11;
    for (int i = 0; i < kDraws; ++i)
      ++seen[static_cast<std::size_t>(sample_token(logits, params, i, {}))];
    for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(seen[i] / kDraws, want[i] / total, 0.012);
  }
}

TEST(Sampling, the_draw_depends_on_seed_and_position_only) {
  RandomStream random(5);
  SamplingParams a, b;
  a.temperature = b.temperature = 0.8, a.seed = 42, b.seed = 7;
  int differs = 0;
  for (int position = 0; position < 200; ++position) {
    const std::vector<float> row = random_logits(random, 100), other = random_logits(random, 100);
    const TokenId want = sample_token(row, a, position, {});
    sample_token(other, b, position, {});  // a neighbour with its own seed, and one without
    sample_token(other, {}, position, {});
    EXPECT_EQ(sample_token(row, a, position, {}), want);
    differs += sample_token(row, b, position, {}) != want;
  }
  EXPECT_GT(differs, 50);
}

TEST(Sampling, top_k_and_top_p_keep_exactly_the_likeliest) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    RandomStream random(seed);
    const std::vector<float> logits = random_logits(random, 40);
    std::vector<std::size_t> order(logits.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t x, std::size_t y) { return logits[x] > logits[y]; });
    double total = 0;
    for (const float v : logits) total += std::exp(static_cast<double>(v));
    SamplingParams params;
    params.temperature = 1, params.seed = seed;
    params.top_k = 1 + static_cast<std::int64_t>(random.next_below(8));
    for (int i = 0; i < 500; ++i) {
      const auto token = static_cast<std::size_t>(sample_token(logits, params, i, {}));
      const auto rank = std::find(order.begin(), order.end(), token) - order.begin();
      EXPECT_LT(rank, params.top_k);
    }
    params.top_k = 0, params.top_p = 0.2 + 0.6 * random.next_unit();
    std::size_t kept = 0;
    for (double sum = 0; sum < params.top_p * total; ++kept)
      sum += std::exp(static_cast<double>(logits[order[kept]]));
    std::vector<bool> seen(kept);
    for (int i = 0; i < 4000; ++i) {
      const auto token = static_cast<std::size_t>(sample_token(logits, params, i, {}));
      const auto rank =
          static_cast<std::size_t>(std::find(order.begin(), order.end(), token) - order.begin());
      ASSERT_LT(rank, kept);
      seen[rank] = true;
    }
    EXPECT_TRUE(seen[0]);
    EXPECT_TRUE(kept < 2 || seen[1]);
  }
}

TEST(Sampling, keeping_everything_is_the_same_as_not_asking) {
  RandomStream random(8);
  for (int i = 0; i < 300; ++i) {
    const std::vector<float> logits = random_logits(random, 64);
    SamplingParams plain, all;
    plain.temperature = all.temperature = 1.3, plain.seed = all.seed = 3;
    all.top_k = 64 + i, all.top_p = 1;
    EXPECT_EQ(sample_token(logits, plain, i, {}), sample_token(logits, all, i, {}));
    all.top_k = 1;
    EXPECT_EQ(sample_token(logits, all, i, {}), sample_token(logits, {}, i, {}));
  }
}

TEST(Sampling, parameters_out_of_range_are_refused_with_their_name) {
  const auto refused = [](SamplingParams p) {
    try {
      check_sampling(p, "request");
    } catch (const InputError& e) {
      return e.place().field;
    }
    return std::string();
  };
  SamplingParams p;
  EXPECT_EQ(refused(p), "");
  p.temperature = -1;
  EXPECT_EQ(refused(p), "temperature");
  p.temperature = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refused(p), "temperature");
  p = {}, p.top_k = -1;
  EXPECT_EQ(refused(p), "top_k");
  p = {}, p.top_p = 0;
  EXPECT_EQ(refused(p), "top_p");
  p.top_p = 1.01;
  EXPECT_EQ(refused(p), "top_p");
}

}  // namespace orrery::engine::test
