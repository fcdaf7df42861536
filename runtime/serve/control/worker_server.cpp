#include "runtime/serve/control/worker_server.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <worker.grpc.pb.h>

#include "runtime/base/errors.h"
#include "runtime/serve/control/engine_loop.h"

namespace orrery::serve {
namespace {

namespace wire = orrery::worker::v1;

// Tokens that wait for one reader before its request is cancelled. The gateway reads as fast as
// its client does, so this bounds what a client that stopped reading costs: 64 KiB.
constexpr int kMaxPendingTokens = 16384;

// One Generate call. The engine's thread pushes, gRPC's threads send; at most one write is out and
// what comes meanwhile is gathered into the next. Lives until both gRPC and the engine let go.
class GenerateCall final : public grpc::ServerWriteReactor<wire::GenerateEvent>, public TokenSink {
 public:
  static grpc::ServerWriteReactor<wire::GenerateEvent>* start(EngineLoop& loop,
                                                              const wire::GenerateRequest& wire) {
    auto call = std::make_shared<GenerateCall>(loop, RequestId{wire.request_id()});
    call->self_ = call;
    call->StartSendInitialMetadata();
    engine::EngineRequest request;
    request.id = RequestId{wire.request_id()};
    request.prompt.assign(wire.prompt().begin(), wire.prompt().end());
    request.max_tokens = wire.max_tokens();
    request.sampling.temperature = wire.sampling().temperature();
    request.sampling.top_p = wire.sampling().top_p();
    request.sampling.top_k = wire.sampling().top_k();
    request.sampling.seed = wire.sampling().seed();
    request.ignore_end = wire.sampling().ignore_eos();
    request.priority = wire.priority();
    request.model = ModelId{wire.model()};
    loop.submit(std::move(request), call);
    return call.get();
  }

  GenerateCall(EngineLoop& loop, RequestId id) : loop_(loop), id_(id) {}

  void on_rejected(const policy::SubmitResult& why) override {
    const std::lock_guard lock(mutex_);
    pending_.set_reject(static_cast<std::uint32_t>(why.reason) + 1);
    pending_.set_needed_tokens(static_cast<std::uint64_t>(why.needed.value()));
    pending_.set_available_tokens(static_cast<std::uint64_t>(why.available.value()));
    end_locked();
  }
  void on_invalid(const std::string& what) override {
    const std::lock_guard lock(mutex_);
    pending_.set_finish(static_cast<std::uint32_t>(policy::FinishReason::kError) + 1);
    pending_.set_error(what);
    end_locked();
  }
  void on_event(const engine::EngineEvent& event) override {
    const std::lock_guard lock(mutex_);
    if (event.has_token) pending_.add_tokens(static_cast<std::uint32_t>(event.token));
    pending_.set_cached_tokens(static_cast<std::uint64_t>(event.cached_tokens));
    if (event.finished) {
      pending_.set_finish(static_cast<std::uint32_t>(event.reason) + 1);
      if (event.reason == policy::FinishReason::kError) pending_.set_error("the engine failed");
      last_ = true;
    }
    has_pending_ = true;
    if (pending_.tokens_size() > kMaxPendingTokens) loop_.cancel(id_);
  }
  void on_step_end() override {
    const std::lock_guard lock(mutex_);
    send_locked();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) broken_ = true;
    send_locked();
  }
  void OnCancel() override {
    bool live = false;
    {
      const std::lock_guard lock(mutex_);
      live = !last_;
      broken_ = true;
      send_locked();
    }
    if (live) loop_.cancel(id_);
  }
  void OnDone() override {
    std::shared_ptr<GenerateCall> self;  // destroyed after the lock is
    const std::lock_guard lock(mutex_);
    done_ = true;
    self = std::move(self_);
  }

 private:
  void end_locked() {
    last_ = true;
    has_pending_ = true;
    send_locked();
  }
  void send_locked() {
    if (writing_ || finished_ || done_) return;
    if (broken_) {
      finished_ = true;
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled"));
      return;
    }
    if (has_pending_) {
      out_.Swap(&pending_);
      pending_.Clear();
      has_pending_ = false;
      writing_ = true;
      if (last_) {
        finished_ = true;
        StartWriteAndFinish(&out_, {}, grpc::Status::OK);
      } else {
        StartWrite(&out_);
      }
    }
  }

  EngineLoop& loop_;
  const RequestId id_;
  std::mutex mutex_;
  std::shared_ptr<GenerateCall> self_;
  wire::GenerateEvent pending_, out_;
  bool has_pending_ = false, writing_ = false, last_ = false, finished_ = false, broken_ = false,
       done_ = false;
};

class Service final : public wire::Worker::CallbackService {
 public:
  explicit Service(EngineLoop& loop) : loop_(loop) {}

  grpc::ServerWriteReactor<wire::GenerateEvent>* Generate(
      grpc::CallbackServerContext*, const wire::GenerateRequest* request) override {
    return GenerateCall::start(loop_, *request);
  }
  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const wire::StatusRequest*,
                                   wire::StatusReply* reply) override {
    const EngineSnapshot now = loop_.snapshot();
    const auto count = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
    reply->set_running(count(now.load.running));
    reply->set_waiting(count(now.load.waiting));
    reply->set_blocks_total(count(now.load.blocks_total.value()));
    reply->set_blocks_free(count(now.load.blocks_free.value()));
    reply->set_preemptions(count(now.load.preemptions));
    reply->set_prefix_query_tokens(count(now.load.prefix_query_tokens));
    reply->set_prefix_hit_tokens(count(now.load.prefix_hit_tokens));
    reply->set_recomputed_tokens(count(now.load.recomputed_tokens));
    reply->set_steps(now.steps);
    reply->set_generated_tokens(now.generated_tokens);
    reply->set_draining(now.draining);
    reply->set_drained(now.drained);
    reply->set_max_request_tokens(count(loop_.max_request_tokens().value()));
    reply->set_block_tokens(count(loop_.block_tokens().value()));
    reply->set_journal_records(now.journal_records);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context, const wire::DrainRequest*,
                                  wire::DrainReply*) override {
    loop_.drain();
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  EngineLoop& loop_;
};

}  // namespace

struct WorkerServer::Impl {
  explicit Impl(EngineLoop& loop) : service(loop) {}
  Service service;
  std::unique_ptr<grpc::Server> server;
  std::string address;
};

WorkerServer::WorkerServer(EngineLoop& loop, const std::string& address)
    : impl_(std::make_unique<Impl>(loop)) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&impl_->service);
  builder.SetMaxReceiveMessageSize(64 << 20);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  impl_->server = builder.BuildAndStart();
  const bool is_unix = address.rfind("unix:", 0) == 0;
  if (!impl_->server || (!is_unix && port == 0)) {
    throw InputError({"--listen", 0, ""}, "\"" + address + "\", where it cannot listen",
                     "a free address");
  }
  impl_->address =
      is_unix ? address : address.substr(0, address.rfind(':') + 1) + std::to_string(port);
}

WorkerServer::~WorkerServer() { shutdown(); }
const std::string& WorkerServer::address() const { return impl_->address; }
void WorkerServer::shutdown() {
  if (!impl_->server) return;
  impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
  impl_->server->Wait();
  impl_->server.reset();
}

}  // namespace orrery::serve
