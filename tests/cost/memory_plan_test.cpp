// How a GPU's memory divides.
#include "runtime/policy/cost/memory_plan.h"

#include <numeric>

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/policy/cost/model_matrices.h"
#include "tests/cost/shipped.h"

namespace orrery::cost {
namespace {

MemoryPlan plan(const std::string& model, const std::string& gpu, int tp = 1,
                std::int64_t max_running = 256, const std::string& kv = "auto",
                std::int64_t tokens = 8192) {
  return plan_memory(shipped().model(model), shipped().gpu(gpu), tp,
                     shipped().default_profile_for(gpu), Tokens(16), Tokens(tokens), kv,
                     max_running);
}

double sum(const MemoryPlan& p) {
  double total = 0;
  for (const MemoryItem& item : p.items) total += item.bytes;
  return total;
}

TEST(MemoryPlan, kv_bytes_of_known_models) {
  EXPECT_EQ(kv_bytes_per_token_per_gpu(shipped().model("llama-3.1-8b"), 1, "bf16"), 131072);
  EXPECT_EQ(kv_bytes_per_token_per_gpu(shipped().model("llama-3.1-70b"), 1, "bf16"), 327680);
  EXPECT_EQ(kv_bytes_per_token_per_gpu(shipped().model("llama-3.1-70b"), 1, "fp8"), 163840);
  EXPECT_EQ(kv_bytes_per_token_per_gpu(shipped().model("stories260k"), 1, "auto"), 1280);  // fp32
  EXPECT_EQ(kv_bytes_per_token_per_gpu(shipped().model("gemma-3-12b"), 1, "auto"), 393216);
  EXPECT_EQ(kv_bytes_per_token_beyond_window_per_gpu(shipped().model("gemma-3-12b"), 1, "auto"),
            65536);
  EXPECT_EQ(kv_bytes_per_token_per_gpu(shipped().model("qwen3.5-27b"), 1, "auto"),
            65536);  // 16 layers
}

TEST(MemoryPlan, kv_heads_are_divided_by_tp_and_copied_beyond_their_number) {
  const ModelSpec& m = shipped().model("qwen3-30b-a3b");  // 4 KV heads
  const double one = kv_bytes_per_token_per_gpu(m, 1, "auto");
  EXPECT_EQ(kv_bytes_per_token_per_gpu(m, 2, "auto"), one / 2);
  EXPECT_EQ(kv_bytes_per_token_per_gpu(m, 4, "auto"), one / 4);
  EXPECT_EQ(kv_bytes_per_token_per_gpu(m, 8, "auto"), one / 4);
}

TEST(MemoryPlan, the_items_sum_to_no_more_than_is_usable_and_leave_less_than_a_block) {
  for (const ModelSpec& m : shipped().models) {
    if (m.attention == "compressed-sparse") continue;
    const MemoryPlan p = plan(m.id, "B300");
    EXPECT_EQ(p.usable_bytes, 288400343040 * 0.9);
    if (!p.fits) {
      EXPECT_GT(p.missing_bytes, 0) << m.id;
      EXPECT_EQ(p.kv_blocks, Blocks(0)) << m.id;
      continue;
    }
    EXPECT_EQ(p.missing_bytes, 0) << m.id;
    EXPECT_LE(sum(p), p.usable_bytes * (1 + 1e-12)) << m.id;
    EXPECT_GT(sum(p) + 16 * p.kv_bytes_per_token, p.usable_bytes * (1 - 1e-12)) << m.id;
  }
}

TEST(MemoryPlan, what_is_missing_is_what_makes_it_fit) {
  const MemoryPlan p = plan("llama-3.1-70b", "H100-SXM");
  ASSERT_FALSE(p.fits);
  GpuSpec larger = shipped().gpu("H100-SXM");
  const auto with = [&](double more) {
    larger.memory_bytes =
        shipped().gpu("H100-SXM").memory_bytes + static_cast<std::int64_t>(more / 0.9);
    return plan_memory(shipped().model("llama-3.1-70b"), larger, 1,
                       shipped().default_profile_for("H100-SXM"), Tokens(16), Tokens(8192));
  };
  EXPECT_FALSE(with(p.missing_bytes - 100).fits);
  const MemoryPlan just = with(p.missing_bytes + 100);
  EXPECT_TRUE(just.fits);
  EXPECT_EQ(just.kv_blocks, Blocks(1));
}

// 8 030 261 248 parameters in 16 bits; the norms are 65 x 4096 of them.
TEST(MemoryPlan, weights_are_all_parameters) {
  EXPECT_NEAR(weight_bytes_per_gpu(shipped().model("llama-3.1-8b"), 1), 2 * 8030261248.0, 1);
  // Eight GPUs hold an eighth of the matrices each, and all of the norms.
  const double norms = 2.0 * 161 * 8192;
  EXPECT_NEAR(weight_bytes_per_gpu(shipped().model("llama-3.1-70b"), 8),
              (2 * 70553706496.0 - norms) / 8 + norms, 1);
}

TEST(MemoryPlan, a_known_checkpoint_size_is_kept) {
  EXPECT_NEAR(weight_bytes_per_gpu(shipped().model("gpt-oss-120b"), 1), 65283502899.0, 1);
}

TEST(MemoryPlan, tp_shares_of_the_matrices_sum_to_the_whole_or_more) {
  for (const ModelSpec& m : shipped().models) {
    if (m.attention == "compressed-sparse") continue;
    for (const int tp : {2, 4, 8}) {
      if (!why_illegal(m, {tp}).empty()) continue;
      double here = 0, whole = 0;
      for (const MatrixGroup& g : matrices_of(m, {tp})) {
        here += g.elements;
        whole += g.parameters;
      }
      EXPECT_GE(here * tp, whole * (1 - 1e-12)) << m.id << " tp " << tp;
      // What every GPU has a copy of (latent down-projections, router, KV heads beyond their
      // number).
      EXPECT_LE(here * tp, whole * 1.12) << m.id << " tp " << tp;
    }
  }
}

TEST(MemoryPlan, fp8_checkpoints_keep_embeddings_router_and_head_in_16_bits) {
  const ModelSpec m = with_weight_type(shipped().model("llama-3.1-8b"), "fp8");
  const double wide = 2.0 * 128256 * 4096;
  EXPECT_NEAR(weight_bytes_per_gpu(m, 1),
              (8030261248.0 - wide - 65 * 4096) + 2 * (wide + 65 * 4096), 1);
}

TEST(MemoryPlan, more_sequences_or_tokens_leave_fewer_blocks) {
  EXPECT_LT(plan("llama-3.1-8b", "L4", 1, 1024).kv_blocks,
            plan("llama-3.1-8b", "L4", 1, 64).kv_blocks);
  EXPECT_LT(plan("llama-3.1-8b", "L40S", 1, 256, "auto", 16384).kv_blocks,
            plan("llama-3.1-8b", "L40S", 1, 256, "auto", 2048).kv_blocks);
}

TEST(MemoryPlan, linear_attention_state_is_held_for_every_sequence) {
  const MemoryPlan p = plan("qwen3.5-27b", "B200", 1, 100);
  EXPECT_EQ(p.state_bytes, 100 * 150994944.0);
}

TEST(MemoryPlan, an_illegal_division_or_an_unknown_cache_is_refused) {
  EXPECT_THROW(plan("llama-3.1-8b", "H100-SXM", 3), InputError);
  EXPECT_THROW(plan("deepseek-v4-flash", "H100-SXM"), Unsupported);
}

}  // namespace
}  // namespace orrery::cost
