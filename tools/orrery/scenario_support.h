// What simulate and whatif share: running a scenario with progress and Ctrl-C, and telling of a
// fleet that cannot be had.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/json.h"
#include "sim/scenario.h"
#include "sim/simulate.h"
#include "tools/orrery/command.h"

namespace orrery::cli {

// Runs it with progress on stderr; Ctrl-C stops within a second, the summary then says so.
sim::Summary run_scenario(const sim::Scenario& scenario, sim::RunOptions options,
                          const Globals& globals);

std::string title_of(const sim::Scenario& scenario);  // "name" or "name / variant"

// What reading the trace found, as label and text: rows and bad rows, what was handled, warnings.
// Empty for a workload that is no trace file.
std::vector<std::pair<std::string, std::string>> trace_facts(const sim::Summary& summary);

// A fleet that does not fit, with the memory of one GPU item by item.
Json misfits_json(const sim::Scenario& scenario);
void print_misfits(const sim::Scenario& scenario);

// {"targets": [...], "met": true} for the scenario's SLO; null when it has none.
Json slo_json(const sim::Summary& summary, const sim::Slo& slo);

}  // namespace orrery::cli
