#include "runtime/serve/client/load_report.h"

#include <algorithm>

namespace orrery::serve {
namespace {

Json in_ms(const QuantileSketch& ns) {
  if (ns.count() == 0) {
    return {{"mean", nullptr}, {"p50", nullptr}, {"p90", nullptr}, {"p95", nullptr},
            {"p99", nullptr},  {"max", nullptr}, {"count", 0}};
  }
  const auto ms = [](std::int64_t value) { return static_cast<double>(value) * 1e-6; };
  return {{"mean", ns.mean() * 1e-6},     {"p50", ms(ns.quantile(0.5))},
          {"p90", ms(ns.quantile(0.9))},  {"p95", ms(ns.quantile(0.95))},
          {"p99", ms(ns.quantile(0.99))}, {"max", ms(ns.max())},
          {"count", ns.count()}};
}

}  // namespace

void LoadReport::completed(const AnswerTimes& times) {
  ++completed_;
  prompt_tokens_ += times.prompt_tokens;
  completion_tokens_ += times.completion_tokens;
  cached_tokens_ += times.cached_tokens;
  ttft_.add(std::max<std::int64_t>(0, times.first.value()));
  e2e_.add(std::max<std::int64_t>(0, times.last.value()));
  if (times.completion_tokens > 1) {  // time per output token: the first is not counted
    tpot_.add((times.last - times.first).value() / (times.completion_tokens - 1));
  }
}

Json LoadReport::to_json() const {
  const double wall = std::max(to_seconds(wall_), 1e-9);
  const auto rate = [wall](std::int64_t count) { return static_cast<double>(count) / wall; };
  Json errors = Json::object();
  for (const auto& [why, count] : errors_) errors[why] = count;
  const double hit = prompt_tokens_ > 0
                         ? static_cast<double>(cached_tokens_) / static_cast<double>(prompt_tokens_)
                         : 0;
  return {{"requests",
           {{"submitted", submitted_},
            {"completed", completed_},
            {"rejected", rejected_},
            {"failed", failed_},
            {"cancelled", cancelled_}}},
          {"ttft_ms", in_ms(ttft_)},
          {"itl_ms", in_ms(itl_)},
          {"tpot_ms", in_ms(tpot_)},
          {"e2e_ms", in_ms(e2e_)},
          {"throughput",
           {{"requests_per_s", rate(completed_)},
            {"input_tokens_per_s", rate(prompt_tokens_)},
            {"output_tokens_per_s", rate(completion_tokens_)}}},
          {"kv", {{"hit_rate", hit}}},
          {"client",
           {{"send_delay_ms", in_ms(send_delay_)},
            {"open_loop", open_loop()},
            {"wall_s", to_seconds(wall_)},
            {"input_tokens", prompt_tokens_},
            {"output_tokens", completion_tokens_}}},
          {"errors", errors},
          {"version", ORRERY_VERSION}};
}

}  // namespace orrery::serve
