// EngineLoop: the thread that drives one EngineCore. Commands come through a mailbox and are taken
// between steps; events leave through each request's sink before the next step starts.
// It owns the core and the journal's file. No gRPC here: tests and benchmarks drive it directly.
//
// Laws: every submit() gives its sink either one rejection or, last, one finished event; a cancel
// acts before the next step starts; after stop() the journal file is complete.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/engine/engine_core.h"
#include "runtime/host/journal_file.h"

namespace orrery::serve {

// Where a request's events go. Called on the engine's thread: take and return, never wait.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void on_rejected(const policy::SubmitResult& why) = 0;
  virtual void on_invalid(const std::string& what) = 0;  // the engine refused its parameters
  virtual void on_event(const engine::EngineEvent& event) = 0;
  virtual void on_step_end() = 0;  // all events of this step were given: send
};

// A snapshot for metrics; refreshed after every step and command.
struct EngineSnapshot {
  policy::InstanceLoad load;
  std::uint64_t steps = 0, generated_tokens = 0, journal_records = 0;
  bool draining = false, drained = false;
};

class EngineLoop {
 public:
  // journal_path empty: only the running hash is kept.
  EngineLoop(std::unique_ptr<engine::EngineCore> core, const std::string& journal_path);
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  void submit(engine::EngineRequest request, std::shared_ptr<TokenSink> sink);
  void cancel(RequestId id);
  void drain();
  // Ends the thread after the step in flight; what still runs is cancelled. Idempotent.
  void stop();
  EngineSnapshot snapshot() const;
  Tokens max_request_tokens() const { return max_request_tokens_; }
  Tokens block_tokens() const { return block_tokens_; }
  // Called once, on the engine's thread, when a drain is complete.
  void on_drained(std::function<void()> callback);

 private:
  struct Command {
    enum class Kind : std::uint8_t { kSubmit, kCancel, kDrain } kind;
    RequestId id;
    engine::EngineRequest request;
    std::shared_ptr<TokenSink> sink;
  };
  void run();
  void post(Command command);
  bool take_commands(std::vector<Command>& out, bool wait);
  void handle(Command& command);
  void deliver_events();
  void publish();
  void flush_journal_if_due(bool now);

  std::unique_ptr<engine::EngineCore> core_;                         // engine thread only
  std::unordered_map<RequestId, std::shared_ptr<TokenSink>> sinks_;  // engine thread only
  std::unique_ptr<host::JournalFileWriter> journal_;                 // engine thread only
  Time next_flush_;                                                  // engine thread only
  std::uint64_t generated_tokens_ = 0;                               // engine thread only
  bool draining_ = false, told_drained_ = false;                     // engine thread only
  Tokens max_request_tokens_, block_tokens_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Command> mailbox_;
  EngineSnapshot snapshot_;
  std::function<void()> on_drained_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace orrery::serve
