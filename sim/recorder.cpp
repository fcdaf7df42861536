#include "sim/recorder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <set>
#include <string>

#include "runtime/base/check.h"
#include "runtime/base/errors.h"
#include "runtime/base/percentile.h"

namespace orrery::sim {
namespace {
constexpr std::int64_t kHourNs = 3'600'000'000'000;

std::size_t count_models(const FleetSpec& fleet) {
  std::set<std::string> models;
  for (const PoolSpec& pool : fleet.pools) models.insert(pool.model);
  return models.size();
}
}  // namespace

Group& Breakdown::of(std::size_t value) {
  value = std::min(value, kMost);
  if (value >= groups_.size()) groups_.resize(value + 1);
  return groups_[value];
}

Recorder::Recorder(const FleetSpec& fleet, const Slo& slo)
    : goodput_fraction_(slo.goodput_fraction),
      many_pools_(fleet.pools.size() > 1),
      many_models_(count_models(fleet) > 1) {
  static constexpr std::array kMetrics = {"ttft_ms", "itl_ms", "tpot_ms", "e2e_ms"};
  for (const SloTarget& target : slo.targets) {
    if (std::find(kMetrics.begin(), kMetrics.end(), target.metric) == kMetrics.end())
      throw InputError({"slo", 0, target.metric}, target.metric,
                       "ttft_ms, itl_ms, tpot_ms or e2e_ms");
    if (!(target.percentile > 0 && target.percentile <= 100) || !(target.limit_ms > 0))
      throw InputError({"slo", 0, target.metric},
                       "p" + std::to_string(target.percentile) + " of " +
                           std::to_string(target.limit_ms) + " ms",
                       "a percentile in (0, 100] and a limit above 0");
    Limit limit;
    limit.target = target;
    limit.ns = static_cast<std::int64_t>(std::floor(target.limit_ms * 1e6 + 0.5));
    if (limit.is_itl()) {
      limit.itl = itl_limits_.size();
      itl_limits_.push_back(limit.ns);
    }
    limits_.push_back(limit);
  }
}

template <class F>
void Recorder::for_groups(const Row& row, std::uint32_t model, F f) {
  f(total_);
  if (many_models_) f(models_.of(model));
  if (row.tenant != 0) f(tenants_.of(row.tenant));
  if (row.app != 0) f(apps_.of(row.app));
  if (many_hours_) f(hours_.of(static_cast<std::size_t>(row.arrival.ns() / kHourNs)));
}

void Recorder::submitted(const Row& row, std::uint32_t model) {
  if (!many_hours_ && row.arrival.ns() >= kHourNs) {
    hours_.of(0) = total_;  // all arrivals before were in the first hour
    many_hours_ = true;
  }
  for_groups(row, model, [](Group& g) { ++g.submitted; });
}

void Recorder::rejected(const Row& row, std::uint32_t model) {
  for_groups(row, model, [](Group& g) { ++g.rejected; });
}

void Recorder::cancelled(const Row& row, std::uint32_t model) {
  for_groups(row, model, [](Group& g) { ++g.cancelled; });
}

void Recorder::completed(const Row& row, std::uint32_t model, std::uint32_t pool,
                         const Answer& answer) {
  const Duration ttft = answer.first_token - row.arrival, e2e = answer.end - row.arrival;
  const Duration queue = answer.scheduled - row.arrival;
  const std::int64_t gaps = answer.tokens - 1;
  const Duration tpot{gaps > 0 ? ((e2e - ttft).value() + gaps / 2) / gaps : -1};
  const bool good = within_limits(row, answer, ttft, tpot, e2e);
  const auto add = [&](Group& g) {
    ++g.completed;
    g.good += good ? 1 : 0;
    g.input_tokens += row.input_tokens;
    g.output_tokens += answer.tokens;
    g.cached_tokens += answer.cached_tokens, g.preemptions += answer.preemptions;
    g.ttft.ns.add(ttft.value());
    g.e2e.ns.add(e2e.value());
    g.queue.ns.add(queue.value());
    if (gaps > 0) g.tpot.ns.add(tpot.value());
  };
  for_groups(row, model, add);
  if (many_pools_) add(pools_.of(pool));
}

bool Recorder::within_limits(const Row& row, const Answer& answer, Duration ttft, Duration tpot,
                             Duration e2e) {
  bool good = row.deadline.value() <= 0 || e2e <= row.deadline;
  for (Limit& limit : limits_) {
    if (limit.is_itl()) {
      good = good && answer.late_gaps[limit.itl] <=
                         allowed_over(limit.target.percentile, answer.tokens - 1);
      continue;
    }
    const Duration value = limit.target.metric == "ttft_ms"  ? ttft
                           : limit.target.metric == "e2e_ms" ? e2e
                                                             : tpot;
    if (value.value() <= limit.ns) continue;
    ++limit.over;
    good = false;
  }
  return good;
}

bool Recorder::impossible(std::int64_t requests, std::int64_t gaps,
                          std::span<const std::int64_t> gaps_over) const {
  for (const Limit& limit : limits_) {
    const bool over = limit.is_itl()
                          ? gaps_over[limit.itl] > allowed_over(limit.target.percentile, gaps)
                          : limit.over > allowed_over(limit.target.percentile, requests);
    if (over) return true;
  }
  const std::int64_t bad = total_.completed - total_.good + total_.rejected + total_.cancelled;
  return static_cast<double>(requests - bad) < goodput_fraction_ * static_cast<double>(requests);
}

std::vector<Summary::TargetCount> Recorder::target_counts(
    std::int64_t gaps, std::span<const std::int64_t> gaps_over) const {
  std::vector<Summary::TargetCount> counts;
  for (const Limit& limit : limits_) {
    Summary::TargetCount count{limit.target, limit.over, total_.completed};
    if (limit.is_itl()) count.over = gaps_over[limit.itl], count.of = gaps;
    if (limit.target.metric == "tpot_ms") count.of = total_.tpot.ns.count();
    counts.push_back(count);
  }
  return counts;
}

void Recorder::finish() {
  if (!many_pools_) pools_.of(0) = total_;
  if (!many_models_) models_.of(0) = total_;
}

}  // namespace orrery::sim
