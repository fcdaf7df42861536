// orrery whatif: several fleets under the same load, side by side.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "runtime/host/process.h"
#include "sim/catalog_files.h"
#include "sim/scenario.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"
#include "tools/orrery/scenario_support.h"

namespace orrery::cli {
namespace {

struct Options {
  std::vector<std::string> scenarios;
  std::string trace, time_unit = "auto";
  bool tolerate = false;
};

// One row of the comparison.
struct Outcome {
  std::string name;
  Json json;  // summary, or why there is none
  bool feasible = false, comparable = false;
  std::vector<std::pair<std::string, std::string>> trace;
};

// Two runs are compared when they answered the same share of the same load: one that lost most of
// its requests looks fast because it did nothing.
constexpr double kSameShare = 0.02;

bool same_population(const Json& a, const Json& b) {
  if (a["requests"]["submitted"] != b["requests"]["submitted"]) return false;
  if (!a["completed_fraction"].is_number() || !b["completed_fraction"].is_number()) return false;
  return std::fabs(a["completed_fraction"].get<double>() - b["completed_fraction"].get<double>()) <=
         kSameShare;
}

struct Figure {
  const char* name;
  const char* pointer;
  std::string (*format)(double);
};
constexpr Figure kFigures[] = {
    {"ttft_p50", "/ttft_ms/p50", format_ms},
    {"ttft_p99", "/ttft_ms/p99", format_ms},
    {"itl_p99", "/itl_ms/p99", format_ms},
    {"e2e_p95", "/e2e_ms/p95", format_ms},
    {"output_tokens_per_s", "/throughput/output_tokens_per_s", format_number},
    {"goodput", "/goodput/fraction", format_percent},
    {"prefix_hits", "/kv/hit_rate", format_percent},
    {"usd_per_hour", "/cost/usd_per_hour", format_usd},
    {"usd_per_million_output_tokens", "/cost/usd_per_million_output_tokens", format_usd},
};

double value_at(const Json& json, const char* pointer) {
  const nlohmann::json_pointer<std::string> at(pointer);
  return json.contains(at) && json[at].is_number() ? json[at].get<double>() : std::nan("");
}

Json differences(const Json& first, const Json& other) {
  Json json = Json::object();
  for (const Figure& figure : kFigures) {
    const double a = value_at(first, figure.pointer), b = value_at(other, figure.pointer);
    json[figure.name] =
        a != 0 && std::isfinite(a) && std::isfinite(b) ? Json((b / a - 1) * 100) : Json(nullptr);
  }
  return json;
}

std::string with_difference(const Outcome& outcome, const Figure& figure) {
  const double value = value_at(outcome.json, figure.pointer);
  if (!std::isfinite(value)) return "-";
  std::string text = figure.format(value);
  if (!outcome.json.contains("difference_percent")) return text;
  const Json& percent = outcome.json["difference_percent"][figure.name];
  if (!percent.is_number()) return text;
  // Beyond ten times, a factor reads better than a percentage.
  constexpr double kTenTimes = 900;
  char note[32];
  if (percent.get<double>() > kTenTimes) {
    std::snprintf(note, sizeof note, " (x%.0f)", 1 + percent.get<double>() / 100);
  } else {
    std::snprintf(note, sizeof note, " (%+.0f%%)", percent.get<double>());
  }
  return text + note;
}

void print_outcomes(const std::vector<Outcome>& outcomes) {
  std::vector<Table::Column> columns = {{"", Table::Align::kLeft}};
  for (const Outcome& outcome : outcomes) columns.push_back({outcome.name, Table::Align::kRight});
  Table table(columns);
  const auto add = [&](const std::string& name,
                       const std::function<std::string(const Outcome&)>& f) {
    std::vector<std::string> cells = {name};
    for (const Outcome& outcome : outcomes)
      cells.push_back(outcome.feasible ? f(outcome) : std::string("-"));
    table.add(std::move(cells));
  };
  add("completed", [](const Outcome& o) {
    return format_json_number(o.json["completed_fraction"], format_percent);
  });
  add("saturated", [](const Outcome& o) {
    return o.json["saturated"].get<bool>() ? styled(Style::kBad, "yes") : std::string("no");
  });
  add("SLO", [](const Outcome& o) {
    if (o.json["slo"].is_null()) return std::string("-");
    return o.json["slo"]["met"].get<bool>() ? styled(Style::kGood, "met")
                                            : styled(Style::kBad, "missed");
  });
  static constexpr const char* kNames[] = {
      "TTFT p50", "TTFT p99",    "ITL p99", "end to end p95",          "output tokens/s",
      "goodput",  "prefix hits", "USD/h",   "USD per 1M output tokens"};
  static_assert(std::size(kNames) == std::size(kFigures));
  for (std::size_t i = 0; i < std::size(kFigures); ++i)
    add(kNames[i], [&](const Outcome& o) { return with_difference(o, kFigures[i]); });
  table.print();
  print_line();
  for (const Outcome& outcome : outcomes) {
    if (!outcome.feasible) {
      for (const Json& misfit : outcome.json["misfits"])
        print_line(outcome.name + ": cannot be had: " + misfit["why"].get<std::string>());
    } else if (!outcome.comparable) {
      print_line(outcome.name +
                 ": not compared with the first: it did not answer the same share of the requests");
    } else if (outcome.json["saturated"].get<bool>()) {
      print_line(outcome.name + ": saturated: " + outcome.json["saturated_why"].get<std::string>());
    }
  }
}

// Once for all variants that read the same.
void print_traces(const std::vector<Outcome>& outcomes) {
  std::vector<std::pair<std::string, std::string>> said;
  for (const Outcome& outcome : outcomes) {
    for (const auto& fact : outcome.trace) {
      if (std::find(said.begin(), said.end(), fact) != said.end()) continue;
      print_line(fact.first + ": " + fact.second);
      said.push_back(fact);
    }
  }
}

// The variants of a file; the scenario itself first.
std::vector<sim::Scenario> read_all(const Options& options, const sim::Catalog& catalog,
                                    std::uint64_t seed) {
  std::vector<sim::Scenario> scenarios;
  for (const std::string& path : options.scenarios) {
    const sim::ScenarioFile file(path);
    sim::ScenarioOverrides overrides;
    overrides.trace = options.trace, overrides.seed = seed, overrides.tolerate = options.tolerate;
    overrides.time_unit = options.time_unit;
    scenarios.push_back(file.read(catalog, overrides));
    for (const std::string& variant : file.variants())
      scenarios.push_back(file.read(catalog, overrides, variant));
  }
  return scenarios;
}

int run(const Options& options, const Globals& globals) {
  const auto scenarios = read_all(options, sim::load_catalog(host::data_dir()), globals.seed);
  std::vector<Outcome> outcomes;
  std::size_t first = scenarios.size();  // what the others are compared with
  bool stopped = false;
  for (std::size_t i = 0; i < scenarios.size() && !stopped; ++i) {
    const sim::Scenario& scenario = scenarios[i];
    Outcome outcome;
    outcome.name = !scenario.variant.empty()       ? scenario.variant
                   : options.scenarios.size() == 1 ? "as given"
                                                   : scenario.name;
    outcome.feasible = scenario.misfits.empty();
    outcome.json["name"] = outcome.name;
    outcome.json["feasible"] = outcome.feasible;
    if (!outcome.feasible) {
      outcome.json["misfits"] = misfits_json(scenario);
    } else {
      const sim::Summary summary = run_scenario(scenario, {}, globals);
      stopped = summary.stopped_early;
      outcome.trace = trace_facts(summary);
      outcome.json.update(summary.json);
      if (first == scenarios.size()) first = i;
      outcome.comparable = first == i || same_population(outcomes[first].json, outcome.json);
      if (first != i && outcome.comparable)
        outcome.json["difference_percent"] = differences(outcomes[first].json, outcome.json);
    }
    outcomes.push_back(std::move(outcome));
  }
  if (globals.json) {
    Json json = {{"schema", "orrery.whatif.v1"}, {"variants", Json::array()}};
    if (first < outcomes.size()) json["compared_with"] = outcomes[first].name;
    for (Outcome& outcome : outcomes) json["variants"].push_back(std::move(outcome.json));
    print_json(json);
  } else {
    print_outcomes(outcomes);
    print_traces(outcomes);
    if (stopped) print_line(styled(Style::kWarn, "Stopped: ") + "the last column is of a part.");
  }
  return first < outcomes.size() ? kDone : kAnswerIsNo;
}

}  // namespace

std::function<int()> setup_whatif(CLI::App& app, Globals& globals) {
  auto options = std::make_shared<Options>();
  app.add_option("SCENARIO", options->scenarios, "Scenario files; each with its variants")
      ->required();
  app.add_option("--trace", options->trace, "Trace to run instead of the scenarios'");
  app.add_option("--time-unit", options->time_unit,
                 "Of the traces' numeric timestamps: s, ms, us or ns; auto is the format's own")
      ->capture_default_str();
  app.add_flag("--tolerate", options->tolerate, "Go on with more than 1 % bad rows in the trace");
  return [options, &globals] { return run(*options, globals); };
}

}  // namespace orrery::cli
