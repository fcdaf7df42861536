#include "runtime/serve/client/load_report.h"

#include <algorithm>

#include "runtime/base/latency_json.h"
#include "runtime/base/percentile.h"

namespace orrery::serve {
namespace {

// Time per output token: the first is not counted.
std::optional<Duration> time_per_token(const AnswerTimes& times) {
  const std::int64_t gaps = times.completion_tokens - 1;
  if (gaps < 1) return std::nullopt;
  return Duration(((times.last - times.first).value() + gaps / 2) / gaps);
}

}  // namespace

bool RequestLimits::met_by(const AnswerTimes& times) const {
  const auto keeps = [&times](const Limit& limit) {
    switch (limit.of) {
      case Limit::Of::kTtft:
        return times.first <= limit.most;
      case Limit::Of::kE2e:
        return times.last <= limit.most;
      case Limit::Of::kTpot: {
        const auto tpot = time_per_token(times);
        return !tpot || *tpot <= limit.most;
      }
      case Limit::Of::kItl:
        break;
    }
    const auto over = std::count_if(times.gaps.begin(), times.gaps.end(),
                                    [&](Duration gap) { return gap > limit.most; });
    return over <= allowed_over(limit.percentile, static_cast<std::int64_t>(times.gaps.size()));
  };
  if (times.deadline && times.last > *times.deadline) return false;
  return std::all_of(limits.begin(), limits.end(), keeps);
}

void LoadReport::completed(const AnswerTimes& times) {
  ++completed_;
  if (limits_ && limits_->met_by(times)) ++good_;
  prompt_tokens_ += times.prompt_tokens;
  completion_tokens_ += times.completion_tokens;
  if (times.cached_tokens) {
    looked_up_tokens_ += times.prompt_tokens;
    cached_tokens_ += *times.cached_tokens;
  }
  ttft_.add(std::max<std::int64_t>(0, times.first.value()));
  e2e_.add(std::max<std::int64_t>(0, times.last.value()));
  if (const auto tpot = time_per_token(times)) tpot_.add(tpot->value());
  for (const Duration gap : times.gaps) itl_.add(gap.value());
}

double LoadReport::completed_fraction() const {
  return submitted_ == 0 ? 0 : static_cast<double>(completed_) / static_cast<double>(submitted_);
}

Json LoadReport::goodput_json() const {
  if (!limits_ || submitted_ == 0) {
    return {{"requests_per_s", nullptr}, {"fraction", nullptr}, {"concurrent_requests", nullptr}};
  }
  const double per_s = static_cast<double>(good_) / std::max(to_seconds(wall_), 1e-9);
  return {{"requests_per_s", per_s},
          {"fraction", static_cast<double>(good_) / static_cast<double>(submitted_)},
          {"concurrent_requests", per_s * e2e_.mean() * 1e-9}};  // by Little's law
}

Json LoadReport::hit_rate_json() const {
  if (looked_up_tokens_ == 0) return nullptr;
  return static_cast<double>(cached_tokens_) / static_cast<double>(looked_up_tokens_);
}

Json LoadReport::to_json() const {
  const double wall = std::max(to_seconds(wall_), 1e-9);
  const auto rate = [wall](std::int64_t count) { return static_cast<double>(count) / wall; };
  Json errors = Json::object();
  for (const auto& [why, count] : errors_) errors[why] = count;
  Json rejections = Json::array();
  for (const auto& [why, count] : rejections_) {
    rejections.push_back({{"reason", why}, {"count", count}});
  }
  const Json none = nullptr, hit_rate = hit_rate_json();
  return {
      {"requests",
       {{"submitted", submitted_},
        {"completed", completed_},
        {"rejected", rejected_},
        {"failed", failed_},
        {"cancelled", cancelled_},
        {"unfinished", unfinished_}}},
      {"rejections", rejections},
      {"completed_fraction", submitted_ > 0 ? Json(completed_fraction()) : none},
      {"ttft_ms", latency_json(ttft_)},
      {"itl_ms", latency_json(itl_)},
      {"tpot_ms", latency_json(tpot_)},
      {"e2e_ms", latency_json(e2e_)},
      {"queue_ms", none},
      {"throughput",
       {{"requests_per_s", rate(completed_)},
        {"input_tokens_per_s", rate(prompt_tokens_)},
        {"output_tokens_per_s", rate(completion_tokens_)},
        {"output_tokens_per_s_per_gpu", none}}},
      {"goodput", goodput_json()},
      {"kv",
       {{"hit_rate", hit_rate},
        {"by_tier", {{"gpu", none}}},
        {"preemptions", none},
        {"recomputed_tokens", none}}},
      {"queue_depth", {{"prefill", none}, {"decode", none}}},
      {"gpu", {{"busy_fraction", none}, {"idle_fraction", none}, {"memory_fraction", none}}},
      {"network", {{"busy_fraction", none}}},
      {"ready_to_serve_s", none},
      {"cost",
       {{"usd_per_hour", none},
        {"usd_per_1k_tokens", none},
        {"usd_per_million_output_tokens", none},
        {"usd_per_request", none},
        {"usd_per_successful_task", none},
        {"output_tokens_per_usd", none}}},
      {"retries", retries_},
      {"timeouts", timeouts_},
      {"saturated", none},
      {"saturated_why", "a client does not see the server's queue"},
      {"confidence", none},
      {"client",
       {{"send_delay_ms", latency_json(send_delay_)},
        {"open_loop", open_loop()},
        {"wall_s", to_seconds(wall_)},
        {"input_tokens", prompt_tokens_},
        {"output_tokens", completion_tokens_},
        {"unfinished_output_tokens", lost_tokens_}}},
      {"errors", errors},
      {"sim",
       {{"virtual_s", none},
        {"wall_s", none},
        {"iterations", none},
        {"events", none},
        {"requests_per_wall_s", none},
        {"peak_rss_bytes", none}}},
      {"journal_hash", none},
      {"version", ORRERY_VERSION},
      {"by", {{"model", none}, {"pool", none}, {"tenant", none}, {"app", none}, {"hour", none}}}};
}

}  // namespace orrery::serve
