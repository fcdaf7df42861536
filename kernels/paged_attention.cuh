// Decode attention over the paged KV cache with grouped queries and an online softmax.
//
// A CTA computes one part (kPartitionTokens positions) of one sequence for one KV head and up to
// kHeads of its query heads, so K and V are read once for the whole group (a group larger than
// kHeads takes several CTAs, whose second read hits L2). Lanes: kLanes neighbouring lanes hold one
// token's head, 16 bytes each; a warp holds kTokens tokens at once and kUnroll such loads are in
// flight. Each group of kLanes lanes keeps its own running maximum, sum and weighted V, so the loop
// has no barrier and no exchange but the dot product's.
//
// The order of a row's reductions: position p belongs to part p / kPartitionTokens; in the part to
// warp, lane group and step by p's remainder; lane groups are merged in order, then parts in order.
// All of it follows from the position, the element type and the model's shape, nothing from the
// batch.
#pragma once
#include "kernels/decode_ops.h"
#include "kernels/dispatch.h"
#include "kernels/reduce.cuh"
#include "runtime/base/check.h"

namespace orrery::kernels::KERNEL_SIDE {

inline constexpr int kAttentionWarps = 4, kAttentionThreads = 32 * kAttentionWarps;

// Which lane holds which elements of a head. kDim 0: any dim up to kMaxHeadDim, element by element.
template <class T, int kDim>
struct HeadLayout {
  static constexpr bool kPacks = kDim != 0;
  static constexpr int kPerLane = kPacks ? Pack<T>::kSize : kMaxHeadDim / 32;
  static constexpr int kLanes = kPacks ? kDim / kPerLane : 32;
  static constexpr int kTokens = 32 / kLanes;                // tokens a warp holds at once
  static constexpr int kStates = kAttentionWarps * kTokens;  // softmax states of a CTA
  struct Part {
    T v[kPerLane];
  };
  __device__ static int element(int lane, int i) {
    return kPacks ? lane % kLanes * kPerLane + i : i * 32 + lane;
  }
  // This lane's part of the head at `head`.
  __device__ __forceinline__ static Part load(const T* head, int lane, int dim) {
    Part part{};
    if constexpr (kPacks) {
      const Pack<T> pack = load_pack(head + lane % kLanes * kPerLane);
      SIMT_UNROLL
      for (int i = 0; i < kPerLane; ++i) part.v[i] = pack.v[i];
    } else {
      SIMT_UNROLL
      for (int i = 0; i < kPerLane; ++i)
        if (element(lane, i) < dim) part.v[i] = head[element(lane, i)];
    }
    return part;
  }
};

struct AttentionShape {
  int q_heads, kv_heads, dim, block_shift, max_blocks, max_parts, passes;
  float scale;  // times log2 e: the softmax runs in powers of two
};

// The softmax over some tokens, not yet divided: sum of 2^(score - top), weighted V.
template <int kHeads, int kPerLane>
struct Softmax {
  float top[kHeads], sum[kHeads], value[kHeads][kPerLane];
};

// Takes kUnroll tokens (score -inf: no token) of this lane group into its softmax.
template <int kUnroll, int kHeads, int kPerLane, class Part>
__device__ __forceinline__ void absorb(Softmax<kHeads, kPerLane>& s,
                                       const float (&score)[kUnroll][kHeads],
                                       const Part (&v)[kUnroll]) {
  SIMT_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    float top = s.top[h];
    SIMT_UNROLL
    for (int u = 0; u < kUnroll; ++u) top = fmaxf(top, score[u][h]);
    if (top == -INFINITY) {   // no token yet, and 2^(inf - inf) is not a number
      bool poisoned = false;  // but fmaxf drops NaN scores, and those must show in the result
      SIMT_UNROLL
      for (int u = 0; u < kUnroll; ++u) poisoned |= score[u][h] != score[u][h];
      if (!poisoned) continue;
    }
    const float keep = exp2f(s.top[h] - top);
    s.top[h] = top;
    s.sum[h] *= keep;
    SIMT_UNROLL
    for (int i = 0; i < kPerLane; ++i) s.value[h][i] *= keep;
    SIMT_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const float weight = exp2f(score[u][h] - top);
      s.sum[h] += weight;
      SIMT_UNROLL
      for (int i = 0; i < kPerLane; ++i)
        s.value[h][i] = fmaf(weight, to_float(v[u].v[i]), s.value[h][i]);
    }
  }
}

