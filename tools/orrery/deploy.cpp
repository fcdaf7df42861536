// orrery deploy: what would change, then make it so.
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/plan.h"
#include "runtime/deploy/backend.h"
#include "runtime/host/json_schema.h"
#include "runtime/host/process.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"
#include "tools/orrery/fleet_text.h"

namespace orrery::cli {
namespace {

struct Options {
  std::string plan, backend = "local", host = "127.0.0.1";
  std::optional<int> port;
  bool dry_run = false, vllm_metrics = false;
};

const char* verb_of(deploy::ChangeKind kind) {
  switch (kind) {
    case deploy::ChangeKind::kStart:
      return "start";
    case deploy::ChangeKind::kStop:
      return "stop";
    case deploy::ChangeKind::kKeep:
      return "keep";
  }
  return "";
}

void print_changes(const std::vector<deploy::Change>& changes, const deploy::Desired& desired) {
  Table table({{"", Table::Align::kLeft},
               {"", Table::Align::kLeft},
               {"", Table::Align::kLeft},
               {"", Table::Align::kLeft}});
  for (const deploy::Change& change : changes) {
    const Style style = change.kind == deploy::ChangeKind::kStart  ? Style::kGood
                        : change.kind == deploy::ChangeKind::kStop ? Style::kBad
                                                                   : Style::kDim;
    const bool known = change.kind != deploy::ChangeKind::kStop;
    table.add({styled(style, std::string(1, static_cast<char>(change.kind)) + " " + change.slot),
               verb_of(change.kind), known ? model_name(desired.workers[change.worker].model) : "",
               change.why});
  }
  table.print(2);
}

Json changes_json(const std::vector<deploy::Change>& changes) {
  Json list = Json::array();
  for (const deploy::Change& change : changes) {
    list.push_back(
        {{"change", verb_of(change.kind)}, {"worker", change.slot}, {"why", change.why}});
  }
  return list;
}

deploy::Desired desired_state(const Options& options, const deploy::Backend& backend,
                              const deploy::Actual& actual) {
  const Plan plan = read_plan(JsonView(host::read_checked_json(options.plan, "plan")));
  deploy::Desired desired;
  desired.workers = backend.workers_for(plan, options.plan);
  check_models(desired.workers);
  desired.router_policy = plan.router_policy;
  desired.source = options.plan;
  desired.plan = to_json(plan).dump();
  desired.host = options.host;
  desired.vllm_metrics = options.vllm_metrics;
  desired.port =
      options.port ? *options.port : (actual.alive && actual.fleet ? actual.fleet->port : 8000);
  return desired;
}

int report(const deploy::Outcome& outcome, const std::vector<deploy::Change>& changes,
           double ready_s, bool json) {
  const bool ok = outcome.failure.empty();
  if (json) {
    print_json({{"applied", ok},
                {"changes", changes_json(changes)},
                {"ready_to_serve_s", ready_s},
                {"failure", ok ? Json(nullptr) : Json(outcome.failure)},
                {"fleet", fleet_json(outcome.fleet)},
                {"workers", workers_json(outcome.workers)}});
  } else if (ok) {
    print_line();
    print_line(styled(Style::kBold, "ready at " + endpoint_of(outcome.fleet)) + " after " +
               format_span(ready_s));
    print_workers(outcome.workers);
    print_line("  journals and logs: " + outcome.fleet.run_dir);
    print_next_steps(outcome.fleet, outcome.workers);
    print_line("  orrery stop");
  }
  if (!ok) std::fprintf(stderr, "orrery: deploy: %s\n", outcome.failure.c_str());
  return outcome.exit_code;
}

int run(const Options& options, const Globals& globals) {
  const auto backend = deploy::make_backend(options.backend, host::state_dir());
  const deploy::Actual actual = backend->actual();
  const deploy::Desired desired = desired_state(options, *backend, actual);
  const auto changes = deploy::diff(desired.workers, actual.workers);
  if (!globals.json) {
    print_line(styled(Style::kBold, options.plan + " on " + options.backend) + ": " +
               std::to_string(desired.workers.size()) +
               (desired.workers.size() == 1 ? " worker" : " workers") +
               (actual.alive ? "" : "; nothing runs now"));
    print_changes(changes, desired);
    std::fflush(stdout);
  }
  if (options.dry_run) {
    if (globals.json)
      print_json({{"applied", false}, {"changes", changes_json(changes)}});
    else
      print_line("dry run: nothing was changed");
    return kDone;
  }
  const auto start = std::chrono::steady_clock::now();
  deploy::Outcome outcome;
  {
    Progress progress(globals, "workers ready", static_cast<std::int64_t>(desired.workers.size()),
                      "workers");
    outcome = backend->make_so(desired,
                               [&](std::int64_t ready, std::int64_t) { progress.update(ready); });
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return report(outcome, changes, took.count(), globals.json);
}

std::function<int()> setup(CLI::App& app, Globals& globals) {
  auto options = std::make_shared<Options>();
  app.add_option("plan", options->plan, "plan.json, as `orrery plan` writes it")->required();
  app.add_option("--backend", options->backend, "local (default), twin or kubernetes");
  app.add_flag("--dry-run", options->dry_run, "Show the changes and make none");
  app.add_option("--port", options->port,
                 "Port of the HTTP API (default: the running fleet's, else 8000)");
  app.add_option("--host", options->host, "Address to listen on (default 127.0.0.1)");
  app.add_flag("--vllm-metrics", options->vllm_metrics,
               "/metrics under the names of vLLM (vllm:...) as well");
  return [options, &globals] { return run(*options, globals); };
}

}  // namespace

extern const Command kDeployCommand;
const Command kDeployCommand = {
    "Serve",
    "deploy",
    "show what a plan changes, then make it so on this machine",
    {"orrery deploy plan.json --dry-run", "orrery deploy plan.json --port 8001"},
    setup};

}  // namespace orrery::cli
