#include "runtime/serve/control/worker_client.h"

#include <deque>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <worker.grpc.pb.h>

namespace orrery::serve {
namespace {

namespace wire = orrery::worker::v1;

GenerationEvent from_wire(const wire::GenerateEvent& in) {
  GenerationEvent out;
  out.tokens.assign(in.tokens().begin(), in.tokens().end());
  out.cached_tokens = static_cast<std::int64_t>(in.cached_tokens());
  if (in.finish() > 0) {
    out.end = GenerationEvent::End::kFinished;
    out.finish = static_cast<policy::FinishReason>(in.finish() - 1);
    out.error = in.error();
  } else if (in.reject() > 0) {
    out.end = GenerationEvent::End::kRejected;
    out.reject = static_cast<policy::RejectReason>(in.reject() - 1);
    out.needed_tokens = static_cast<std::int64_t>(in.needed_tokens());
    out.available_tokens = static_cast<std::int64_t>(in.available_tokens());
  }
  return out;
}

// The consumer's half: lives on the io_context's thread.
class Stream final : public GenerationStream, public std::enable_shared_from_this<Stream> {
 public:
  // gRPC's half: its callbacks post to the consumer's half. Deletes itself when gRPC is done.
  class Reactor final : public grpc::ClientReadReactor<wire::GenerateEvent> {
   public:
    Reactor(net::any_io_executor executor, std::shared_ptr<Stream> stream)
        : executor_(std::move(executor)), stream_(std::move(stream)) {}
    void OnReadInitialMetadataDone(bool ok) override {
      if (ok) post([](Stream& stream) { stream.on_held(); });
    }
    void OnReadDone(bool ok) override {
      if (ok) {
        post([event = from_wire(message)](Stream& stream) mutable {
          stream.on_event(std::move(event));
        });
      } else {
        RemoveHold();  // no more operations are started from outside
      }
    }
    void OnDone(const grpc::Status& status) override {
      post([status](Stream& stream) { stream.on_done(status); });
      net::post(executor_, [this] { delete this; });
    }

    grpc::ClientContext context;
    wire::GenerateRequest request;
    wire::GenerateEvent message;

   private:
    template <class Action>
    void post(Action action) {
      net::post(executor_,
                [stream = stream_, action = std::move(action)]() mutable { action(*stream); });
    }
    net::any_io_executor executor_;
    std::shared_ptr<Stream> stream_;
  };

  explicit Stream(const net::any_io_executor& executor) : wake_(executor) {}

  void start(Reactor* reactor, wire::Worker::Stub& stub) {
    reactor_ = reactor;
    stub.async()->Generate(&reactor->context, &reactor->request, reactor);
    reactor->AddHold();
    reading_ = true;
    reactor->StartRead(&reactor->message);
    reactor->StartCall();
  }

  net::awaitable<std::optional<GenerationEvent>> next() override {
    if (events_.empty() && !ended_) co_await wake_.wait();
    if (events_.empty()) co_return std::nullopt;
    GenerationEvent event = std::move(events_.front());
    events_.pop_front();
    ended_ = event.end != GenerationEvent::End::kNotYet;
    read_more();
    co_return event;
  }
  void wake() override { wake_.notify(); }
  void cancel() override {
    cancel_wanted_ = true;
    if (held_ && reactor_ != nullptr) reactor_->context.TryCancel();
    read_more();
  }

  void on_held() {
    held_ = true;
    if (cancel_wanted_) cancel();
  }
  void on_event(GenerationEvent event) {
    reading_ = false;
    if (event.end != GenerationEvent::End::kNotYet) got_end_ = true;
    if (!cancel_wanted_ || got_end_) events_.push_back(std::move(event));
    wake_.notify();
    read_more();
  }
  void on_done(const grpc::Status& status) {
    reactor_ = nullptr;
    if (got_end_) return;
    got_end_ = true;
    GenerationEvent event;
    if (status.error_code() == grpc::StatusCode::CANCELLED && cancel_wanted_) {
      event.end = GenerationEvent::End::kFinished;
      event.finish = policy::FinishReason::kCancelled;
    } else {
      event.end = GenerationEvent::End::kWorkerLost;
      event.error = status.error_message();
    }
    events_.push_back(std::move(event));
    wake_.notify();
  }

 private:
  void read_more() {
    if (reading_ || reactor_ == nullptr) return;
    // A cancelled call is read to its end whether or not anyone listens, or it would stay open.
    if (events_.size() >= kReadAhead && !cancel_wanted_) return;
    reading_ = true;
    reactor_->StartRead(&reactor_->message);
  }

