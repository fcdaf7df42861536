// From catalogue names to a replica that can be simulated: one place for scenarios and planner, so
// that what is simulated and what is planned are the same thing.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/json.h"
#include "runtime/policy/cost/memory_plan.h"
#include "sim/catalog_files.h"
#include "sim/simulate.h"

namespace orrery::sim {

// What is asked for. Empty strings: the catalogue's own choice.
struct ReplicaChoice {
  std::string model;      // catalogue id; for cpu-local the profile's model ("embedded")
  std::string precision;  // of the weights
  std::string kv_precision;
  std::string instance_type;
  std::string profile;  // engine profile id; empty: the one for the GPU
  int tp = 1;
  std::optional<JsonView> settings;  // keys as policy/settings.h; absent ones from defaults below
  std::optional<double> usd_per_instance_hour;
  std::string
      measured_profile;  // path of cpu-local's profile; empty: state_dir()/profiles/cpu-local.json
};

// A replica of a pool, or why there cannot be one.
struct ReplicaPlan {
  PoolSpec pool;  // one replica; usd_per_hour_per_replica is its share of an instance
  std::int64_t per_instance = 1;  // replicas that one instance holds
  std::optional<double> usd_per_instance_hour;
  std::optional<cost::MemoryPlan> memory;  // not for cpu-local
  // Empty when it can be had. kind: does_not_fit, tp_not_legal, fractional_gpu, not_modelled.
  std::string why_not_kind, why_not;
};

// Defaults: blocks of 16; 8192 batched tokens and 1024 sequences on GPUs of 70 GB and more, else
// 2048 and 256 (as vLLM's server); KV blocks from the memory plan; the model's context, at most the
// pool. Throws InputError for names that the catalogue does not have, and for cpu-local when this
// machine has not been measured.
ReplicaPlan plan_replica(const Catalog& catalog, const ReplicaChoice& choice);

}  // namespace orrery::sim