// This lane's part of the queries, scaled, and softmaxes over no token.
template <class Layout, int kHeads, class T>
__device__ __forceinline__ void load_queries(const T* q, int heads, int lane, int dim, float scale,
                                             float (&query)[kHeads][Layout::kPerLane],
                                             Softmax<kHeads, Layout::kPerLane>& soft) {
  SIMT_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    // A head beyond the group's end computes the last one again and is not written.
    const typename Layout::Part mine =
        Layout::load(q + static_cast<std::int64_t>(h < heads ? h : heads - 1) * dim, lane, dim);
    soft.top[h] = -INFINITY;
    soft.sum[h] = 0.0f;
    SIMT_UNROLL
    for (int i = 0; i < Layout::kPerLane; ++i) {
      query[h][i] = to_float(mine.v[i]) * scale;
      soft.value[h][i] = 0.0f;
    }
  }
}

// Scores of kUnroll tokens against each query head; -inf where `live` says there is no token.
template <class Layout, int kUnroll, int kHeads>
__device__ __forceinline__ void score_tokens(const float (&query)[kHeads][Layout::kPerLane],
                                             const typename Layout::Part (&k)[kUnroll],
                                             const bool (&live)[kUnroll],
                                             float (&score)[kUnroll][kHeads]) {
  SIMT_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    SIMT_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      float dot = 0.0f;
      SIMT_UNROLL
      for (int i = 0; i < Layout::kPerLane; ++i) dot = fmaf(query[h][i], to_float(k[u].v[i]), dot);
      dot = lane_sum<Layout::kLanes>(dot);
      score[u][h] = live[u] ? dot : -INFINITY;
    }
  }
}

// This lane group's softmaxes as records (value[dim], top, sum) in shared memory, for merge().
template <class Layout, int kHeads>
__device__ __forceinline__ void store_state(float* states,
                                            const Softmax<kHeads, Layout::kPerLane>& soft,
                                            int state, int lane, int dim) {
  SIMT_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    float* mine = states + (h * Layout::kStates + state) * (dim + 2);
    SIMT_UNROLL
    for (int i = 0; i < Layout::kPerLane; ++i)
      if (Layout::element(lane, i) < dim) mine[Layout::element(lane, i)] = soft.value[h][i];
    if (lane % Layout::kLanes == 0) {
      mine[dim] = soft.top[h];
      mine[dim + 1] = soft.sum[h];
    }
  }
}

// Element d of n softmaxes merged in order; record: value[dim], top, sum. `stride` floats apart.
struct Merged {
  float top, sum, value;
};
__device__ __forceinline__ Merged merge(const float* records, int n, int stride, int dim, int d) {
  Merged m{-INFINITY, 0.0f, 0.0f};
  for (int i = 0; i < n; ++i) m.top = fmaxf(m.top, records[i * stride + dim]);
  if (m.top == -INFINITY) return m;
  for (int i = 0; i < n; ++i) {
    const float* r = records + i * stride;
    const float keep = exp2f(r[dim] - m.top);
    m.sum = fmaf(r[dim + 1], keep, m.sum);
    m.value = fmaf(r[d], keep, m.value);
  }
  return m;
}

