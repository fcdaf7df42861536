// The operators of one decode step, as a table of functions for one side: a GPU (nvcc's build of
// the kernels) or the CPU (the same kernels on fibers, for tests: thousands of times slower than
// reference.h). Pointers are that side's memory; rows are contiguous, strides count elements.
//
// Laws every side keeps:
//  * Batch invariance. A row's result is a function of that row alone: reductions run in an order
//    fixed by the row's own length and element type, never by the number of rows, the grid, or the
//    addresses it is given. A row alone and in any batch gives the same bits.
//  * Sums and products are float whatever the element type; a fused multiply-add is used where the
//    source says fmaf and nowhere else (nvcc gets -fmad=false), so the two sides differ only by
//    exp2f's rounding.
//  * Launches never wait for the device and never allocate, so they may be captured in a CUDA
//  graph:
//    a padding row has position -1 or context 0.
//
// Functions return nullptr, or the driver's reason for refusing the launch. A shape outside the
// stated limits is a caller's bug: ORRERY_CHECK.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/element.h"

namespace orrery::kernels {

struct LaunchOptions {
  void* stream = nullptr;   // GPU: a cudaStream_t
  unsigned order_seed = 0;  // CPU: order in which a block's threads run; 0 is by index
};

// y[r] = x[r] * weight / sqrt(mean(x[r]^2) + eps). y may be x.
struct RmsNormArgs {
  Element element = Element::kFloat32;
  const void* x = nullptr;       // [rows][x_stride]
  const void* weight = nullptr;  // [dim]
  void* y = nullptr;             // [rows][y_stride]
  int rows = 0, dim = 0;
  std::int64_t x_stride = 0, y_stride = 0;
  float eps = 1e-5f;
};

// out[r] = silu(gate_up[r][0:dim]) * gate_up[r][dim:2*dim], silu(x) = x / (1 + exp(-x)).
struct SwigluArgs {
  Element element = Element::kFloat32;
  const void* gate_up = nullptr;  // [rows][2 * dim]
  void* out = nullptr;            // [rows][dim]
  int rows = 0, dim = 0;
};

// A paged KV cache as one layer sees it: [blocks][kv_heads][block_size][head_dim] for K and for V,
// so that what one CTA reads of a block (one KV head) is contiguous. block_size is a power of two.
struct KvLayout {
  int kv_heads = 0, block_size = 16, head_dim = 0;
  int max_blocks = 0;  // row length of the block table
};

// Which two elements of a head turn together.
enum class RopePairs : std::uint8_t {
  kHalves,    // i and i + rotary/2 (Hugging Face checkpoints)
  kAdjacent,  // 2i and 2i + 1 (Meta's and llama2.c checkpoints)
};

// Rotates q in place and k, v into the cache slot of the token's position. Elements from rotary_dim
// on are copied unturned. A token at position -1 is padding: nothing is read or written for it.
struct RopeArgs {
  Element element = Element::kFloat32;
  void* q = nullptr;        // [tokens][q_stride], q_heads heads a token
  const void* k = nullptr;  // [tokens][kv_stride]
  const void* v = nullptr;  // [tokens][kv_stride]
  void* k_cache = nullptr;
  void* v_cache = nullptr;
  const float* cos_sin = nullptr;             // [positions][rotary_dim/2][2]: reference.h makes it
  const std::int32_t* positions = nullptr;    // [tokens]
  const std::int32_t* sequences = nullptr;    // [tokens] row of the block table; null: token index
  const std::int32_t* block_table = nullptr;  // [sequences][max_blocks]
  int tokens = 0, q_heads = 0, rotary_dim = 0;
  std::int64_t q_stride = 0, kv_stride = 0;
  RopePairs pairs = RopePairs::kHalves;
  KvLayout kv;
};

// One query token a sequence attends to the first context[s] tokens of its cache; context 0 gives
// zeros. The context is cut at every kPartitionTokens-th position into parts computed by different
// CTAs and merged in position order by a second kernel: where a token falls depends on its position
// only. max_context is the host's bound on context[]; it sizes the grid and changes no bits.
// Limits: head_dim <= 256, q_heads a multiple of kv_heads, sequences <= 65535. Fast for head_dim 64
// and 128 with 16-byte aligned caches; everything else takes a generic path (whole-call choice).
struct PagedAttentionArgs {
  Element element = Element::kFloat32;
  const void* q = nullptr;  // [sequences][q_heads][head_dim]
  const void* k_cache = nullptr;
  const void* v_cache = nullptr;
  const std::int32_t* block_table = nullptr;  // [sequences][max_blocks]
  const std::int32_t* context = nullptr;      // [sequences] tokens to attend to
  void* out = nullptr;                        // [sequences][q_heads][head_dim]
  void* workspace = nullptr;                  // paged_attention_workspace_bytes(), 16-byte aligned
  int sequences = 0, q_heads = 0, max_context = 0;
  float scale = 0;  // usually 1/sqrt(head_dim)
  KvLayout kv;
};
// Tokens of one part. Smaller fills a GPU sooner at batch 1 (8 KV heads and 8k tokens: 128 CTAs),
// larger makes the merge cheaper (at 512 with 8 queries a KV head in bf16 it reads 1/64 of what the
// parts do).
inline constexpr int kPartitionTokens = 512;
inline constexpr int kMaxHeadDim = 256;
std::size_t paged_attention_workspace_bytes(const PagedAttentionArgs& args);

// token[r] = the lowest id among the greatest logits of row r. NaN counts as minus infinity.
struct ArgmaxArgs {
  Element element = Element::kFloat32;
  const void* logits = nullptr;   // [rows][stride]
  std::int32_t* token = nullptr;  // [rows]
  void* workspace = nullptr;      // argmax_workspace_bytes()
  int rows = 0, vocabulary = 0;
  std::int64_t stride = 0;
};
inline constexpr int kArgmaxChunk = 8192;  // logits a CTA of the first stage takes
std::size_t argmax_workspace_bytes(const ArgmaxArgs& args);

// One side's operators and its memory.
struct DecodeOps {
  const char* side;  // "simt" or "gpu"
  const char* (*rms_norm)(const RmsNormArgs&, const LaunchOptions&);
  const char* (*rope)(const RopeArgs&, const LaunchOptions&);
  const char* (*paged_attention)(const PagedAttentionArgs&, const LaunchOptions&);
  const char* (*swiglu)(const SwigluArgs&, const LaunchOptions&);
  const char* (*argmax)(const ArgmaxArgs&, const LaunchOptions&);
  void* (*allocate)(std::size_t bytes);  // nullptr: out of memory. At least 256-byte aligned
  void (*release)(void*);
  const char* (*copy_in)(void* to, const void* from_host, std::size_t bytes);  // waits
  const char* (*copy_out)(void* to_host, const void* from,
                          std::size_t bytes);  // waits for launches
  double (*memory_bytes_per_s)();              // memory clock times bus width; 0: unknown
};

const DecodeOps& simt_ops();
// nullptr when there is nothing to run on; no_gpu_reason() then says why.
const DecodeOps* gpu_ops();
const char* no_gpu_reason();

}  // namespace orrery::kernels