  AsyncEvent wake_;
  std::deque<GenerationEvent> events_;
  Reactor* reactor_ = nullptr;  // owns itself; null once gRPC is done with the call
  bool reading_ = false, held_ = false, cancel_wanted_ = false, got_end_ = false, ended_ = false;
};

}  // namespace

struct WorkerClient::Impl {
  net::any_io_executor executor;
  std::unique_ptr<wire::Worker::Stub> stub;
};

WorkerClient::WorkerClient(const net::any_io_executor& executor, const std::string& address)
    : impl_(std::make_shared<Impl>()) {
  impl_->executor = executor;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(64 << 20);
  // Own connection for each worker, quick to notice that a restarted one is there.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  impl_->stub = wire::Worker::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}
WorkerClient::~WorkerClient() = default;

std::shared_ptr<GenerationStream> WorkerClient::generate(const engine::EngineRequest& request) {
  auto stream = std::make_shared<Stream>(impl_->executor);
  auto* reactor = new Stream::Reactor(impl_->executor, stream);
  wire::GenerateRequest& out = reactor->request;
  out.set_request_id(request.id.value);
  out.mutable_prompt()->Assign(request.prompt.begin(), request.prompt.end());
  out.set_max_tokens(static_cast<std::uint32_t>(request.max_tokens));
  out.mutable_sampling()->set_temperature(request.sampling.temperature);
  out.mutable_sampling()->set_top_p(request.sampling.top_p);
  out.mutable_sampling()->set_top_k(request.sampling.top_k);
  out.mutable_sampling()->set_seed(request.sampling.seed);
  out.mutable_sampling()->set_ignore_eos(request.ignore_end);
  out.set_priority(request.priority);
  out.set_model(request.model.value);
  stream->start(reactor, *impl_->stub);
  return stream;
}

namespace {

// One unary call as a coroutine: the callback posts, the event wakes us.
template <class Reply>
struct Unary {
  explicit Unary(const net::any_io_executor& executor) : done(executor) {}
  grpc::ClientContext context;
  Reply reply;
  AsyncEvent done;
  bool finished = false, ok = false;
};

template <class Reply, class Start>
net::awaitable<std::shared_ptr<Unary<Reply>>> call(net::any_io_executor executor,
                                                   std::chrono::milliseconds limit, Start start) {
  auto unary = std::make_shared<Unary<Reply>>(executor);
  unary->context.set_deadline(std::chrono::system_clock::now() + limit);
  start(*unary, [unary, executor](const grpc::Status& status) {
    net::post(executor, [unary, ok = status.ok()] {
      unary->ok = ok;
      unary->finished = true;
      unary->done.notify();
    });
  });
  while (!unary->finished) co_await unary->done.wait();
  co_return unary;
}

WorkerStatus from_wire(const wire::StatusReply& in) {
  WorkerStatus out;
  const auto count = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  out.running = count(in.running()), out.waiting = count(in.waiting());
  out.blocks_total = count(in.blocks_total()), out.blocks_free = count(in.blocks_free());
  out.preemptions = count(in.preemptions());
  out.prefix_query_tokens = count(in.prefix_query_tokens());
  out.prefix_hit_tokens = count(in.prefix_hit_tokens());
  out.recomputed_tokens = count(in.recomputed_tokens());
  out.steps = count(in.steps()), out.generated_tokens = count(in.generated_tokens());
  out.max_request_tokens = count(in.max_request_tokens());
  out.block_tokens = count(in.block_tokens());
  out.journal_records = count(in.journal_records());
  out.draining = in.draining(), out.drained = in.drained();
  return out;
}

}  // namespace

net::awaitable<std::optional<WorkerStatus>> WorkerClient::status(std::chrono::milliseconds limit) {
  const auto impl = impl_;  // outlives this object when it goes while we wait
  const wire::StatusRequest request;
  const auto unary =
      co_await call<wire::StatusReply>(impl->executor, limit, [&](auto& state, auto done) {
        impl->stub->async()->Status(&state.context, &request, &state.reply, done);
      });
  if (!unary->ok) co_return std::nullopt;
  co_return from_wire(unary->reply);
}

net::awaitable<bool> WorkerClient::drain(std::chrono::milliseconds limit) {
  const auto impl = impl_;
  const wire::DrainRequest request;
  const auto unary =
      co_await call<wire::DrainReply>(impl->executor, limit, [&](auto& state, auto done) {
        impl->stub->async()->Drain(&state.context, &request, &state.reply, done);
      });
  co_return unary->ok;
}

}  // namespace orrery::serve
