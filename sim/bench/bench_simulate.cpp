// Requests simulated a second, macro-steps against single steps, and the ratio of the two: the
// Azure 2023 conversation trace (needs ORRERY_SHARED) and a Poisson load of the same lengths, over
// four replicas of an 8B model on a large GPU.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "runtime/base/rng.h"
#include "sim/simulate.h"
#include "sim/workload.h"

namespace orrery::sim {
namespace {

// About an 8B model in 16 bits on an H100: 6 ms a step, 25 us a prompt token, 40 ns a token of KV.
class LargeGpu : public cost::StepModel {
 public:
  cost::StepTime time(const cost::StepShape& s) const override {
    return {6'000'000'000 + 25'000'000 * s.prefill_tokens, 40'000};
  }
  std::vector<cost::OperatorTime> breakdown(const cost::StepShape& s) const override {
    const auto total = static_cast<double>(cost::repetition_ps(time(s), s, 0));
    return {{"all", total, 0, 0, total}};
  }
  std::string source() const override { return "derived: round numbers for a benchmark"; }
};

FleetSpec fleet(int replicas) {
  PoolSpec pool;
  pool.name = "main", pool.model = "8b", pool.instance_type = "large";
  pool.replicas = replicas;
  pool.settings.kv_blocks = Blocks(27'000);
  pool.settings.max_running = 1024;
  pool.step_model = std::make_shared<LargeGpu>();
  return {{pool}, {}};
}

class Poisson : public traces::RequestSource {
 public:
  explicit Poisson(std::int64_t requests) : left_(requests) {}
  bool next(traces::TraceRequest& r) override {
    if (left_-- <= 0) return false;
    r = traces::TraceRequest{};
    at_ns_ += arrivals_.next_exponential() / 5.5 * 1e9;
    r.arrival = Duration(static_cast<std::int64_t>(at_ns_));
    r.input_tokens = 1 + static_cast<std::int64_t>(prompts_.next_exponential() * 1150);
    r.output_tokens = 1 + static_cast<std::int64_t>(answers_.next_exponential() * 210);
    return true;
  }

 private:
  std::int64_t left_;
  double at_ns_ = 0;
  RandomStream arrivals_ = RandomStream(1).fork("arrivals");
  RandomStream prompts_ = RandomStream(1).fork("prompts");
  RandomStream answers_ = RandomStream(1).fork("answers");
};

double single_rate = 0;  // of the run before

void measure(benchmark::State& state, const WorkloadSpec& workload) {
  RunOptions options;
  options.macro_steps = state.range(0) != 0;
  Summary summary;
  double wall = 0;
  for (auto _ : state) {
    summary = simulate(fleet(4), workload, {}, options);
    wall += summary.wall_s;
  }
  const double rate =
      static_cast<double>(summary.completed * static_cast<std::int64_t>(state.iterations())) / wall;
  state.counters["requests_per_s"] = rate;
  state.counters["iterations_per_s"] =
      rate * static_cast<double>(summary.iterations) / static_cast<double>(summary.completed);
  state.counters["events_per_request"] =
      static_cast<double>(summary.events) / static_cast<double>(summary.completed);
  if (options.macro_steps) {
    state.counters["times_single"] = rate / single_rate;
  } else {
    single_rate = rate;
  }
}

void poisson(benchmark::State& state) {
  WorkloadSpec workload;
  workload.open = [] { return std::make_unique<Poisson>(20'000); };
  measure(state, workload);
}
BENCHMARK(poisson)->ArgName("macro")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void azure_conversation(benchmark::State& state) {
  const char* shared = std::getenv("ORRERY_SHARED");
  const std::string path = std::string(shared != nullptr ? shared : "../shared") +
                           "/data/traces/azure2023/AzureLLMInferenceTrace_conv.csv";
  if (!std::filesystem::exists(path)) {
    state.SkipWithError(("no " + path + " (set ORRERY_SHARED)").c_str());
    return;
  }
  measure(state, trace_workload(path));
}
BENCHMARK(azure_conversation)->ArgName("macro")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery::sim

BENCHMARK_MAIN();
