// nvcc's build of the kernels that work on one row at a time.
#include "kernels/argmax.cuh"
#include "kernels/gpu_entry.h"
#include "kernels/rms_norm.cuh"
#include "kernels/rope.cuh"
#include "kernels/swiglu.cuh"

namespace orrery::kernels::gpu_entry {

const char* rms_norm(const RmsNormArgs& a, const LaunchOptions& options) {
  return on_gpu::rms_norm(a, options);
}
const char* rope(const RopeArgs& a, const LaunchOptions& options) {
  return on_gpu::rope(a, options);
}
const char* swiglu(const SwigluArgs& a, const LaunchOptions& options) {
  return on_gpu::swiglu(a, options);
}
const char* argmax(const ArgmaxArgs& a, const LaunchOptions& options) {
  return on_gpu::argmax(a, options);
}

}  // namespace orrery::kernels::gpu_entry
