// Laws of step times, against direct evaluation and against figures worked out by hand.
#include "runtime/policy/cost/step_model.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/base/hash.h"
#include "runtime/base/rng.h"
#include "tests/cost/shipped.h"

namespace orrery::cost {
namespace {

StepShape decode(std::int64_t sequences, std::int64_t context_each) {
  StepShape s;
  s.tokens = s.sequences = s.sampled = s.decode_sequences = sequences;
  s.decode_context = sequences * context_each;
  return s;
}

// One prompt (or chunk) of `count` tokens after `first` computed ones.
StepShape prefill(std::int64_t first, std::int64_t count) {
  StepShape s;
  s.tokens = s.prefill_tokens = count;
  s.sequences = s.sampled = 1;
  s.prefill_context = first + count;
  s.prefill_pairs = count * first + count * (count + 1) / 2;
  return s;
}

StepShape together(const StepShape& a, const StepShape& b) {
  return {a.tokens + b.tokens,
          a.sequences + b.sequences,
          a.sampled + b.sampled,
          a.decode_sequences + b.decode_sequences,
          a.decode_context + b.decode_context,
          a.prefill_tokens + b.prefill_tokens,
          a.prefill_context + b.prefill_context,
          a.prefill_pairs + b.prefill_pairs};
}

// The shape of repetition i of a step of decodes.
StepShape repeated(StepShape s, std::int64_t i) {
  s.decode_context += i * s.decode_sequences;
  return s;
}

std::unique_ptr<StepModel> model(const std::string& name, const std::string& gpu, int tp = 1,
                                 const std::string& precision = "",
                                 const std::string& kv = "auto") {
  return make_roofline_model(with_weight_type(shipped().model(name), precision), shipped().gpu(gpu),
                             {tp}, shipped().default_profile_for(gpu), kv);
}

std::int64_t step_ps(const StepModel& m, const StepShape& s) {
  return repetition_ps(m.time(s), s, 0);
}

// Shapes as they come: decodes, chunks, and both, from a seeded stream.
StepShape random_shape(RandomStream& r) {
  StepShape s;
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(r.next_below(n)); };
  const std::int64_t decodes = below(300);
  const std::int64_t chunks = below(4);
  if (decodes > 0) s = decode(decodes, 1 + below(9000));
  for (std::int64_t i = 0; i < chunks; ++i) {
    const std::int64_t first = below(5000);
    const std::int64_t count = 1 + below(2048);
    s = together(s, prefill(first, count));
  }
  if (s.tokens == 0) s = decode(1, 1);
  return s;
}

const char* const kModels[] = {"llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v2-lite",
                               "gemma-3-12b",  "gpt-oss-20b",   "qwen3.5-35b-a3b"};

// An engine without overheads on a GPU that reaches its data sheet: only the arithmetic is left.
EngineProfile perfect() {
  EngineProfile p;
  p.id = "perfect";
  p.kind = "derived";
  p.compute_efficiency = p.memory_efficiency = p.attention_compute_efficiency = 1;
  return p;
}

// Llama-3.1-70B on 8 H100, one sequence, 1000 tokens of context, worked out by hand. Per GPU and
// layer, in values: qkv 8192 x (1024 + 2 x 128), out 1024 x 8192, gate and up 8192 x 7168, down
// 3584 x 8192; the head 8192 x 16032. Times two bytes over 3.35e12 bytes/s; activations beside
// them.
TEST(StepModel, a_70b_decode_on_eight_gpus_is_its_weights_over_the_bandwidth) {
  const double bw = 3.35e12, h = 8192;
  const double layer = h * 1280 + 1024 * h + h * 7168 + 3584 * h;
  const double rows = (h + 1280) + (1024 + h) + (h + 7168) + (3584 + h);
  const double weights = 80 * layer + h * 16032;
  const double activations = 80 * rows + (h + 16032) + 2 * h + 8 * h * 80 + 3 * 28672.0 / 8 * 80;
  const double kv = 327680.0 / 8 * 1000;
  const double expected_ps = ((weights + activations) * 2 + kv) / bw * 1e12;
  GpuSpec gpu = shipped().gpu("H100-SXM");
  EngineProfile p = perfect();
  p.all_reduce = {{8, 0, 1}};
  const auto m = make_roofline_model(shipped().model("llama-3.1-70b"), gpu, {8}, p);
  const StepShape s = decode(1, 1000);
  // Ring: 161 all-reduces of 8192 values, 2 x 7/8 of 2 bytes each, and the gather of the logits.
  const double link = 450e9, all_reduce_ps = 161 * h * 2 * 2 * 7 / 8 / link * 1e12;
  const double gather_ps = 128256.0 * 2 * 7 / 8 / link * 1e12;
  EXPECT_NEAR(static_cast<double>(step_ps(*m, s)), expected_ps + all_reduce_ps + gather_ps, 1000);
  EXPECT_NEAR(expected_ps * 1e-9, 5.3, 0.2);  // milliseconds: 17.6 GB over 3.35 TB/s
}

// A long prompt is bound by arithmetic: 2 flops a parameter and token, and 4 x heads x head_dim
// flops a (query, key) pair and layer.
TEST(StepModel, a_long_prompt_is_its_flops_over_the_peak) {
  const auto m = make_roofline_model(shipped().model("llama-3.1-8b"), shipped().gpu("H100-SXM"),
                                     {1}, perfect());
  const StepShape s = prefill(0, 8192);
  const double layer = 4096.0 * 6144 + 4096.0 * 4096 + 4096.0 * 28672 + 14336.0 * 4096;
  const double flops =
      2 * 8192.0 * 32 * layer + 2 * 4096.0 * 128256 + 4 * 32 * 128.0 * 32 * (8192.0 * 8193 / 2);
  const double compute_ps = flops / 989e12 * 1e12;
  const double time = static_cast<double>(step_ps(*m, s));
  EXPECT_GT(time, compute_ps);
  EXPECT_LT(time, compute_ps * 1.1);  // the rest is memory traffic of norms, gates and the head
}

TEST(StepModel, the_time_is_the_sum_of_its_operators) {
  RandomStream r = RandomStream(1).fork("breakdown");
  for (const char* name : kModels) {
    const auto m = model(name, "H100-SXM", 2);
    for (int i = 0; i < 200; ++i) {
      const StepShape s = random_shape(r);
      double sum = 0;
      for (const OperatorTime& op : m->breakdown(s)) {
        EXPECT_GE(op.total_ps, 0) << op.name;
        sum += op.total_ps;
      }
      // Rounded once, but for the cost of a key, which is rounded by itself: half a picosecond
      // each.
      const double slack = 1 + 1.0 * static_cast<double>(s.decode_context) + 1e-9 * sum;
      EXPECT_NEAR(static_cast<double>(step_ps(*m, s)), sum, slack) << name << " case " << i;
    }
  }
}

TEST(StepModel, repetitions_equal_steps_evaluated_one_by_one) {
  RandomStream r = RandomStream(1).fork("affine");
  for (const char* name : kModels) {
    const auto m = model(name, "H100-SXM");
    for (int i = 0; i < 100; ++i) {
      const auto sequences = 1 + static_cast<std::int64_t>(r.next_below(200));
      const auto context = 1 + static_cast<std::int64_t>(r.next_below(3000));
      const StepShape s = decode(sequences, context);
      const StepTime t = m->time(s);
      ASSERT_GE(t.repetitions, 1) << name;
      const std::int64_t n = std::min<std::int64_t>(t.repetitions, 5000);
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < n; ++k) {
        const StepShape later = repeated(s, k);
        const std::int64_t direct = step_ps(*m, later);
        ASSERT_EQ(repetition_ps(t, s, k), direct) << name << " case " << i << " repetition " << k;
        sum += direct;
      }
      ASSERT_EQ(repetitions_ps(t, s, n), sum);
    }
  }
}

