// Recorder: what the clients of a simulated fleet measure. Definitions:
//   ttft   intended arrival to first token          e2e    intended arrival to last token
//   itl    gaps between successive tokens, pooled over all requests (a stall of one request shows)
//   tpot   one value a request: (e2e - ttft) / (tokens - 1); requests with one token have none
//   queue  intended arrival to first scheduled
// Latencies are of completed requests only; gaps are pooled as they happen. A request is good when
// it is within every limit of the SLO (for a percentile of itl: that share of its own gaps is) and
// within its own deadline; goodput divides by all submitted.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sim/simulate.h"
#include "sim/workload.h"

namespace orrery::sim {

// Counts and latencies of some of the requests.
struct Group {
  std::int64_t submitted = 0, completed = 0, rejected = 0, cancelled = 0, good = 0;
  // Of completed requests; cached: found in the cache when first scheduled.
  std::int64_t input_tokens = 0, output_tokens = 0, cached_tokens = 0, preemptions = 0;
  LatencyMetric ttft, tpot, e2e, queue;
};

// A request that was answered.
struct Answer {
  Time scheduled, first_token, end;
  std::int64_t tokens = 0;
  std::span<const std::int64_t> late_gaps;  // over each of itl_limits_ns()
  std::int64_t cached_tokens = 0, preemptions = 0;
};

// Requests by one property (tenant, app, …). Keeps the first kMost values apart, the rest together.
class Breakdown {
 public:
  static constexpr std::size_t kMost = 200;
  Group& of(std::size_t value);
  const std::vector<Group>& groups() const { return groups_; }  // by value; the last is the rest
  std::vector<Group>& groups() { return groups_; }

 private:
  std::vector<Group> groups_;
};

class Recorder {
 public:
  Recorder(const FleetSpec& fleet, const Slo& slo);

  // Limits of the SLO's targets on itl, in the order in which Answer::late_gaps gives counts.
  const std::vector<std::int64_t>& itl_limits_ns() const { return itl_limits_; }

  void submitted(const Row& row, std::uint32_t model);
  void rejected(const Row& row, std::uint32_t model);
  void cancelled(const Row& row, std::uint32_t model);
  void completed(const Row& row, std::uint32_t model, std::uint32_t pool, const Answer& answer);

  // True once the SLO cannot be met, whatever the rest of `requests` requests with together `gaps`
  // gaps brings. gaps_over: so far over each itl limit.
  bool impossible(std::int64_t requests, std::int64_t gaps,
                  std::span<const std::int64_t> gaps_over) const;
  // Counts for every target, in the SLO's order.
  std::vector<Summary::TargetCount> target_counts(std::int64_t gaps,
                                                  std::span<const std::int64_t> gaps_over) const;

  // Fills in what a breakdown of one group would repeat. Call once, at the end.
  void finish();
  const Group& total() const { return total_; }
  const Breakdown& by_pool() const { return pools_; }
  const Breakdown& by_model() const { return models_; }
  const Breakdown& by_tenant() const { return tenants_; }
  const Breakdown& by_app() const { return apps_; }
  const Breakdown& by_hour() const { return hours_; }  // of arrival

 private:
  struct Limit {
    SloTarget target;
    std::int64_t ns = 0;
    std::int64_t over = 0;  // completed requests over it (not for itl)
    std::size_t itl = 0;    // index into itl_limits_
    bool is_itl() const { return target.metric == "itl_ms"; }
  };
  template <class F>
  void for_groups(const Row& row, std::uint32_t model, F f);
  bool within_limits(const Row& row, const Answer& answer, Duration ttft, Duration tpot,
                     Duration e2e);

  std::vector<Limit> limits_;
  double goodput_fraction_ = 0;
  std::vector<std::int64_t> itl_limits_;
  Group total_;
  Breakdown pools_, models_, tenants_, apps_, hours_;
  bool many_pools_, many_models_, many_hours_ = false;
};

}  // namespace orrery::sim
