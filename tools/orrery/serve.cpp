// orrery serve: gateway and workers in the foreground.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "runtime/base/errors.h"
#include "runtime/deploy/backend.h"
#include "runtime/deploy/local/fleet.h"
#include "runtime/deploy/local/process.h"
#include "runtime/engine/settings.h"
#include "runtime/host/json_schema.h"
#include "runtime/host/process.h"
#include "runtime/serve/http/server.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"
#include "tools/orrery/fleet_text.h"

namespace orrery::cli {
namespace {

struct Options {
  std::string plan, model, host = "127.0.0.1", router;
  std::optional<int> workers;
  int port = 8000;
  bool journal = true, from_state = false, vllm_metrics = false;
};

deploy::Desired desired_state(const Options& options) {
  deploy::Desired desired;
  desired.host = options.host, desired.port = options.port;
  desired.vllm_metrics = options.vllm_metrics;
  if (!options.plan.empty()) {
    if (!options.model.empty() || options.workers) {
      throw InputError({"serve", 0, options.model.empty() ? "--workers" : "--model"},
                       "a plan as well", "one of them: the plan says what runs");
    }
    const Plan plan = read_plan(JsonView(host::read_checked_json(options.plan, "plan")));
    desired.workers = deploy::workers_for_local_backend(plan, options.plan);
    desired.router_policy = plan.router_policy;
    desired.source = options.plan;
    desired.plan = to_json(plan).dump();
  } else {
    const std::string model = options.model.empty() ? "embedded" : options.model;
    desired.workers =
        deploy::workers_of(model, options.workers.value_or(1), engine::default_embedded_settings());
    desired.source = "--model " + model;
  }
  if (!options.router.empty()) desired.router_policy = options.router;
  check_models(desired.workers);
  return desired;
}

int run(const Options& options, const Globals& globals) {
  deploy::FleetOptions fleet;
  fleet.state_dir = host::state_dir();
  fleet.foreground = !options.from_state;
  fleet.journals = options.journal;
  if (options.from_state) return deploy::run_fleet(fleet);

  const deploy::Desired desired = desired_state(options);
  // Before the desired state is written: a fleet that runs here must not take it for its own.
  if (!deploy::FleetLock::held(fleet.state_dir)) {
    serve::check_port_is_free(desired.host, desired.port);
    deploy::StateStore(fleet.state_dir).set_desired(desired);
  }
  fleet.on_ready = [&globals](const deploy::FleetRow& row,
                              const std::vector<deploy::ActualWorker>& workers) {
    if (globals.json) {
      print_json({{"fleet", fleet_json(row)}, {"workers", workers_json(workers)}});
    } else {
      print_line(styled(Style::kBold, "serving at " + endpoint_of(row)) + "  (Ctrl-C drains)");
      print_workers(workers);
      print_next_steps(row, workers);
    }
    std::fflush(stdout);
  };
  return deploy::run_fleet(fleet);
}

std::function<int()> setup(CLI::App& app, Globals& globals) {
  auto options = std::make_shared<Options>();
  app.add_option("plan", options->plan, "plan.json; without it: one model");
  app.add_option("--model", options->model, "embedded (default), or a folder with a checkpoint");
  app.add_option("--workers", options->workers, "Replicas of the model (default 1)");
  app.add_option("--port", options->port, "Port of the HTTP API (default 8000; 0: any)");
  app.add_option("--host", options->host, "Address to listen on (default 127.0.0.1)");
  app.add_option("--router", options->router, "round_robin, least_load (default), prefix_aware");
  app.add_flag("--vllm-metrics", options->vllm_metrics,
               "/metrics under the names of vLLM (vllm:...) as well");
  app.add_flag("--journal,!--no-journal", options->journal,
               "Keep a journal of every decision in the run's folder (default: yes)");
  app.add_flag("--from-state", options->from_state)->group("");
  return [options, &globals] { return run(*options, globals); };
}

}  // namespace

extern const Command kServeCommand;
const Command kServeCommand = {
    "Serve",
    "serve",
    "gateway and workers on this machine, OpenAI-compatible; Ctrl-C drains",
    {"orrery serve --workers 2", "orrery serve plan.json --port 8001"},
    setup};

}  // namespace orrery::cli