TEST(StepModel, a_windows_knot_is_where_the_affine_form_ends) {
  const auto m = model("gemma-3-12b", "H100-SXM");  // windows of 1024
  const StepShape s = decode(4, 1000);
  const StepTime t = m->time(s);
  EXPECT_EQ(t.repetitions, 24);
  EXPECT_NE(repetition_ps(t, s, 200), step_ps(*m, repeated(s, 200)));
  EXPECT_EQ(m->time(decode(4, 1024)).repetitions, INT64_MAX);
  // Beyond the window only full layers grow: 8 of 48.
  EXPECT_LT(m->time(decode(4, 1024)).per_context_ps * 5, t.per_context_ps);
}

TEST(StepModel, more_context_is_never_faster) {
  for (const char* name : kModels) {
    const auto m = model(name, "A100-SXM-80GB");
    std::int64_t before = 0;
    for (std::int64_t context = 1; context < 40000; context += 97) {
      const std::int64_t now = step_ps(*m, decode(16, context));
      ASSERT_GE(now, before) << name << " at " << context;
      before = now;
    }
  }
}

TEST(StepModel, more_sequences_or_prompt_tokens_are_never_faster) {
  for (const char* name : kModels) {
    const auto m = model(name, "H100-SXM");
    std::int64_t before = 0;
    for (std::int64_t n = 1; n < 700; ++n) {
      const std::int64_t now = step_ps(*m, decode(n, 500));
      ASSERT_GE(now, before) << name << " at " << n;
      before = now;
    }
    before = 0;
    for (std::int64_t n = 1; n < 8192; n += 61) {
      const std::int64_t now = step_ps(*m, prefill(0, n));
      ASSERT_GE(now, before) << name << " at " << n;
      before = now;
    }
  }
}

