// plan.json (orrery.plan.v1): what the planner chose and the deployer makes so. Desired state,
// what was predicted for it, why the others fell out, and everything needed to repeat it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/json.h"

namespace orrery {

struct PlanPool {
  std::string name = "main";
  std::string model;  // catalogue id, or "embedded"
  std::string role = "unified";
  std::string instance_type;  // "cpu-local", "g6.xlarge", …
  int tp = 1;
  int replicas = 1;
  double usd_per_hour = 0;  // whole pool
  Json settings;  // scheduler and KV settings as policy::to_json(InstanceSettings) writes them
};

struct Plan {
  std::vector<PlanPool> pools;
  std::string router_policy = "least_load";
  Json predicted;  // summary shape (ttft_ms{...}, itl_ms{...}, throughput, cost, …)
  Json slo;        // as asked
  double usd_per_hour = 0;
  Json alternatives;  // ranked: [{instance_type, tp, replicas, usd_per_hour, predicted…}]
  Json rejected;      // [{instance_type, tp, reason, …}]
  Json later;         // figures for a later part of the trace
  Json repeat;        // request, trace name and hash, seed, version, profile hashes
};

Plan read_plan(const JsonView& v);  // throws InputError
Json to_json(const Plan& plan);     // keys in fixed order: same plan, same bytes

}  // namespace orrery
