// orrery trace inspect FILE: what a trace is, what was odd about the file, and what it is like.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "runtime/base/errors.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"
#include "tools/orrery/trace_options.h"
#include "traces/characterise.h"
#include "traces/read_report.h"

namespace orrery::cli {
namespace {

using traces::Characterisation;
using traces::ReadReport;

struct InspectArguments {
  ReadArguments read;
  std::string slice;
};

struct Inspected {
  ReadReport report;
  Characterisation all;
  std::optional<Characterisation> slice;  // what is shown when --slice is given
};

void warn_of_slice(Inspected& r) {
  Characterisation& slice = *r.slice;
  const double mean = r.all.mean_rate(), share = mean > 0 ? slice.mean_rate() / mean : 0;
  if (mean > 0 && (share < 0.1 || share > 10))
    slice.warnings.push_back("the slice's rate is " + format_number(100 * share) +
                             " % of the whole trace's mean rate (" + format_number(mean) +
                             " requests/s)");
}

Inspected inspect(const InspectArguments& a, const Globals& globals) {
  std::optional<traces::TimeSlice> slice;
  if (!a.slice.empty()) slice = traces::parse_slice("--slice", a.slice);
  const auto file = traces::open_trace(a.read.file, a.read.options);
  traces::Characteriser all, part;
  traces::TraceRequest request;
  Progress progress(globals, "reading " + a.read.file, 0, "requests");
  while (file->next(request)) {
    if ((request.row & 4095) == 0) progress.update(request.row);
    all.add(request);
    if (slice && request.arrival >= slice->start &&
        (slice->end.value() == 0 || request.arrival < slice->end))
      part.add(request);
  }
  Inspected result{file->report(), all.finish(a.read.unit_given()), std::nullopt};
  if (slice) {
    result.slice = part.finish(true);
    if (result.slice->requests == 0)
      throw InputError({"--slice", 0, ""}, a.slice + " (no request in it)",
                       "a part of 0:" + format_number(to_seconds(result.all.last)));
    warn_of_slice(result);
  }
  return result;
}

void report_json(const InspectArguments& a, const Inspected& r) {
  Json out;
  out["file"] = a.read.file;
  const Json rows = traces::to_json(r.report);
  for (const auto& [key, value] : rows.items()) out[key] = value;
  out["slice"] = a.slice.empty() ? Json(nullptr) : Json(a.slice);
  const Json figures = (r.slice ? *r.slice : r.all).to_json();
  for (const auto& [key, value] : figures.items()) out[key] = value;
  print_json(out);
}

void line(const char* label, const std::string& text) {
  std::printf("  %-10s %s\n", label, text.c_str());
}

void print_problems(const char* label, const std::vector<traces::RowProblem>& list) {
  for (const auto& p : list) {
    std::string text = p.kind;
    if (p.count > 1) text = format_count(p.count) + " x " + text;
    if (p.kind == "ticks") text = p.example;
    if (p.first_line > 0 && p.count > 1) text += ", first in line " + format_count(p.first_line);
    if (p.first_line > 1 && p.count == 1) text += ", line " + format_count(p.first_line);
    if (!p.example.empty() && p.kind != "ticks") text += ": \"" + p.example + "\"";
    line(label, text);
    label = "";
  }
}

// The rate over the trace as one row of blocks, at most 60 wide.
std::string sparkline(const traces::RateProfile& profile) {
  static constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::size_t n = profile.requests.size(), per = (n + 59) / 60;
  std::vector<double> bars;
  for (std::size_t i = 0; i < n; i += per) {
    double sum = 0;
    for (std::size_t k = i; k < std::min(n, i + per); ++k)
      sum += static_cast<double>(profile.requests[k]);
    bars.push_back(sum / static_cast<double>(std::min(n, i + per) - i));
  }
  const double top = *std::max_element(bars.begin(), bars.end());
  std::string out;
  for (const double bar : bars)
    out += kBlocks[bar > 0 ? 1 + static_cast<int>(bar / top * 7 + 0.5) : 0];
  return out;
}

std::string one_decimal(double x) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f", x);
  return buffer;
}

void print_lengths(const char* label, const QuantileSketch& q) {
  char buffer[160];
  std::snprintf(buffer, sizeof buffer, "mean %-8s p50 %-7s p90 %-7s p99 %-7s max %s tokens",
                one_decimal(q.mean()).c_str(), format_count(q.quantile(0.5)).c_str(),
                format_count(q.quantile(0.9)).c_str(), format_count(q.quantile(0.99)).c_str(),
                format_count(q.max()).c_str());
  line(label, buffer);
}

void print_names(const char* label, const traces::NameCounts& names) {
  if (names.counts.empty()) return;
  std::vector<std::pair<std::int64_t, std::string>> order;
  for (const auto& [name, count] : names.counts) order.emplace_back(-count, name);
  std::sort(order.begin(), order.end());
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), 8); ++i)
    text += (i > 0 ? ", " : "") + order[i].second + " " + format_count(-order[i].first);
  if (order.size() > 8)
    text += ", ... (" + format_count(static_cast<std::int64_t>(order.size())) +
            (names.beyond > 0 ? " or more" : "") + " in all)";
  line(label, text);
}

