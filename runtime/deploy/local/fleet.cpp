#include "runtime/deploy/local/fleet.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <signal.h>
#include <unistd.h>

// Asio through our header first: it prepares Boost 1.74 for coroutines.
#include <boost/asio/signal_set.hpp>

#include "runtime/base/errors.h"
#include "runtime/deploy/local/log.h"
#include "runtime/deploy/local/process.h"
#include "runtime/deploy/local/supervisor.h"
#include "runtime/host/process.h"
#include "runtime/serve/asio.h"
#include "runtime/serve/gateway.h"
#include "runtime/serve/http/server.h"

namespace orrery::deploy {
namespace {

using namespace std::chrono_literals;
using serve::ErrorCode;

// How stale `orrery status` may be, and how soon a running fleet sees a new plan.
constexpr auto kStoreEvery = 200ms;

std::string make_run_dir(const std::string& state_dir) {
  const auto now = static_cast<std::time_t>(host::wall_clock_seconds());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char name[32];
  std::strftime(name, sizeof name, "%Y%m%dT%H%M%SZ", &utc);
  for (int i = 0;; ++i) {
    const std::string path = state_dir + "/runs/" + name + (i == 0 ? "" : "-" + std::to_string(i));
    std::error_code error;
    std::filesystem::create_directories(state_dir + "/runs", error);
    if (std::filesystem::create_directory(path, error)) return path;
    if (error || i > 1000) {
      throw InputError({path, 0, ""}, error.message(), "a state folder this user may write");
    }
  }
}

class Fleet {
 public:
  Fleet(const FleetOptions& options, Desired desired, StateStore& store, std::string run_dir)
      : options_(options),
        store_(store),
        desired_(std::move(desired)),
        signals_(context_, SIGINT, SIGTERM),
        gateway_(gateway_options(options, desired_, run_dir)),
        server_(context_, desired_.host, desired_.port,
                [this](serve::HttpExchange& exchange) { return gateway_.handle(exchange); }),
        supervisor_(context_, gateway_, {host::executable_path(), run_dir, options.journals}) {
    gateway_.set_connection_count([this] { return server_.connections(); });
    row_.pid = getpid(), row_.host = desired_.host, row_.port = server_.port();
    row_.state = "starting", row_.run_dir = run_dir;
    row_.log = options.state_dir + "/fleet.log";
    row_.started_at = host::wall_clock_seconds();
  }

  int run() {
    net::co_spawn(context_, watch_signals(), net::detached);
    net::co_spawn(context_, publish_regularly(), net::detached);
    net::co_spawn(context_, live(), net::detached);
    context_.run();
    gateway_.flush_journal();
    // Answers that are cut off wait in coroutines that use what would be destroyed before them:
    // then the process ends here, with everything written, instead of unwinding them.
    if (gateway_.in_flight() > 0 || server_.connections() > 0) {
      std::fflush(nullptr);
      _exit(exit_code_);
    }
    return exit_code_;
  }

 private:
  static serve::GatewayOptions gateway_options(const FleetOptions& fleet, const Desired& desired,
                                               const std::string& run_dir) {
    serve::GatewayOptions options;
    options.router.policy = desired.router_policy;
    options.vllm_metrics = desired.vllm_metrics;
    if (fleet.journals) options.journal_path = run_dir + "/gateway.journal";
    return options;
  }

  void publish() {
    std::vector<ActualWorker> workers = supervisor_.actual();
    std::erase_if(workers, [](const ActualWorker& worker) { return worker.instance == 0; });
    try {
      store_.set_actual(row_, workers);
    } catch (const InputError& error) {  // a full disk must not stop the serving
      log_error(error.what());
    }
  }

  net::awaitable<void> publish_regularly() {
    while (!over_) {
      publish();
      gateway_.flush_journal();
      co_await serve::sleep_for(kStoreEvery);
    }
  }

  net::awaitable<void> watch_signals() {
    ErrorCode error;
    co_await signals_.async_wait(net::redirect_error(net::use_awaitable, error));
    if (error) co_return;
    log_info("stopping: what runs is finished first; once more to end at once");
    stopping_ = true;
    if (row_.state == "starting") supervisor_.give_up_waiting();
    co_await signals_.async_wait(net::redirect_error(net::use_awaitable, error));
    if (error) co_return;
    log_warning("ended at once: what ran is lost");
    supervisor_.give_up_waiting();
    supervisor_.kill_all();
    exit_code_ = 1;
    row_.state = "stopped", row_.message = "ended at once by a second signal";
    over_ = true;
    publish();
    supervisor_.note_gateway_end("ended at once");
    context_.stop();
  }