TEST(StepModel, a_faster_gpu_is_never_slower) {
  RandomStream r = RandomStream(1).fork("gpus");
  const EngineProfile& profile = shipped().default_profile_for("H100-SXM");
  for (const char* name : kModels) {
    for (int i = 0; i < 100; ++i) {
      GpuSpec slow = shipped().gpu("H100-SXM"), fast = slow;
      const auto factor = [&] { return 1 + static_cast<double>(r.next_below(100)) / 50; };
      fast.memory_bandwidth_bytes_per_s *= factor();
      for (auto& [precision, rate] : fast.dense_flops) rate *= factor();
      *fast.nvlink_bytes_per_s *= factor();
      const StepShape s = random_shape(r);
      const auto a = make_roofline_model(shipped().model(name), slow, {2}, profile);
      const auto b = make_roofline_model(shipped().model(name), fast, {2}, profile);
      ASSERT_LE(step_ps(*b, s), step_ps(*a, s)) << name << " case " << i;
    }
  }
}

TEST(StepModel, decodes_are_padded_to_the_next_captured_batch) {
  const auto m = model("llama-3.1-8b", "H100-SXM");
  const auto gemms = [&](const StepShape& s) {
    double sum = 0;
    for (const OperatorTime& op : m->breakdown(s)) {
      if (op.name == "gate_up_gemm") sum += op.memory_ps;
    }
    return sum;
  };
  EXPECT_EQ(gemms(decode(17, 100)), gemms(decode(24, 100)));
  EXPECT_LT(gemms(decode(16, 100)), gemms(decode(17, 100)));
  EXPECT_LT(gemms(decode(600, 100)), gemms(decode(601, 100)));  // beyond the largest: as it is
  // With a prompt in the step no graph of decodes runs.
  EXPECT_LT(gemms(together(decode(16, 100), prefill(0, 1))), gemms(decode(17, 100)));
}

