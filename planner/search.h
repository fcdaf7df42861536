// The search: for each candidate the smallest number of replicas that meets the SLO in the
// simulator, found from the bound upwards; then a ranking by cost. Every number of the answer was
// simulated: n passes, n - 1 fails.
// Same request, same trace, same seed: same plan, on one thread or many.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/candidate.h"
#include "sim/simulate.h"

namespace orrery::planner {

struct Trial {
  std::int64_t replicas = 0;
  bool met = false;
  std::string missed;  // first target missed
};

struct Sized {
  Candidate candidate;
  std::int64_t bound = 1;     // no fewer replicas can serve the tokens
  std::int64_t replicas = 0;  // the answer
  sim::Summary summary;       // at `replicas`
  std::string binds;          // what n - 1 misses, or "one replica is enough"
  std::vector<Trial> trials;  // in the order they were run
  double usd_per_hour = 0;
};

struct SearchOptions {
  std::uint64_t seed = 1;
  int threads = 0;  // 0: one a core
  double prune_factor =
      3;  // a candidate whose bound costs more than this times the best is not simulated
  std::function<bool()> stop;  // polled
  std::function<void(const std::string&)> progress;
};

struct SearchResult {
  std::vector<Sized> ranked;  // cheapest first; ties by fewer replicas, then label
  std::vector<Rejection> rejected;
  std::int64_t simulations = 0;
  bool stopped = false;
};

SearchResult search(const std::vector<Candidate>& candidates, const Demand& demand,
                    const PlanRequest& request, const SearchOptions& options);

// One fleet of n replicas of this candidate under these requests.
sim::Summary try_fleet(const Candidate& candidate, std::int64_t replicas,
                       const std::vector<traces::TraceRequest>& requests,
                       const PlanRequest& request, const SearchOptions& options, bool give_up);

}  // namespace orrery::planner
