// Paged decode attention. On a GPU: bytes of K and V read a second, and that as a fraction of the
// memory's own figure. Without one it says so and times the float reference on one core instead.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/reference.h"
#include "runtime/base/rng.h"

namespace orrery::kernels {
namespace {

constexpr int kHeads = 32, kKvHeads = 8, kDim = 128, kBlock = 16;  // the shape of Llama 3 8B

// A cache of blocks in shuffled order, one row of the table a sequence.
struct Setup {
  KvLayout kv;
  std::vector<std::int32_t> table, context;
  std::size_t cache_elements;

  Setup(int sequences, int length) {
    kv = {kKvHeads, kBlock, kDim, (length + kBlock - 1) / kBlock};
    context.assign(static_cast<std::size_t>(sequences), length);
    table.resize(context.size() * static_cast<std::size_t>(kv.max_blocks));
    RandomStream random(1);
    for (std::size_t i = 0; i < table.size(); ++i) {
      table[i] = static_cast<std::int32_t>(i);
      std::swap(table[i], table[random.next_below(i + 1)]);
    }
    cache_elements = reference::cache_index(kv, static_cast<std::int32_t>(table.size()), 0, 0);
  }
  double kv_bytes(Element e) const {
    double tokens = 0;
    for (const auto c : context) tokens += c;
    return 2 * tokens * kKvHeads * kDim * static_cast<double>(element_bytes(e));
  }
};

// K and V bytes of one iteration over the seconds of all of them.
void report(benchmark::State& state, double bytes_over_total_s, double data_sheet) {
  const double rate = bytes_over_total_s * static_cast<double>(state.iterations());
  state.counters["GB_per_s"] = rate / 1e9;
  if (data_sheet > 0) state.counters["of_data_sheet"] = rate / data_sheet;
}

void on_gpu(benchmark::State& state, const DecodeOps& ops) {
  const auto sequences = static_cast<int>(state.range(0)),
             length = static_cast<int>(state.range(1));
  const Setup setup(sequences, length);
  std::vector<void*> owned;
  const auto place = [&](const void* from, std::size_t bytes) {
    owned.push_back(ops.allocate(bytes));
    if (owned.back() == nullptr || ops.copy_in(owned.back(), from, bytes) != nullptr)
      state.SkipWithError("out of GPU memory");
    return owned.back();
  };
  const std::vector<Bfloat16> values(setup.cache_elements, from_float<Bfloat16>(0.125f));
  const std::size_t rows = static_cast<std::size_t>(sequences) * kHeads * kDim;
  PagedAttentionArgs a;
  a.element = Element::kBfloat16, a.kv = setup.kv;
  a.sequences = sequences, a.q_heads = kHeads, a.max_context = length;
  a.scale = 1 / std::sqrt(static_cast<float>(kDim));
  a.k_cache = place(values.data(), values.size() * 2);
  a.v_cache = place(values.data(), values.size() * 2);
  a.q = place(values.data(), rows * 2);
  a.out = place(values.data(), rows * 2);
  a.block_table = static_cast<std::int32_t*>(place(setup.table.data(), setup.table.size() * 4));
  a.context = static_cast<std::int32_t*>(place(setup.context.data(), setup.context.size() * 4));
  const std::vector<char> scratch(paged_attention_workspace_bytes(a) + 1);
  a.workspace = place(scratch.data(), scratch.size());
  constexpr int kLaunches = 50;  // a wait: so that waiting costs little beside them
  std::uint16_t one = 0;
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) {
    for (int i = 0; i < kLaunches; ++i)
      if (const char* error = ops.paged_attention(a, {})) state.SkipWithError(error);
    ops.copy_out(&one, a.out, sizeof one);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  report(state, setup.kv_bytes(a.element) * kLaunches / elapsed.count(), ops.memory_bytes_per_s());
  for (void* p : owned) ops.release(p);
}

void reference_on_one_core(benchmark::State& state) {
  const auto length = static_cast<int>(state.range(0));
  const Setup setup(1, length);
  const std::vector<float> values(setup.cache_elements, 0.125f), q(kDim, 0.5f);
  std::vector<float> out(kDim);
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state)
    for (int h = 0; h < kHeads; ++h)
      reference::paged_attention<float>(q, values, values, setup.table, setup.kv,
                                        h / (kHeads / kKvHeads), length, 0.1, out);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  report(state, setup.kv_bytes(Element::kFloat32) / elapsed.count(), 0);
}

}  // namespace
}  // namespace orrery::kernels

int main(int argc, char** argv) {
  using namespace orrery::kernels;
  if (const DecodeOps* ops = gpu_ops()) {
    auto* bench =
        benchmark::RegisterBenchmark("paged_attention_bf16/sequences/context",
                                     [ops](benchmark::State& state) { on_gpu(state, *ops); });
    for (const int context : {1000, 8000, 64000})
      for (const int sequences : {1, 8, 64})
        if (context * sequences <= 600000) bench->Args({sequences, context});
    bench->UseRealTime();
  } else {
    std::printf("no GPU (%s): timing the CPU reference, float, one sequence, one core\n",
                no_gpu_reason());
    benchmark::RegisterBenchmark("attention_reference/context", reference_on_one_core)
        ->Arg(1000)
        ->Arg(8000)
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