// With k of E experts a token, T tokens touch E(1 - (1 - k/E)^T) of them.
TEST(StepModel, a_small_batch_reads_only_the_experts_it_touches) {
  const auto m = make_roofline_model(shipped().model("qwen3-30b-a3b"), shipped().gpu("H100-SXM"),
                                     {1}, perfect());
  const auto expert_bytes = [&](std::int64_t n) {
    for (const OperatorTime& op : m->breakdown(decode(n, 100))) {
      if (op.name == "expert_up_gemm") return op.memory_ps * 3.35;  // 1e-12 s x 3.35e12 B/s
    }
    return 0.0;
  };
  const double all = 48 * 128 * 2048.0 * 1536 * 2, row = 48 * 8 * (2048.0 + 1536) * 2;
  EXPECT_NEAR(expert_bytes(1), all / 16 + row, all * 1e-9);  // 8 of 128
  EXPECT_NEAR(expert_bytes(4), all * (1 - std::pow(1 - 1.0 / 16, 4)) + 4 * row, all * 1e-9);
  EXPECT_NEAR(expert_bytes(4000), all + 4000 * row, all * 1e-6);
}

TEST(StepModel, fp8_weights_halve_the_traffic_and_compute_at_fp8_only_where_the_gpu_has_it) {
  const auto op = [](const StepModel& m, const StepShape& s) {
    for (const OperatorTime& o : m.breakdown(s)) {
      if (o.name == "gate_up_gemm") return o;
    }
    return OperatorTime{};
  };
  const auto make = [](const char* gpu, const char* type) {
    return make_roofline_model(with_weight_type(shipped().model("llama-3.1-8b"), type),
                               shipped().gpu(gpu), {1}, perfect());
  };
  const StepShape one = decode(1, 100), many = prefill(0, 4096);
  const auto h16 = make("H100-SXM", "bf16"), h8 = make("H100-SXM", "fp8");
  EXPECT_NEAR(op(*h8, one).memory_ps / op(*h16, one).memory_ps, 0.5, 0.001);
  EXPECT_NEAR(op(*h8, many).compute_ps / op(*h16, many).compute_ps, 0.5, 0.001);
  const auto a16 = make("A100-SXM-80GB", "bf16"), a8 = make("A100-SXM-80GB", "fp8");
  EXPECT_NEAR(op(*a8, one).memory_ps / op(*a16, one).memory_ps, 0.5, 0.001);
  EXPECT_DOUBLE_EQ(op(*a8, many).compute_ps, op(*a16, many).compute_ps);
  // int4 stores weights only; without bf16 the 16-bit rate is fp16's.
  EXPECT_DOUBLE_EQ(op(*make("H100-SXM", "int4"), many).compute_ps, op(*h16, many).compute_ps);
  EXPECT_NEAR(op(*make("T4", "bf16"), many).compute_ps / op(*a16, many).compute_ps, 312.0 / 65,
              0.001);
}

TEST(StepModel, a_latent_cache_costs_the_same_per_key_on_every_tp) {
  const auto one = model("deepseek-v2-lite", "H100-SXM", 1),
             four = model("deepseek-v2-lite", "H100-SXM", 4);
  const auto keys = [](const StepModel& m) {
    for (const OperatorTime& o : m.breakdown(decode(8, 4000))) {
      if (o.name == "decode_attention") return o.memory_ps;
    }
    return 0.0;
  };
  EXPECT_GT(keys(*one), 0);
  EXPECT_DOUBLE_EQ(keys(*one), keys(*four));
}

TEST(StepModel, tp_divides_the_weights_and_pays_all_reduces) {
  const StepShape s = decode(8, 1000);
  const auto t1 = model("llama-3.1-70b", "H200-SXM", 1), t8 = model("llama-3.1-70b", "H200-SXM", 8);
  EXPECT_LT(step_ps(*t8, s), step_ps(*t1, s) / 3);
  EXPECT_GT(step_ps(*t8, s), step_ps(*t1, s) / 8);
  for (const OperatorTime& op : t1->breakdown(s)) EXPECT_EQ(op.communication_ps, 0) << op.name;
}

TEST(StepModel, tp_without_nvlink_goes_over_pcie_and_costs_more) {
  GpuSpec wired = shipped().gpu("A100-SXM-80GB"), unwired = wired;
  unwired.nvlink_bytes_per_s.reset();
  const EngineProfile& p = shipped().default_profile_for("A100-SXM-80GB");
  const StepShape s = prefill(0, 4096);
  const ModelSpec& m = shipped().model("llama-3.1-8b");
  EXPECT_GT(step_ps(*make_roofline_model(m, unwired, {2}, p), s),
            step_ps(*make_roofline_model(m, wired, {2}, p), s));
  unwired.pcie_bytes_per_s.reset();
  EXPECT_THROW(make_roofline_model(m, unwired, {2}, p), InputError);
}

