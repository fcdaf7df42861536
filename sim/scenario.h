// Scenario files (orrery.scenario.v1): a fleet, a workload, an SLO and variants of them, as people
// write them. docs/scenarios.md lists the keys; scenarios/schema/scenario.v1.json is their schema.
// A variant is a JSON merge patch (RFC 7396) over the scenario: objects merge, null removes, an
// array is replaced whole. An error in a variant is reported at its place in the patch.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/json.h"
#include "sim/catalog_files.h"
#include "sim/pool_builder.h"
#include "sim/simulate.h"

namespace orrery::sim {

// A pool that cannot be had: an answer, not an error.
struct Misfit {
  std::string pool, model, instance_type, kind, why;
  std::optional<cost::MemoryPlan> memory;
};

struct Scenario {
  std::string name;     // of the file's scenario
  std::string variant;  // empty: the scenario as it stands
  FleetSpec fleet;
  WorkloadSpec workload;
  Slo slo;
  std::vector<Misfit> misfits;  // when not empty, the fleet cannot be simulated
};

// What the command line says over the file.
struct ScenarioOverrides {
  std::string trace;  // empty: as in the file
  std::uint64_t seed = 1;
  bool tolerate = false;           // a trace with many bad rows
  std::string time_unit = "auto";  // of the trace's numeric timestamps; auto: as in the file
};

// One text with its variants. Paths in it are relative to its folder.
class ScenarioFile {
 public:
  explicit ScenarioFile(const std::string& path);
  std::vector<std::string> variants() const;  // names, in order; without the scenario itself
  // The scenario as it stands, or one of its variants. Throws InputError and Unsupported.
  Scenario read(const Catalog& catalog, const ScenarioOverrides& overrides,
                const std::string& variant = "") const;

 private:
  Scenario read_document(const std::shared_ptr<const JsonDocument>& document,
                         const Catalog& catalog, const ScenarioOverrides& overrides) const;

  std::string path_, folder_;
  std::shared_ptr<const JsonDocument> document_;
};

// Parts that plan requests share. `folder`: what paths are relative to.
// {"ttft_ms": {"p99": 500}, "itl_ms": {...}, "goodput": 0.99}
Slo read_slo(const JsonView& v);
// {"trace": PATH | "synth": SPEC or PATH, "mode", "concurrency", "rate_scale", "idle_gap_cap_s",
//  "max_requests", "default_max_tokens", "prefix_hit_rate", "time_unit", "tolerate"}; a trace on
//  the command line comes first.
WorkloadSpec read_workload(const JsonView& v, const std::string& folder,
                           const ScenarioOverrides& overrides);

}  // namespace orrery::sim
