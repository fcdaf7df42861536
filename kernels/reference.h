// The operators of decode_ops.h as plain loops: what the kernels are judged against. Real is the
// type of every sum, product and result: double for the oracle, float for a CPU that wants an
// answer. Order, in both: every sum runs from its first index to its last, one element at a time.
// Inputs are float (bf16 and fp16 convert exactly); rows are contiguous.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/decode_ops.h"

namespace orrery::kernels::reference {

template <class Real>
void rms_norm(std::span<const float> x, std::span<const float> weight, double eps,
              std::span<Real> y);

template <class Real>
void swiglu(std::span<const float> gate_up, std::span<Real> out);  // one row

// [positions][rotary_dim/2][2]: cos and sin of position * base^(-2i/rotary_dim), computed in
// double. A model that scales its frequencies makes its own table.
std::vector<float> rope_table(int positions, int rotary_dim, double base);

// One head at one position; cos_sin is the position's row of the table.
template <class Real>
void rope(std::span<const float> head, std::span<const float> cos_sin, RopePairs pairs,
          std::span<Real> out);

// One query head of one sequence over its paged cache: softmax with the maximum taken first.
template <class Real>
void paged_attention(std::span<const float> q, std::span<const float> k_cache,
                     std::span<const float> v_cache, std::span<const std::int32_t> blocks,
                     const KvLayout& kv, int kv_head, int context, double scale,
                     std::span<Real> out);

std::int32_t argmax(std::span<const float> logits);

// Index of element 0 of `kv_head` at `slot` of `block` in a cache of this layout.
std::size_t cache_index(const KvLayout& kv, std::int32_t block, int kv_head, int slot);

}  // namespace orrery::kernels::reference
