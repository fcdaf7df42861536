// orrery simulate: one run of the twin.
#include <cerrno>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <sys/stat.h>

#include "runtime/base/errors.h"
#include "runtime/host/files.h"
#include "runtime/host/process.h"
#include "sim/catalog_files.h"
#include "sim/request_log.h"
#include "sim/scenario.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"
#include "tools/orrery/scenario_support.h"

namespace orrery::cli {
namespace {

struct Options {
  std::string scenario, trace, variant, directory, time_unit = "auto";
  bool single_step = false, journal = false, tolerate = false;
};

void make_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return;
  throw InputError({path, 0, "-o"}, std::generic_category().message(errno),
                   "a folder that can be made");
}

double number(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number() ? json[key].get<double>() : NAN;
}

void print_latencies(const Json& json) {
  Table table({{"", Table::Align::kLeft},
               {"mean", Table::Align::kRight},
               {"p50", Table::Align::kRight},
               {"p95", Table::Align::kRight},
               {"p99", Table::Align::kRight},
               {"max", Table::Align::kRight}});
  for (const auto& [key, name] :
       {std::pair{"ttft_ms", "TTFT"}, std::pair{"itl_ms", "ITL"}, std::pair{"tpot_ms", "TPOT"},
        std::pair{"e2e_ms", "end to end"}, std::pair{"queue_ms", "queue"}}) {
    const Json& metric = json[key];
    if (metric["count"] == 0) continue;
    table.add({name, format_ms(number(metric, "mean")), format_ms(number(metric, "p50")),
               format_ms(number(metric, "p95")), format_ms(number(metric, "p99")),
               format_ms(number(metric, "max"))});
  }
  table.print(2);
  if (json["ttft_ms"].contains("note"))
    print_line("  (" + json["ttft_ms"]["note"].get<std::string>() + ")");
}

std::string describe_fleet(const sim::Scenario& scenario) {
  std::string text;
  for (const sim::PoolSpec& pool : scenario.fleet.pools) {
    text += (text.empty() ? "" : " + ") + std::to_string(pool.replicas) + " x " + pool.model +
            " on " + pool.instance_type;
  }
  return text + ", router " + scenario.fleet.router.policy;
}

std::string describe_requests(const sim::Summary& s) {
  std::string text = format_count(s.completed) + " of " + format_count(s.submitted) + " completed";
  for (const auto& [why, count] : s.reject_reasons)
    text += ", " + format_count(count) + " not answered (" + why + ")";
  if (s.unfinished > 0) text += ", " + format_count(s.unfinished) + " unfinished";
  return text;
}

void print_summary(const sim::Scenario& scenario, const sim::Summary& s) {
  const Json& j = s.json;
  print_line(styled(Style::kBold, title_of(scenario)));
  print_line(describe_fleet(scenario));
  print_line();
  print_latencies(j);
  print_line();
  const Json &rates = j["throughput"], &cost = j["cost"], &goodput = j["goodput"];
  std::vector<std::pair<std::string, std::string>> facts = {
      {"requests", describe_requests(s)},
      {"throughput", format_json_number(rates["requests_per_s"]) + " requests/s, " +
                         format_json_number(rates["output_tokens_per_s"]) + " output tokens/s"},
      {"busy", format_json_number(j["gpu"]["busy_fraction"], format_percent) + " of the time, " +
                   format_json_number(j["queue_depth"]["decode"]["mean"]) + " running and " +
                   format_json_number(j["queue_depth"]["prefill"]["mean"]) +
                   " waiting on a replica"},
      {"prefix hits",
       j["kv"]["hit_rate"].is_null()
           ? j["kv"].value("note", std::string("-"))
           : format_json_number(j["kv"]["hit_rate"], format_percent) + " of prompt tokens" +
                 (j["kv"].contains("note") ? " (" + j["kv"]["note"].get<std::string>() + ")"
                                           : std::string())}};
  if (j["kv"]["preemptions"] != 0)
    facts.emplace_back("preemptions", format_count(j["kv"]["preemptions"].get<std::int64_t>()));
  if (!j["slo"].is_null()) {
    const bool met = j["slo"]["met"].get<bool>();
    facts.emplace_back(
        "SLO", met ? styled(Style::kGood, "met")
                   : styled(Style::kBad, "missed: ") + j["slo"]["missed"].get<std::string>());
    facts.emplace_back("goodput", format_json_number(goodput["fraction"], format_percent) +
                                      " of all requests within every limit");
  }
  facts.emplace_back("cost",
                     format_json_number(cost["usd_per_hour"], format_usd) + "/h, " +
                         format_json_number(cost["usd_per_million_output_tokens"], format_usd) +
                         " per million output tokens");
  facts.emplace_back("saturated",
                     s.saturated ? styled(Style::kBad, "yes: ") + s.saturated_why : "no");
  facts.emplace_back("simulated", format_span(s.virtual_s) + " in " + format_span(s.wall_s) + " (" +
                                      format_number(number(j["sim"], "requests_per_wall_s")) +
                                      " requests/s), journal " +
                                      j["journal_hash"].get<std::string>());
  for (auto& fact : trace_facts(s)) facts.push_back(std::move(fact));
  print_facts(facts, 2);
  if (s.stopped_early)
    print_line(styled(Style::kWarn, "Stopped: ") + "the figures are of what was done so far.");
}

int run(const Options& options, const Globals& globals) {
  if (options.journal && options.directory.empty())
    throw InputError({"orrery simulate", 0, "--journal"}, "no folder", "-o DIR to write it to");
  const sim::ScenarioFile file(options.scenario);
  sim::ScenarioOverrides overrides;
  overrides.trace = options.trace, overrides.seed = globals.seed;
  overrides.tolerate = options.tolerate, overrides.time_unit = options.time_unit;
  const sim::Scenario scenario =
      file.read(sim::load_catalog(host::data_dir()), overrides, options.variant);
  if (!scenario.misfits.empty()) {
    if (globals.json) {
      print_json({{"scenario", title_of(scenario)},
                  {"feasible", false},
                  {"misfits", misfits_json(scenario)}});
    } else {
      print_misfits(scenario);
    }
    return kAnswerIsNo;
  }

  sim::RunOptions run_options;
  run_options.macro_steps = !options.single_step;
  std::unique_ptr<sim::RequestLog> log;
  if (!options.directory.empty()) {
    make_folder(options.directory);
    log = std::make_unique<sim::RequestLog>(options.directory + "/requests.csv");
    run_options.on_request = [&](const sim::RequestOutcome& outcome) { log->add(outcome); };
    if (options.journal) run_options.journal_dir = options.directory;
  }
  sim::Summary summary = run_scenario(scenario, run_options, globals);
  Json json = {{"schema", "orrery.summary.v1"}, {"scenario", title_of(scenario)}};
  json.update(summary.json);
  if (log) {
    log->close();
    host::write_file(options.directory + "/summary.json", json.dump(2) + "\n");
  }
  if (globals.json) {
    print_json(json);
  } else {
    print_summary(scenario, summary);
    if (log)
      print_line("Written: " + options.directory + "/summary.json, requests.csv" +
                 (options.journal ? ", journals (orrery journal verify " + options.directory + ")"
                                  : std::string()));
  }
  const bool missed = !summary.json["slo"].is_null() && !summary.json["slo"]["met"].get<bool>();
  return missed ? kAnswerIsNo : kDone;
}

}  // namespace

std::function<int()> setup_simulate(CLI::App& app, Globals& globals) {
  auto options = std::make_shared<Options>();
  app.add_option("SCENARIO", options->scenario, "Scenario file")->required();
  app.add_option("--trace", options->trace, "Trace to run instead of the scenario's");
  app.add_option("--variant", options->variant, "Variant of the scenario to run");
  app.add_option("-o", options->directory, "Folder for summary.json and requests.csv");
  app.add_flag("--journal", options->journal, "Write the journals there too");
  app.add_flag("--single-step", options->single_step,
               "One event a decode step: same results, slower");
  app.add_option("--time-unit", options->time_unit,
                 "Of the trace's numeric timestamps: s, ms, us or ns; auto is the format's own")
      ->capture_default_str();
  app.add_flag("--tolerate", options->tolerate, "Go on with more than 1 % bad rows in the trace");
  return [options, &globals] { return run(*options, globals); };
}

}  // namespace orrery::cli
