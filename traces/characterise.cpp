#include "traces/characterise.h"

#include <cmath>
#include <cstdio>

#include "runtime/base/hash.h"
#include "traces/read_report.h"

namespace orrery::traces {
namespace {

constexpr std::size_t kMostBins = 256;
constexpr std::size_t kMostNames = 1000;

template <class... Args>
std::string text(const char* format, Args... args) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, format, args...);
  return buffer;
}

std::string readable(Duration d) {
  const double s = to_seconds(d);
  if (s < 120) return text("%.3g s", s);
  if (s < 7200) return text("%.3g min", s / 60);
  return text("%.3g h", s / 3600);
}

Json quantiles(const QuantileSketch& q, std::int64_t total) {
  return {{"mean", q.mean()},        {"p50", q.quantile(0.5)}, {"p90", q.quantile(0.9)},
          {"p99", q.quantile(0.99)}, {"max", q.max()},         {"total", total}};
}

Json names(const NameCounts& n) {
  Json out = Json::object();
  for (const auto& [name, count] : n.counts) out[name] = count;
  if (n.beyond > 0) out["(others)"] = n.beyond;
  return out;
}

}  // namespace

void RateProfile::add(Duration since_first) {
  auto i = static_cast<std::size_t>(since_first / bin);
  while (i >= kMostBins) {
    bin = bin * 2, i /= 2;
    for (std::size_t k = 0; 2 * k < requests.size(); ++k)
      requests[k] = requests[2 * k] + (2 * k + 1 < requests.size() ? requests[2 * k + 1] : 0);
    requests.resize((requests.size() + 1) / 2);
  }
  if (i >= requests.size()) requests.resize(i + 1);
  ++requests[i];
}

void WindowCounts::add(Duration since_first) {
  const std::int64_t i = since_first / window_;
  if (i != index_) {
    sum_ += current_, squares_ += static_cast<__int128>(current_) * current_;
    if (current_ > peak_) peak_ = current_, peak_index_ = index_;
    index_ = i, current_ = 0;
  }
  ++current_;
}

Duration WindowCounts::peak_at() const {
  return window_ * (current_ > peak_ ? index_ : peak_index_);
}

double WindowCounts::dispersion() const {
  if (index_ < 2 || sum_ == 0) return 0;
  const auto n = static_cast<double>(index_);
  const double mean = static_cast<double>(sum_) / n;
  return (static_cast<double>(squares_) / n - mean * mean) / mean;
}

void NameCounts::add(const std::string& name) {
  if (name.empty()) {
    ++unnamed;
    return;
  }
  const auto it = counts.find(name);
  if (it != counts.end())
    ++it->second;
  else if (counts.size() < kMostNames)
    counts.emplace(name, 1);
  else
    ++beyond;
}

double Characterisation::mean_rate() const {
  if (requests < 2 || span().value() == 0) return 0;
  return static_cast<double>(requests - 1) / to_seconds(span());
}

