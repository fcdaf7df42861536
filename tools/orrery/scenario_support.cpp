#include "tools/orrery/scenario_support.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "runtime/host/process.h"
#include "tools/orrery/cli_support.h"

namespace orrery::cli {

sim::Summary run_scenario(const sim::Scenario& scenario, sim::RunOptions options,
                          const Globals& globals) {
  host::install_stop_signals();
  options.seed = globals.seed;
  options.stop = host::stop_requested;
  Progress progress(globals, "simulating " + title_of(scenario), 0, "requests");
  options.progress = [&](double, std::int64_t completed) { progress.update(completed); };
  sim::Summary summary = simulate(scenario.fleet, scenario.workload, scenario.slo, options);
  summary.json["slo"] = slo_json(summary, scenario.slo);
  return summary;
}

std::string title_of(const sim::Scenario& scenario) {
  return scenario.variant.empty() ? scenario.name : scenario.name + " / " + scenario.variant;
}

namespace {

std::string describe(const std::vector<traces::RowProblem>& list) {
  std::string text;
  for (const traces::RowProblem& p : list) {
    if (!text.empty()) text += "; ";
    if (p.kind == "ticks") {
      text += p.example;
      continue;
    }
    if (p.count > 1) text += format_count(p.count) + " x ";
    text += p.kind;
    if (p.first_line > 0)
      text += (p.count > 1 ? ", first in line " : ", line ") + format_count(p.first_line);
  }
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> trace_facts(const sim::Summary& summary) {
  std::vector<std::pair<std::string, std::string>> facts;
  if (!summary.trace_rows) return facts;
  const traces::ReadReport& report = *summary.trace_rows;
  const bool all = summary.json["workload"]["trace_rows"]["read_to_end"].get<bool>();
  std::string rows = format_count(report.rows) + (all ? " rows (" : " rows read (") +
                     report.format + ", timestamps: " + report.timestamp_unit + "), " +
                     format_count(report.bad) + " bad";
  if (report.bad > 0) rows += " and left out: " + describe(report.problems);
  facts.emplace_back("trace", rows);
  if (!report.oddities.empty()) facts.emplace_back("handled", describe(report.oddities));
  for (const std::string& warning : summary.warnings)
    facts.emplace_back("warning", styled(Style::kWarn, warning));
  return facts;
}

Json misfits_json(const sim::Scenario& scenario) {
  const auto whole = [](double bytes) { return static_cast<std::int64_t>(std::llround(bytes)); };
  Json list = Json::array();
  for (const sim::Misfit& misfit : scenario.misfits) {
    Json entry = {{"pool", misfit.pool},
                  {"model", misfit.model},
                  {"instance_type", misfit.instance_type},
                  {"kind", misfit.kind},
                  {"why", misfit.why}};
    if (misfit.memory) {
      entry["missing_bytes"] = whole(misfit.memory->missing_bytes);
      entry["usable_bytes"] = whole(misfit.memory->usable_bytes);
      for (const cost::MemoryItem& item : misfit.memory->items)
        entry["memory_bytes"][item.name] = whole(item.bytes);
    }
    list.push_back(entry);
  }
  return list;
}

void print_misfits(const sim::Scenario& scenario) {
  for (const sim::Misfit& misfit : scenario.misfits) {
    print_line(styled(Style::kBad, "No: ") + misfit.model + " on " + misfit.instance_type +
               " (pool " + misfit.pool + "): " + misfit.why);
    if (!misfit.memory) continue;
    Table table({{"memory of one GPU", Table::Align::kLeft}, {"", Table::Align::kRight}});
    for (const cost::MemoryItem& item : misfit.memory->items)
      table.add({item.name, format_bytes(item.bytes)});
    table.add({"usable", format_bytes(misfit.memory->usable_bytes)});
    table.add({"missing", format_bytes(misfit.memory->missing_bytes)});
    table.print(2);
  }
}

Json slo_json(const sim::Summary& summary, const sim::Slo& slo) {
  if (slo.targets.empty() && slo.goodput_fraction <= 0) return nullptr;
  const sim::SloVerdict verdict = judge(summary, slo);
  Json json = {{"met", verdict.met}};
  if (!verdict.met) json["missed"] = verdict.missed;
  for (const sim::Summary::TargetCount& count : summary.target_counts) {
    json["targets"].push_back({{"metric", count.target.metric},
                               {"percentile", count.target.percentile},
                               {"limit_ms", count.target.limit_ms},
                               {"over", count.over},
                               {"of", count.of}});
  }
  if (slo.goodput_fraction > 0) json["goodput_fraction"] = slo.goodput_fraction;
  return json;
}

}  // namespace orrery::cli
