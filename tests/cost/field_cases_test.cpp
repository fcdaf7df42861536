// Cases from the field that broke other planners, each with its right outcome.
#include <string>

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/policy/cost/memory_plan.h"
#include "runtime/policy/cost/step_model.h"
#include "tests/cost/shipped.h"

namespace orrery::cost {
namespace {

// A dense fp8 model with one width to divide.
ModelSpec dense(std::int64_t width, const char* type, std::int64_t block) {
  ModelSpec m;
  m.id = "test";
  m.layers = 2;
  m.hidden = 4096;
  m.heads = 64;
  m.kv_heads = 64;
  m.head_dim = 64;
  m.intermediate = width;
  m.vocabulary = 1024;
  m.weight_type = type;
  m.quant_block = block;
  return m;
}

ModelSpec experts(std::int64_t width, const char* type, std::int64_t block) {
  ModelSpec m = dense(0, type, block);
  m.experts = 64;
  m.experts_per_token = 8;
  m.expert_intermediate = width;
  m.moe_layers = m.layers;
  return m;
}

ModelSpec shared_expert(std::int64_t width) {
  ModelSpec m = experts(1024, "fp8", 128);
  m.shared_experts = 1;
  m.expert_intermediate = width;
  return m;
}

// P27: the slice of a block-quantised width must be a multiple of the block; the numbers are said.
TEST(FieldCases, p27_block_quantised_slices_are_whole_blocks) {
  const auto why = [](const ModelSpec& m, int tp, bool ep = false) {
    return why_illegal(m, {tp, ep});
  };
  EXPECT_NE(why(experts(1536, "fp8", 128), 8).find("192"), std::string::npos);
  EXPECT_NE(why(experts(1536, "fp8", 128), 8).find("128"), std::string::npos);
  EXPECT_NE(why(experts(320, "fp8", 128), 2).find("160"),
            std::string::npos);  // fused 2 x 160 is no help
  EXPECT_NE(why(experts(320, "fp8", 128), 4).find("80"), std::string::npos);
  EXPECT_NE(why(experts(320, "fp8", 128), 8).find("40"), std::string::npos);
  EXPECT_NE(why(shared_expert(512), 8).find("64"), std::string::npos);
  EXPECT_NE(why(dense(18432, "fp8", 128), 32).find("576"), std::string::npos);
  EXPECT_EQ(why(dense(18432, "fp8", 128), 8), "");  // 2304 = 18 x 128
  EXPECT_EQ(why(experts(1536, "bf16", 0), 8), "");
  EXPECT_EQ(why(experts(320, "bf16", 128), 8), "");  // no blocks in bf16
  EXPECT_EQ(why(dense(18432, "bf16", 0), 32), "");
  EXPECT_EQ(why(experts(1536, "fp8", 128), 8, true), "");  // whole experts
  EXPECT_EQ(why(experts(320, "fp8", 128), 8, true), "");
  EXPECT_THROW(make_roofline_model(experts(1536, "fp8", 128), shipped().gpu("H100-SXM"), {8}, {}),
               InputError);
}

// P41: every rank keeps the whole latent cache.
TEST(FieldCases, p41_a_latent_cache_is_not_divided_by_tp) {
  for (const int tp : {1, 2, 4, 8}) {
    EXPECT_EQ(kv_bytes_per_token_per_gpu(shipped().model("deepseek-v3"), tp, "auto"),
              61 * 576 * 2.0);
  }
  EXPECT_EQ(61 * 576 * 2, 70272);
}

// P41: no flat overhead. vLLM's own report for a dense model on an H100 with 8192 tokens and 1024
// sequences is 4.8 to 5.6 GiB of activations, 0.13 GiB outside the allocator on one GPU and 0.55
// GiB on two, and more for graphs; for a MoE model 7.4 GiB of activations.
TEST(FieldCases, p41_overheads_follow_the_model_and_the_engine) {
  const EngineProfile& profile = shipped().default_profile_for("H100-SXM");
  const double gib = 1073741824;
  const auto plan = [&](const char* name, int tp, const char* type = "") {
    return plan_memory(with_weight_type(shipped().model(name), type), shipped().gpu("H100-SXM"), tp,
                       profile, Tokens(16), Tokens(8192), "auto", 1024);
  };
  const MemoryPlan small = plan("llama-3.1-8b", 1), large = plan("llama-3.1-70b", 2, "fp8");
  EXPECT_GT(small.activation_bytes, 4.0 * gib);
  EXPECT_LT(small.activation_bytes, 5.6 * gib);
  EXPECT_GT(large.reserved_bytes, small.reserved_bytes + 0.42 * gib);
  const double overhead = small.activation_bytes + small.reserved_bytes;
  EXPECT_NEAR(overhead / gib, 5.5, 0.7);
  EXPECT_GT(large.activation_bytes + large.reserved_bytes, overhead);
}

// P43: link rates carry their unit; a NIC's bits are not bytes.
TEST(FieldCases, p43_bits_and_bytes_of_links_are_not_mixed) {
  const double kv = kv_bytes_per_token_per_gpu(shipped().model("llama-3.1-70b"), 1, "fp16") * 8192;
  EXPECT_NEAR(kv, 2.68e9, 0.01e9);
  const InstanceType& p5 = shipped().instance("p5.48xlarge");
  EXPECT_EQ(p5.network_bps, 3200000000000);  // bits: eight times 400 Gbit/s
  EXPECT_NEAR(kv / (static_cast<double>(p5.network_bps) / 8 / 8) * 1e3, 53.7, 0.1);  // ms, one NIC
  EXPECT_NEAR(kv / *shipped().gpu("H100-SXM").nvlink_bytes_per_s * 1e3, 6.0, 0.05);  // ms
  const double half = kv_bytes_per_token_per_gpu(shipped().model("llama-3.1-70b"), 1, "fp8") * 8192;
  EXPECT_EQ(half * 2, kv);
}

// P75: which fp8 cache there is depends on the GPU and on the checkpoint; "auto" is 16 bits
// whatever the weights are.
TEST(FieldCases, p75_an_fp8_cache_needs_the_gpu_and_the_checkpoint) {
  const GpuSpec& a100 = shipped().gpu("A100-SXM-80GB");
  const GpuSpec& h100 = shipped().gpu("H100-SXM");
  const ModelSpec int4 = with_weight_type(shipped().model("llama-3.1-8b"), "int4");
  const ModelSpec fp8 = with_weight_type(shipped().model("llama-3.1-8b"), "fp8");
  EXPECT_NE(why_kv_precision_is_refused(int4, a100, "fp8"), "");
  EXPECT_NE(why_kv_precision_is_refused(int4, a100, "fp8_e4m3"), "");
  EXPECT_EQ(why_kv_precision_is_refused(int4, a100, "fp8_e5m2"), "");
  EXPECT_NE(why_kv_precision_is_refused(fp8, a100, "fp8_e5m2"), "");
  EXPECT_EQ(why_kv_precision_is_refused(fp8, h100, "fp8"), "");
  EXPECT_NE(why_kv_precision_is_refused(fp8, h100, "fp7"), "");
  EXPECT_EQ(kv_bytes_per_token_per_gpu(fp8, 1, "auto"), 131072);
}

// P75: the state of linear-attention layers stays as it is, so halving the cache less than doubles
// the sequences that fit; the gain grows with their length.
TEST(FieldCases, p75_an_fp8_cache_gains_less_than_twofold_and_more_in_long_sequences) {
  const ModelSpec& m = shipped().model("qwen3.5-27b");
  const auto bytes_of_sequence = [&](double tokens, const char* kv) {
    return m.linear_state_bytes_per_sequence + tokens * kv_bytes_per_token_per_gpu(m, 1, kv);
  };
  double before = 1;
  for (const double tokens : {8192.0, 131072.0, 1048576.0}) {
    const double gain = bytes_of_sequence(tokens, "auto") / bytes_of_sequence(tokens, "fp8");
    EXPECT_GT(gain, before) << tokens;
    EXPECT_LT(gain, 2) << tokens;
    before = gain;
  }
  // The plan keeps the state of every running sequence aside before it counts blocks.
  const auto room = [&](const char* kv) {
    const MemoryPlan p =
        plan_memory(m, shipped().gpu("H100-SXM"), 1, shipped().default_profile_for("H100-SXM"),
                    Tokens(16), Tokens(4096), kv, 32);
    EXPECT_TRUE(p.fits);
    EXPECT_EQ(p.state_bytes, 32 * m.linear_state_bytes_per_sequence);
    return p.kv_blocks.value();
  };
  EXPECT_NEAR(static_cast<double>(room("fp8")), 2.0 * static_cast<double>(room("auto")), 1);
}

// P75: attention multiplies in 16 bits whatever the cache is stored in.
TEST(FieldCases, p75_attention_compute_does_not_halve_with_the_cache) {
  StepShape s;
  s.tokens = s.prefill_tokens = 8192;
  s.sequences = s.sampled = 1;
  s.prefill_context = 8192;
  s.prefill_pairs = 8192LL * 8193 / 2;
  const auto attention = [&](const char* kv) {
    const auto m = make_roofline_model(shipped().model("llama-3.1-8b"), shipped().gpu("H100-SXM"),
                                       {1}, shipped().default_profile_for("H100-SXM"), kv);
    for (const OperatorTime& op : m->breakdown(s)) {
      if (op.name == "prefill_attention") return op.total_ps;
    }
    return 0.0;
  };
  EXPECT_GT(attention("auto"), 0);
  EXPECT_DOUBLE_EQ(attention("fp8"), attention("auto"));
}

TEST(FieldCases, heads_that_tp_does_not_divide_are_refused_with_the_numbers) {
  const ModelSpec& qwen = shipped().model("qwen2.5-7b");  // 28 heads, 4 KV heads
  EXPECT_NE(why_illegal(qwen, {8}).find("28"), std::string::npos);
  EXPECT_EQ(why_illegal(qwen, {4}), "");
  EXPECT_NE(why_illegal(shipped().model("phi-4"), {4}).find("10"),
            std::string::npos);                                        // 10 KV heads
  EXPECT_EQ(why_illegal(shipped().model("llama-3.1-70b"), {16}), "");  // 8 KV heads, two copies
  EXPECT_NE(why_illegal(qwen, {0}), "");
}

}  // namespace
}  // namespace orrery::cost
