// How the memory of one GPU of a replica divides into weights, overheads and KV blocks.
// Law: the items sum to what is used; the KV blocks are what is left, and a plan that does not fit
// says by how many bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/units.h"
#include "runtime/policy/cost/catalog.h"

namespace orrery::cost {

// The precision of the KV cache: "auto" (or "") is the model's 16-bit (or fp32) type, not that of
// its weights. "fp8" is fp8_e4m3.
std::string resolve_kv_precision(const ModelSpec& model, const std::string& kv_precision);

// Why this KV precision cannot be had, or "". fp8_e4m3 needs a GPU with fp8; fp8_e5m2 works on any
// GPU but not with a checkpoint that carries fp8 scales.
std::string why_kv_precision_is_refused(const ModelSpec& model, const GpuSpec& gpu,
                                        const std::string& kv_precision);

// KV bytes of one token on one GPU of a replica, all layers, as long as no window is full. Heads
// are divided by tp, and copied where tp exceeds them. MLA caches are copied on every GPU.
double kv_bytes_per_token_per_gpu(const ModelSpec& model, int tp, const std::string& kv_precision);
// The part of it in layers without a window: what each further token costs in a long sequence.
double kv_bytes_per_token_beyond_window_per_gpu(const ModelSpec& model, int tp,
                                                const std::string& kv_precision);

// Weight bytes on one GPU of a replica: counted from the shape, scaled to the checkpoint's size
// where that is known; what tp does not divide is counted whole.
double weight_bytes_per_gpu(const ModelSpec& model, int tp, bool expert_parallel = false);

struct MemoryItem {
  std::string
      name;  // "weights", "context", "communication", "graphs", "activations", "state", "kv"
  double bytes = 0;
};

struct MemoryPlan {
  bool fits = false;
  double weights_bytes = 0, reserved_bytes = 0, activation_bytes = 0, state_bytes = 0, kv_bytes = 0,
         usable_bytes = 0;
  double missing_bytes = 0;       // > 0 when it does not fit (one block of KV included)
  double kv_bytes_per_token = 0;  // on one GPU
  Blocks kv_blocks;
  std::vector<MemoryItem> items;  // their sum is <= usable_bytes when it fits
};

// Activations are the peak of one step: every row's hidden states and widest FFN, and the sampler's
// copies of the logits of max_running rows. On an 80 GB GPU with 8192 tokens and 1024 sequences
// this gives the 4.8 to 5.6 GiB that vLLM reports for dense models.
MemoryPlan plan_memory(const ModelSpec& model, const GpuSpec& gpu, int tp,
                       const EngineProfile& profile, Tokens block_tokens, Tokens max_batched_tokens,
                       const std::string& kv_precision = "auto", std::int64_t max_running = 256);

}  // namespace orrery::cost
