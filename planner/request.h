// A plan request (orrery.request.v1): what must be served, how well, and on what it may run.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/json.h"
#include "runtime/policy/router/router.h"
#include "sim/simulate.h"
#include "traces/trace.h"

namespace orrery::planner {

// An instance type that may be used; how many at most; its price where the user knows better.
struct InstanceChoice {
  std::string type;
  std::optional<std::int64_t> max_instances;
  std::optional<double> usd_per_hour;
};

struct PlanRequest {
  std::string name;
  std::string model;            // catalogue id, or "embedded"
  std::string precision;        // of the weights; empty: as published
  std::string kv_precision;     // empty: the activations' type
  std::string trace;            // path; relative ones are taken from the request's folder
  traces::ReadOptions reading;  // how its rows are read
  double rate_scale = 1;
  std::optional<std::int64_t> max_requests;
  sim::Slo slo;
  Json slo_json;                               // as asked, for the plan
  std::vector<InstanceChoice> instance_types;  // never empty after reading
  std::vector<int> tp;  // allowed; empty: every power of two an instance holds
  std::int64_t max_replicas = 512;
  std::optional<double> max_usd_per_hour;
  // The fleet is sized on the first part of the trace and shown the rest afterwards.
  double sizing_fraction = 0.7;
  double time_limit_s = 600;
  policy::RouterSettings router;
  std::optional<JsonView> settings;  // scheduler and KV settings that differ from the defaults
};

// Throws InputError (unknown key, no target, unknown metric, …) and Unsupported for constraints
// that are understood but not planned for yet.
PlanRequest read_plan_request(const JsonView& v, const std::string& folder);

}  // namespace orrery::planner
