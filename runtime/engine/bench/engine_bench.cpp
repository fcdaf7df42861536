// Tokens a second of the embedded model on one core, prefill and decode, and the ratios that say
// how good that is: to a naive forward (row-major weights, one token at a time, the same sums) and
// to the two bounds of this core, reading the weights once a step and its additions.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include "runtime/base/rng.h"
#include "runtime/engine/cpu/cpu_executor.h"
#include "runtime/engine/model.h"
#include "runtime/engine/settings.h"
#include "runtime/host/process.h"

namespace orrery::engine {
namespace {

const Weights& weights() {
  static const auto made = load_weights(load_card("embedded"));
  return *made;
}

// Seconds of the fastest of several calls, in processor time.
template <class F>
double fastest(F function) {
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const Duration before = host::thread_cpu_time();
    function();
    best = std::min(best, to_seconds(host::thread_cpu_time() - before));
  }
  return best;
}

void naive_product(const std::vector<float>& m, std::size_t in, const float* x, float* y) {
  for (std::size_t o = 0; o * in < m.size(); ++o) {
    float sum = 0;
    for (std::size_t i = 0; i < in; ++i) sum += m[o * in + i] * x[i];
    y[o] = sum;
  }
}

// All matrix products of one token, as a first version would do them. Without attention and norms,
// so the ratio to it is on the safe side.
double naive_seconds_per_token() {
  static const double seconds = fastest([] {
    const Weights& w = weights();
    std::vector<float> x(2048, 0.5F), y(2048);
    const auto width = static_cast<std::size_t>(w.shape.width);
    for (const LayerWeights& l : w.layers) {
      for (const auto* m : {&l.wq, &l.wk, &l.wv, &l.wo, &l.gate, &l.up})
        naive_product(*m, width, x.data(), y.data());
      naive_product(l.down, static_cast<std::size_t>(w.shape.feed_forward), x.data(), y.data());
    }
    naive_product(w.head, width, x.data(), y.data());
    benchmark::DoNotOptimize(y.data());
  });
  return seconds;
}

// Reading as many bytes as the weights have, from huge pages as they lie in: the C library's search
// for a byte that is not there is as fast a reader as there is at hand.
double read_seconds() {
  static const double seconds = [] {
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    const auto size = static_cast<std::size_t>(weights().shape.parameters()) * sizeof(float);
    void* bytes = std::aligned_alloc(kHugePage, (size + kHugePage - 1) / kHugePage * kHugePage);
    ::madvise(bytes, size, MADV_HUGEPAGE);
    std::memset(bytes, 'x', size);
    const double best = fastest([&] { benchmark::DoNotOptimize(std::memchr(bytes, 'y', size)); });
    std::free(bytes);
    return best;
  }();
  return seconds;
}

// A step of `batch` requests that each compute `count` tokens after `context`.
void step(benchmark::State& state) {
  const std::int64_t batch = state.range(0), count = state.range(1), context = state.range(2);
  const policy::InstanceSettings s = default_embedded_settings();
  CpuExecutorSettings settings;
  settings.block_tokens = s.block_tokens.value(), settings.kv_blocks = s.kv_blocks.value();
  settings.max_batched_tokens = s.max_batched_tokens.value();
  const auto executor = make_cpu_executor(std::make_shared<const Weights>(weights()), settings);
  std::vector<TokenId> ids(static_cast<std::size_t>(count), 300);
  std::vector<BlockId> table;
  for (std::int64_t b = 0; b * settings.block_tokens < context + count; ++b)
    table.push_back(BlockId{static_cast<std::uint32_t>(b)});
  WorkItem item;
  item.first = context, item.tokens = ids, item.blocks = table, item.samples = true;
  const std::vector<WorkItem> items(static_cast<std::size_t>(batch), item);
  StepWork work;
  work.items = items;
  double best = 1e9;
  for (auto _ : state) {
    const Duration before = host::thread_cpu_time();
    executor->submit(work);
    benchmark::DoNotOptimize(executor->poll());
    best = std::min(best, to_seconds(host::thread_cpu_time() - before));
  }
  const auto tokens = static_cast<double>(batch * count);
  state.counters["tokens_per_s"] = tokens / best;
  state.counters["x_naive"] = naive_seconds_per_token() * tokens / best;
  state.counters["of_read_bound"] = read_seconds() / best;  // 1: a step takes one read of weights
  state.counters["gflop_per_s"] =
      2 * tokens * static_cast<double>(weights().shape.parameters()) / best * 1e-9;
}
BENCHMARK(step)
    ->ArgNames({"batch", "count", "context"})
    ->Args({1, 1, 128})
    ->Args({8, 1, 128})
    ->Args({16, 1, 128})
    ->Args({1, 1, 1000})
    ->Args({1, 256, 0})
    ->Args({1, 256, 512})
    ->Unit(benchmark::kMillisecond)
    ->MinTime(0.3);

}  // namespace
}  // namespace orrery::engine

BENCHMARK_MAIN();
