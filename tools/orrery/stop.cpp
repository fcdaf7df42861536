// orrery stop: finish what runs, then end it.
#include <memory>

#include <CLI/CLI.hpp>

#include "runtime/base/errors.h"
#include "runtime/deploy/backend.h"
#include "runtime/host/process.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"

namespace orrery::cli {
namespace {

int run(double timeout_s, const Globals& globals) {
  if (!(timeout_s >= 0)) {
    throw InputError({"--timeout", 0, ""}, std::to_string(timeout_s), "seconds, at least 0");
  }
  const auto backend = deploy::make_backend("local", host::state_dir());
  const deploy::Actual before = backend->actual();
  bool drained = true;
  {
    const auto total = static_cast<std::int64_t>(before.workers.size());
    Progress progress(globals, "workers stopped", total, "workers");
    drained = backend->stop(timeout_s, [&](const deploy::Actual& now) {
      progress.update(total - static_cast<std::int64_t>(now.workers.size()));
    });
  }
  const auto after = backend->actual();
  const std::string run_dir = after.fleet ? after.fleet->run_dir : "";
  if (globals.json) {
    print_json({{"ran", before.alive},
                {"drained", drained},
                {"workers", before.workers.size()},
                {"run_dir", run_dir}});
  } else if (!before.alive) {
    print_line("nothing runs");
  } else if (drained) {
    print_line("stopped: " + std::to_string(before.workers.size()) +
               (before.workers.size() == 1 ? " worker" : " workers") + ", their requests finished");
    print_line("  orrery journal verify " + run_dir);
  } else {
    print_line("ended by force after " + format_span(timeout_s) + ": some requests were lost");
  }
  return drained ? kDone : kAnswerIsNo;
}

std::function<int()> setup(CLI::App& app, Globals& globals) {
  auto timeout_s = std::make_shared<double>(120);
  app.add_option("--timeout", *timeout_s,
                 "Seconds to wait for running requests before they are cut off (default 120)");
  return [timeout_s, &globals] { return run(*timeout_s, globals); };
}

}  // namespace

extern const Command kStopCommand;
const Command kStopCommand = {"Serve",
                              "stop",
                              "finish what runs, then end gateway and workers",
                              {"orrery stop", "orrery stop --timeout 5"},
                              setup};

}  // namespace orrery::cli
