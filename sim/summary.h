// Summary of a run, in the shape that every measured result shares (docs: the keys of `simulate
// --json`). What cannot be known stands as null: a price nobody gave, a hit rate of a trace
// without prefix data. No interval is given where nothing is random.
#pragma once
#include "sim/fleet_run.h"
#include "sim/simulate.h"

namespace orrery::sim {

Summary make_summary(FleetRun& run, const WorkloadSpec& workload, const RunOptions& options,
                     double wall_s);

}  // namespace orrery::sim
