#include "runtime/engine/cpu/cpu_executor.h"

#include <cmath>

#include <gtest/gtest.h>

#include "runtime/engine/embedded.h"
#include "tests/engine/harness.h"
#include "tests/engine/reference_forward.h"

namespace orrery::engine::test {
namespace {

CpuExecutorSettings settings_for(std::int64_t block_tokens, std::int64_t blocks,
                                 CpuLevel level = CpuLevel::kBest) {
  CpuExecutorSettings s;
  s.block_tokens = block_tokens, s.kv_blocks = blocks, s.max_batched_tokens = 256, s.level = level;
  return s;
}

// Head dimension and blocks as in life, everything else small.
ModelShape small_shape() {
  ModelShape s;
  s.width = 72, s.layers = 3, s.heads = 6, s.kv_heads = 2, s.head_dim = 12;
  s.feed_forward = 100, s.vocabulary = 300, s.max_context = 400;
  return s;
}

}  // namespace

TEST(CpuExecutor, logits_equal_the_naive_double_forward_on_random_models) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomStream random(seed);
    const ModelShape shape = random_shape(random);
    const auto weights = make_random_weights(shape, seed);
    const auto block = static_cast<std::int64_t>(1 + random.next_below(40));
    Driver driver(weights, settings_for(block, 100), seed);
    Sequence sequence{random_ids(random, shape.vocabulary, 60), 0, {}};
    ReferenceForward reference(*weights);
    for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
      const std::vector<double> want = reference.next(sequence.ids[i]);
      const auto got = driver.step({{&sequence, 1, true}}).logits.at(0);
      double scale = 1;
      for (const double v : want) scale = std::max(scale, std::fabs(v));
      for (std::size_t v = 0; v < want.size(); ++v)
        ASSERT_NEAR(static_cast<double>(got[v]), want[v], 1e-4 * scale) << "position " << i;
    }
  }
}

TEST(CpuExecutor, logits_have_the_same_bits_for_every_chunking) {
  RandomStream random(3);
  const auto weights = make_random_weights(small_shape(), 3);
  Driver driver(weights, settings_for(16, 60), 3);
  const std::vector<TokenId> ids = random_ids(random, 300, 150);
  Sequence alone{ids, 0, {}};
  const std::vector<float> want = driver.run(alone, 150);
  for (const std::int64_t chunk : {1, 7, 16, 64, 149}) {
    Sequence again{ids, 0, {}};
    EXPECT_EQ(driver.run(again, chunk), want) << "chunk " << chunk;
    driver.release(again);
  }
}

TEST(CpuExecutor, logits_have_the_same_bits_alone_and_in_any_batch) {
  RandomStream random(4);
  const auto weights = make_random_weights(small_shape(), 4);
  Driver driver(weights, settings_for(8, 300), 4);
  std::vector<std::vector<float>> want;
  std::vector<std::vector<TokenId>> prompts;
  for (int i = 0; i < 9; ++i) {
    prompts.push_back(
        random_ids(random, 300, 1 + static_cast<std::int64_t>(random.next_below(90))));
    Sequence alone{prompts.back(), 0, {}};
    want.push_back(driver.run(alone, 256));
    driver.release(alone);
  }
  for (int round = 0; round < 5; ++round) {  // random mixtures of chunks until all are done
    std::vector<Sequence> sequences;
    for (const auto& ids : prompts) sequences.push_back({ids, 0, {}});
    std::vector<std::vector<float>> got(prompts.size());
    for (bool more = true; more;) {
      more = false;
      std::vector<Driver::Part> parts;
      std::vector<std::size_t> sampling;
      for (std::size_t i = 0; i < sequences.size(); ++i) {
        const std::int64_t left =
            static_cast<std::int64_t>(prompts[i].size()) - sequences[i].computed;
        if (left == 0) continue;
        more = true;
        if (random.next_below(3) == 0) continue;
        const std::int64_t count =
            1 + static_cast<std::int64_t>(random.next_below(
                    static_cast<std::uint64_t>(std::min<std::int64_t>(left, 25))));
        parts.push_back({&sequences[i], count, count == left});
        if (count == left) sampling.push_back(i);
      }
      if (parts.empty()) continue;
      const Driver::Result result = driver.step(parts);
      for (std::size_t s = 0; s < sampling.size(); ++s) got[sampling[s]] = result.logits.at(s);
    }
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i], want[i]) << round << ' ' << i;
    for (Sequence& s : sequences) driver.release(s);
  }
}

