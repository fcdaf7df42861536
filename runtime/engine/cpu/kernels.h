// The arithmetic of a forward pass, compiled once for each instruction set and chosen at run time.
//
// Every result has one stated order of IEEE additions and multiplications (no fused ones, no libm),
// which depends on the row alone. So all versions give the same bits, and so does any batch:
//  * matmul: y = w0*x0 + w1*x1 + …, summed from the left, starting at +0;
//  * sums over a row (norm, softmax): 16 partial sums by index mod 16, then halves are added
//    (lane i + lane i+8, then +4, +2, +1);
//  * attention output: summed over positions from the first, starting at +0, then divided once.
// Lanes run across outputs, not along the sum: that is what makes this order fast.
#pragma once
#include <cstdint>

namespace orrery::engine::cpu {

inline constexpr std::int64_t kLanes = 16;  // rows of buffers and panels are padded to this
constexpr std::int64_t padded(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Matrix [out, in] in panels of 16 outputs: data[(panel*in + i)*16 + lane], absent outputs zero.
struct PackedMatrix {
  const float* data = nullptr;
  std::int64_t out = 0, in = 0;
};

// One row's attention over the paged cache of one layer. Blocks hold, for each KV head,
// K as [head_dim][padded(block_tokens)] and V as [block_tokens][padded(head_dim)]. A block is read
// once, from its start to its end, for all heads.
struct AttentionRow {
  const float* q = nullptr;  // [heads * head_dim]
  float* out = nullptr;      // [heads * head_dim]
  const float* k_pool = nullptr;
  const float* v_pool = nullptr;
  const std::uint32_t* blocks = nullptr;  // block table
  std::int64_t context = 0;               // positions attended: 0 .. context-1
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, block_tokens = 0;
  float scale = 0;
  float* scores = nullptr;         // scratch: heads * scores_stride
  std::int64_t scores_stride = 0;  // padded(longest context) + 16
  float* sums = nullptr;           // scratch: heads * padded(head_dim)
};

struct Kernels {
  const char* name;
  // y[r][o] for rows r, outputs o. Strides are multiples of 16; y's padding is written.
  void (*matmul)(const PackedMatrix& w, const float* x, std::int64_t x_stride, std::int64_t rows,
                 float* y, std::int64_t y_stride);
  void (*rms_norm)(const float* x, const float* weight, std::int64_t n, float epsilon, float* y);
  void (*attention)(const AttentionRow& row);
  void (*swiglu)(const float* gate, const float* up, std::int64_t n, float* y);  // n padded
  void (*add)(float* x, const float* y, std::int64_t n);                         // n padded
};

// Defined by kernels.cpp, compiled once for each.
const Kernels& kernels_baseline();  // x86-64 as it began, and every other machine
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();

}  // namespace orrery::engine::cpu
