// A candidate: one way to build a replica of the model (instance type x tensor parallelism), before
// anybody asked how many. What can be said without a simulation is said here: whether it fits,
// floors of its latencies, and a bound below which no number of replicas can serve the tokens.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/request.h"
#include "sim/simulate.h"
#include "traces/trace.h"

namespace orrery::planner {

struct Candidate {
  std::string instance_type;
  int tp = 1;
  std::int64_t replicas_per_instance = 1;
  std::optional<std::int64_t> max_instances;
  double usd_per_instance_hour = 0;
  sim::PoolSpec pool;  // prototype with one replica
  std::string label() const;
  std::int64_t instances_for(std::int64_t replicas) const;
  double usd_per_hour(std::int64_t replicas) const;
};

// Why a type fell out. `kind` is stable: does_not_fit, tp_not_legal, no_price, fractional_gpu,
// not_calibrated, ttft_floor, itl_floor, e2e_floor, never_fits, over_limit, dearer, slo_missed,
// time_limit.
struct Rejection {
  std::string instance_type;
  int tp = 1;
  std::string kind;
  std::string reason;  // a sentence with the numbers
};

// What the trace asks of any fleet. Sorted copies for order statistics.
struct Demand {
  std::vector<traces::TraceRequest> requests;
  std::vector<std::int64_t>
      uncached_prompt_tokens;  // per request, with an endless cache in front of one fleet
  double span_s = 0;
  std::int64_t input_tokens = 0, output_tokens = 0;
};
Demand characterise(std::vector<traces::TraceRequest> requests);

// Latency of one request alone on an idle replica: prefill in chunks, then decode. A floor for any
// number of replicas, since nothing runs faster in company. Milliseconds.
struct Floor {
  double ttft_ms = 0, itl_ms = 0, e2e_ms = 0;
};
Floor floor_of(const sim::PoolSpec& pool, std::int64_t uncached_prompt, std::int64_t prompt,
               std::int64_t output);

// The first SLO target that not even an idle replica meets, or nothing.
std::optional<Rejection> check_floors(const Candidate& candidate, const Demand& demand,
                                      const sim::Slo& slo);

// Work conservation: the least time a replica must compute for the share of requests that the SLO
// speaks of, over the time there is. No smaller number of replicas can serve them. At least 1.
std::int64_t replica_bound(const Candidate& candidate, const Demand& demand, const sim::Slo& slo);

}  // namespace orrery::planner