TEST(CpuExecutor, logits_have_the_same_bits_after_a_prefix_hit_and_after_recomputation) {
  RandomStream random(5);
  const auto weights = make_random_weights(small_shape(), 5);
  Driver driver(weights, settings_for(16, 60), 5);
  const std::vector<TokenId> ids = random_ids(random, 300, 100);
  Sequence first{ids, 0, {}};
  const std::vector<float> want = driver.run(first, 33);
  Sequence hit{ids, 48, {first.blocks[0], first.blocks[1], first.blocks[2]}};
  EXPECT_EQ(driver.run(hit, 256), want);
  // Preempted: its blocks go to another, then everything is computed again in other blocks.
  driver.release(first);
  Sequence other{random_ids(random, 300, 200), 0, {}};
  driver.run(other, 50);
  EXPECT_EQ(driver.run(first, 256), want);
}

TEST(CpuExecutor, every_instruction_set_gives_the_same_bits) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    RandomStream random(seed);
    const ModelShape shape = random_shape(random);
    const auto weights = make_random_weights(shape, seed);
    const std::vector<TokenId> ids = random_ids(random, shape.vocabulary, 70);
    std::vector<float> want;
    for (const CpuLevel level : {CpuLevel::kBaseline, CpuLevel::kAvx2, CpuLevel::kAvx512}) {
      if (!cpu_has(level)) continue;
      Driver driver(weights, settings_for(16, 10, level), seed);
      Sequence sequence{ids, 0, {}};
      const std::vector<float> got = driver.run(sequence, 13);
      if (want.empty()) want = got;
      EXPECT_EQ(got, want) << driver.executor().info().name << " seed " << seed;
    }
  }
}

TEST(CpuExecutor, old_content_of_a_block_never_shows) {
  RandomStream random(6);
  const auto weights = make_random_weights(small_shape(), 6);
  const std::vector<TokenId> ids = random_ids(random, 300, 21);
  Driver fresh(weights, settings_for(16, 2), 6);
  Sequence clean{ids, 0, {}};
  const std::vector<float> want = fresh.run(clean, 256);
  for (int round = 0; round < 4; ++round) {
    fresh.release(clean);
    Sequence dirt{random_ids(random, 300, 32), 0, {}};
    fresh.run(dirt, 32);
    fresh.release(dirt);
    EXPECT_EQ(fresh.run(clean, 5), want);
  }
}

TEST(CpuExecutor, the_embedded_model_spreads_its_probability_over_many_tokens) {
  const ModelCard card = embedded_card();
  const auto weights = load_weights(card);
  CpuExecutorSettings settings = settings_for(16, 64);
  settings.never_sampled = card.never_sampled;
  Driver driver(weights, settings, 1);
  Sequence s{card.tokenizer->encode("user: Tell me a story\nassistant:"), 0, {}};
  SamplingParams sampling;
  sampling.temperature = 1;
  std::vector<int> seen(512, 0);
  const auto prompt = static_cast<std::int64_t>(s.ids.size());
  s.ids.push_back(driver.step({{&s, prompt, true}}, sampling).tokens.at(0));
  for (int i = 0; i < 200; ++i) {
    ++seen[static_cast<std::size_t>(s.ids.back())];
    s.ids.push_back(driver.step({{&s, 1, true}}, sampling).tokens.at(0));
  }
  int distinct = 0, most = 0;
  for (const int n : seen) distinct += n > 0, most = std::max(most, n);
  EXPECT_GT(distinct, 60);
  EXPECT_LT(most, 40);
}

}  // namespace orrery::engine::test
