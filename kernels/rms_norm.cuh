// RMSNorm, one CTA a row. Thread t sums the squares of packs t, t + threads, ... (each pack from
// its first element to its last), then block_sum. The number of threads comes from dim and the
// element type alone, so the order is the row's own; unaligned rows read the same packs element by
// element.
#pragma once
#include <algorithm>

#include "kernels/decode_ops.h"
#include "kernels/dispatch.h"
#include "kernels/reduce.cuh"
#include "runtime/base/check.h"

namespace orrery::kernels::KERNEL_SIDE {

template <class T>
__global__ void rms_norm_kernel(const T* x, const T* weight, T* y, int dim, std::int64_t x_stride,
                                std::int64_t y_stride, float eps, bool packs) {
  constexpr int kPack = Pack<T>::kSize;
  __shared__ float partial[32];
  const int first = static_cast<int>(threadIdx.x) * kPack;
  const int step = static_cast<int>(blockDim.x) * kPack;
  const T* row = x + static_cast<std::int64_t>(blockIdx.x) * x_stride;
  T* to = y + static_cast<std::int64_t>(blockIdx.x) * y_stride;
  float sum = 0.0f;
  for (int i = first; i < dim; i += step) {
    const Pack<T> in = load_some(row + i, dim - i, packs);
    SIMT_UNROLL
    for (int j = 0; j < kPack; ++j) sum = fmaf(to_float(in.v[j]), to_float(in.v[j]), sum);
  }
  const float mean = block_sum(sum, partial) / static_cast<float>(dim);
  const float scale = 1.0f / sqrtf(mean + eps);
  for (int i = first; i < dim; i += step) {
    const Pack<T> in = load_some(row + i, dim - i, packs);
    const Pack<T> w = load_some(weight + i, dim - i, packs);
    Pack<T> out;
    SIMT_UNROLL
    for (int j = 0; j < kPack; ++j)
      out.v[j] = from_float<T>(to_float(in.v[j]) * scale * to_float(w.v[j]));
    store_some(to + i, out, dim - i, packs);
  }
}

inline const char* rms_norm(const RmsNormArgs& a, const LaunchOptions& options) {
  ORRERY_CHECK(a.rows >= 0 && a.dim > 0);
  if (a.rows == 0) return nullptr;
  return with_element(a.element, [&]<class T>() {
    const auto* x = static_cast<const T*>(a.x);
    const auto* w = static_cast<const T*>(a.weight);
    auto* y = static_cast<T*>(a.y);
    const bool packs = packable(x, a.x_stride) && packable(w, 0) && packable(y, a.y_stride);
    // At most 512: with one pack a thread this covers dim 4096 in bf16, and four such CTAs fit an
    // SM.
    const int threads = std::min(512, ceil_div(ceil_div(a.dim, Pack<T>::kSize), 32) * 32);
    const simt::Config config{dim3{static_cast<unsigned>(a.rows), 1, 1},
                              dim3{static_cast<unsigned>(threads), 1, 1}, 0, options.order_seed,
                              options.stream};
    return simt::launch(config, rms_norm_kernel<T>, x, w, y, a.dim, a.x_stride, a.y_stride, a.eps,
                        packs);
  });
}

}  // namespace orrery::kernels::KERNEL_SIDE
