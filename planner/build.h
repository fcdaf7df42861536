// From a request to a plan: candidates from the catalogue, the search, and what plan.json says.
#pragma once
#include <string>
#include <vector>

#include "planner/search.h"
#include "runtime/base/plan.h"
#include "sim/catalog_files.h"

namespace orrery::planner {

// Every (instance type, tp) that the request allows and that can hold the model; the others with
// their reason.
struct Candidates {
  std::vector<Candidate> able;
  std::vector<Rejection> rejected;
};
Candidates enumerate(const PlanRequest& request, const sim::Catalog& catalog);

// The part of the trace to size on, and the rest.
struct SplitTrace {
  std::vector<traces::TraceRequest> sizing, later;
  std::string name;
  std::uint64_t hash = 0;        // of all rows, for the plan's "repeat"
  traces::ReadReport report;     // what was odd or bad about the file
  bool has_prefix_data = false;  // block ids or session histories are given
};
SplitTrace load_trace(const PlanRequest& request);

struct PlanOutcome {
  bool feasible = false;
  Plan plan;  // when feasible
  SearchResult search;
  sim::Summary later;  // the chosen fleet on the later part
  bool has_later = false;
  sim::Summary half_cached;      // the chosen fleet if half of each prompt were cached, where the
  bool has_half_cached = false;  // trace says nothing of prefixes
};
PlanOutcome make_plan(const PlanRequest& request, const sim::Catalog& catalog,
                      const SplitTrace& trace, const SearchOptions& options);

}  // namespace orrery::planner
