// What is known of models, GPUs, instances and engines, as read from scenarios/catalog and
// scenarios/profiles (files are read elsewhere: these take parsed JSON). Unknown is nullopt and is
// never guessed.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/json.h"
#include "runtime/base/units.h"

namespace orrery::cost {

struct ModelSpec {
  std::string id;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t intermediate = 0;  // dense FFN width (of the dense layers)
  std::int64_t vocabulary = 0;
  bool tied_embeddings = false;
  std::int64_t max_context = 0;
  // Mixture of experts; experts == 0: dense.
  std::int64_t experts = 0, experts_per_token = 0, expert_intermediate = 0, shared_experts = 0;
  std::int64_t moe_layers = 0;
  // Multi-head latent attention; mla_kv_rank == 0: none. Its cache is not divided by tp.
  std::int64_t mla_kv_rank = 0, mla_rope_dim = 0, mla_q_rank = 0;
  std::int64_t window_tokens = 0, window_layers = 0;  // sliding-window layers; 0: none
  double parameters = 0;                              // total
  std::string weight_type = "bf16";                   // fp32, bf16, fp16, fp8, int8, fp4, int4
  std::optional<double> weight_bytes;  // when known better than parameters * size of type
  std::string source;
};

struct GpuSpec {
  std::string id;
  std::int64_t memory_bytes = 0;
  double memory_bandwidth_bytes_per_s = 0;
  std::map<std::string, double> dense_flops;  // by precision; missing: the GPU does not have it
  std::optional<double> nvlink_bytes_per_s;   // per direction
  std::optional<double> pcie_bytes_per_s;
  std::string source;
};

struct InstanceType {
  std::string id;   // "g6.xlarge", "cpu-local"
  std::string gpu;  // GpuSpec id; empty for cpu-local
  double gpu_count = 0;
  std::string gpu_interconnect;
  std::int64_t vcpu = 0, memory_bytes = 0;
  std::optional<double> on_demand_usd_per_hour, spot_usd_per_hour;
  std::string price_date, source;
};

// Efficiencies and overheads of an engine on a GPU (scenarios/profiles/*.json).
struct EngineProfile {
  std::string id;
  double compute_efficiency = 0.7;  // share of peak FLOP/s reached by large GEMMs
  double memory_efficiency = 0.8;   // share of peak bandwidth
  double attention_compute_efficiency = 0.5;
  double communication_efficiency = 0.7;
  double host_overhead_us = 0;            // per step, not hidden behind the GPU
  double per_sequence_us = 0;             // host work per sequence in the step
  double all_reduce_latency_us = 0;       // per all-reduce
  std::vector<std::int64_t> batch_sizes;  // decode batches are padded up to these; empty: not
  double memory_reserved_bytes = 0;       // context, graphs, buffers
  double memory_fraction = 0.9;           // share of GPU memory the engine uses
  std::string source, date, kind;         // kind: fitted | derived
};

// Fitted on a machine: step_ps = fixed + per_token*tokens + per_sampled*sampled
//   + per_decode_context*decode_context + per_prefill_pair*prefill_pairs.
struct MeasuredProfile {
  std::string id, model, machine, source, date;
  double fixed_ps = 0, per_token_ps = 0, per_sampled_ps = 0, per_decode_context_ps = 0,
         per_prefill_pair_ps = 0;
  std::int64_t kv_blocks = 0, block_tokens = 16, max_batched_tokens = 0, max_running = 0,
               max_context = 0;
  double median_error = 0;  // of the fit, as a fraction
};

ModelSpec read_model(const JsonView& v);
GpuSpec read_gpu(const JsonView& v);
InstanceType read_instance_type(const JsonView& v);
EngineProfile read_engine_profile(const JsonView& v);
MeasuredProfile read_measured_profile(const JsonView& v);

// Bytes of one value of a precision ("bf16" -> 2, "fp4" -> 0.5). Throws InputError when unknown.
double bytes_of(const std::string& precision);

// KV bytes of one token on one GPU of a replica (all layers). MLA caches are not divided by tp.
double kv_bytes_per_token_per_gpu(const ModelSpec& model, int tp, const std::string& kv_precision);

// How a replica's memory divides, per GPU; fits == false says by how many bytes it does not.
struct MemoryPlan {
  bool fits = false;
  double weights_bytes = 0, reserved_bytes = 0, activation_bytes = 0, kv_bytes = 0,
         usable_bytes = 0;
  double missing_bytes = 0;  // > 0 when it does not fit (one block of KV included)
  Blocks kv_blocks;
};
MemoryPlan plan_memory(const ModelSpec& model, const GpuSpec& gpu, int tp,
                       const EngineProfile& profile, Tokens block_tokens, Tokens max_batched_tokens,
                       const std::string& kv_precision);

}  // namespace orrery::cost
