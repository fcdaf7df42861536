// Rotary embedding of q (in place) and of k into its KV slot, with v's copy: one CTA a token. Every
// output element has one fixed expression; nothing is reduced. Cosines and sines come from a table
// made once on the host in double, so that all sides and all batch shapes turn by the same angles.
#pragma once
#include "kernels/decode_ops.h"
#include "kernels/dispatch.h"
#include "kernels/simt/simt.h"
#include "runtime/base/check.h"

namespace orrery::kernels::KERNEL_SIDE {

inline constexpr int kRopeThreads = 128;

template <class T>
struct RopePointers {
  T* q;
  const T *k, *v;
  T *k_cache, *v_cache;
  const float* cos_sin;
  const std::int32_t *positions, *sequences, *block_table;
};
struct RopeShape {
  int q_heads, kv_heads, dim, rotary, block_size, max_blocks;
  std::int64_t q_stride, kv_stride;
  bool adjacent;
  bool packs;  // all of a head can be moved by packs, and so can each half of its turning part
};

// Turns (x, y) by the angle of (cos, sin).
template <class T>
__device__ __forceinline__ void turn(T& x, T& y, float cos, float sin) {
  const float a = to_float(x), b = to_float(y);
  x = from_float<T>(fmaf(a, cos, -(b * sin)));
  y = from_float<T>(fmaf(a, sin, b * cos));
}

// Head `from` to `to` (may be equal), the work of threads first, first + step, ...
template <class T>
__device__ void turn_head(const T* from, T* to, const float* cos_sin, const RopeShape& s,
                          int unit) {
  constexpr int kPack = Pack<T>::kSize;
  const int half = s.rotary / 2;
  if (s.packs) {  // unit: one pack of pairs, then the packs that do not turn
    const int turning = half / kPack;
    if (unit < turning) {
      const int j = unit * kPack;
      Pack<T> x = load_pack(from + j), y = load_pack(from + half + j);
      SIMT_UNROLL
      for (int i = 0; i < kPack; ++i)
        turn(x.v[i], y.v[i], cos_sin[2 * (j + i)], cos_sin[2 * (j + i) + 1]);
      store_pack(to + j, x);
      store_pack(to + half + j, y);
    } else {
      const int j = s.rotary + (unit - turning) * kPack;
      store_pack(to + j, load_pack(from + j));
    }
  } else if (unit < half) {  // unit: one pair, then single elements that do not turn
    const int i = s.adjacent ? 2 * unit : unit, j = s.adjacent ? i + 1 : unit + half;
    T x = from[i], y = from[j];
    turn(x, y, cos_sin[2 * unit], cos_sin[2 * unit + 1]);
    to[i] = x;
    to[j] = y;
  } else {
    to[unit + half] = from[unit + half];
  }
}

template <class T>
__global__ void __launch_bounds__(kRopeThreads) rope_kernel(RopePointers<T> p, RopeShape s) {
  constexpr int kPack = Pack<T>::kSize;
  const std::int64_t token = blockIdx.x;
  const int position = p.positions[token];
  if (position < 0) return;
  const std::int64_t sequence = p.sequences != nullptr ? p.sequences[token] : token;
  const std::int64_t block = p.block_table[sequence * s.max_blocks + position / s.block_size];
  const int slot = position % s.block_size;
  const float* cos_sin = p.cos_sin + static_cast<std::int64_t>(position) * s.rotary;
  const int width = s.packs ? kPack : 1;
  const int units = s.rotary / 2 / width + (s.dim - s.rotary) / width;  // of a turning head
  const int turning = (s.q_heads + s.kv_heads) * units;
  const int copy_units = s.dim / width;  // of a V head
  for (int i = static_cast<int>(threadIdx.x); i < turning + s.kv_heads * copy_units;
       i += kRopeThreads) {
    if (i < s.q_heads * units) {
      T* head = p.q + token * s.q_stride + i / units * s.dim;
      turn_head<T>(head, head, cos_sin, s, i % units);
      continue;
    }
    const bool is_k = i < turning;
    const int kv_head = is_k ? i / units - s.q_heads : (i - turning) / copy_units;
    const std::int64_t from = token * s.kv_stride + static_cast<std::int64_t>(kv_head) * s.dim;
    const std::int64_t to =
        ((block * s.kv_heads + kv_head) * s.block_size + slot) * static_cast<std::int64_t>(s.dim);
    if (is_k) {
      turn_head<T>(p.k + from, p.k_cache + to, cos_sin, s, i % units);
    } else {
      const int j = (i - turning) % copy_units * width;
      if (s.packs)
        store_pack(p.v_cache + to + j, load_pack(p.v + from + j));
      else
        p.v_cache[to + j] = p.v[from + j];
    }
  }
}

inline const char* rope(const RopeArgs& a, const LaunchOptions& options) {
  ORRERY_CHECK(a.tokens >= 0 && a.q_heads > 0 && a.kv.kv_heads > 0 && a.kv.block_size > 0);
  ORRERY_CHECK(a.rotary_dim >= 0 && a.rotary_dim % 2 == 0 && a.rotary_dim <= a.kv.head_dim);
  if (a.tokens == 0) return nullptr;
  return with_element(a.element, [&]<class T>() {
    const RopePointers<T> p{static_cast<T*>(a.q),
                            static_cast<const T*>(a.k),
                            static_cast<const T*>(a.v),
                            static_cast<T*>(a.k_cache),
                            static_cast<T*>(a.v_cache),
                            a.cos_sin,
                            a.positions,
                            a.sequences,
                            a.block_table};
    const bool packs = a.pairs == RopePairs::kHalves && a.rotary_dim / 2 % Pack<T>::kSize == 0 &&
                       packable(p.q, a.q_stride) && packable(p.k, a.kv_stride) &&
                       packable(p.v, a.kv_stride) && packable(p.k_cache, a.kv.head_dim) &&
                       packable(p.v_cache, a.kv.head_dim);
    const RopeShape shape{a.q_heads,    a.kv.kv_heads,   a.kv.head_dim,
                          a.rotary_dim, a.kv.block_size, a.kv.max_blocks,
                          a.q_stride,   a.kv_stride,     a.pairs == RopePairs::kAdjacent,
                          packs};
    const simt::Config config{dim3{static_cast<unsigned>(a.tokens), 1, 1}, dim3{kRopeThreads, 1, 1},
                              0, options.order_seed, options.stream};
    return simt::launch(config, rope_kernel<T>, p, shape);
  });
}

}  // namespace orrery::kernels::KERNEL_SIDE
