// CpuExecutor: a Llama-family forward pass on one thread, over a paged KV cache in float32.
// It computes in submit(); poll() hands out the result.
//
// Every sum has one order, stated in cpu/kernels.h, that depends on nothing but the row itself, and
// only IEEE basic operations are used: logits have the same bits alone or batched, on SSE2, AVX2 or
// AVX-512, under GCC and Clang.
#pragma once
#include <memory>

#include "runtime/engine/executor.h"
#include "runtime/engine/model.h"

namespace orrery::engine {

enum class CpuLevel : std::uint8_t { kBaseline, kAvx2, kAvx512, kBest };

struct CpuExecutorSettings {
  std::int64_t block_tokens = 16;
  std::int64_t kv_blocks = 0;
  std::int64_t max_batched_tokens = 256;
  std::vector<TokenId> never_sampled;  // sorted, from the model's card
  CpuLevel level = CpuLevel::kBest;    // throws Unsupported when this machine lacks it
};

bool cpu_has(CpuLevel level);

std::unique_ptr<Executor> make_cpu_executor(std::shared_ptr<const Weights> weights,
                                            const CpuExecutorSettings& settings);

}  // namespace orrery::engine
