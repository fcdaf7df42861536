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

Json comparison_json(const Json& predicted, const Json& measured) {
  Json list = Json::array();
  for (const Compared& metric : kCompared) {
    const double p = number_at(predicted, metric.pointer), m = number_at(measured, metric.pointer);
    const auto or_null = [](double value) {
      return std::isnan(value) ? Json(nullptr) : Json(value);
    };
    list.push_back({{"metric", metric.name},
                    {"predicted", or_null(p)},
                    {"measured", or_null(m)},
                    {"difference", or_null(difference(p, m))}});
  }
  return list;
}

void print_comparison(const Json& predicted, const Json& measured) {
  using Align = Table::Align;
  Table table({{"metric", Align::kLeft},
               {"predicted", Align::kRight},
               {"measured", Align::kRight},
               {"difference", Align::kRight}});
  for (const Compared& metric : kCompared) {
    const double p = number_at(predicted, metric.pointer), m = number_at(measured, metric.pointer);
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

void print_report(const serve::ReplayResult& result, const Json& summary) {
  const auto& report = result.report;
  const Json& requests = summary["requests"];
  print_line(styled(Style::kBold, "measured") + "  " +
             format_count(requests["completed"].get<std::int64_t>()) + " of " +
             format_count(requests["submitted"].get<std::int64_t>()) + " requests completed" +
             (result.stopped ? " (stopped early)" : "") + ", model " + result.model);
  print_latencies(summary);
  const Json& rates = summary["throughput"];
  print_line("  throughput: " + format_json_number(rates["requests_per_s"]) + " requests/s, " +
             format_json_number(rates["input_tokens_per_s"]) + " input and " +
             format_json_number(rates["output_tokens_per_s"]) + " output tokens/s");
  for (const auto& [why, count] : report.errors()) {
    print_line("  " + styled(Style::kBad, format_count(count) + " x " + why));
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

int run(Options& options, const Globals& globals) {
  if (!(options.replay.speed > 0)) {
    throw InputError({"--speed", 0, ""}, format_number(options.replay.speed), "a number over 0");
  }
  Json predicted;
  if (!options.against.empty()) {
    predicted = read_plan(JsonView(host::read_checked_json(options.against, "plan"))).predicted;
  }
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
  Json summary = result.report.to_json();
  summary["model"] = result.model;
  summary["stopped_early"] = result.stopped;
  summary["seed"] = globals.seed;
  if (globals.json) {
    if (!options.against.empty()) summary["against"] = comparison_json(predicted, summary);
    print_json(summary);
  } else {
    print_report(result, summary);
    if (!options.against.empty()) {
      print_line();
      print_line(styled(Style::kBold, "predicted by " + options.against + " against measured"));
      print_comparison(predicted, summary);
    }
  }
  return result.report.completed_count() > 0 ? kDone : kAnswerIsNo;
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
