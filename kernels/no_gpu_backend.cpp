// Stands in for gpu_backend.cpp in a build without CUDA.
#include "kernels/decode_ops.h"

namespace orrery::kernels {

const DecodeOps* gpu_ops() { return nullptr; }
const char* no_gpu_reason() { return "this build has no CUDA (meson -Dcuda=enabled needs nvcc)"; }

}  // namespace orrery::kernels
