// What the gateway counts, and its Prometheus text. orrery_ families always; on demand also, under
// the names of vLLM, those that mean the same, so that dashboards and autoscalers written for it
// work.
// One thread (the io_context's) counts and renders: no locks.
//
// Law: a histogram's buckets are cumulative, its +Inf bucket equals its count.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/policy/request.h"

namespace orrery::serve {

class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}
  void observe(double value, std::uint64_t times = 1);
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }
  // Lines `name_bucket{labels,le="…"} n`, `name_sum`, `name_count`. labels: `a="b",c="d"`.
  void render(std::string& out, std::string_view name, std::string_view labels) const;

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

// Counts for one model as its clients see it.
struct ModelMetrics {
  ModelMetrics();
  std::uint64_t prompt_tokens = 0, generation_tokens = 0, cached_tokens = 0;
  std::uint64_t success_stop = 0, success_length = 0, aborted = 0, failed = 0, rejected = 0;
  Histogram time_to_first_token, inter_token_latency, e2e_latency;
};

// What a worker last said of itself, for the per-worker gauges.
struct WorkerGauge {
  std::string worker, model;
  bool ready = false;
  double report_age_s = 0;
  std::int64_t running = 0, waiting = 0, blocks_total = 0, blocks_free = 0;
  std::int64_t preemptions = 0, prefix_query_tokens = 0, prefix_hit_tokens = 0, steps = 0;
  std::int64_t ledger_requests = 0, restarts = 0, block_tokens = 0;
};

class Metrics {
 public:
  ModelMetrics& model(const std::string& name);
  void count_http(std::string_view handler, std::string_view method, int status);
  std::string render(std::span<const WorkerGauge> workers, std::size_t connections,
                     std::size_t in_flight, double uptime_s, bool vllm_names) const;

 private:
  std::map<std::string, ModelMetrics> models_;
  std::map<std::string, std::uint64_t> http_;  // by rendered labels
};

// Value of a label with \, " and newline escaped.
std::string label_value(std::string_view text);

}  // namespace orrery::serve
