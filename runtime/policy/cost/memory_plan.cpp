#include "runtime/policy/cost/memory_plan.h"

#include <algorithm>

#include "runtime/base/errors.h"
#include "runtime/policy/cost/model_matrices.h"

namespace orrery::cost {
namespace {

double d(std::int64_t x) { return static_cast<double>(x); }

// KV bytes of `layers` grouped-query layers on one GPU.
double grouped_kv(std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim, int tp,
                  double bytes) {
  return 2 * d(layers) * d(kv_heads_per_gpu(kv_heads, tp)) * d(head_dim) * bytes;
}

double kv_bytes(const std::string& precision) {
  return precision == "fp8_e4m3" || precision == "fp8_e5m2" ? 1.0 : bytes_of(precision);
}

// The peak of a step's working memory. The residual stream, a norm's output and the attention's
// inputs and outputs live beside the widest FFN; an expert layer holds every routed row. The
// sampler keeps the logits in 32 bits, sorted values and their 64-bit indices, probabilities, their
// running sum and a scratch copy: 28 bytes a value.
double activation_bytes(const ModelSpec& m, int tp, std::int64_t tokens, std::int64_t sampled) {
  constexpr double kSamplerBytesPerLogit = 28;
  const double value = m.weight_type == "fp32" ? 4 : 2;
  const double head_dim = m.mla_kv_rank > 0 ? d(m.mla_nope_dim + m.mla_rope_dim)
                                            : d(std::max(m.head_dim, m.full_head_dim));
  const double attention = 2 * d(m.heads) * head_dim / tp;
  const double dense = d(m.ffn_matrices) * d(m.intermediate) / tp;
  const double routed =
      d(m.experts_per_token) * (2 * d(m.hidden) + 3 * d(m.expert_intermediate) / tp);
  const double per_token =
      4 * d(m.hidden) + attention + std::max(m.intermediate > 0 ? dense : 0, routed);
  return d(tokens) * per_token * value + d(sampled) * d(m.vocabulary) * kSamplerBytesPerLogit;
}

}  // namespace

std::string resolve_kv_precision(const ModelSpec& m, const std::string& kv) {
  if (kv.empty() || kv == "auto") {
    return m.weight_type == "fp32" ? "fp32" : m.weight_type == "fp16" ? "fp16" : "bf16";
  }
  return kv == "fp8" ? "fp8_e4m3" : kv;
}

std::string why_kv_precision_is_refused(const ModelSpec& m, const GpuSpec& gpu,
                                        const std::string& kv) {
  const std::string precision = resolve_kv_precision(m, kv);
  if (precision == "fp8_e4m3" && !gpu.dense_flops.contains("fp8")) {
    return gpu.id + " has no fp8 of the e4m3 kind; fp8_e5m2 is stored only and would work";
  }
  if (precision == "fp8_e5m2" && m.weight_type == "fp8") {
    return m.id + " carries fp8 scales, which fp8_e5m2 does not use; take fp8_e4m3 or auto";
  }
  if (precision == "fp8_e4m3" || precision == "fp8_e5m2" || precision == "bf16" ||
      precision == "fp16" || precision == "fp32") {
    return {};
  }
  return "the KV cache is kept in auto, bf16, fp16, fp32, fp8, fp8_e4m3 or fp8_e5m2";
}

double kv_bytes_per_token_beyond_window_per_gpu(const ModelSpec& m, int tp, const std::string& kv) {
  require_modelled_attention(m);
  const double bytes = kv_bytes(resolve_kv_precision(m, kv));
  if (m.mla_kv_rank > 0) return d(m.layers) * d(m.mla_kv_rank + m.mla_rope_dim) * bytes;
  return grouped_kv(full_attention_layers(m), m.full_kv_heads > 0 ? m.full_kv_heads : m.kv_heads,
                    m.full_head_dim > 0 ? m.full_head_dim : m.head_dim, tp, bytes);
}

double kv_bytes_per_token_per_gpu(const ModelSpec& m, int tp, const std::string& kv) {
  const double beyond = kv_bytes_per_token_beyond_window_per_gpu(m, tp, kv);
  if (m.window_layers == 0) return beyond;
  return beyond + grouped_kv(m.window_layers, m.kv_heads, m.head_dim, tp,
                             kv_bytes(resolve_kv_precision(m, kv)));
}

double weight_bytes_per_gpu(const ModelSpec& m, int tp, bool expert_parallel) {
  double here = 0, whole = 0;
  for (const MatrixGroup& g : matrices_of(m, Parallelism{tp, expert_parallel})) {
    if (m.tied_embeddings && g.rows == Rows::kSampled) continue;
    here += g.elements * bytes_of(g.precision);
    whole += g.parameters * bytes_of(g.precision);
  }
  if (m.weight_bytes) return here * (*m.weight_bytes / whole);
  // What the shape does not count (norms, a vision tower) is in 16 bits and on every GPU.
  const double uncounted = m.parameters - count_parameters(m) + d(2 * m.layers + 1) * d(m.hidden);
  return here + std::max(0.0, uncounted) * (m.weight_type == "fp32" ? 4 : 2);
}

MemoryPlan plan_memory(const ModelSpec& m, const GpuSpec& gpu, int tp, const EngineProfile& profile,
                       Tokens block_tokens, Tokens max_batched_tokens,
                       const std::string& kv_precision, std::int64_t max_running) {
  if (const std::string why = why_illegal(m, Parallelism{tp, false}); !why.empty()) {
    throw InputError({m.id, 0, "tp"}, std::to_string(tp), "a legal division: " + why);
  }
  if (const std::string why = why_kv_precision_is_refused(m, gpu, kv_precision); !why.empty()) {
    throw InputError({m.id, 0, "kv_precision"}, kv_precision, "a possible precision: " + why);
  }
  MemoryPlan plan;
  plan.usable_bytes = d(gpu.memory_bytes) * profile.memory_fraction;
  plan.weights_bytes = weight_bytes_per_gpu(m, tp);
  const double communication = tp > 1 ? profile.communication_buffer_bytes : 0;
  const double graphs = profile.graph_bytes_per_layer * d(m.layers);
  plan.reserved_bytes = profile.memory_reserved_bytes + communication + graphs;
  const std::int64_t tokens = max_batched_tokens.value();
  plan.activation_bytes = activation_bytes(m, tp, tokens, std::min(max_running, tokens));
  plan.state_bytes = m.linear_state_bytes_per_sequence / tp * d(max_running);
  plan.kv_bytes_per_token = kv_bytes_per_token_per_gpu(m, tp, kv_precision);
  const double block = plan.kv_bytes_per_token * d(block_tokens.value());
  const double left = plan.usable_bytes - plan.weights_bytes - plan.reserved_bytes -
                      plan.activation_bytes - plan.state_bytes;
  plan.fits = left >= block;
  if (plan.fits) {
    plan.kv_blocks = Blocks(static_cast<std::int64_t>(left / block));
    plan.kv_bytes = d(plan.kv_blocks.value()) * block;
  } else {
    plan.missing_bytes = block - left;
  }
  plan.items = {{"weights", plan.weights_bytes},
                {"context", profile.memory_reserved_bytes},
                {"communication", communication},
                {"graphs", graphs},
                {"activations", plan.activation_bytes},
                {"state", plan.state_bytes},
                {"kv", plan.kv_bytes}};
  return plan;
}

}  // namespace orrery::cost
