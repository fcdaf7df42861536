#include "runtime/serve/control/engine_loop.h"

#include <utility>

#include "runtime/base/errors.h"
#include "runtime/host/process.h"

namespace orrery::serve {
namespace {

// How much of a journal a power cut may take. A killed process loses less: what was given a submit
// is written before the next step.
constexpr Duration kFlushEvery = milliseconds(250);

}  // namespace

EngineLoop::EngineLoop(std::unique_ptr<engine::EngineCore> core, const std::string& journal_path)
    : core_(std::move(core)),
      max_request_tokens_(core_->max_request_tokens()),
      block_tokens_(core_->settings().block_tokens) {
  if (!journal_path.empty()) {
    journal_ = std::make_unique<host::JournalFileWriter>(journal_path);
    core_->journal().set_sink(journal_->sink());
  }
  publish();
  thread_ = std::thread([this] { run(); });
}

EngineLoop::~EngineLoop() { stop(); }

void EngineLoop::submit(engine::EngineRequest request, std::shared_ptr<TokenSink> sink) {
  const RequestId id = request.id;
  post({Command::Kind::kSubmit, id, std::move(request), std::move(sink)});
}
void EngineLoop::cancel(RequestId id) { post({Command::Kind::kCancel, id, {}, nullptr}); }
void EngineLoop::drain() { post({Command::Kind::kDrain, {}, {}, nullptr}); }

void EngineLoop::post(Command command) {
  {
    const std::lock_guard lock(mutex_);
    mailbox_.push_back(std::move(command));
  }
  wake_.notify_one();
}

void EngineLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

EngineSnapshot EngineLoop::snapshot() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

void EngineLoop::on_drained(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  on_drained_ = std::move(callback);
}

// Waits only when there is nothing to compute. False: stop.
bool EngineLoop::take_commands(std::vector<Command>& out, bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) {
    wake_.wait_for(lock, std::chrono::nanoseconds(kFlushEvery.value()),
                   [this] { return stopping_ || !mailbox_.empty(); });
  }
  out.clear();
  std::swap(out, mailbox_);
  return !stopping_;
}

void EngineLoop::handle(Command& command) {
  const Time now = host::monotonic_now();
  switch (command.kind) {
    case Command::Kind::kSubmit: {
      try {
        const policy::SubmitResult result = core_->submit(std::move(command.request), now);
        if (result.accepted()) {
          sinks_.emplace(command.id, std::move(command.sink));
        } else {
          command.sink->on_rejected(result);
        }
      } catch (const InputError& error) {
        command.sink->on_invalid(error.what());
      }
      break;
    }
    case Command::Kind::kCancel:
      core_->cancel(command.id, now);
      break;
    case Command::Kind::kDrain:
      core_->drain(now);
      draining_ = true;
      break;
  }
}

void EngineLoop::deliver_events() {
  const std::vector<engine::EngineEvent> events = core_->take_events();
  if (events.empty()) return;
  std::vector<std::shared_ptr<TokenSink>> touched;
  for (const engine::EngineEvent& event : events) {
    const auto found = sinks_.find(event.id);
    if (found == sinks_.end()) continue;
    if (event.has_token) ++generated_tokens_;
    found->second->on_event(event);
    if (touched.empty() || touched.back() != found->second) touched.push_back(found->second);
    if (event.finished) sinks_.erase(found);
  }
  for (const auto& sink : touched) sink->on_step_end();
}

void EngineLoop::publish() {
  std::function<void()> drained;
  {
    const std::lock_guard lock(mutex_);
    snapshot_.load = core_->load();
    snapshot_.steps = core_->steps();
    snapshot_.generated_tokens = generated_tokens_;
    snapshot_.journal_records = core_->journal().count();
    snapshot_.draining = draining_;
    snapshot_.drained = draining_ && core_->drained();
    if (snapshot_.drained && !std::exchange(told_drained_, true)) drained = on_drained_;
  }
  if (drained) drained();
}

void EngineLoop::flush_journal_if_due(bool now) {
  if (!journal_) return;
  const Time time = host::monotonic_now();
  if (!now && time < next_flush_) return;
  // Only what is already recorded: flushing the run in progress would cut it, and a journal should
  // not depend on when its file was flushed. An idle engine has nothing in progress to cut.
  if (!core_->has_work()) core_->flush_journal();
  journal_->flush();
  next_flush_ = time + kFlushEvery;
}

void EngineLoop::run() {
  std::vector<Command> commands;
  bool idle = true;
  while (take_commands(commands, idle)) {
    for (Command& command : commands) handle(command);
    deliver_events();  // finishes of cancelled requests
    const engine::Progress progress = core_->advance(host::monotonic_now());
    if (progress == engine::Progress::kInFlight) core_->wait_for_step();
    deliver_events();
    idle = progress == engine::Progress::kIdle;
    publish();
    flush_journal_if_due(!commands.empty());
  }
  // A sink that is still here must hear its end, or its call would hang.
  std::vector<RequestId> left;
  left.reserve(sinks_.size());
  for (const auto& entry : sinks_) left.push_back(entry.first);
  for (Command& command : commands) {
    if (command.kind == Command::Kind::kSubmit) command.sink->on_invalid("the worker is stopping");
  }
  for (const RequestId id : left) core_->cancel(id, host::monotonic_now());
  while (core_->has_work()) {
    core_->wait_for_step();
    core_->advance(host::monotonic_now());
  }
  deliver_events();
  if (journal_) {
    core_->flush_journal();
    journal_->flush();
    core_->journal().set_sink(nullptr);
  }
  publish();
}

}  // namespace orrery::serve
