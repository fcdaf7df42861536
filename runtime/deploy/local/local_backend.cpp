#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <signal.h>
#include <sys/wait.h>

#include "runtime/base/errors.h"
#include "runtime/deploy/backend.h"
#include "runtime/deploy/local/process.h"
#include "runtime/host/process.h"
#include "runtime/serve/http/server.h"

namespace orrery::deploy {
namespace {

using namespace std::chrono_literals;

constexpr int kLogLines = 12;

class LocalBackend final : public Backend {
 public:
  explicit LocalBackend(std::string state_dir) : dir_(std::move(state_dir)), store_(dir_) {}

  std::vector<DesiredWorker> workers_for(const Plan& plan, const std::string& file) const override {
    return workers_for_local_backend(plan, file);
  }

  Actual actual() const override {
    Actual now;
    now.alive = FleetLock::held(dir_);
    now.fleet = store_.fleet();
    if (now.alive) now.workers = store_.workers();
    return now;
  }

  Outcome make_so(const Desired& desired,
                  const std::function<void(std::int64_t, std::int64_t)>& progress) override {
    const Actual before = actual();
    pid_t child = 0;
    if (before.alive && before.fleet && desired.port != 0 && before.fleet->port != desired.port) {
      throw InputError({"--port", 0, ""}, std::to_string(desired.port),
                       "the running fleet's port, " + std::to_string(before.fleet->port) +
                           " (or `orrery stop` first; a second fleet needs its own "
                           "ORRERY_STATE_DIR)");
    }
    if (!before.alive) serve::check_port_is_free(desired.host, desired.port);
    const std::int64_t generation = store_.set_desired(desired);
    if (!before.alive) child = start_fleet();
    return wait_until_so(generation, child, static_cast<std::int64_t>(desired.workers.size()),
                         progress);
  }

  bool stop(double timeout_s, const std::function<void(const Actual&)>& progress) override {
    if (!FleetLock::held(dir_)) return true;
    store_.request_stop();
    if (wait_for_end(timeout_s, progress)) return true;
    const auto fleet = store_.fleet();
    if (fleet && fleet->pid > 0) {
      for (const int sign : {SIGTERM, SIGTERM, SIGKILL}) {
        kill(static_cast<pid_t>(fleet->pid), sign);
        if (wait_for_end(2, progress)) break;
      }
    }
    return false;
  }

 private:
  // Detached: it goes on when this command, and its terminal, are gone.
  pid_t start_fleet() const {
    ChildSpec spec;
    spec.argv = {host::executable_path(), "serve", "--from-state"};
    spec.log_path = dir_ + "/fleet.out";
    spec.new_session = true;
    std::remove(spec.log_path.c_str());
    return start_child(spec).pid;
  }

  Outcome wait_until_so(std::int64_t generation, pid_t child, std::int64_t wanted,
                        const std::function<void(std::int64_t, std::int64_t)>& progress) {
    while (true) {
      std::this_thread::sleep_for(50ms);
      const auto fleet = store_.fleet();
      const bool about_ours = fleet && fleet->generation >= generation;
      int status = 0;
      if (child != 0 && waitpid(child, &status, WNOHANG) == child) {
        Outcome outcome = collect(fleet);
        outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        if (outcome.exit_code == 0) outcome.exit_code = 1;
        outcome.failure = about_ours && !fleet->message.empty()
                              ? fleet->message
                              : "the fleet's process ended: " + describe_exit(status) + "\n" +
                                    last_lines(dir_ + "/fleet.out", kLogLines);
        return outcome;
      }
      if (child == 0 && !FleetLock::held(dir_)) {
        Outcome outcome = collect(fleet);
        outcome.exit_code = 1;
        outcome.failure = "the fleet ended while it was changed; see " + dir_ + "/fleet.log";
        return outcome;
      }
      if (about_ours && fleet->state == "ready") return collect(fleet);
      if (about_ours && fleet->state == "degraded" && child == 0) {
        Outcome outcome = collect(fleet);
        outcome.failure = fleet->message + "\nwhat ran before goes on";
        outcome.exit_code = 1;
        return outcome;
      }
      std::int64_t ready = 0;
      for (const ActualWorker& worker : store_.workers()) ready += worker.state == "ready" ? 1 : 0;
      if (fleet && progress) progress(std::min(ready, wanted), wanted);
    }
  }

  Outcome collect(const std::optional<FleetRow>& fleet) const {
    Outcome outcome;
    if (fleet) outcome.fleet = *fleet;
    outcome.workers = store_.workers();
    return outcome;
  }

  bool wait_for_end(double limit_s, const std::function<void(const Actual&)>& progress) const {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
    while (FleetLock::held(dir_)) {
      if (std::chrono::steady_clock::now() > limit) return false;
      if (progress) progress(actual());
      std::this_thread::sleep_for(20ms);
    }
    return true;
  }

  std::string dir_;
  StateStore store_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(const std::string& name, const std::string& state_dir) {
  if (name == "local") return std::make_unique<LocalBackend>(state_dir);
  if (name == "twin") {
    throw Unsupported(
        "--backend twin: the rollout in the simulator is not in this build yet; `orrery simulate` "
        "runs a fleet of the plan's size");
  }
  if (name == "kubernetes") {
    throw Unsupported("--backend kubernetes: writing manifests is not in this build yet");
  }
  throw InputError({"--backend", 0, ""}, "\"" + name + "\"", "local, twin or kubernetes");
}

}  // namespace orrery::deploy
