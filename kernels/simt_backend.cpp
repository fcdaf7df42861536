// The kernels on the CPU, one fiber a CUDA thread (simt/README.md). For tests.
#include <cstring>
#include <new>

#include "kernels/argmax.cuh"
#include "kernels/paged_attention.cuh"
#include "kernels/rms_norm.cuh"
#include "kernels/rope.cuh"
#include "kernels/swiglu.cuh"

namespace orrery::kernels {

const DecodeOps& simt_ops() {
  static constexpr std::align_val_t kAlignment{256};
  static const DecodeOps ops{
      "simt",
      on_cpu::rms_norm,
      on_cpu::rope,
      on_cpu::paged_attention,
      on_cpu::swiglu,
      on_cpu::argmax,
      [](std::size_t bytes) -> void* { return ::operator new(bytes, kAlignment, std::nothrow); },
      [](void* p) { ::operator delete(p, kAlignment); },
      [](void* to, const void* from, std::size_t bytes) -> const char* {
        std::memcpy(to, from, bytes);
        return nullptr;
      },
      [](void* to, const void* from, std::size_t bytes) -> const char* {
        std::memcpy(to, from, bytes);
        return nullptr;
      },
      [] { return 0.0; }};
  return ops;
}

}  // namespace orrery::kernels
