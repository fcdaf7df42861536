#include "runtime/deploy/local/supervisor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

// Asio through our header first: it prepares Boost 1.74 for coroutines.
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/json.h"
#include "runtime/deploy/local/log.h"
#include "runtime/deploy/local/process.h"
#include "runtime/host/files.h"
#include "runtime/host/process.h"
#include "runtime/policy/settings.h"
#include "runtime/serve/asio.h"

namespace orrery::deploy {
namespace {

using namespace std::chrono_literals;
using serve::ErrorCode;

// Weights may have to be read or made; a worker that takes longer hangs.
constexpr auto kReadyLimit = 180s;
constexpr auto kReportEvery = 200ms;
// A worker that ran this long was well: its next crash is its first.
constexpr double kWellAfterSeconds = 60;
constexpr auto kFirstPause = 250ms;
constexpr auto kLongestPause = 30s;
// A socket's path has to fit into sockaddr_un (108 bytes); else a port of the loopback is taken.
constexpr std::size_t kLongestSocketPath = 100;
constexpr int kLogLines = 12;

}  // namespace

struct Supervisor::Signals {
  explicit Signals(net::io_context& context) : children(context, SIGCHLD) {}
  net::signal_set children;
};

// One worker's place in the fleet, over all the processes that filled it.
struct Supervisor::Slot {
  explicit Slot(net::io_context& context, DesiredWorker desired)
      : want(std::move(desired)), event(context.get_executor()) {}
  DesiredWorker want;
  serve::AsyncEvent event;  // the process exited, its address came, or a drain is wanted
  std::string state = "starting", address, journal, log, message;
  std::int64_t instance = 0, restarts = 0, crashes_in_a_row = 0;
  pid_t pid = 0;
  bool exited = false, drain = false, done = false, ever_ready = false;
  int wait_status = 0, exit_code = 0;
  double started_at = 0;
  std::shared_ptr<serve::WorkerClient> client;
  serve::WorkerStatus status;
};

Supervisor::Supervisor(net::io_context& context, serve::Gateway& gateway, SupervisorOptions options)
    : context_(context),
      gateway_(gateway),
      options_(std::move(options)),
      signals_(std::make_unique<Signals>(context)) {
  net::co_spawn(context_, watch_children(), net::detached);
}
Supervisor::~Supervisor() = default;

net::awaitable<void> Supervisor::watch_children() {
  while (true) {
    ErrorCode error;
    co_await signals_->children.async_wait(net::redirect_error(net::use_awaitable, error));
    if (error) co_return;
    for (const auto& slot : slots_) {
      if (slot->pid == 0 || slot->exited) continue;
      if (waitpid(slot->pid, &slot->wait_status, WNOHANG) == slot->pid) {
        slot->exited = true;
        slot->event.notify();
      }
    }
  }
}

// A model is known to the gateway as soon as a worker for it is wanted. Throws InputError.
ModelId Supervisor::model_id(const DesiredWorker& want) {
  const auto known = models_.find(want.model);
  if (known != models_.end()) return known->second;
  serve::ServedModel model;
  model.id = ModelId{static_cast<std::uint32_t>(models_.size() + 1)};
  model.card = engine::load_card(want.model);
  model.block_tokens =
      policy::read_instance_settings(JsonView(JsonDocument::parse(want.settings, want.slot)))
          .block_tokens.value();
  gateway_.set_model(model);
  models_.emplace(want.model, model.id);
  return model.id;
}

void Supervisor::start_slot(const DesiredWorker& want) {
  auto slot = std::make_shared<Slot>(context_, want);
  slots_.push_back(slot);
  net::co_spawn(context_, run_slot(slot), net::detached);
}

void Supervisor::read_ready_line(const std::shared_ptr<Slot>& slot, int descriptor) {
  net::co_spawn(
      context_,
      [slot, descriptor, this]() -> net::awaitable<void> {
        net::posix::stream_descriptor pipe(context_, descriptor);
        std::string text;
        ErrorCode error;
        const std::int64_t instance = slot->instance;
        while (!error && text.find('\n') == std::string::npos) {
          std::array<char, 256> bytes;
          const std::size_t got = co_await pipe.async_read_some(
              net::buffer(bytes), net::redirect_error(net::use_awaitable, error));
          text.append(bytes.data(), got);
        }
        if (slot->instance == instance && text.starts_with("ready ")) {
          slot->address = text.substr(6, text.find('\n') - 6);
          slot->event.notify();
        }
      },
      net::detached);
}

// True when a new process is ready and the gateway has it. False: it died (or never answered).
net::awaitable<bool> Supervisor::start_process(Slot& slot) {
  slot.instance = next_instance_++;
  slot.state = "starting";
  slot.exited = false, slot.pid = 0;
  slot.address.clear();
  const std::string number = std::to_string(slot.instance);
  if (options_.journals) slot.journal = options_.run_dir + "/worker-" + number + ".journal";
  slot.log = options_.run_dir + "/worker-" + number + ".log";
  const std::string socket = options_.run_dir + "/worker-" + number + ".sock";
  const std::string listen = socket.size() <= kLongestSocketPath ? "unix:" + socket : "127.0.0.1:0";
  slot.started_at = host::wall_clock_seconds();
  ChildSpec spec;
  spec.argv = {options_.executable, "worker",
               "--model",           slot.want.model,
               "--settings",        slot.want.settings,
               "--listen",          listen,
               "--ready-fd",        "3",
               "--parent",          std::to_string(getpid())};
  if (options_.journals) {
    spec.argv.insert(spec.argv.end(), {"--journal", slot.journal});
  }
  spec.log_path = slot.log;
  spec.ready_pipe = true;
  const Child child = start_child(spec);
  slot.pid = child.pid;
  history_.push_back({slot.instance, slot.want.slot, slot.journal, slot.log, "running"});
  write_manifest();
  for (const auto& shared : slots_) {
    if (shared.get() == &slot) read_ready_line(shared, child.ready_fd);
  }
  log_info("worker " + slot.want.slot + ": started, pid " + std::to_string(slot.pid));

  const auto limit = std::chrono::steady_clock::now() + kReadyLimit;
  while (!slot.exited && slot.address.empty()) {
    if (std::chrono::steady_clock::now() > limit) {
      kill(slot.pid, SIGKILL);
      slot.message = "it was not ready within " + std::to_string(kReadyLimit.count()) + " s";
    }
    if (slot.drain) kill(slot.pid, SIGTERM);
    co_await slot.event.wait_for(1s);
  }
  if (slot.exited) co_return false;
  slot.client = std::make_shared<serve::WorkerClient>(context_.get_executor(), slot.address);
  const auto status = co_await slot.client->status(10s);
  if (!status) {
    kill(slot.pid, SIGKILL);
    while (!slot.exited) co_await slot.event.wait_for(1s);
    slot.message = "it said it was ready and then did not answer";
    co_return false;
  }
  slot.status = *status;
  slot.state = "ready";
  slot.ever_ready = true;
  slot.message.clear();
  gateway_.add_worker(InstanceId{static_cast<std::uint32_t>(slot.instance)}, slot.want.slot,
                      models_.at(slot.want.model), slot.client, *status);
  log_info("worker " + slot.want.slot + ": ready at " + slot.address);
  co_return true;
}

net::awaitable<void> Supervisor::serve_until_exit(Slot& slot) {
  const InstanceId id{static_cast<std::uint32_t>(slot.instance)};
  while (!slot.exited && !slot.drain) {
    if (co_await slot.event.wait_for(kReportEvery)) continue;
    const auto status = co_await slot.client->status(2s);
    if (!status) continue;  // dying, or busy: its exit or its next report will tell
    slot.status = *status;
    gateway_.set_report(id, *status, slot.restarts);
  }
  if (slot.drain && !slot.exited) co_await drain_process(slot);
  gateway_.remove_worker(id);
  slot.client.reset();
}

// No new work, then its own work, then its end.
net::awaitable<void> Supervisor::drain_process(Slot& slot) {
  const InstanceId id{static_cast<std::uint32_t>(slot.instance)};
  slot.state = "draining";
  gateway_.drain_worker(id);
  log_info("worker " + slot.want.slot + ": draining");
  while (!slot.exited && gateway_.in_flight(id) > 0 && !giving_up_) {
    co_await slot.event.wait_for(20ms);
  }
  if (!slot.exited && !giving_up_) co_await slot.client->drain(2s);
  // A cancelled request's step may still be out; then the worker exits by itself.
  constexpr std::array<std::pair<int, std::chrono::seconds>, 3> kSteps{
      {{0, 10s}, {SIGTERM, 5s}, {SIGKILL, 5s}}};
  for (std::size_t i = giving_up_ ? 1 : 0; i < kSteps.size() && !slot.exited; ++i) {
    if (kSteps[i].first != 0) kill(slot.pid, kSteps[i].first);
    const auto limit = std::chrono::steady_clock::now() + kSteps[i].second;
    while (!slot.exited && std::chrono::steady_clock::now() < limit) {
      co_await slot.event.wait_for(50ms);
    }
  }
}

void Supervisor::note_exit(Slot& slot) {
  const std::string how = describe_exit(slot.wait_status);
  const bool clean = WIFEXITED(slot.wait_status) && WEXITSTATUS(slot.wait_status) == 0;
  for (Past& past : history_) {
    if (past.instance == slot.instance) past.end = clean ? "clean" : how;
  }
  write_manifest();
  unlink((options_.run_dir + "/worker-" + std::to_string(slot.instance) + ".sock").c_str());
  slot.exit_code = WIFEXITED(slot.wait_status) ? WEXITSTATUS(slot.wait_status) : 70;
  if (slot.drain) {
    log_info("worker " + slot.want.slot + ": stopped (" + how + ")");
    return;
  }
  const std::string tail = last_lines(slot.log, kLogLines);
  slot.message = "worker " + slot.want.slot + " ended: " + how +
                 (slot.message.empty() ? "" : ", " + slot.message) +
                 (tail.empty() ? "" : "; the end of its log (" + slot.log + "):\n" + tail);
  log_error(slot.message);
}

net::awaitable<void> Supervisor::pause_before_restart(Slot& slot) {
  const bool was_well = host::wall_clock_seconds() - slot.started_at > kWellAfterSeconds;
  slot.crashes_in_a_row = was_well ? 1 : slot.crashes_in_a_row + 1;
  std::chrono::milliseconds pause = kFirstPause;
  for (std::int64_t i = 1; i < slot.crashes_in_a_row && pause < kLongestPause; ++i) pause *= 2;
  slot.state = "backoff";
  ++slot.restarts;
  const auto until =
      std::chrono::steady_clock::now() + std::min<std::chrono::milliseconds>(pause, kLongestPause);
  while (!slot.drain && std::chrono::steady_clock::now() < until) {
    co_await slot.event.wait_for(until - std::chrono::steady_clock::now());
  }
}

net::awaitable<void> Supervisor::run_slot(std::shared_ptr<Slot> slot) {
  while (!slot->drain) {
    slot->message.clear();
    bool ready = false;
    try {
      ready = co_await start_process(*slot);
    } catch (const std::exception& error) {
      slot->message = error.what();
      log_error("worker " + slot->want.slot + ": " + slot->message);
    }
    if (ready) co_await serve_until_exit(*slot);
    if (slot->pid != 0) note_exit(*slot);
    if (slot->drain) break;
    if (!slot->ever_ready) {  // it cannot start: trying again would not help
      slot->state = "failed";
      while (!slot->drain) co_await slot->event.wait();
      break;
    }
    co_await pause_before_restart(*slot);
  }
  slot->done = true;
  std::erase(slots_, slot);
}

net::awaitable<ApplyResult> Supervisor::apply(std::vector<DesiredWorker> desired) {
  try {
    for (const DesiredWorker& want : desired) model_id(want);
  } catch (const InputError& error) {
    co_return ApplyResult{error.what(), 2};
  } catch (const Unsupported& error) {
    co_return ApplyResult{error.what(), 3};
  }
  std::vector<std::int64_t> to_stop;
  std::vector<std::shared_ptr<Slot>> old = slots_, fresh;
  std::vector<ActualWorker> have = actual();
  // A slot may not have its instance number yet: place in the list is its name here.
  for (std::size_t i = 0; i < have.size(); ++i) have[i].instance = static_cast<std::int64_t>(i);
  for (const Change& change : diff(desired, have)) {
    if (change.kind == ChangeKind::kStart) {
      start_slot(desired[change.worker]);
      fresh.push_back(slots_.back());
    } else if (change.kind == ChangeKind::kStop) {
      to_stop.push_back(change.instance);
    }
  }
  const auto any = [&fresh](const char* state) {
    return std::find_if(fresh.begin(), fresh.end(),
                        [&](const auto& slot) { return slot->state == state; });
  };
  while (any("starting") != fresh.end() && any("failed") == fresh.end() && !giving_up_) {
    co_await serve::sleep_for(10ms);
  }
  if (giving_up_) co_return ApplyResult{"stopped before all workers were ready", 1};
  if (const auto failed = any("failed"); failed != fresh.end()) {
    ApplyResult result{(*failed)->message, (*failed)->exit_code};
    for (const auto& slot : fresh) slot->drain = true, slot->event.notify();
    co_return result;
  }
  for (const std::int64_t i : to_stop) {
    const auto& slot = old[static_cast<std::size_t>(i)];
    slot->drain = true;
    slot->event.notify();
  }
  for (const std::int64_t i : to_stop) {
    while (!old[static_cast<std::size_t>(i)]->done && !giving_up_) co_await serve::sleep_for(10ms);
  }
  co_return ApplyResult{};
}

net::awaitable<void> Supervisor::drain_all() {
  for (const auto& slot : slots_) slot->drain = true, slot->event.notify();
  while (!slots_.empty()) co_await serve::sleep_for(10ms);
}

void Supervisor::give_up_waiting() {
  giving_up_ = true;
  for (const auto& slot : slots_) slot->event.notify();
}

void Supervisor::kill_all() {
  for (const auto& slot : slots_) {
    slot->drain = true;
    if (slot->pid != 0 && !slot->exited) kill(slot->pid, SIGKILL);
  }
}

std::vector<ActualWorker> Supervisor::actual() const {
  std::vector<ActualWorker> out;
  for (const auto& slot : slots_) {
    ActualWorker worker;
    worker.slot = slot->want.slot, worker.model = slot->want.model, worker.spec = slot->want.spec;
    worker.instance = slot->instance, worker.pid = slot->exited ? 0 : slot->pid;
    worker.state = slot->drain && slot->state != "failed" ? "draining" : slot->state;
    worker.address = slot->address, worker.journal = slot->journal, worker.log = slot->log;
    worker.message = slot->message, worker.started_at = slot->started_at;
    worker.restarts = slot->restarts;
    worker.running = slot->status.running, worker.waiting = slot->status.waiting;
    out.push_back(std::move(worker));
  }
  return out;
}

void Supervisor::note_gateway_end(const std::string& end) {
  gateway_end_ = end;
  write_manifest();
}

void Supervisor::write_manifest() const {
  Json workers = Json::array();
  for (const Past& past : history_) {
    workers.push_back({{"instance", past.instance},
                       {"slot", past.slot},
                       {"journal", past.journal.substr(past.journal.rfind('/') + 1)},
                       {"log", past.log.substr(past.log.rfind('/') + 1)},
                       {"end", past.end}});
  }
  const Json all = {
      {"schema", "orrery.run.v1"},
      {"version", ORRERY_VERSION},
      {"gateway", {{"journal", "gateway.journal"}, {"pid", getpid()}, {"end", gateway_end_}}},
      {"workers", workers}};
  try {
    host::write_file(options_.run_dir + "/fleet.json", all.dump(1) + "\n");
  } catch (const InputError& error) {  // a full disk must not stop the serving
    log_error(error.what());
  }
}

}  // namespace orrery::deploy