  net::awaitable<void> make_so(const char* meanwhile) {
    row_.state = meanwhile;
    publish();
    const ApplyResult result = co_await supervisor_.apply(desired_.workers);
    row_.generation = desired_.generation;
    row_.message = result.failure;
    row_.state = result.failure.empty() ? "ready" : "degraded";
    if (!result.failure.empty()) {
      log_error("the desired state was not reached: " + result.failure);
      exit_code_ = result.exit_code == 2 || result.exit_code == 3 ? result.exit_code : 1;
    }
    publish();
  }

  // A desired state that came while we ran.
  net::awaitable<void> follow() {
    std::optional<Desired> next = store_.desired();
    if (!next) co_return;
    if (next->stop) {
      log_info("told to stop: what runs is finished first");
      stopping_ = true;
      co_return;
    }
    log_info("new desired state: " + std::to_string(next->workers.size()) + " workers from " +
             next->source);
    desired_ = std::move(*next);
    gateway_.show_vllm_metrics(desired_.vllm_metrics);
    co_await make_so("changing");
    exit_code_ = 0;  // the fleet goes on with what it had
  }

  net::awaitable<void> live() {
    co_await make_so("starting");
    if (row_.state == "degraded" && !stopping_) {
      row_.state = "failed";
    } else if (!stopping_) {
      log_info("ready: http://" + row_.host + ":" + std::to_string(row_.port));
      if (options_.on_ready) options_.on_ready(row_, supervisor_.actual());
      while (!stopping_) {
        co_await serve::sleep_for(kStoreEvery / 2);
        if (store_.generation() != desired_.generation) co_await follow();
      }
      exit_code_ = 0;
    } else {
      exit_code_ = 0;  // stopped while starting, as asked
    }
    co_await wind_down();
  }

  net::awaitable<void> wind_down() {
    const bool failed = row_.state == "failed";
    if (!failed) row_.state = "draining";
    publish();
    gateway_.begin_drain();  // new requests hear 503 while the old ones finish
    while (gateway_.in_flight() > 0) co_await serve::sleep_for(5ms);
    server_.stop_accepting();
    co_await supervisor_.drain_all();
    while (server_.connections() > 0 && linger_-- > 0) co_await serve::sleep_for(5ms);
    gateway_.flush_journal();
    supervisor_.note_gateway_end("clean");
    if (!failed) row_.state = "stopped";
    over_ = true;
    publish();
    log_info("stopped; journals and logs: " + row_.run_dir);
    context_.stop();
  }

  const FleetOptions& options_;
  StateStore& store_;
  Desired desired_;
  net::io_context context_{1};
  net::signal_set signals_;
  serve::Gateway gateway_;
  serve::HttpServer server_;
  Supervisor supervisor_;
  FleetRow row_;
  int exit_code_ = 0;
  int linger_ = 100;  // times 5 ms for the last answers to reach their clients
  bool stopping_ = false, over_ = false;
};

}  // namespace

int run_fleet(const FleetOptions& options) {
  const std::optional<FleetLock> lock = FleetLock::try_take(options.state_dir);
  StateStore store(options.state_dir);
  if (!lock) {
    const auto other = store.fleet();
    throw InputError(
        {options.state_dir, 0, ""},
        "a fleet that runs already" + (other ? " (pid " + std::to_string(other->pid) + ", port " +
                                                   std::to_string(other->port) + ")"
                                             : std::string()),
        "none: `orrery stop` ends it, or ORRERY_STATE_DIR and --port give a second "
        "fleet its own folder and port");
  }
  std::optional<Desired> desired = store.desired();
  if (!desired || desired->stop) {
    throw InputError({options.state_dir, 0, ""}, "nothing to run", "a deployed plan");
  }
  serve::check_port_is_free(desired->host, desired->port);
  signal(SIGPIPE, SIG_IGN);
  open_log(options.state_dir + "/fleet.log", options.foreground);
  Fleet fleet(options, std::move(*desired), store, make_run_dir(options.state_dir));
  return fleet.run();
}

}  // namespace orrery::deploy