// Pinned: another compiler or machine must give the same picoseconds. Change it only together with
// the arithmetic.
TEST(StepModel, the_same_bits_come_from_every_compiler) {
  EngineProfile p = perfect();
  p.compute_efficiency = 0.7;
  p.memory_efficiency = 0.83;
  p.attention_compute_efficiency = 0.55;
  p.host_overhead_us = 210.5;
  p.per_sequence_us = 33.3;
  p.layer_latency_us = 27.7;
  p.all_reduce = {{2, 4.5, 0.6}};
  GpuSpec gpu;
  gpu.id = "pinned";
  gpu.memory_bandwidth_bytes_per_s = 3.35e12;
  gpu.dense_flops = {{"bf16", 989e12}, {"fp8", 1978e12}};
  gpu.nvlink_bytes_per_s = 450e9;
  ModelSpec m;
  m.layers = m.moe_layers = 48;
  m.hidden = 2048;
  m.heads = 32;
  m.kv_heads = 4;
  m.head_dim = 128;
  m.vocabulary = 151936;
  m.experts = 128;
  m.experts_per_token = 8;
  m.expert_intermediate = 768;
  m.weight_type = "fp8";
  m.window_layers = 24;
  m.window_tokens = 512;
  const auto model = make_roofline_model(m, gpu, {2}, p);
  RandomStream r = RandomStream(1).fork("pinned");
  std::uint64_t hash = 0;
  for (int i = 0; i < 10000; ++i) {
    const StepTime t = model->time(random_shape(r));
    for (const std::int64_t x : {t.fixed_ps, t.per_context_ps, t.repetitions}) {
      hash = hash_combine(hash, static_cast<std::uint64_t>(x));
    }
  }
  EXPECT_EQ(hash, 3204934410163390848u);
}

TEST(StepModel, a_step_says_where_its_time_comes_from) {
  EXPECT_EQ(model("llama-3.1-8b", "L4")->source().rfind("derived: generic-l4", 0), 0u);
}

MeasuredProfile measured() {
  MeasuredProfile p;
  p.id = "cpu-local";
  p.model = "embedded";
  p.machine = "test";
  p.date = "2026-12-01";
  p.fixed_ps = 1e9;
  p.per_token_ps = 3e8;
  p.per_sampled_ps = 5e7;
  p.per_decode_context_ps = 40000.4;
  p.per_prefill_pair_ps = 30000;
  return p;
}

TEST(MeasuredModel, the_time_is_its_coefficients_times_the_shape) {
  const auto m = make_measured_model(measured());
  const StepShape s = together(decode(2, 10), prefill(0, 4));
  EXPECT_EQ(step_ps(*m, s),
            1000000000 + 6 * 300000000LL + 3 * 50000000LL + 20 * 40000LL + 10 * 30000LL);
  EXPECT_EQ(m->source().rfind("measured: embedded", 0), 0u);
  double sum = 0;
  for (const OperatorTime& op : m->breakdown(s)) sum += op.total_ps;
  EXPECT_NEAR(sum, static_cast<double>(step_ps(*m, s)), 0.5 * 20 + 1);
}

TEST(MeasuredModel, repetitions_equal_steps_evaluated_one_by_one) {
  const auto m = make_measured_model(measured());
  const StepShape s = decode(3, 17);
  const StepTime t = m->time(s);
  for (std::int64_t k = 0; k < 1000; ++k) {
    ASSERT_EQ(repetition_ps(t, s, k), step_ps(*m, repeated(s, k)));
  }
}

TEST(MeasuredModel, a_negative_coefficient_is_refused) {
  MeasuredProfile p = measured();
  p.per_token_ps = -1;
  EXPECT_THROW(make_measured_model(p), InputError);
}

}  // namespace
}  // namespace orrery::cost
