#include "sim/backlog.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace orrery::sim {
namespace {
constexpr double kGrowthLimit = 0.02, kWaitLimit = 0.10;
constexpr std::int64_t kFewestArrivals = 20;  // in a quarter, to speak of growth

std::string percent(double fraction) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", fraction * 100);
  return text.data();
}
}  // namespace

int Backlog::bin_of(Time at) {
  while (at.ns() / width_ns_ >= kBins) {
    for (std::size_t i = 0; i < kBins / 2; ++i) {
      Bin merged = bins_[2 * i];
      const Bin& other = bins_[2 * i + 1];
      merged.arrivals += other.arrivals, merged.waits += other.waits;
      merged.request_ns += other.request_ns, merged.waited_ns += other.waited_ns;
      bins_[i] = merged;
    }
    std::fill(bins_.begin() + kBins / 2, bins_.end(), Bin{});
    width_ns_ *= 2;
  }
  return static_cast<int>(at.ns() / width_ns_);
}

void Backlog::advance(Time to) {
  if (to <= now_) return;
  const auto last = static_cast<std::size_t>(bin_of(to));
  auto bin = static_cast<std::size_t>(bin_of(now_));
  std::int64_t at = now_.ns();
  for (; bin <= last; ++bin) {
    const std::int64_t end = std::min(to.ns(), static_cast<std::int64_t>(bin + 1) * width_ns_);
    bins_[bin].request_ns += static_cast<__int128>(in_system_) * (end - at);
    at = end;
  }
  now_ = to;
}

void Backlog::arrived(Time at) {
  advance(at);
  ++in_system_;
  ++bins_[static_cast<std::size_t>(bin_of(at))].arrivals;
  last_arrival_ = std::max(last_arrival_, at);
}

void Backlog::ended(Time at) {
  advance(at);
  --in_system_;
}

void Backlog::scheduled(Time arrival, Duration waited) {
  Bin& bin = bins_[static_cast<std::size_t>(bin_of(arrival))];
  ++bin.waits;
  bin.waited_ns += waited.value();
}

void Backlog::add_alone(Duration length) { alone_ns_ += length.value(), ++alone_count_; }

std::array<double, 4> Backlog::residence_by_quarter() const {
  std::array<double, 4> residence{};
  const std::int64_t bins = last_arrival_.ns() / width_ns_ + 1;
  for (int q = 0; q < 4; ++q) {
    Bin sum;
    for (std::int64_t i = bins * q / 4; i < bins * (q + 1) / 4; ++i) {
      sum.arrivals += bins_[static_cast<std::size_t>(i)].arrivals;
      sum.request_ns += bins_[static_cast<std::size_t>(i)].request_ns;
    }
    if (sum.arrivals < kFewestArrivals) return {};
    residence[static_cast<std::size_t>(q)] =
        static_cast<double>(sum.request_ns) * 1e-9 / static_cast<double>(sum.arrivals);
  }
  return residence;
}

Backlog::Verdict Backlog::judge(Time end) {
  advance(end);
  const double span = to_seconds(last_arrival_);
  const double alone =
      alone_count_ > 0 ? static_cast<double>(alone_ns_) * 1e-9 / static_cast<double>(alone_count_)
                       : 0;
  const std::array<double, 4> l = residence_by_quarter();
  const double growth = span > 0 ? (l[3] - l[1]) / (span / 2) : 0;
  if (alone < span / 4 && l[1] < l[2] && l[2] < l[3] && growth > kGrowthLimit) {
    return {true, "requests stay longer and longer: time in the system grew by " + percent(growth) +
                      " of the time between the second and the last quarter"};
  }
  const std::int64_t bins = last_arrival_.ns() / width_ns_ + 1;
  __int128 waited = 0;
  std::int64_t waits = 0;
  for (std::int64_t i = bins * 3 / 4; i < bins; ++i) {
    waited += bins_[static_cast<std::size_t>(i)].waited_ns;
    waits += bins_[static_cast<std::size_t>(i)].waits;
  }
  const double wait =
      waits > 0 ? static_cast<double>(waited) * 1e-9 / static_cast<double>(waits) : 0;
  if (wait > kWaitLimit * to_seconds(end)) {
    return {true, "the last quarter's requests waited on average " +
                      percent(wait / to_seconds(end)) + " of the run before they were scheduled"};
  }
  return {};
}

}  // namespace orrery::sim
