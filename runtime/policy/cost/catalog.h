// What is known of models, GPUs, instances and engines, as read from scenarios/catalog and
// scenarios/profiles (files are read by sim/catalog_files.h; these take parsed JSON). Unknown is
// nullopt and is never guessed.
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
  std::string hf_id;  // its name on the model hub
  std::string family;
  std::string attention = "gqa";  // mha, gqa, mla, hybrid-linear, compressed-sparse
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  // Full-attention layers of a windowed model where they differ from the windowed ones; 0: same.
  std::int64_t full_kv_heads = 0, full_head_dim = 0;
  std::int64_t intermediate = 0;  // dense FFN width (of the dense layers)
  std::int64_t ffn_matrices = 3;  // 3: gate, up, down; 2: up, down
  std::int64_t vocabulary = 0;
  bool tied_embeddings = false;
  std::int64_t max_context = 0;
  // Mixture of experts; experts == 0: dense. shared_experts are expert_intermediate wide each.
  std::int64_t experts = 0, experts_per_token = 0, expert_intermediate = 0, shared_experts = 0;
  std::int64_t moe_layers = 0;        // the other layers have a dense FFN
  bool dense_beside_experts = false;  // a dense FFN runs in the expert layers too
  // Multi-head latent attention; mla_kv_rank == 0: none. Its cache is not divided by tp.
  std::int64_t mla_kv_rank = 0, mla_rope_dim = 0, mla_nope_dim = 0, mla_v_dim = 0;
  std::int64_t mla_q_rank = 0;                        // 0: queries are projected directly
  std::int64_t window_tokens = 0, window_layers = 0;  // sliding or chunked layers; 0: none
  // Linear-attention layers: a state of fixed size per sequence instead of a cache.
  std::int64_t linear_layers = 0, linear_key_heads = 0, linear_value_heads = 0;
  std::int64_t linear_key_dim = 0, linear_value_dim = 0;
  double linear_state_bytes_per_sequence = 0;
  double parameters = 0, active_parameters = 0;  // total; touched by one token
  std::string weight_type = "bf16";              // fp32, bf16, fp16, fp8, int8, fp4, mxfp4, int4
  std::string expert_weight_type;                // empty: as weight_type
  std::int64_t quant_block = 0;                  // weights share a scale per block this wide
  std::optional<double> weight_bytes;  // of the checkpoint, when known better than counted
  std::string source, confidence, note;
};

struct GpuSpec {
  std::string id, name, architecture;
  std::int64_t memory_bytes = 0;
  double memory_bandwidth_bytes_per_s = 0;
  std::map<std::string, double> dense_flops;  // by precision; missing: the GPU does not have it
  std::optional<double> nvlink_bytes_per_s;   // per direction
  std::optional<double> pcie_bytes_per_s;     // per direction
  std::int64_t pcie_lanes = 0;                // that pcie_bytes_per_s is stated for; 0: unknown
  std::optional<std::string> compute_capability;
  std::string source, confidence, note;
};

struct InstanceType {
  std::string id;                         // "g6.xlarge", "cpu-local"
  std::string gpu;                        // GpuSpec id; empty for cpu-local
  double gpu_count = 0;                   // a fraction where a GPU is shared (g6f)
  std::int64_t gpu_memory_bytes = 0;      // of one GPU (or share) as the seller states it
  std::string gpu_interconnect = "none";  // none, pcie, nvlink
  std::int64_t gpu_pcie_lanes = 0;        // observed on the instance; 0: unknown
  std::int64_t vcpu = 0, memory_bytes = 0, network_bps = 0;
  std::optional<double> on_demand_usd_per_hour, spot_usd_per_hour, capacity_block_usd_per_hour;
  std::string price_date, price_region, spot_date;
  std::string source, note;
};

// All-reduce among this many GPUs: it takes latency + ring bytes / (link rate * efficiency).
struct AllReduce {
  std::int64_t gpus = 0;
  double latency_us = 0, efficiency = 1;
};

// Efficiencies and overheads of an engine on a GPU (scenarios/profiles/*.json).
struct EngineProfile {
  std::string id, engine, gpu;
  double compute_efficiency = 0.7;  // share of peak FLOP/s reached by large GEMMs
  // Where a precision reaches another share than compute_efficiency ("fp8": 0.6).
  std::map<std::string, double> compute_efficiency_by_precision;
  double memory_efficiency = 0.8;             // share of peak bandwidth: weights, activations
  double attention_compute_efficiency = 0.5;  // prefill attention, share of the bf16 peak
  double attention_memory_efficiency = 0;     // decode attention's KV reads; 0: memory_efficiency
  std::vector<AllReduce> all_reduce;       // ascending gpus; the first entry with enough GPUs holds
  double host_overhead_us = 0;             // per step, not hidden behind the GPU
  double per_sequence_us = 0;              // host work per sequence in the step
  double layer_latency_us = 0;             // per layer: kernel starts and ramps inside a graph
  std::vector<std::int64_t> batch_sizes;   // decode batches are padded up to these; empty: not
  double memory_reserved_bytes = 0;        // device context and libraries
  double communication_buffer_bytes = 0;   // more of it when tp > 1
  double graph_bytes_per_layer = 0;        // captured CUDA graphs
  double memory_fraction = 0.9;            // share of GPU memory the engine uses
  std::string source, date, kind;          // kind: fitted | derived
  std::string fit_data;                    // what it was compared with
  std::optional<double> fit_median_error;  // a fraction, over fit_rows
  std::int64_t fit_rows = 0;
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

// One entry each; they throw InputError at the field that is wrong.
ModelSpec read_model(const JsonView& v);
GpuSpec read_gpu(const JsonView& v);
InstanceType read_instance_type(const JsonView& v);
EngineProfile read_engine_profile(const JsonView& v);
MeasuredProfile read_measured_profile(const JsonView& v);
Json to_json(const MeasuredProfile& profile);  // what read_measured_profile reads

// Bytes of one value of a precision ("bf16" -> 2, "fp4" -> 0.5; scales of a block are counted where
// the format has them: "mxfp4" -> 0.53125). Throws InputError when unknown.
double bytes_of(const std::string& precision);

// The same model with its weights in another precision: "" keeps the checkpoint's own.
ModelSpec with_weight_type(ModelSpec model, const std::string& weight_type);

// One GPU as it is in this instance: a share of it where the instance has only a share (memory,
// bandwidth and compute alike: the floor of what time slicing gives), and the PCIe lanes seen
// there.
GpuSpec gpu_in_instance(const GpuSpec& gpu, const InstanceType& instance);

}  // namespace orrery::cost