void print_figures(const Characterisation& c) {
  const traces::WindowCounts& window = c.peak_window();
  line("span", format_span(to_seconds(c.span())));
  line("rate", "mean " + format_number(c.mean_rate()) + " requests/s, peak " +
                   format_number(c.peak_rate()) + " requests/s over " +
                   format_span(to_seconds(window.window())) + " at " +
                   format_span(to_seconds(c.first + window.peak_at())));
  if (c.span().value() > 0) line("", "|" + sparkline(c.profile) + "|");
  print_lengths("input", c.input_tokens);
  print_lengths("output", c.output_tokens);
  if (c.has_prefix_data)
    line("prefix", format_number(100 * c.seen_before_share()) +
                       " % of the prompt tokens were seen before, in " +
                       (c.sampled_one_in > 1 ? "about " : "") + format_count(c.distinct_blocks) +
                       " distinct blocks (a cache that never forgets)");
  else
    line("prefix",
         "no prefix data in trace (0 % sharing is assumed unless a scenario's workload "
         "gives prefix_hit_rate)");
  line("bursts", "gaps between arrivals vary by " + format_number(c.gap_cv) +
                     " (Poisson: 1); dispersion of counts " +
                     format_number(c.per_second.dispersion()) + " per 1 s" +
                     (c.per_minute.complete() > 1
                          ? ", " + format_number(c.per_minute.dispersion()) + " per 60 s"
                          : "") +
                     " (Poisson: 1)");
  print_names("tenants", c.tenants);
  print_names("models", c.models);
  print_names("apps", c.apps);
  if (c.sessions > 0)
    line("sessions", format_count(c.sessions) + " with " + format_count(c.session_requests) +
                         " requests, of which " + format_count(c.chained) + " wait for an answer");
}

void print_text(const InspectArguments& a, const Inspected& r) {
  print_line(styled(Style::kBold, a.read.file));
  line("format", r.report.format + ", timestamps: " + r.report.timestamp_unit);
  if (!r.report.start.empty()) line("start", r.report.start);
  line("rows", format_count(r.report.rows) + " rows, " + format_count(r.report.bad) + " bad, " +
                   format_count(r.report.failed_requests) + " failed requests");
  print_problems("bad rows", r.report.problems);
  print_problems("handled", r.report.oddities);
  const Characterisation& c = r.slice ? *r.slice : r.all;
  if (r.slice) line("slice", a.slice + " s: " + format_count(c.requests) + " requests");
  print_figures(c);
  for (const std::string& w : c.warnings)
    std::printf("  %s    %s\n", styled(Style::kWarn, "warning").c_str(), w.c_str());
}

}  // namespace

std::function<int()> setup_trace_inspect(CLI::App& app, Globals& globals) {
  auto a = std::make_shared<InspectArguments>();
  add_read_options(app, a->read);
  app.add_option("--slice", a->slice, "only arrivals in START:END, seconds of the trace");
  return [a, &globals] {
    const Inspected result = inspect(*a, globals);
    globals.json ? report_json(*a, result) : print_text(*a, result);
    return static_cast<int>(kDone);
  };
}

}  // namespace orrery::cli
