// orrery replay: a trace against a live server, measured as a client.
#include "runtime/serve/client/replay.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/plan.h"
#include "runtime/host/json_schema.h"
#include "runtime/host/process.h"
#include "sim/scenario.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"
#include "traces/trace.h"

namespace orrery::cli {
namespace {

struct Options {
  serve::ReplayOptions replay;
  traces::ReadOptions read;
  std::string trace, against;
};

struct Compared {
  const char* name;
  const char* pointer;  // into the shape that measured and predicted results share
  bool is_rate;
};
constexpr Compared kCompared[] = {
    {"TTFT p50 (ms)", "/ttft_ms/p50", false},
    {"TTFT p90 (ms)", "/ttft_ms/p90", false},
    {"TTFT p99 (ms)", "/ttft_ms/p99", false},
    {"ITL p50 (ms)", "/itl_ms/p50", false},
    {"ITL p99 (ms)", "/itl_ms/p99", false},
    {"TPOT p50 (ms)", "/tpot_ms/p50", false},
    {"E2E p50 (ms)", "/e2e_ms/p50", false},
    {"E2E p99 (ms)", "/e2e_ms/p99", false},
    {"requests/s", "/throughput/requests_per_s", true},
    {"output tokens/s", "/throughput/output_tokens_per_s", true},
    {"prefix hit rate", "/kv/hit_rate", true},
    {"goodput", "/goodput/fraction", true},
};

double number_at(const Json& json, const char* pointer) {
  const Json::json_pointer at(pointer);
  if (!json.is_object() || !json.contains(at) || !json[at].is_number()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return json[at].get<double>();
}

std::string text_of(double value) { return std::isnan(value) ? "-" : format_number(value); }

// Difference as a share of the prediction; NaN where there is none.
double difference(double predicted, double measured) {
  if (std::isnan(predicted) || std::isnan(measured) || predicted == 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return measured / predicted - 1;
}

// A comparison needs this share of the requests completed: those that a server drops would have
// been the slow ones. With less, the command's answer is no.
constexpr double kLeastCompleted = 0.95;

// What is compared with what, or why it is not.
struct Comparison {
  std::string plan_file, population, refusal;  // refusal empty: compared
  Json predicted;
};

// The prediction is about the planned requests; a slice chosen with --max-requests stands for them
// because the caller says so.
Comparison compare_with(const Plan& plan, const std::string& file,
                        const serve::ReplayResult& result, bool slice) {
  Comparison comparison;
  comparison.plan_file = file, comparison.predicted = plan.predicted;
  const std::int64_t completed = result.report.completed_count();
  const std::int64_t sent = result.report.submitted_count();
  const double planned = number_at(plan.predicted, "/requests/submitted");
  const std::int64_t whole =
      slice || std::isnan(planned) ? sent : std::max(sent, static_cast<std::int64_t>(planned));
  const double share = static_cast<double>(completed) / static_cast<double>(whole);
  comparison.population = format_count(completed) + " completed of " + format_count(whole) +
                          (slice ? " sent, a slice chosen with --max-requests" : " planned");
  if (slice && !std::isnan(planned)) {
    comparison.population +=
        "; the prediction is of " + format_count(static_cast<std::int64_t>(planned)) + " requests";
  }
  if (share < kLeastCompleted) {
    comparison.refusal = format_percent(share) + " of the " +
                         (slice ? "requests sent" : "planned requests") + " completed (" +
                         format_count(completed) + " of " + format_count(whole) +
                         "), and a comparison needs " + format_percent(kLeastCompleted) +
                         (sent == whole ? "" : "; --max-requests compares a slice on purpose");
  }
  return comparison;
}

Json comparison_json(const Comparison& comparison, const Json& measured) {
  Json list = Json::array();
  for (const Compared& metric : kCompared) {
    const double p = number_at(comparison.predicted, metric.pointer);
    const double m = number_at(measured, metric.pointer);
    const auto or_null = [](double value) {
      return std::isnan(value) ? Json(nullptr) : Json(value);
    };
    list.push_back({{"metric", metric.name},
                    {"predicted", or_null(p)},
                    {"measured", or_null(m)},
                    {"difference", or_null(difference(p, m))}});
  }
  const bool refused = !comparison.refusal.empty();
  return {{"plan", comparison.plan_file},
          {"population", comparison.population},
          {"refused", refused ? Json(comparison.refusal) : Json(nullptr)},
          {"metrics", refused ? Json(nullptr) : list}};
}

void print_comparison(const Comparison& comparison, const Json& measured) {
  print_line();
  if (!comparison.refusal.empty()) {
    print_line(styled(Style::kBad, "not compared with " + comparison.plan_file) + ": " +
               comparison.refusal);
    return;
  }
  print_line(styled(Style::kBold, "predicted by " + comparison.plan_file + " against measured"));
  print_line("  " + comparison.population);
  using Align = Table::Align;
  Table table({{"metric", Align::kLeft},
               {"predicted", Align::kRight},
               {"measured", Align::kRight},
               {"difference", Align::kRight}});
  for (const Compared& metric : kCompared) {
    const double p = number_at(comparison.predicted, metric.pointer);
    const double m = number_at(measured, metric.pointer);
    const double d = difference(p, m);
    table.add({metric.name, text_of(p), text_of(m),
               std::isnan(d) ? "-" : (d >= 0 ? "+" : "") + format_percent(d)});
  }
  table.print(2);
}

void print_latencies(const Json& summary) {
  using Align = Table::Align;
  Table table({{"ms", Align::kLeft},
               {"mean", Align::kRight},
               {"p50", Align::kRight},
               {"p90", Align::kRight},
               {"p99", Align::kRight},
               {"max", Align::kRight}});
  const std::pair<const char*, const char*> rows[] = {{"TTFT", "ttft_ms"},
                                                      {"ITL", "itl_ms"},
                                                      {"TPOT (without the first token)", "tpot_ms"},
                                                      {"E2E", "e2e_ms"}};
  for (const auto& [title, key] : rows) {
    const Json& row = summary[key];
    table.add({title, format_json_number(row["mean"]), format_json_number(row["p50"]),
               format_json_number(row["p90"]), format_json_number(row["p99"]),
               format_json_number(row["max"])});
  }
  table.print(2);
}

// Completion first: every figure below is of the completed requests.
void print_completion(const serve::ReplayResult& result, const Json& requests) {
  print_line(
      styled(Style::kBold, "completed " + format_percent(result.report.completed_fraction())) +
      "  " + format_count(result.report.completed_count()) + " of " +
      format_count(result.report.submitted_count()) + " requests" +
      (result.stopped ? " (stopped early)" : "") + ", model " + result.model);
  std::string others;
  for (const char* how : {"rejected", "failed", "unfinished", "cancelled"}) {
    const auto count = requests[how].get<std::int64_t>();
    if (count > 0) others += (others.empty() ? "" : ", ") + format_count(count) + " " + how;
  }
  if (!others.empty()) print_line("  " + styled(Style::kBad, others));
  for (const auto& [why, count] : result.report.errors()) {
    print_line("  " + styled(Style::kBad, format_count(count) + " x " + why));
  }
}

void print_report(const serve::ReplayResult& result, const Json& summary) {
  const auto& report = result.report;
  print_completion(result, summary["requests"]);
  print_latencies(summary);
  const Json& first_token = summary["ttft_ms"];
  if (first_token.contains("note")) print_line("  " + first_token["note"].get<std::string>());
  const Json& rates = summary["throughput"];
  print_line("  throughput: " + format_json_number(rates["requests_per_s"]) + " requests/s, " +
             format_json_number(rates["input_tokens_per_s"]) + " input and " +
             format_json_number(rates["output_tokens_per_s"]) + " output tokens/s");
  if (const Json& good = summary["goodput"]["fraction"]; good.is_number()) {
    print_line("  goodput: " + format_percent(good.get<double>()) +
               " of the requests sent came within every limit of the plan's SLO");
  }
  const std::string delay =
      "  send delay p99 " + format_ms(to_milliseconds(report.send_delay_p99()));
  if (report.open_loop()) {
    print_line(delay + ": open loop");
  } else {
    print_line(styled(Style::kWarn, delay + ": not open loop. This client lagged behind the "
                                            "arrivals; its machine is too busy for this rate"));
  }
  if (!result.token_prompts) {
    print_line("  the server refuses token ids: prompts were words, their lengths are approximate");
  }
}

// The percentile targets of a plan's SLO, as limits that each request keeps or does not.
serve::RequestLimits limits_of(const sim::Slo& slo) {
  using Of = serve::RequestLimits::Limit::Of;
  serve::RequestLimits limits;
  for (const sim::SloTarget& target : slo.targets) {
    const Of of = target.metric == "ttft_ms"  ? Of::kTtft
                  : target.metric == "itl_ms" ? Of::kItl
                  : target.metric == "e2e_ms" ? Of::kE2e
                                              : Of::kTpot;
    limits.limits.push_back(
        {of, target.percentile, Duration(static_cast<std::int64_t>(target.limit_ms * 1e6 + 0.5))});
  }
  return limits;
}

Plan read_against(const std::string& file, serve::ReplayOptions& replay) {
  const JsonView document(host::read_checked_json(file, "plan"));
  Plan plan = read_plan(document);
  if (!plan.predicted.is_object()) {
    throw InputError({file, 0, "predicted"}, "no prediction",
                     "a plan with what was predicted for it, as `orrery plan` writes it");
  }
  if (const auto slo = document.find("slo")) replay.limits = limits_of(sim::read_slo(*slo));
  return plan;
}

Json summary_of(const serve::ReplayResult& result, const Options& options, std::uint64_t seed) {
  Json summary = result.report.to_json();
  summary["seed"] = seed;
  summary["model"] = result.model;
  summary["stopped_early"] = result.stopped;
  summary["workload"] = {{"trace", options.trace},
                         {"mode", "open"},
                         {"open_loop", result.report.open_loop()},
                         {"rate_scale", options.replay.speed},
                         {"token_prompts", result.token_prompts}};
  return summary;
}

int run(Options& options, const Globals& globals) {
  if (!(options.replay.speed > 0)) {
    throw InputError({"--speed", 0, ""}, format_number(options.replay.speed), "a number over 0");
  }
  std::optional<Plan> plan;
  if (!options.against.empty()) plan = read_against(options.against, options.replay);
  const auto trace = traces::open_trace(options.trace, options.read);
  host::install_stop_signals();
  options.replay.seed = globals.seed;
  options.replay.stop = host::stop_requested;
  Progress progress(globals, "requests answered", options.replay.max_requests.value_or(0),
                    "requests");
  options.replay.progress = [&progress](const serve::LoadReport& report) {
    progress.update(report.ended());
  };
  const serve::ReplayResult result = serve::replay(*trace, options.replay);
  if (result.report.submitted_count() == 0) {
    throw InputError({options.trace, 0, ""}, "no request to send", "at least one good row");
  }
  Json summary = summary_of(result, options, globals.seed);
  std::optional<Comparison> comparison;
  if (plan) {
    comparison =
        compare_with(*plan, options.against, result, options.replay.max_requests.has_value());
    summary["against"] = comparison_json(*comparison, summary);
  }
  if (globals.json) {
    print_json(summary);
  } else {
    print_report(result, summary);
    if (comparison) print_comparison(*comparison, summary);
  }
  const bool refused = comparison && !comparison->refusal.empty();
  return result.report.completed_fraction() < kLeastCompleted || refused ? kAnswerIsNo : kDone;
}

std::function<int()> setup(CLI::App& app, Globals& globals) {
  auto options = std::make_shared<Options>();
  app.add_option("trace", options->trace, "Trace file, any format `trace inspect` knows")
      ->required();
  app.add_option("--url", options->replay.url, "Server, such as http://localhost:8000")->required();
  app.add_option("--speed", options->replay.speed, "2: twice as fast as the trace (default 1)");
  app.add_option("--against", options->against, "plan.json whose predictions to compare with");
  app.add_option("--max-requests", options->replay.max_requests, "Send only the first N");
  app.add_option("--model", options->replay.model, "Default: the first the server lists");
  app.add_option("--timeout", options->replay.timeout_s, "Seconds for one request (default 600)");
  app.add_option("--format", options->read.format, "Format of the trace (default: by content)");
  app.add_flag("--tolerate", options->read.tolerate, "Go on with more than 1 % bad rows");
  return [options, &globals] { return run(*options, globals); };
}

}  // namespace

extern const Command kReplayCommand;
const Command kReplayCommand = {
    "Serve",
    "replay",
    "send a trace to an OpenAI-compatible server, open loop, and measure",
    {"orrery replay scenarios/traces/sample.jsonl --url http://localhost:8000",
     "orrery replay scenarios/traces/sample.jsonl --url http://localhost:8000 --speed 2 "
     "--against plan.json"},
    setup};

}  // namespace orrery::cli
