// orrery plan: sizes a fleet for a model under percentile targets, at least cost.
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>

#include <CLI/CLI.hpp>

#include "planner/build.h"
#include "runtime/base/errors.h"
#include "runtime/host/files.h"
#include "runtime/host/json_schema.h"
#include "runtime/host/process.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"

namespace orrery::cli {
namespace {

struct PlanArguments {
  std::string request, trace, output;
  std::optional<int> threads;
  bool tolerate = false;
  std::string time_unit;
  std::int64_t measure = 0;
  std::string again;
};

// The figure of a predicted summary that a target speaks of, as text.
std::string figure(const Json& predicted, const sim::SloTarget& target) {
  const std::string key =
      target.percentile >= 100 ? "max" : "p" + std::to_string(static_cast<int>(target.percentile));
  if (!predicted.contains(target.metric)) return "-";
  const Json& metric = predicted.at(target.metric);
  return metric.contains(key) ? format_json_number(metric.at(key), format_ms) : "-";
}

std::string target_title(const sim::SloTarget& target) {
  std::string name = target.metric.substr(0, target.metric.size() - 3);
  for (char& c : name) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  const std::string at =
      target.percentile >= 100 ? "max" : "p" + std::to_string(static_cast<int>(target.percentile));
  return name + " " + at + " (<= " + format_ms(target.limit_ms) + ")";
}

void print_ranked(const planner::PlanOutcome& outcome, const planner::PlanRequest& request) {
  std::vector<Table::Column> columns = {
      {"#", Table::Align::kRight},         {"instance type"},
      {"tp", Table::Align::kRight},        {"replicas", Table::Align::kRight},
      {"instances", Table::Align::kRight}, {"USD/h", Table::Align::kRight}};
  for (const sim::SloTarget& t : request.slo.targets)
    columns.push_back({target_title(t), Table::Align::kRight});
  columns.push_back({"goodput", Table::Align::kRight});
  columns.push_back({"USD/M out", Table::Align::kRight});
  columns.push_back({"bound", Table::Align::kRight});
  columns.push_back({"one replica less"});
  Table table(columns);
  int rank = 0;
  for (const Json& row : outcome.plan.alternatives) {
    const Json& predicted = row.at("predicted");
    std::vector<std::string> cells = {std::to_string(++rank),
                                      row.at("instance_type").get<std::string>(),
                                      std::to_string(row.at("tp").get<int>()),
                                      format_count(row.at("replicas").get<std::int64_t>()),
                                      format_count(row.at("instances").get<std::int64_t>()),
                                      format_usd(row.at("usd_per_hour").get<double>())};
    for (const sim::SloTarget& t : request.slo.targets) cells.push_back(figure(predicted, t));
    cells.push_back(format_json_number(predicted.at("goodput").at("fraction"), format_percent));
    cells.push_back(
        format_json_number(predicted.at("cost").at("usd_per_million_output_tokens"), format_usd));
    cells.push_back(format_count(row.at("bound_replicas").get<std::int64_t>()));
    cells.push_back(row.at("one_replica_less").get<std::string>());
    table.add(std::move(cells));
  }
  table.print(2);
}

void print_rejected(const std::vector<planner::Rejection>& rejected) {
  if (rejected.empty()) return;
  print_line();
  print_line(styled(Style::kBold, "Fell out"));
  Table table({{"instance type"}, {"tp", Table::Align::kRight}, {"why"}});
  for (const planner::Rejection& r : rejected)
    table.add({r.instance_type, std::to_string(r.tp), r.reason});
  table.print(2);
}

// What was wrong or odd about the trace, in a line each.
void print_oddities(const traces::ReadReport& report) {
  std::string bad, odd;
  for (const traces::RowProblem& p : report.problems)
    bad += (bad.empty() ? "" : ", ") + p.kind + " x " + format_count(p.count) + " (first on line " +
           std::to_string(p.first_line) + ")";
  for (const traces::RowProblem& p : report.oddities)
    odd += (odd.empty() ? "" : ", ") + p.kind + " x " + format_count(p.count);
  if (!bad.empty()) print_line("Rows of the trace left out: " + bad + ".");
  if (!odd.empty()) print_line("Handled in the trace: " + odd + ".");
}

void print_plan(const planner::PlanOutcome& outcome, const planner::PlanRequest& request,
                const planner::SplitTrace& trace, const std::string& output) {
  if (!outcome.feasible) {
    print_line(styled(Style::kBad, "No fleet within the constraints meets the SLO."));
    print_rejected(outcome.search.rejected);
    return;
  }
  const PlanPool& pool = outcome.plan.pools.front();
  print_line(styled(Style::kBold, "Plan") + " for " + request.model + ": " +
             std::to_string(pool.replicas) + " x " + pool.instance_type + " tp" +
             std::to_string(pool.tp) + ", " + format_usd(outcome.plan.usd_per_hour) +
             " per hour  (sized on " +
             format_count(static_cast<std::int64_t>(trace.sizing.size())) + " requests, " +
             std::to_string(outcome.search.simulations) + " simulations)");
  print_line();
  print_ranked(outcome, request);
  if (outcome.has_later) {
    const sim::SloVerdict verdict = sim::judge(outcome.later, request.slo);
    print_line();
    std::string line = "On the later " +
                       format_count(static_cast<std::int64_t>(trace.later.size())) +
                       " requests of the trace it ";
    line += verdict.met ? styled(Style::kGood, "meets the SLO") + ":"
                        : styled(Style::kWarn, "misses " + verdict.missed) + ":";
    for (const sim::SloTarget& t : request.slo.targets)
      line +=
          " " + t.metric.substr(0, t.metric.size() - 3) + " " + figure(outcome.later.json, t) + ",";
    line.back() = '.';
    print_line(line);
  }
  if (outcome.has_half_cached) {
    std::string line =
        "No prefix data in trace, so nothing is shared. Were half of each prompt cached:";
    for (const sim::SloTarget& t : request.slo.targets)
      line += " " + t.metric.substr(0, t.metric.size() - 3) + " " +
              figure(outcome.half_cached.json, t) + ",";
    line.back() = '.';
    print_line(line);
  }
  print_oddities(trace.report);
  print_rejected(outcome.search.rejected);
  if (!output.empty()) {
    print_line();
    print_line("Written to " + output + ". Next: orrery deploy " + output + " --dry-run");
  }
}

Json outcome_json(const planner::PlanOutcome& outcome) {
  if (outcome.feasible) {
    Json document = to_json(outcome.plan);
    document["feasible"] = true;
    return document;
  }
  Json rejected = Json::array();
  for (const planner::Rejection& r : outcome.search.rejected)
    rejected.push_back(
        {{"instance_type", r.instance_type}, {"tp", r.tp}, {"kind", r.kind}, {"reason", r.reason}});
  return Json{{"feasible", false}, {"rejected", std::move(rejected)}};
}

// Names that the catalogue does not have, with their place in the request.
void check_names(const JsonView& request, const sim::Catalog& catalog) {
  const auto check = [](const JsonView& item, const char* key, const auto& look_up) {
    const JsonView name = item.is_string() ? item : item.at(key);
    try {
      (void)look_up(name.as_string());
    } catch (const InputError& error) {
      if (error.place().file != "catalog") throw;
      throw InputError(name.place(), error.found(), error.expected());
    }
  };
  bool measured_only = true;  // a machine measured here has models of its own
  for (const JsonView& item : request.at("constraints").at("instance_types").items())
    check(item, "type", [&](const std::string& name) {
      measured_only = measured_only && name == "cpu-local";
      return &catalog.instance(name);
    });
  if (measured_only) return;
  for (const JsonView& item : request.at("models").items())
    check(item, "id", [&](const std::string& name) { return &catalog.model(name); });
}

int run_plan(const PlanArguments& arguments, const Globals& globals) {
  if (arguments.threads && *arguments.threads < 1)
    throw InputError({"--threads", 0, ""}, std::to_string(*arguments.threads), "at least 1");
  if (arguments.measure > 0)
    throw Unsupported(
        "--measure needs a planner that deploys its candidates, which is not in this build");
  if (!arguments.again.empty())
    throw Unsupported("--again needs the comparison of plans, which is not in this build");
  const JsonView document(host::read_checked_json(arguments.request, "request"));
  planner::PlanRequest request = planner::read_plan_request(
      document, std::filesystem::path(arguments.request).parent_path().string());
  if (!arguments.trace.empty()) request.trace = arguments.trace;
  if (arguments.tolerate) request.reading.tolerate = true;
  if (!arguments.time_unit.empty()) request.reading.time_unit = arguments.time_unit;
  if (request.trace.empty())
    throw InputError({arguments.request, 0, "workload.trace"}, "no trace",
                     "a trace in the request or --trace FILE");
  const sim::Catalog catalog = sim::load_catalog(host::data_dir());
  check_names(document, catalog);
  const planner::SplitTrace trace = planner::load_trace(request);

  host::install_stop_signals();
  const Time start = host::monotonic_now();
  const auto limit = Duration(static_cast<std::int64_t>(request.time_limit_s * 1e9));
  Progress progress(globals, "planning", 0, "simulations");
  std::atomic<std::int64_t> simulations{0};
  planner::SearchOptions options;
  options.seed = globals.seed;
  options.threads = arguments.threads.value_or(0);
  options.stop = [&] { return host::stop_requested() || host::monotonic_now() - start > limit; };
  std::mutex progress_mutex;
  options.progress = [&](const std::string&) {
    const std::lock_guard lock(progress_mutex);
    progress.update(++simulations);
  };
  const planner::PlanOutcome outcome = planner::make_plan(request, catalog, trace, options);
  if (host::stop_requested()) {
    std::fprintf(stderr, "orrery: stopped; nothing was written\n");
    return kAnswerIsNo;
  }
  if (outcome.feasible && !arguments.output.empty())
    host::write_file(arguments.output, to_json(outcome.plan).dump(2) + "\n");
  if (globals.json)
    print_json(outcome_json(outcome));
  else
    print_plan(outcome, request, trace, arguments.output);
  return outcome.feasible ? kDone : kAnswerIsNo;
}

}  // namespace

std::function<int()> setup_plan(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<PlanArguments>();
  app.add_option("request", arguments->request, "plan request (orrery.request.v1)")->required();
  app.add_option("--trace", arguments->trace, "trace to size on, instead of the request's own");
  app.add_flag("--tolerate", arguments->tolerate, "go on with more than 1 % bad rows");
  app.add_option("--time-unit", arguments->time_unit, "of numeric timestamps: s, ms, us, ns");
  app.add_option("-o,--output", arguments->output, "where to write plan.json");
  app.add_option("--threads", arguments->threads, "simulations at a time (default: one a core)");
  app.add_option("--measure", arguments->measure, "deploy the best N and rank on measured figures");
  app.add_option("--again", arguments->again,
                 "run an old plan's request again and show what changed");
  return [arguments, &globals] { return run_plan(*arguments, globals); };
}

}  // namespace orrery::cli
