#include "tools/orrery/scenario_support.h"

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

Json misfits_json(const sim::Scenario& scenario) {
  Json list = Json::array();
  for (const sim::Misfit& misfit : scenario.misfits) {
    Json entry = {{"pool", misfit.pool},
                  {"model", misfit.model},
                  {"instance_type", misfit.instance_type},
                  {"kind", misfit.kind},
                  {"why", misfit.why}};
    if (misfit.memory) {
      entry["missing_bytes"] = misfit.memory->missing_bytes;
      entry["usable_bytes"] = misfit.memory->usable_bytes;
      for (const cost::MemoryItem& item : misfit.memory->items)
        entry["memory_bytes"][item.name] = item.bytes;
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
