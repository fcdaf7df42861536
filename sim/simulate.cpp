#include "sim/simulate.h"

#include <array>
#include <cstdio>

#include "runtime/base/percentile.h"
#include "runtime/host/process.h"
#include "sim/fleet_run.h"
#include "sim/recorder.h"
#include "sim/summary.h"

namespace orrery::sim {
namespace {

const LatencyMetric& metric_of(const Summary& summary, const std::string& name) {
  if (name == "ttft_ms") return summary.ttft;
  if (name == "itl_ms") return summary.itl;
  return name == "tpot_ms" ? summary.tpot : summary.e2e;
}

std::string describe_miss(const Summary& summary, const SloTarget& target) {
  const double value =
      static_cast<double>(metric_of(summary, target.metric).ns.quantile(target.percentile / 100)) *
      1e-6;
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), "%s p%g %.1f > %g", target.metric.c_str(),
                target.percentile, value, target.limit_ms);
  return text.data();
}

bool same(const SloTarget& a, const SloTarget& b) {
  return a.metric == b.metric && a.percentile == b.percentile && a.limit_ms == b.limit_ms;
}

// Exact where the run was made with this target, else from the sketch.
bool within(const Summary& summary, const SloTarget& target) {
  for (const Summary::TargetCount& count : summary.target_counts) {
    if (same(count.target, target)) return count.over <= allowed_over(target.percentile, count.of);
  }
  const auto& values = metric_of(summary, target.metric).ns;
  return static_cast<double>(values.quantile(target.percentile / 100)) <= target.limit_ms * 1e6;
}

}  // namespace

Summary simulate(const FleetSpec& fleet, const WorkloadSpec& workload, const Slo& slo,
                 const RunOptions& options) {
  const Time start = host::monotonic_now();
  FleetRun run(fleet, workload, slo, options);
  run.run();
  return make_summary(run, workload, options, to_seconds(host::monotonic_now() - start));
}

SloVerdict judge(const Summary& summary, const Slo& slo) {
  for (const SloTarget& target : slo.targets) {
    if (!within(summary, target)) return {false, describe_miss(summary, target)};
  }
  const double good = summary.submitted > 0 ? static_cast<double>(summary.good_requests) /
                                                  static_cast<double>(summary.submitted)
                                            : 1;
  if (good < slo.goodput_fraction) {
    std::array<char, 96> text{};
    std::snprintf(text.data(), text.size(), "goodput %.4f < %g", good, slo.goodput_fraction);
    return {false, text.data()};
  }
  if (summary.slo_impossible) return {false, "given up: the SLO could not be met any more"};
  return {};
}

}  // namespace orrery::sim
