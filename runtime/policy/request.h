// What the brain knows of a request. It never knows how long the answer will be: an output length
// belongs to the executor (a trace's row in the twin, the model's EOS in the engine).
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/base/units.h"

namespace orrery::policy {

struct Request {
  RequestId id;
  Time arrival;
  Tokens prompt_tokens;  // >= 1
  Tokens max_tokens;     // output limit, >= 1; set by the gateway, never the trace's own length
  // Hash chain of the prompt's full blocks (prompt_tokens / block_tokens of them), or empty when
  // nothing of it can be shared. hash[i] covers blocks 0..i.
  std::vector<BlockHash> block_hashes;
  ModelId model;
  SessionId session;
  TenantId tenant;
  std::int32_t priority = 0;  // smaller is more urgent
};

enum class FinishReason : std::uint8_t {
  kStop,       // the model ended it (EOS, stop string)
  kLength,     // max_tokens reached
  kCancelled,  // the client went away or asked for it
  kError,      // the executor failed
};
std::string_view name_of(FinishReason reason);

// Why an instance does not take a request.
enum class RejectReason : std::uint8_t {
  kNone,
  kNeverFits,  // prompt + max_tokens exceed the whole KV pool or the model's context
  kQueueFull,
  kDraining,
  kDuplicateId,
  kEmptyPrompt,
  kNoInstance,  // router: no instance serves this model (or none is ready)
};
std::string_view name_of(RejectReason reason);

// An answer to submit(). For kNeverFits the two numbers say by how much.
struct SubmitResult {
  RejectReason reason = RejectReason::kNone;
  Tokens needed, available;
  bool accepted() const { return reason == RejectReason::kNone; }
};

// Life of a request inside one instance:
//   waiting -> running -> finished;   running -> waiting (preempted: its blocks are freed, its
//   tokens are computed again);   any -> finished (cancel).
enum class RequestState : std::uint8_t { kWaiting, kRunning, kFinished };

}  // namespace orrery::policy
