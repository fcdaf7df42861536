// orrery worker (hidden): one model replica; the fleet's process starts it.
#include "runtime/serve/worker.h"

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/engine/settings.h"
#include "runtime/policy/settings.h"
#include "tools/orrery/command.h"

namespace orrery::cli {
namespace {

struct Options {
  serve::WorkerOptions worker;
  std::string settings = "{}";
  int ready_descriptor = -1;
};

int run(Options& options) {
  options.worker.settings =
      policy::read_instance_settings(JsonView(JsonDocument::parse(options.settings, "--settings")),
                                     engine::default_embedded_settings());
  options.worker.on_ready = [&options](const std::string& address) {
    std::fprintf(stderr, "ready at %s\n", address.c_str());
    if (options.ready_descriptor < 0) return;
    const std::string line = "ready " + address + "\n";
    if (write(options.ready_descriptor, line.data(), line.size()) < 0) std::perror("--ready-fd");
    close(options.ready_descriptor);
  };
  serve::run_worker(options.worker);
  return kDone;
}

std::function<int()> setup(CLI::App& app, Globals&) {
  auto options = std::make_shared<Options>();
  app.add_option("--model", options->worker.model, "embedded, or a folder with a checkpoint");
  app.add_option("--settings", options->settings, "Scheduler and KV settings as JSON");
  app.add_option("--listen", options->worker.listen, "unix:PATH or 127.0.0.1:PORT (0: any)");
  app.add_option("--journal", options->worker.journal_path, "File for the journal");
  app.add_option("--ready-fd", options->ready_descriptor, "Descriptor to say \"ready ADDRESS\" on");
  app.add_option("--parent", options->worker.parent_pid, "End when this process does");
  return [options] { return run(*options); };
}

}  // namespace

extern const Command kWorkerCommand;
const Command kWorkerCommand = {
    "",
    "worker",
    "One model replica; `orrery serve` and `orrery deploy` start it",
    {"orrery worker --listen 127.0.0.1:0", "orrery worker --model embedded --listen unix:/tmp/w"},
    setup};

}  // namespace orrery::cli