const WindowCounts& Characterisation::peak_window() const {
  return span() >= Duration(120'000'000'000) ? per_minute : per_second;
}

double Characterisation::peak_rate() const {
  const WindowCounts& w = peak_window();
  return static_cast<double>(w.peak()) / to_seconds(w.window());
}

double Characterisation::seen_before_share() const {
  if (total_input == 0) return 0;
  return static_cast<double>(seen_before_tokens) / static_cast<double>(total_input);
}

void Characteriser::add(const TraceRequest& r) {
  if (c_.requests++ == 0) c_.first = c_.last = r.arrival;
  const std::int64_t gap = (r.arrival - c_.last).value();
  gap_squares_ += static_cast<__int128>(gap) * gap;
  c_.last = r.arrival;
  const Duration since = r.arrival - c_.first;
  c_.profile.add(since), c_.per_second.add(since), c_.per_minute.add(since);
  c_.total_input += r.input_tokens, c_.total_output += r.output_tokens;
  if (r.ok)
    c_.input_tokens.add(r.input_tokens), c_.output_tokens.add(r.output_tokens);
  else
    ++c_.failed;
  if (!r.hash_ids.empty()) {
    c_.has_prefix_data = true;
    c_.seen_before_tokens += blocks_.add(r);
  }
  c_.tenants.add(r.tenant), c_.models.add(r.model), c_.apps.add(r.app), c_.kinds.add(r.kind);
  if (!r.session.empty()) {
    ++c_.session_requests;
    sessions_.insert(hash_bytes(r.session));
  }
  if (!r.after.empty()) {
    ++c_.chained;
    if (!ids_.contains(hash_bytes(r.after))) ++c_.unknown_after;
  }
  if (!r.id.empty()) ids_.insert(hash_bytes(r.id));
}

Characterisation Characteriser::finish(bool unit_confirmed) {
  c_.sessions = static_cast<std::int64_t>(sessions_.size());
  c_.distinct_blocks = blocks_.distinct();
  c_.ids_both_ways = blocks_.used_both_ways();
  c_.sampled_one_in = blocks_.one_in();
  const auto gaps = static_cast<double>(c_.requests - 1);
  if (c_.requests > 2 && c_.span().value() > 0) {
    const double mean = static_cast<double>(c_.span().value()) / gaps;
    const double variance = static_cast<double>(gap_squares_) / gaps - mean * mean;
    c_.gap_cv = std::sqrt(variance > 0 ? variance : 0) / mean;
  }
  warn(unit_confirmed);
  return std::move(c_);
}

void Characteriser::warn(bool unit_confirmed) {
  const double rate = c_.mean_rate();
  if (c_.requests > 1 && c_.span().value() == 0)
    c_.warnings.push_back("all requests arrive at the same time");
  else if (const std::string odd = implausible_rate(c_.requests, c_.span());
           !unit_confirmed && !odd.empty())
    c_.warnings.push_back(odd);
  if (const auto quiet = longest_quiet_stretch(c_.profile, rate))
    c_.warnings.push_back(
        text("from %s to %s the rate is %.3g requests/s, %.2g %% of the mean: "
             "a slice taken there says little about the rest",
             readable(quiet->start).c_str(), readable(quiet->end).c_str(), quiet->rate,
             100 * quiet->rate / rate));
  if (c_.ids_both_ways > 0)
    c_.warnings.push_back(
        text("%lld block ids stand for a full block in one request and for a "
             "partial tail in another (only the full ones match)",
             static_cast<long long>(c_.ids_both_ways)));
  if (c_.unknown_after > 0)
    c_.warnings.push_back(text("%lld requests wait for an \"after\" that no earlier request has",
                               static_cast<long long>(c_.unknown_after)));
}

std::optional<QuietStretch> longest_quiet_stretch(const RateProfile& p, double mean_rate) {
  const std::size_t n = p.requests.size();
  if (n < 20 || mean_rate <= 0) return std::nullopt;
  const double limit = 0.1 * mean_rate * to_seconds(p.bin);
  std::size_t best = 0, best_start = 0, run = 0;
  for (std::size_t i = 0; i < n; ++i) {
    run = static_cast<double>(p.requests[i]) < limit ? run + 1 : 0;
    if (run > best) best = run, best_start = i + 1 - run;
  }
  if (best * 10 < n) return std::nullopt;
  std::int64_t requests = 0;
  for (std::size_t i = best_start; i < best_start + best; ++i) requests += p.requests[i];
  const auto first = static_cast<std::int64_t>(best_start), count = static_cast<std::int64_t>(best);
  return QuietStretch{p.bin * first, p.bin * (first + count),
                      static_cast<double>(requests) / to_seconds(p.bin * count)};
}

Json Characterisation::to_json() const {
  const WindowCounts& w = peak_window();
  Json out;
  out["requests"] = requests;
  out["failed_requests"] = failed;
  out["span_s"] = to_seconds(span());
  out["first_arrival_s"] = to_seconds(first);
  out["rate"] = {{"mean_per_s", mean_rate()},
                 {"peak_per_s", peak_rate()},
                 {"peak_window_s", to_seconds(w.window())},
                 {"peak_at_s", to_seconds(first + w.peak_at())},
                 {"profile", {{"bin_s", to_seconds(profile.bin)}, {"requests", profile.requests}}}};
  out["input_tokens"] = quantiles(input_tokens, total_input);
  out["output_tokens"] = quantiles(output_tokens, total_output);
  if (has_prefix_data)
    out["prefix_sharing"] = {{"seen_before_tokens_share", seen_before_share()},
                             {"seen_before_tokens", seen_before_tokens},
                             {"distinct_blocks", distinct_blocks},
                             {"exact", sampled_one_in == 1},
                             {"ids_full_and_partial", ids_both_ways}};
  else
    out["prefix_sharing"] = nullptr;
  out["burstiness"] = {{"gap_cv", gap_cv},
                       {"index_of_dispersion_1s", per_second.dispersion()},
                       {"index_of_dispersion_60s", per_minute.dispersion()}};
  out["tenants"] = names(tenants);
  out["models"] = names(models);
  out["apps"] = names(apps);
  out["kinds"] = names(kinds);
  out["sessions"] = {{"count", sessions},
                     {"requests", session_requests},
                     {"requests_that_wait", chained},
                     {"unknown_after", unknown_after}};
  out["warnings"] = warnings;
  return out;
}

}  // namespace orrery::traces
