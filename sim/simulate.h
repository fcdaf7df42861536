// One run of the twin: a fleet, a workload, a seed -> a summary. Deterministic: same inputs, same
// bytes, whether decode steps are taken one by one or as macro-steps.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/json.h"
#include "runtime/base/sketch.h"
#include "runtime/base/units.h"
#include "runtime/policy/cost/step_model.h"
#include "runtime/policy/instance.h"
#include "runtime/policy/router/router.h"
#include "traces/trace.h"

namespace orrery::sim {

// Replicas of one kind.
struct PoolSpec {
  std::string name, model, instance_type;
  int replicas = 1;
  policy::InstanceSettings settings;  // kv_blocks filled in from the memory plan
  std::shared_ptr<const cost::StepModel> step_model;
  double usd_per_hour_per_replica = 0;  // NaN: price unknown
  double gpus_per_replica = 1;
};

struct FleetSpec {
  std::vector<PoolSpec> pools;
  policy::RouterSettings router;
};

enum class LoadMode : std::uint8_t { kOpen, kClosed, kSessions };

struct WorkloadSpec {
  // Opens the requests anew for each run.
  std::function<std::unique_ptr<traces::RequestSource>()> open;
  LoadMode mode = LoadMode::kOpen;
  // Closed loop: clients. Open loop: most requests in flight (0: no limit; with a limit the load
  // is not open loop any more, and the summary says so).
  std::int64_t concurrency = 0;
  double rate_scale = 1;  // 2: arrivals twice as fast (arrival times are divided by it)
  std::optional<Duration> idle_gap_cap;  // in trace time, before scaling
  std::optional<std::int64_t> max_requests;
  Tokens default_max_tokens{0};  // where a row gives none; 0: as much as fits
  // Of prompts in a trace that does not say what they share: this part of each, in whole blocks, is
  // one common prefix. Refused with a trace that says it. Unset: nothing is shared.
  std::optional<double> prefix_hit_rate;
  std::string description;           // what the trace is, for the summary
  bool time_unit_confirmed = false;  // the user gave it, so an odd rate is not questioned
};

// A percentile target: "ttft_ms" p99 <= 500.
struct SloTarget {
  std::string metric;      // ttft_ms, itl_ms, tpot_ms, e2e_ms
  double percentile = 99;  // 50, 90, 95, 99, 99.9, …; 100: max. Nearest rank
  double limit_ms = 0;
};
struct Slo {
  std::vector<SloTarget> targets;
  double goodput_fraction = 0;  // at least this share of all submitted requests within every limit
};

// How one request went; names are empty where the trace gives none. Times that never came are
// Time::never().
struct RequestOutcome {
  std::uint64_t id = 0;     // 1, 2, 3, … in trace order
  std::string_view status;  // completed, rejected, cancelled, unfinished
  std::string_view reason;  // stop, length; or why it was not answered
  std::string_view model, tenant, app, pool;
  std::int64_t instance = -1;
  Time arrival = Time::never(), scheduled = Time::never(), first_token = Time::never(),
       end = Time::never();
  std::int64_t input_tokens = 0, cached_tokens = 0, output_tokens = 0, preemptions = 0;
};

struct RunOptions {
  std::uint64_t seed = 1;
  bool macro_steps = true;  // off: decode steps one by one; same results, slower
  // Empty: only the running hash. Else router.journal, instance-N.journal and fleet.json, which
  // names them, are written there.
  std::string journal_dir;
  std::function<void(const RequestOutcome&)> on_request;  // in the order in which they end
  // Every token as it comes, in each instance's own order. Slow; for tests.
  std::function<void(RequestId, Time)> on_token;
  std::function<bool()> stop;  // polled; true: stop early, the summary says so
  std::function<void(double virtual_s, std::int64_t completed)> progress;
  // Planner: give up once the SLO cannot be met any more (the summary's slo_impossible is set).
  const Slo* give_up_when_slo_impossible = nullptr;
};

struct LatencyMetric {
  QuantileSketch ns;
  Json to_json() const;  // {mean, p50, p90, p95, p99, max} in milliseconds, count
};

struct Summary {
  std::int64_t submitted = 0, completed = 0, rejected = 0, failed = 0, cancelled = 0,
               unfinished = 0;
  LatencyMetric ttft, itl, tpot, e2e, queue;
  std::int64_t input_tokens = 0, output_tokens = 0;  // of completed requests
  std::int64_t good_requests = 0;                    // within every SLO limit
  bool saturated = false;
  std::string saturated_why;
  bool slo_impossible = false, stopped_early = false;
  std::int64_t iterations = 0, events = 0;
  double virtual_s = 0, wall_s = 0;
  std::uint64_t journal_hash = 0;
  std::map<std::string, std::int64_t> reject_reasons;
  // Of each target of the Slo given: values over the limit, among how many. Exact.
  struct TargetCount {
    SloTarget target;
    std::int64_t over = 0, of = 0;
  };
  std::vector<TargetCount> target_counts;
  // Of a workload that is a trace file: bad rows and what was odd, of what was read of it.
  std::optional<traces::ReadReport> trace_rows;
  std::vector<std::string> warnings;  // about the workload
  Json json;                          // the whole, in the shape that every measured result shares
};

// Throws InputError for a fleet or workload that cannot run.
Summary simulate(const FleetSpec& fleet, const WorkloadSpec& workload, const Slo& slo,
                 const RunOptions& options);

// Whether the summary meets the SLO, and the first target that it misses.
struct SloVerdict {
  bool met = true;
  std::string missed;  // "ttft_ms p99 612.0 > 500"
};
SloVerdict judge(const Summary& summary, const Slo& slo);

}  // namespace orrery::sim