// Grid (max_parts, kv_heads * passes, sequences). Dynamic shared memory: kStates * kHeads * (dim +
// 2) floats. partials: [sequences][q_heads][max_parts][dim + 2]; unused where a context has one
// part.
template <class T, int kDim, int kHeads>
__global__ void __launch_bounds__(kAttentionThreads)
    paged_attention_kernel(const T* q, const T* k_cache, const T* v_cache,
                           const std::int32_t* block_table, const std::int32_t* context, T* out,
                           float* partials, AttentionShape s) {
  using Layout = HeadLayout<T, kDim>;
  using Part = typename Layout::Part;
  constexpr int kPerLane = Layout::kPerLane, kTokens = Layout::kTokens;
  constexpr int kUnroll = kHeads >= 8 ? 2 : 4;  // 8 heads already hold 128 registers of q and V
  constexpr int kStep = kTokens * kUnroll;
  SIMT_DYNAMIC_SHARED(float, states);
  __shared__ std::int32_t blocks[kPartitionTokens];

  const int tid = static_cast<int>(threadIdx.x), lane = tid % 32, warp = tid / 32;
  const int dim = kDim != 0 ? kDim : s.dim;
  const int part = static_cast<int>(blockIdx.x);
  const int kv_head = static_cast<int>(blockIdx.y) / s.passes;
  const int group = s.q_heads / s.kv_heads, done = static_cast<int>(blockIdx.y) % s.passes * kHeads;
  const int heads = group - done < kHeads ? group - done : kHeads;
  const std::int64_t seq = blockIdx.z;
  const std::int64_t first_head = seq * s.q_heads + kv_head * group + done;  // row of q and out
  const int length = context[seq], begin = part * kPartitionTokens;
  const int end = length - begin < kPartitionTokens ? length : begin + kPartitionTokens;
  if (begin >= length) {
    for (int i = tid; length <= 0 && part == 0 && i < heads * dim; i += kAttentionThreads)
      out[first_head * dim + i] = from_float<T>(0.0f);
    return;
  }
  const int first_block = begin >> s.block_shift;
  for (int i = tid; i <= ((end - 1) >> s.block_shift) - first_block; i += kAttentionThreads)
    blocks[i] = block_table[seq * s.max_blocks + first_block + i];

  float query[kHeads][kPerLane];
  Softmax<kHeads, kPerLane> soft;
  load_queries<Layout>(q + first_head * dim, heads, lane, dim, s.scale, query, soft);
  __syncthreads();

  for (int base = begin + warp * kStep; base < end; base += kAttentionWarps * kStep) {
    Part k[kUnroll], v[kUnroll];
    bool live[kUnroll];
    SIMT_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const int t = base + u * kTokens + lane / Layout::kLanes;
      live[u] = t < end;
      // Past the end the last token is read again, so that no branch keeps the loads apart.
      const int at = live[u] ? t : end - 1;
      const std::int64_t block = blocks[(at >> s.block_shift) - first_block];
      const int slot = at & ((1 << s.block_shift) - 1);
      const std::int64_t head = (((block * s.kv_heads + kv_head) << s.block_shift) + slot) *
                                static_cast<std::int64_t>(dim);
      k[u] = Layout::load(k_cache + head, lane, dim);
      v[u] = Layout::load(v_cache + head, lane, dim);
    }
    SIMT_UNROLL
    for (int u = 0; u < kUnroll; ++u)
      if (!live[u]) v[u] = Part{};  // its weight is 0, but 0 times infinity is not
    float score[kUnroll][kHeads];
    score_tokens<Layout>(query, k, live, score);
    absorb(soft, score, v);
  }

  const int record = dim + 2;
  store_state<Layout>(states, soft, warp * kTokens + lane / Layout::kLanes, lane, dim);
  __syncthreads();
  for (int i = tid; i < heads * dim; i += kAttentionThreads) {
    const int h = i / dim, d = i % dim;
    const Merged m = merge(states + h * Layout::kStates * record, Layout::kStates, record, dim, d);
    if (length <= kPartitionTokens) {
      out[first_head * dim + i] = from_float<T>(m.value / m.sum);
      continue;
    }
    float* partial = partials + ((first_head + h) * s.max_parts + part) * record;
    partial[d] = m.value;
    if (d == 0) {
      partial[dim] = m.top;
      partial[dim + 1] = m.sum;
    }
  }
}

