// How long StepModel::time takes, against its slow twin: the breakdown operator by operator.
#include <vector>

#include <benchmark/benchmark.h>

#include "runtime/base/rng.h"
#include "runtime/policy/cost/step_model.h"

namespace orrery::cost {
namespace {

GpuSpec gpu() {
  GpuSpec g;
  g.id = "bench";
  g.memory_bandwidth_bytes_per_s = 3.35e12;
  g.dense_flops = {{"bf16", 989e12}};
  g.nvlink_bytes_per_s = 450e9;
  return g;
}

EngineProfile profile() {
  EngineProfile p;
  p.id = "bench";
  for (std::int64_t size = 8; size <= 512; size += 8) p.batch_sizes.push_back(size);
  p.all_reduce = {{8, 5, 0.75}};
  return p;
}

ModelSpec dense() {
  ModelSpec m;
  m.id = "dense";
  m.layers = 80;
  m.hidden = 8192;
  m.heads = 64;
  m.kv_heads = 8;
  m.head_dim = 128;
  m.intermediate = 28672;
  m.vocabulary = 128256;
  return m;
}

ModelSpec experts() {
  ModelSpec m = dense();
  m.id = "experts";
  m.experts = 128;
  m.experts_per_token = 8;
  m.expert_intermediate = 1536;
  m.moe_layers = m.layers;
  return m;
}

std::vector<StepShape> shapes() {
  RandomStream r = RandomStream(1).fork("bench");
  std::vector<StepShape> list(1024);
  for (StepShape& s : list) {
    s.decode_sequences = 1 + static_cast<std::int64_t>(r.next_below(256));
    s.decode_context = s.decode_sequences * 1000;
    s.tokens = s.sequences = s.sampled = s.decode_sequences;
    if (r.next_below(4) == 0) {
      s.prefill_tokens = s.prefill_context = 1 + static_cast<std::int64_t>(r.next_below(2048));
      s.prefill_pairs = s.prefill_tokens * (s.prefill_tokens + 1) / 2;
      s.tokens += s.prefill_tokens;
      ++s.sequences;
    }
  }
  return list;
}

template <class Measure>
void over_shapes(benchmark::State& state, const ModelSpec& m, Measure measure) {
  const auto model = make_roofline_model(m, gpu(), {8}, profile());
  const std::vector<StepShape> list = shapes();
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(measure(*model, list[i]));
    i = (i + 1) % list.size();
  }
  state.SetItemsProcessed(state.iterations());
}

void time_dense(benchmark::State& state) {
  over_shapes(state, dense(),
              [](const StepModel& m, const StepShape& s) { return m.time(s).fixed_ps; });
}
void time_experts(benchmark::State& state) {
  over_shapes(state, experts(),
              [](const StepModel& m, const StepShape& s) { return m.time(s).fixed_ps; });
}
void breakdown_dense(benchmark::State& state) {
  over_shapes(state, dense(), [](const StepModel& m, const StepShape& s) {
    double sum = 0;
    for (const OperatorTime& op : m.breakdown(s)) sum += op.total_ps;
    return sum;
  });
}

BENCHMARK(time_dense);
BENCHMARK(time_experts);
BENCHMARK(breakdown_dense);

}  // namespace
}  // namespace orrery::cost

BENCHMARK_MAIN();
