// The gateway's side of the control plane: calls to one worker. Everything here is used from the
// io_context's thread; gRPC's threads only post to it. gRPC headers stay in the .cpp.
//
// Laws: a stream ends with exactly one event whose `end` is set; it reads ahead at most
// kReadAhead events, so a slow consumer slows the worker's sends; cancel() waits until the worker
// holds the request, so that each placement has its one submit.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/engine_core.h"
#include "runtime/policy/request.h"
#include "runtime/serve/asio.h"

namespace orrery::serve {

struct GenerationEvent {
  enum class End : std::uint8_t {
    kNotYet,
    kFinished,    // see finish
    kRejected,    // see reject
    kWorkerLost,  // the connection broke: the worker died or was killed
  };
  std::vector<engine::TokenId> tokens;
  End end = End::kNotYet;
  policy::FinishReason finish = policy::FinishReason::kStop;
  policy::RejectReason reject = policy::RejectReason::kNone;
  std::int64_t needed_tokens = 0, available_tokens = 0;  // of a reject kNeverFits
  std::int64_t cached_tokens = 0;
  std::string error;
};

class GenerationStream {
 public:
  static constexpr std::size_t kReadAhead = 8;
  virtual ~GenerationStream() = default;
  // The next event, or nullopt after wake(): look at why you woke it. After the end: nullopt.
  virtual net::awaitable<std::optional<GenerationEvent>> next() = 0;
  virtual void wake() = 0;
  virtual void cancel() = 0;
};

// What a worker says of itself, with the time it was received.
struct WorkerStatus {
  std::int64_t running = 0, waiting = 0, blocks_total = 0, blocks_free = 0;
  std::int64_t preemptions = 0, prefix_query_tokens = 0, prefix_hit_tokens = 0;
  std::int64_t recomputed_tokens = 0, steps = 0, generated_tokens = 0;
  std::int64_t max_request_tokens = 0, block_tokens = 0, journal_records = 0;
  bool draining = false, drained = false;
};

class WorkerClient {
 public:
  WorkerClient(const net::any_io_executor& executor, const std::string& address);
  ~WorkerClient();
  std::shared_ptr<GenerationStream> generate(const engine::EngineRequest& request);
  // nullopt when it does not answer within the limit.
  net::awaitable<std::optional<WorkerStatus>> status(std::chrono::milliseconds limit);
  // True when the worker has agreed to drain; it exits when it is done.
  net::awaitable<bool> drain(std::chrono::milliseconds limit);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace orrery::serve
