#include "traces/read_report.h"

#include <cstdio>
#include <vector>

namespace orrery::traces {
namespace {

// Rates that no request trace has.
constexpr double kHighestRate = 1e4, kLowestRate = 1e-3;

Json problems(const std::vector<RowProblem>& list) {
  Json out = Json::array();
  for (const RowProblem& p : list) {
    Json item = {{"kind", p.kind}, {"count", p.count}};
    if (p.first_line > 0) item["first_line"] = p.first_line;
    if (!p.example.empty()) item["example"] = p.example;
    out.push_back(item);
  }
  return out;
}

}  // namespace

Json to_json(const ReadReport& report) {
  return {{"format", report.format},
          {"timestamp_unit", report.timestamp_unit},
          {"start", report.start.empty() ? Json(nullptr) : Json(report.start)},
          {"rows", report.rows},
          {"good_rows", report.good},
          {"bad_rows", report.bad},
          {"bad_rows_by_kind", problems(report.problems)},
          {"oddities", problems(report.oddities)}};
}

std::string implausible_rate(std::int64_t requests, Duration span) {
  if (requests < 2 || span.value() <= 0) return {};
  const double rate = static_cast<double>(requests - 1) / to_seconds(span);
  if (rate <= kHighestRate && rate >= kLowestRate) return {};
  char text[160];
  std::snprintf(text, sizeof text,
                "a rate of %.3g requests/s is implausible: is the time unit right? "
                "(--time-unit s|ms|us|ns confirms or changes it)",
                rate);
  return text;
}

}  // namespace orrery::traces
