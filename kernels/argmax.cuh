// Greedy sampling in two stages: a CTA takes the best of kArgmaxChunk logits, then one warp takes
// the best of a row's chunks, so that one row of a 128k vocabulary still occupies many SMs.
// "Better" is a total order (value, then lower id; NaN as minus infinity), hence any order gives
// the same answer.
#pragma once
#include "kernels/decode_ops.h"
#include "kernels/dispatch.h"
#include "kernels/reduce.cuh"
#include "runtime/base/check.h"

namespace orrery::kernels::KERNEL_SIDE {

inline constexpr int kArgmaxThreads = 256;

struct Best {  // argmax_workspace_bytes() knows its size
  float value;
  std::int32_t id;
};
__device__ __forceinline__ Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.id < a.id) ? b : a;
}
__device__ __forceinline__ Best warp_best(Best mine) {
  SIMT_UNROLL
  for (int step = 16; step > 0; step /= 2) {
    const float value = __shfl_xor_sync(kFullMask, mine.value, step);
    const std::int32_t id = __shfl_xor_sync(kFullMask, mine.id, step);
    mine = better(mine, {value, id});
  }
  return mine;
}
__device__ __forceinline__ Best nothing() { return {-INFINITY, 0x7fffffff}; }

// Grid (rows, chunks).
template <class T>
__global__ void __launch_bounds__(kArgmaxThreads)
    argmax_chunk_kernel(const T* logits, Best* best, int vocabulary, std::int64_t stride,
                        bool packs) {
  constexpr int kPack = Pack<T>::kSize;
  __shared__ Best partial[kArgmaxThreads / 32];
  const T* row = logits + static_cast<std::int64_t>(blockIdx.x) * stride;
  const int begin = static_cast<int>(blockIdx.y) * kArgmaxChunk;
  const int end = vocabulary - begin < kArgmaxChunk ? vocabulary : begin + kArgmaxChunk;
  Best mine = nothing();
  for (int i = begin + static_cast<int>(threadIdx.x) * kPack; i < end;
       i += kArgmaxThreads * kPack) {
    const Pack<T> in = load_some(row + i, end - i, packs);
    SIMT_UNROLL
    for (int j = 0; j < kPack; ++j) {
      const float value = to_float(in.v[j]);
      if (i + j < end) mine = better(mine, {value == value ? value : -INFINITY, i + j});
    }
  }
  mine = warp_best(mine);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kArgmaxThreads / 32; ++w) mine = better(mine, partial[w]);
  best[static_cast<std::int64_t>(blockIdx.x) * gridDim.y + blockIdx.y] = mine;
}

// Grid (rows), one warp.
template <class Token>
__global__ void argmax_row_kernel(const Best* best, Token* token, int chunks) {
  const Best* row = best + static_cast<std::int64_t>(blockIdx.x) * chunks;
  Best mine = nothing();
  for (int c = static_cast<int>(threadIdx.x); c < chunks; c += 32) mine = better(mine, row[c]);
  mine = warp_best(mine);
  if (threadIdx.x == 0) token[blockIdx.x] = mine.id;
}

inline const char* argmax(const ArgmaxArgs& a, const LaunchOptions& options) {
  ORRERY_CHECK(a.rows >= 0 && a.vocabulary > 0);
  if (a.rows == 0) return nullptr;
  const int chunks = ceil_div(a.vocabulary, kArgmaxChunk);
  auto* best = static_cast<Best*>(a.workspace);
  const auto rows = static_cast<unsigned>(a.rows);
  const char* error = with_element(a.element, [&]<class T>() {
    const auto* logits = static_cast<const T*>(a.logits);
    const simt::Config config{dim3{rows, static_cast<unsigned>(chunks), 1},
                              dim3{kArgmaxThreads, 1, 1}, 0, options.order_seed, options.stream};
    return simt::launch(config, argmax_chunk_kernel<T>, logits, best, a.vocabulary, a.stride,
                        packable(logits, a.stride));
  });
  if (error != nullptr) return error;
  return simt::launch({dim3{rows, 1, 1}, dim3{32, 1, 1}, 0, options.order_seed, options.stream},
                      argmax_row_kernel<std::int32_t>, best, a.token, chunks);
}

}  // namespace orrery::kernels::KERNEL_SIDE
