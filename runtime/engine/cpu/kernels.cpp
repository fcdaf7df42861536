// See kernels.h. Compiled several times with different -m flags and ORRERY_KERNEL_* set; includes
// nothing whose inline functions could leak into code for lesser machines.
#include "runtime/engine/cpu/kernels.h"

#if defined(ORRERY_KERNEL_AVX512)
#define ORRERY_KERNEL_FUNCTION kernels_avx512
#define ORRERY_KERNEL_NAME "avx512"
#define ORRERY_KERNEL_WIDTH 16
#elif defined(ORRERY_KERNEL_AVX2)
#define ORRERY_KERNEL_FUNCTION kernels_avx2
#define ORRERY_KERNEL_NAME "avx2"
#define ORRERY_KERNEL_WIDTH 8
#else
#define ORRERY_KERNEL_FUNCTION kernels_baseline
#define ORRERY_KERNEL_NAME "baseline"
#define ORRERY_KERNEL_WIDTH 4
#endif

namespace orrery::engine::cpu {
namespace {

using i64 = std::int64_t;
constexpr int kWidth = ORRERY_KERNEL_WIDTH;  // floats in a register
constexpr int kParts = kLanes / kWidth;      // registers that hold 16 lanes
typedef float VecF __attribute__((vector_size(kWidth * 4)));
typedef std::int32_t VecI __attribute__((vector_size(kWidth * 4)));
typedef float VecFu __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

#define ORRERY_INLINE static inline __attribute__((always_inline))

ORRERY_INLINE VecF load(const float* p) { return *reinterpret_cast<const VecFu*>(p); }
ORRERY_INLINE void store(float* p, VecF v) { *reinterpret_cast<VecFu*>(p) = v; }
// x - 0 is x in every case, -0 too, so this is a plain broadcast.
ORRERY_INLINE VecF splat(float x) { return x - VecF{}; }
ORRERY_INLINE VecF select(VecI mask, VecF yes, VecF no) {
  return reinterpret_cast<VecF>((mask & reinterpret_cast<VecI>(yes)) |
                                (~mask & reinterpret_cast<VecI>(no)));
}
ORRERY_INLINE VecF max(VecF a, VecF b) { return select(a > b, a, b); }
ORRERY_INLINE VecF min(VecF a, VecF b) { return select(a < b, a, b); }

// exp, relative error about 2e-7 for x in [-87, 88]; outside, the value at that end.
// Cody-Waite reduction and a degree-6 Taylor polynomial on |r| <= ln(2)/2.
ORRERY_INLINE VecF exp(VecF x) {
  x = min(max(x, splat(-87.0F)), splat(88.0F));
  constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to the nearest integer
  const VecF n = (x * 1.44269504F + kMagic) - kMagic;
  const VecF r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  VecF p = splat(1.0F / 720);
  p = p * r + (1.0F / 120);
  p = p * r + (1.0F / 24);
  p = p * r + (1.0F / 6);
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const VecI exponent = (__builtin_convertvector(n, VecI) + 127) << 23;
  return p * reinterpret_cast<VecF>(exponent);
}

// The 16 lanes of a partial sum, halves added.
ORRERY_INLINE float sum_lanes(const VecF* parts) {
  float lane[kLanes];
  for (int i = 0; i < kParts; ++i) store(lane + i * kWidth, parts[i]);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

// R rows times P panels: the accumulators stay in registers while the weights stream by once.
template <int R, int P>
void tile(const float* w, i64 in, const float* x, i64 x_stride, float* y, i64 y_stride) {
  VecF acc[R][P * kParts] = {};
  const i64 panel = in * kLanes;
  for (i64 k = 0; k < in; ++k) {
    VecF weight[P * kParts];
    for (int p = 0; p < P; ++p)
      for (int i = 0; i < kParts; ++i)
        weight[p * kParts + i] = load(w + p * panel + k * kLanes + i * kWidth);
    for (int r = 0; r < R; ++r) {
      const VecF value = splat(x[r * x_stride + k]);
      for (int i = 0; i < P * kParts; ++i) acc[r][i] += weight[i] * value;
    }
  }
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < P * kParts; ++i) store(y + r * y_stride + i * kWidth, acc[r][i]);
}

using TileFunction = void (*)(const float*, i64, const float*, i64, float*, i64);
// Rows of a tile that fit the registers: 32 of 16 floats, 16 of 8 (a panel takes two), or 16 of 4.
constexpr int kMaxRows = kWidth == 16 ? 8 : (kWidth == 8 ? 4 : 2);

template <int P>
TileFunction tile_of(i64 rows) {
  switch (rows) {
    case 1:
      return tile<1, P>;
    case 2:
      return tile<2, P>;
    case 3:
      return tile<3, P>;
    case 4:
      return tile<4, P>;
    case 5:
      return tile<5, P>;
    case 6:
      return tile<6, P>;
    case 7:
      return tile<7, P>;
    default:
      return tile<8, P>;
  }
}

// Panels [begin, end) in groups of P; each group is used for all rows before the next is read.
template <int P>
i64 panels(const PackedMatrix& w, i64 begin, i64 end, const float* x, i64 x_stride, i64 rows,
           float* y, i64 y_stride) {
  const i64 blocks = (rows + kMaxRows - 1) / kMaxRows;
  i64 at = begin;
  for (; at + P <= end; at += P) {
    i64 row = 0;
    for (i64 b = 0; b < blocks; ++b) {  // blocks of nearly equal size
      const i64 count = (rows - row) / (blocks - b);
      tile_of<P>(count)(w.data + at * w.in * kLanes, w.in, x + row * x_stride, x_stride,
                        y + row * y_stride + at * kLanes, y_stride);
      row += count;
    }
  }
  return at;
}

void matmul(const PackedMatrix& w, const float* x, i64 x_stride, i64 rows, float* y, i64 y_stride) {
  const i64 count = padded(w.out) / kLanes;
  // Few rows need several panels at a time to hide the latency of the additions.
  constexpr int kMany = kWidth == 4 ? 2 : 4;
  constexpr int kSome = kWidth == 16 ? 2 : 1;
  i64 at = 0;
  if (rows <= kMaxRows / 4 || rows == 1)
    at = panels<kMany>(w, at, count, x, x_stride, rows, y, y_stride);
  at = panels<kSome>(w, at, count, x, x_stride, rows, y, y_stride);
  if constexpr (kSome > 1) panels<1>(w, at, count, x, x_stride, rows, y, y_stride);
}

ORRERY_INLINE float square_root(float x) { return __builtin_sqrtf(x); }

void rms_norm(const float* x, const float* weight, i64 n, float epsilon, float* y) {
  float lane[kLanes] = {};
  i64 i = 0;
  VecF parts[kParts] = {};
  for (; i + kLanes <= n; i += kLanes)
    for (int p = 0; p < kParts; ++p) {
      const VecF v = load(x + i + p * kWidth);
      parts[p] += v * v;
    }
  for (int p = 0; p < kParts; ++p) store(lane + p * kWidth, parts[p]);
  for (i64 j = 0; i + j < n; ++j) lane[j] += x[i + j] * x[i + j];
  for (int p = 0; p < kParts; ++p) parts[p] = load(lane + p * kWidth);
  const float inverse = 1.0F / square_root(sum_lanes(parts) / static_cast<float>(n) + epsilon);
  for (i = 0; i < n; ++i) y[i] = weight[i] * (inverse * x[i]);
}

// Query heads that are computed together, so that what they share of the cache is loaded once.
constexpr int kMaxGroup = kWidth == 4 ? 2 : 4;
// Blocks of 16 values of a head that are summed together.
constexpr int kChunks = kWidth == 16 ? 2 : 1;

// Scaled scores of G query heads against the first `count` positions of a block. Up to 15 lanes
// behind them are written too: the next block's scores, or the tail, overwrite them.
template <int G>
void block_scores(const AttentionRow& a, const float* q, const float* k, const float* next,
                  i64 count, float* scores) {
  const i64 stride = padded(a.block_tokens);
  for (i64 t = 0; t < count; t += kLanes) {
    VecF acc[G][kParts] = {};
    for (i64 d = 0; d < a.head_dim; ++d) {
      __builtin_prefetch(next + d * stride + t);
      VecF key[kParts];
      for (int p = 0; p < kParts; ++p) key[p] = load(k + d * stride + t + p * kWidth);
      for (int g = 0; g < G; ++g)
        for (int p = 0; p < kParts; ++p) acc[g][p] += key[p] * splat(q[g * a.head_dim + d]);
    }
    for (int g = 0; g < G; ++g)
      for (int p = 0; p < kParts; ++p)
        store(scores + g * a.scores_stride + t + p * kWidth, acc[g][p] * a.scale);
  }
}

// Adds `count` positions of one block to the sums of G heads, C chunks of each.
template <int G, int C>
void block_values(const AttentionRow& a, const float* v, const float* next, i64 count,
                  const float* weights, float* sums) {
  const i64 stride = padded(a.head_dim);
  VecF acc[G][C * kParts];
  for (int g = 0; g < G; ++g)
    for (int i = 0; i < C * kParts; ++i) acc[g][i] = load(sums + g * stride + i * kWidth);
  for (i64 t = 0; t < count; ++t) {
    __builtin_prefetch(next + t * stride);
    VecF value[C * kParts];
    for (int i = 0; i < C * kParts; ++i) value[i] = load(v + t * stride + i * kWidth);
    for (int g = 0; g < G; ++g) {
      const VecF weight = splat(weights[g * a.scores_stride + t]);
      for (int i = 0; i < C * kParts; ++i) acc[g][i] += value[i] * weight;
    }
  }
  for (int g = 0; g < G; ++g)
    for (int i = 0; i < C * kParts; ++i) store(sums + g * stride + i * kWidth, acc[g][i]);
}

// Scores of one head, complete: they become weights not yet divided by their sum; its inverse comes
// back.
float normalise(float* scores, i64 context) {
  const float lowest = scores[0];
  for (i64 i = context; i < padded(context); ++i) scores[i] = lowest;
  VecF most[kParts];
  for (int p = 0; p < kParts; ++p) most[p] = splat(lowest);
  for (i64 i = 0; i < context; i += kLanes)
    for (int p = 0; p < kParts; ++p) most[p] = max(load(scores + i + p * kWidth), most[p]);
  float best = lowest;
  for (int p = 0; p < kParts; ++p)
    for (int i = 0; i < kWidth; ++i) best = most[p][i] > best ? most[p][i] : best;
  for (i64 i = 0; i < context; i += kWidth) store(scores + i, exp(load(scores + i) - splat(best)));
  for (i64 i = context; i < padded(context); ++i) scores[i] = 0.0F;
  VecF sum[kParts] = {};
  for (i64 i = 0; i < context; i += kLanes)
    for (int p = 0; p < kParts; ++p) sum[p] += load(scores + i + p * kWidth);
  return 1.0F / sum_lanes(sum);
}

// Calls function(head, G) for the query heads of each KV head in groups of at most kMaxGroup.
template <class F>
ORRERY_INLINE void for_groups(const AttentionRow& a, i64 kv_head, F function) {
  const i64 group = a.heads / a.kv_heads;
  for (i64 h = kv_head * group, left = group; left > 0;) {
    const i64 now = left < kMaxGroup ? left : kMaxGroup;
    function(h, now);
    h += now, left -= now;
  }
}

void scores_pass(const AttentionRow& a, i64 b, i64 blocks) {
  const i64 head_floats = a.head_dim * padded(a.block_tokens);
  const float* k = a.k_pool + static_cast<i64>(a.blocks[b]) * a.kv_heads * head_floats;
  const i64 after = b + 1 < blocks ? b + 1 : b;
  const float* next = a.k_pool + static_cast<i64>(a.blocks[after]) * a.kv_heads * head_floats;
  const i64 left = a.context - b * a.block_tokens;
  const i64 here = left < a.block_tokens ? left : a.block_tokens;
  for (i64 kv = 0; kv < a.kv_heads; ++kv, k += head_floats, next += head_floats)
    for_groups(a, kv, [&](i64 h, i64 count) {
      const float* q = a.q + h * a.head_dim;
      float* scores = a.scores + h * a.scores_stride + b * a.block_tokens;
      switch (count) {
        case 1:
          return block_scores<1>(a, q, k, next, here, scores);
        case 2:
          return block_scores<2>(a, q, k, next, here, scores);
        case 3:
          return block_scores<3>(a, q, k, next, here, scores);
        default:
          return block_scores<4>(a, q, k, next, here, scores);
      }
    });
}

template <int C>
void values_of_chunks(const AttentionRow& a, i64 h, i64 heads, const float* v, const float* next,
                      i64 count, const float* weights, i64 from) {
  float* sums = a.sums + h * padded(a.head_dim) + from;
  switch (heads) {
    case 1:
      return block_values<1, C>(a, v + from, next + from, count, weights, sums);
    case 2:
      return block_values<2, C>(a, v + from, next + from, count, weights, sums);
    case 3:
      return block_values<3, C>(a, v + from, next + from, count, weights, sums);
    default:
      return block_values<4, C>(a, v + from, next + from, count, weights, sums);
  }
}

void values_pass(const AttentionRow& a, i64 b, i64 blocks) {
  const i64 stride = padded(a.head_dim), head_floats = a.block_tokens * stride;
  const float* v = a.v_pool + static_cast<i64>(a.blocks[b]) * a.kv_heads * head_floats;
  const i64 after = b + 1 < blocks ? b + 1 : b;
  const float* next = a.v_pool + static_cast<i64>(a.blocks[after]) * a.kv_heads * head_floats;
  const i64 left = a.context - b * a.block_tokens;
  const i64 count = left < a.block_tokens ? left : a.block_tokens;
  for (i64 kv = 0; kv < a.kv_heads; ++kv, v += head_floats, next += head_floats)
    for_groups(a, kv, [&](i64 h, i64 heads) {
      const float* weights = a.scores + h * a.scores_stride + b * a.block_tokens;
      i64 from = 0;
      for (; from + kChunks * kLanes <= stride; from += kChunks * kLanes)
        values_of_chunks<kChunks>(a, h, heads, v, next, count, weights, from);
      for (; from < stride; from += kLanes)
        values_of_chunks<1>(a, h, heads, v, next, count, weights, from);
    });
}

void attention(const AttentionRow& a) {
  const i64 blocks = (a.context + a.block_tokens - 1) / a.block_tokens;
  const i64 stride = padded(a.head_dim);
  for (i64 b = 0; b < blocks; ++b) scores_pass(a, b, blocks);
  for (i64 i = 0; i < a.heads * stride; ++i) a.sums[i] = 0.0F;
  // The inverse of a head's sum waits in the last place of its scores, behind every context.
  for (i64 h = 0; h < a.heads; ++h) {
    float* scores = a.scores + h * a.scores_stride;
    const float inverse = normalise(scores, a.context);
    scores[a.scores_stride - 1] = inverse;
  }
  for (i64 b = 0; b < blocks; ++b) values_pass(a, b, blocks);
  for (i64 h = 0; h < a.heads; ++h) {
    const float inverse = a.scores[(h + 1) * a.scores_stride - 1];
    for (i64 d = 0; d < a.head_dim; ++d)
      a.out[h * a.head_dim + d] = a.sums[h * stride + d] * inverse;
  }
}

void swiglu(const float* gate, const float* up, i64 n, float* y) {
  for (i64 i = 0; i < n; i += kWidth) {
    const VecF g = load(gate + i);
    store(y + i, g / (exp(-g) + 1.0F) * load(up + i));
  }
}

void add(float* x, const float* y, i64 n) {
  for (i64 i = 0; i < n; i += kWidth) store(x + i, load(x + i) + load(y + i));
}

}  // namespace

const Kernels& ORRERY_KERNEL_FUNCTION() {
  static constexpr Kernels kernels = {ORRERY_KERNEL_NAME, matmul, rms_norm, attention, swiglu, add};
  return kernels;
}

}  // namespace orrery::engine::cpu
