// nvcc's build of the attention kernels.
#include "kernels/gpu_entry.h"
#include "kernels/paged_attention.cuh"

namespace orrery::kernels::gpu_entry {

const char* paged_attention(const PagedAttentionArgs& a, const LaunchOptions& options) {
  return on_gpu::paged_attention(a, options);
}

}  // namespace orrery::kernels::gpu_entry
