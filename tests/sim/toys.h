// Toys for tests of the twin: step models with round numbers, and workloads from lists of rows.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/simulate.h"
#include "traces/trace.h"

namespace orrery::sim {

// Every step takes fixed_ps, and more for each prompt token and each token of context.
class ToyModel : public cost::StepModel {
 public:
  ToyModel(std::int64_t fixed_ps, std::int64_t per_prefill_token_ps, std::int64_t per_context_ps)
      : fixed_(fixed_ps), per_token_(per_prefill_token_ps), per_context_(per_context_ps) {}
  cost::StepTime time(const cost::StepShape& s) const override {
    return {fixed_ + per_token_ * s.prefill_tokens, per_context_};
  }
  std::vector<cost::OperatorTime> breakdown(const cost::StepShape& s) const override {
    const auto total = static_cast<double>(cost::repetition_ps(time(s), s, 0));
    return {{"toy", total, 0, 0, total}};
  }
  std::string source() const override { return "derived: a toy for tests"; }

 private:
  std::int64_t fixed_, per_token_, per_context_;
};

inline PoolSpec toy_pool(std::shared_ptr<const cost::StepModel> model, std::int64_t kv_blocks,
                         int replicas = 1) {
  PoolSpec pool;
  pool.name = "main", pool.model = "toy", pool.instance_type = "toy-machine";
  pool.replicas = replicas;
  pool.settings.kv_blocks = Blocks(kv_blocks);
  pool.step_model = std::move(model);
  pool.usd_per_hour_per_replica = 3.6;
  return pool;
}

class ListSource : public traces::RequestSource {
 public:
  explicit ListSource(std::vector<traces::TraceRequest> rows) : rows_(std::move(rows)) {}
  bool next(traces::TraceRequest& request) override {
    if (at_ == rows_.size()) return false;
    request = rows_[at_];
    request.row = static_cast<std::int64_t>(at_++);
    return true;
  }

 private:
  std::vector<traces::TraceRequest> rows_;
  std::size_t at_ = 0;
};

inline WorkloadSpec list_workload(std::vector<traces::TraceRequest> rows) {
  WorkloadSpec spec;
  spec.open = [rows = std::move(rows)] { return std::make_unique<ListSource>(rows); };
  return spec;
}

inline traces::TraceRequest row(double arrival_s, std::int64_t input, std::int64_t output) {
  traces::TraceRequest r;
  r.arrival = Duration(static_cast<std::int64_t>(arrival_s * 1e9 + 0.5));
  r.input_tokens = input, r.output_tokens = output;
  return r;
}

// The summary without what depends on this machine or on how the run was driven.
inline std::string comparable(const Summary& summary) {
  Json json = summary.json;
  for (const char* key : {"wall_s", "events", "requests_per_wall_s", "peak_rss_bytes"})
    json["sim"].erase(key);
  return json.dump(1);
}

constexpr std::int64_t kMs = 1'000'000'000;  // picoseconds

}  // namespace orrery::sim
