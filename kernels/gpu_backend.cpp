// The kernels on the first CUDA device this process may use. No call here needs a driver to exist:
// on a machine without one gpu_ops() is nullptr and says why.
#include <cuda_runtime_api.h>

#include "kernels/gpu_entry.h"

namespace orrery::kernels {
namespace {

const char* text(cudaError_t e) { return e == cudaSuccess ? nullptr : cudaGetErrorString(e); }

const char* find_gpu() {
  int devices = 0;
  const cudaError_t e = cudaGetDeviceCount(&devices);
  if (e != cudaSuccess) return cudaGetErrorString(e);
  return devices == 0 ? "no CUDA device" : nullptr;
}

// Two transfers a clock of a bus so many bits wide: how data sheets arrive at their figure.
double memory_bytes_per_s() {
  int device = 0, khz = 0, bits = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device) != cudaSuccess)
    return 0;
  return 2.0 * khz * 1000 * bits / 8;
}

}  // namespace

const char* no_gpu_reason() {
  static const char* const reason = find_gpu();
  return reason;
}

const DecodeOps* gpu_ops() {
  static const DecodeOps ops{
      "gpu",
      gpu_entry::rms_norm,
      gpu_entry::rope,
      gpu_entry::paged_attention,
      gpu_entry::swiglu,
      gpu_entry::argmax,
      [](std::size_t bytes) -> void* {
        void* p = nullptr;
        return cudaMalloc(&p, bytes) == cudaSuccess ? p : nullptr;
      },
      [](void* p) { cudaFree(p); },
      [](void* to, const void* from, std::size_t bytes) {
        return text(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
      },
      [](void* to, const void* from, std::size_t bytes) {
        const cudaError_t e = cudaDeviceSynchronize();
        return text(e != cudaSuccess ? e : cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
      },
      memory_bytes_per_s};
  return no_gpu_reason() == nullptr ? &ops : nullptr;
}

}  // namespace orrery::kernels