// Merges the parts of each (sequence, head) that has several, in position order. Grid (heads,
// seqs).
template <class T>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_merge_kernel(const float* partials, const std::int32_t* context, T* out, int dim,
                           int max_parts) {
  const int length = context[blockIdx.y];
  if (length <= kPartitionTokens) return;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.y) * gridDim.x + static_cast<std::int64_t>(blockIdx.x);
  const float* mine = partials + row * max_parts * (dim + 2);
  for (int d = static_cast<int>(threadIdx.x); d < dim; d += kAttentionThreads) {
    const Merged m = merge(mine, ceil_div(length, kPartitionTokens), dim + 2, dim, d);
    out[row * dim + d] = from_float<T>(m.value / m.sum);
  }
}

template <class T, int kDim, int kHeads>
const char* launch_attention(const PagedAttentionArgs& a, const LaunchOptions& options) {
  const int group = a.q_heads / a.kv.kv_heads, parts = ceil_div(a.max_context, kPartitionTokens);
  AttentionShape s{a.q_heads,
                   a.kv.kv_heads,
                   a.kv.head_dim,
                   std::countr_zero(static_cast<unsigned>(a.kv.block_size)),
                   a.kv.max_blocks,
                   parts > 1 ? parts : 1,
                   ceil_div(group, kHeads),
                   a.scale * 1.44269504088896341f};
  const auto seqs = static_cast<unsigned>(a.sequences);
  const std::size_t shared = sizeof(float) * HeadLayout<T, kDim>::kStates * kHeads *
                             static_cast<std::size_t>(a.kv.head_dim + 2);
  auto* partials = static_cast<float*>(a.workspace);
  auto* out = static_cast<T*>(a.out);
  const char* error = simt::launch(
      {dim3{static_cast<unsigned>(s.max_parts), static_cast<unsigned>(s.kv_heads * s.passes), seqs},
       dim3{kAttentionThreads, 1, 1}, shared, options.order_seed, options.stream},
      paged_attention_kernel<T, kDim, kHeads>, static_cast<const T*>(a.q),
      static_cast<const T*>(a.k_cache), static_cast<const T*>(a.v_cache), a.block_table, a.context,
      out, partials, s);
  if (error != nullptr || s.max_parts == 1) return error;
  return simt::launch({dim3{static_cast<unsigned>(a.q_heads), seqs, 1},
                       dim3{kAttentionThreads, 1, 1}, 0, options.order_seed, options.stream},
                      attention_merge_kernel<T>, partials, a.context, out, s.dim, s.max_parts);
}

// Five shapes an element type: head_dim 64 and 128, each for groups up to 4 and larger, and the
// rest. The choice depends on the model's shape and the call's alignment, never on the batch.
inline const char* paged_attention(const PagedAttentionArgs& a, const LaunchOptions& options) {
  ORRERY_CHECK(a.sequences >= 0 && a.sequences <= 65535 && a.max_context >= 0);
  ORRERY_CHECK(a.kv.head_dim > 0 && a.kv.head_dim <= kMaxHeadDim);
  ORRERY_CHECK(a.kv.kv_heads > 0 && a.q_heads > 0 && a.q_heads % a.kv.kv_heads == 0);
  ORRERY_CHECK(a.kv.block_size > 0 && std::has_single_bit(static_cast<unsigned>(a.kv.block_size)));
  if (a.sequences == 0) return nullptr;
  return with_element(a.element, [&]<class T>() {
    const bool packs = packable(static_cast<const T*>(a.q), 0) &&
                       packable(static_cast<const T*>(a.k_cache), 0) &&
                       packable(static_cast<const T*>(a.v_cache), 0);
    const bool wide = a.q_heads / a.kv.kv_heads > 4;
    if (packs && a.kv.head_dim == 128)
      return wide ? launch_attention<T, 128, 8>(a, options)
                  : launch_attention<T, 128, 4>(a, options);
    if (packs && a.kv.head_dim == 64)
      return wide ? launch_attention<T, 64, 8>(a, options) : launch_attention<T, 64, 4>(a, options);
    return launch_attention<T, 0, 4>(a, options);
  });
}

}  // namespace orrery::kernels::KERNEL_SIDE
