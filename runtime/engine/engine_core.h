// EngineCore: one model replica, live. It joins the brain (policy::Instance decides what to
// compute) and an Executor (computes it), and keeps the token ids that neither of them keeps.
// No thread and no clock: the driver gives the time and calls advance().
//
//   while (…) { for (commands) core.submit(…) / core.cancel(…);
//               switch (core.advance(now)) …;  send(core.take_events()); }
//
// advance() does one thing a call, either starts a step or completes the one that is out, so that
// events can leave before the next step starts and each has its own time.
//
// Laws (tests/engine): every accepted request gets exactly one finish event, last;
// its tokens are the same whoever shared the batch; the journal verifies.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/engine/block_hashes.h"
#include "runtime/engine/executor.h"
#include "runtime/policy/instance.h"

namespace orrery::engine {

struct EngineRequest {
  RequestId id;
  std::vector<TokenId> prompt;  // >= 1, with BOS
  SamplingParams sampling;
  std::int64_t max_tokens = 16;
  bool ignore_end = false;   // do not stop at the model's end tokens (benchmarks: ignore_eos)
  bool share_prefix = true;  // off: its blocks are neither looked up nor published
  SessionId session;
  TenantId tenant;
  ModelId model;
  std::int32_t priority = 0;
};

// A token, or the end, or both: the last token and the finish come in one event.
struct EngineEvent {
  RequestId id;
  bool has_token = false;  // an end token that stopped the request is not handed out
  TokenId token = 0;
  std::int64_t index = 0;  // of the token in the answer, from 0
  bool finished = false;
  policy::FinishReason reason = policy::FinishReason::kStop;
  std::int64_t prompt_tokens = 0, cached_tokens = 0;  // found in the prefix cache at admission
  std::int64_t generated_tokens = 0;                  // so far
};

struct EngineOptions {
  std::vector<TokenId> end_ids;
  std::uint64_t hash_salt = kDefaultHashSalt;
  BlockHashFunction hash = hash_block_ids;
  // Compares token ids on each prefix hit. Hashes are 64 bits and not cryptographic: a request
  // whose hit is not its own prefix ends with kError instead of reading another's cache.
  bool verify_prefix_hits = true;
};

enum class Progress : std::uint8_t {
  kIdle,       // nothing to do
  kStarted,    // a step went out
  kInFlight,   // it is still out
  kCompleted,  // it came back: see take_events()
};

class EngineCore final : private policy::BlockHasher {
 public:
  // Throws InputError when settings and executor do not fit together.
  EngineCore(const policy::InstanceSettings& settings, std::unique_ptr<Executor> executor,
             EngineOptions options);
  ~EngineCore() override;
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // Throws InputError for sampling parameters or ids out of range.
  policy::SubmitResult submit(EngineRequest request, Time now);
  // True when it was here and not finished. Its finish event (kCancelled) is in take_events().
  bool cancel(RequestId id, Time now);
  Progress advance(Time now);
  void wait_for_step() { executor_->wait(); }
  std::vector<EngineEvent> take_events();

  void drain(Time now) { instance_.drain(now); }
  bool drained() const { return instance_.drained(); }
  bool has_work() const { return in_flight_ || instance_.has_work(); }
  policy::InstanceLoad load() const { return instance_.load(); }
  const policy::InstanceSettings& settings() const { return instance_.settings(); }
  Tokens max_request_tokens() const { return instance_.max_request_tokens(); }
  const ExecutorInfo& executor_info() const { return executor_->info(); }
  JournalWriter& journal() { return instance_.journal(); }
  void flush_journal() { instance_.flush_journal(); }
  void check_invariants() const { instance_.check_invariants(); }
  // What the last step held; for metrics and calibration.
  const cost::StepShape& last_shape() const { return shape_; }
  std::uint64_t steps() const { return steps_; }

 private:
  struct Live {
    EngineRequest request;
    std::vector<TokenId> ids;  // prompt, then what was generated
    std::int64_t cached = 0;
    std::int64_t generated() const {
      return static_cast<std::int64_t>(ids.size() - request.prompt.size());
    }
  };
  BlockHash hash_block(RequestId id, std::uint32_t slot, std::int64_t index,
                       BlockHash parent) override;
  bool start(Time now);
  void complete(const StepOutput& output, Time now);
  void end(RequestId id, policy::FinishReason reason);
  EngineEvent event_of(const Live& live) const;
  bool hit_is_own_prefix(const Live& live, std::span<const BlockId> table,
                         std::int64_t cached) const;
  void remember_ids(const Live& live, std::span<const BlockId> table, std::int64_t first,
                    std::int64_t count);
  bool ends(const Live& live, TokenId token) const;

  policy::Instance instance_;
  std::unique_ptr<Executor> executor_;
  EngineOptions options_;
  std::unordered_map<RequestId, Live> live_;  // looked up by id only
  std::vector<TokenId> pool_ids_;             // token ids in each block of the pool
  std::vector<policy::StepItem> items_;       // of the step that is out
  std::vector<EngineEvent> events_;
  cost::StepShape shape_;
  std::uint64_t step_id_ = 0, steps_ = 0;
  bool in_flight_ = false;
};

}  // namespace orrery::engine
