// orrery status: what should run and what does.
#include <CLI/CLI.hpp>

#include "runtime/deploy/backend.h"
#include "runtime/host/process.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"
#include "tools/orrery/fleet_text.h"

namespace orrery::cli {
namespace {

int run(const Globals& globals) {
  const std::string state_dir = host::state_dir();
  const auto backend = deploy::make_backend("local", state_dir);
  const deploy::Actual actual = backend->actual();
  const auto desired = deploy::StateStore(state_dir).desired();
  const std::size_t wanted = desired && !desired->stop ? desired->workers.size() : 0;
  std::size_t ready = 0;
  for (const auto& worker : actual.workers) ready += worker.state == "ready" ? 1 : 0;
  const bool runs = actual.alive && actual.fleet.has_value();
  if (globals.json) {
    print_json({{"runs", runs},
                {"desired", {{"workers", wanted}, {"source", desired ? desired->source : ""}}},
                {"ready", ready},
                {"fleet", actual.fleet ? fleet_json(*actual.fleet) : Json(nullptr)},
                {"workers", workers_json(actual.workers)}});
    return runs ? kDone : kAnswerIsNo;
  }
  if (!runs) {
    print_line("nothing runs (state folder " + state_dir + ")");
    if (actual.fleet && !actual.fleet->run_dir.empty()) {
      print_line("  the last fleet: " + actual.fleet->state +
                 ", its journals and logs: " + actual.fleet->run_dir);
    }
    print_line("  start one: orrery serve, or orrery deploy plan.json");
    return kAnswerIsNo;
  }
  const deploy::FleetRow& fleet = *actual.fleet;
  print_line(styled(Style::kBold, endpoint_of(fleet)) + "  " + fleet.state + ", " +
             std::to_string(ready) + " of " + std::to_string(wanted) + " workers ready, from " +
             (desired ? desired->source : "?"));
  print_facts({{"gateway", "pid " + std::to_string(fleet.pid) + ", up " +
                               format_span(host::wall_clock_seconds() - fleet.started_at)},
               {"journals and logs", fleet.run_dir},
               {"log", fleet.log}},
              2);
  if (!fleet.message.empty()) print_line(styled(Style::kBad, fleet.message));
  print_workers(actual.workers);
  for (const auto& worker : actual.workers) {
    if (!worker.message.empty()) print_line(styled(Style::kBad, worker.message));
  }
  return kDone;
}

std::function<int()> setup(CLI::App&, Globals& globals) {
  return [&globals] { return run(globals); };
}

}  // namespace

extern const Command kStatusCommand;
const Command kStatusCommand = {"Serve",
                                "status",
                                "what should run and what does; exit code 1 when nothing runs",
                                {"orrery status", "orrery status --json"},
                                setup};

}  // namespace orrery::cli
