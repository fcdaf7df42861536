// The launch functions that nvcc builds, for the backend table of gpu_backend.cpp. Split over two
// .cu files so that they compile side by side.
#pragma once
#include "kernels/decode_ops.h"

namespace orrery::kernels::gpu_entry {

const char* rms_norm(const RmsNormArgs&, const LaunchOptions&);
const char* rope(const RopeArgs&, const LaunchOptions&);
const char* paged_attention(const PagedAttentionArgs&, const LaunchOptions&);
const char* swiglu(const SwigluArgs&, const LaunchOptions&);
const char* argmax(const ArgmaxArgs&, const LaunchOptions&);

}  // namespace orrery::kernels::gpu_entry
