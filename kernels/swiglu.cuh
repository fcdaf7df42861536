// SwiGLU on a fused gate-and-up row: element by element, a pack a thread; nothing is reduced.
#pragma once
#include "kernels/decode_ops.h"
#include "kernels/dispatch.h"
#include "kernels/simt/simt.h"
#include "runtime/base/check.h"

namespace orrery::kernels::KERNEL_SIDE {

inline constexpr int kSwigluThreads = 128;

// silu(g) = g / (1 + 2^(-g * log2 e)). For large negative g the power is infinite and the result
// -0.
__device__ __forceinline__ float silu(float g) {
  return g / (1.0f + exp2f(g * -1.44269504088896341f));
}

// Grid: rows * chunks, where chunks CTAs cover one row.
template <class T>
__global__ void __launch_bounds__(kSwigluThreads)
    swiglu_kernel(const T* gate_up, T* out, int dim, int chunks, bool packs) {
  constexpr int kPack = Pack<T>::kSize;
  const std::int64_t row = static_cast<int>(blockIdx.x) / chunks;
  const int chunk = static_cast<int>(blockIdx.x) % chunks;
  const int i = (chunk * kSwigluThreads + static_cast<int>(threadIdx.x)) * kPack;
  if (i >= dim) return;
  const T* gate = gate_up + row * 2 * dim + i;
  const Pack<T> g = load_some(gate, dim - i, packs);
  const Pack<T> u = load_some(gate + dim, dim - i, packs);
  Pack<T> result;
  SIMT_UNROLL
  for (int j = 0; j < kPack; ++j)
    result.v[j] = from_float<T>(silu(to_float(g.v[j])) * to_float(u.v[j]));
  store_some(out + row * dim + i, result, dim - i, packs);
}

inline const char* swiglu(const SwigluArgs& a, const LaunchOptions& options) {
  ORRERY_CHECK(a.rows >= 0 && a.dim > 0);
  if (a.rows == 0) return nullptr;
  return with_element(a.element, [&]<class T>() {
    const auto* in = static_cast<const T*>(a.gate_up);
    auto* out = static_cast<T*>(a.out);
    const int chunks = ceil_div(a.dim, kSwigluThreads * Pack<T>::kSize);
    const simt::Config config{
        dim3{static_cast<unsigned>(a.rows) * static_cast<unsigned>(chunks), 1, 1},
        dim3{kSwigluThreads, 1, 1}, 0, options.order_seed, options.stream};
    return simt::launch(config, swiglu_kernel<T>, in, out, a.dim, chunks,
                        packable(in, a.dim) && packable(out, a.dim));
  });
}

}  // namespace orrery::kernels::KERNEL_SIDE
