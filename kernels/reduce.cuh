// Sums over the lanes of a warp and the warps of a block, in one fixed order: a butterfly over
// lanes (the same tree for every lane, as float addition commutes), then warps from first to last.
#pragma once
#include "kernels/simt/simt.h"

namespace orrery::kernels::KERNEL_SIDE {

inline constexpr unsigned kFullMask = 0xffffffffu;

// Sum over groups of kLanes neighbouring lanes; every lane of the group gets it.
template <int kLanes>
__device__ __forceinline__ float lane_sum(float v) {
  SIMT_UNROLL
  for (int step = kLanes / 2; step > 0; step /= 2) v += __shfl_xor_sync(kFullMask, v, step);
  return v;
}

// Sum over the block, a whole number of warps. `partial` is shared memory of 32 floats.
__device__ __forceinline__ float block_sum(float v, float* partial) {
  v = lane_sum<32>(v);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  float total = 0.0f;
  for (unsigned w = 0; w < blockDim.x / 32; ++w) total += partial[w];
  return total;
}

}  // namespace orrery::kernels::KERNEL_SIDE
