// EngineLoop, and the control plane over it: a real engine with a small random model, a real gRPC
// server and client on the loopback.
#include "runtime/serve/control/engine_loop.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/engine/cpu/cpu_executor.h"
#include "runtime/engine/model.h"
#include "runtime/host/journal_file.h"
#include "runtime/policy/journal.h"
#include "runtime/serve/control/worker_client.h"
#include "runtime/serve/control/worker_server.h"

namespace orrery::serve {
namespace {

engine::ModelShape tiny_shape() {
  engine::ModelShape shape;
  shape.width = 32, shape.layers = 1, shape.heads = 2, shape.kv_heads = 2, shape.head_dim = 16;
  shape.feed_forward = 32, shape.vocabulary = 260, shape.max_context = 8192;
  return shape;
}

std::unique_ptr<engine::EngineCore> tiny_core() {
  policy::InstanceSettings settings;
  settings.block_tokens = Tokens(16), settings.kv_blocks = Blocks(600);
  settings.max_batched_tokens = Tokens(64), settings.max_running = 4;
  settings.max_context = Tokens(8192);
  settings.max_waiting = 3;
  engine::CpuExecutorSettings cpu;
  cpu.block_tokens = 16, cpu.kv_blocks = 600, cpu.max_batched_tokens = 64;
  return std::make_unique<engine::EngineCore>(
      settings, engine::make_cpu_executor(engine::make_random_weights(tiny_shape(), 1), cpu),
      engine::EngineOptions{});
}

engine::EngineRequest request_of(std::uint64_t id, std::int64_t max_tokens) {
  engine::EngineRequest request;
  request.id = RequestId{id};
  request.prompt = {1, 5, 6, 7};
  request.max_tokens = max_tokens;
  request.ignore_end = true;
  return request;
}

class Sink final : public TokenSink {
 public:
  void on_rejected(const policy::SubmitResult& why) override { end(0, &why); }
  void on_invalid(const std::string&) override { end(1, nullptr); }
  void on_event(const engine::EngineEvent& event) override {
    const std::lock_guard lock(mutex_);
    if (event.has_token) tokens_.push_back(event.token);
    if (event.finished) reason_ = event.reason, ++ends_;
    changed_.notify_all();
  }
  void on_step_end() override {}
  bool wait_end() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [this] { return ends_ > 0; });
  }
  bool wait_tokens(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return tokens_.size() >= count; });
  }
  int ends() const { return ends_; }
  policy::FinishReason reason() const { return reason_; }
  policy::RejectReason reject() const { return reject_; }
  std::vector<engine::TokenId> tokens() const { return tokens_; }

 private:
  void end(int, const policy::SubmitResult* why) {
    const std::lock_guard lock(mutex_);
    if (why != nullptr) reject_ = why->reason;
    ++ends_;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<engine::TokenId> tokens_;
  policy::FinishReason reason_ = policy::FinishReason::kStop;
  policy::RejectReason reject_ = policy::RejectReason::kNone;
  int ends_ = 0;
};

std::string temporary(const char* name) {
  return (std::filesystem::temp_directory_path() /
          ("orrery-" + std::to_string(getpid()) + "-" + name))
      .string();
}

TEST(EngineLoop, every_submit_ends_exactly_once_also_when_cancelled_rejected_or_stopped) {
  const std::string path = temporary("loop.journal");
  std::vector<std::shared_ptr<Sink>> sinks;
  {
    EngineLoop loop(tiny_core(), path);
    for (std::uint64_t id = 1; id <= 12; ++id) {
      sinks.push_back(std::make_shared<Sink>());
      loop.submit(request_of(id, id == 1 ? 4000 : 5), sinks.back());
    }
    loop.submit(request_of(99, 1 << 20), sinks.emplace_back(std::make_shared<Sink>()));
    ASSERT_TRUE(sinks[0]->wait_tokens(2));
    loop.cancel(RequestId{2});
    loop.cancel(RequestId{12345});  // unknown: nothing happens
    for (std::size_t i = 1; i < sinks.size(); ++i) ASSERT_TRUE(sinks[i]->wait_end()) << i;
    loop.stop();
  }
  for (std::size_t i = 0; i < sinks.size(); ++i) EXPECT_EQ(sinks[i]->ends(), 1) << i;
  EXPECT_EQ(sinks[0]->reason(), policy::FinishReason::kCancelled);
  EXPECT_EQ(sinks.back()->reject(), policy::RejectReason::kNeverFits);
  host::JournalFileReader reader(path);
  const auto verdict = policy::verify_journal([&] { return reader.next(); });
  EXPECT_TRUE(verdict.ok) << verdict.bad_record << " " << verdict.detail;
  EXPECT_GT(verdict.records, 13U);
  std::filesystem::remove(path);
}

TEST(EngineLoop, a_drain_finishes_what_runs_and_refuses_what_is_new) {
  EngineLoop loop(tiny_core(), "");
  std::mutex mutex;
  std::condition_variable told;
  bool drained = false;
  loop.on_drained([&] {
    const std::lock_guard lock(mutex);
    drained = true;
    told.notify_all();
  });
  const auto before = std::make_shared<Sink>(), after = std::make_shared<Sink>();
  loop.submit(request_of(1, 20), before);
  loop.drain();
  loop.submit(request_of(2, 5), after);
  ASSERT_TRUE(before->wait_end() && after->wait_end());
  EXPECT_EQ(before->tokens().size(), 20U);
  EXPECT_EQ(before->reason(), policy::FinishReason::kLength);
  EXPECT_EQ(after->reject(), policy::RejectReason::kDraining);
  std::unique_lock lock(mutex);
  EXPECT_TRUE(told.wait_for(lock, std::chrono::seconds(10), [&] { return drained; }));
}

// Runs a coroutine to its end on a context of its own.
template <class Body>
void on_io(Body body) {
  net::io_context context{1};
  std::exception_ptr failure;
  net::co_spawn(context, body(context), [&](std::exception_ptr error) { failure = error; });
  context.run();
  if (failure) std::rethrow_exception(failure);
}

TEST(Control, tokens_over_grpc_equal_tokens_from_the_loop) {
  EngineLoop loop(tiny_core(), "");
  const auto direct = std::make_shared<Sink>();
  loop.submit(request_of(1, 12), direct);
  ASSERT_TRUE(direct->wait_end());
  WorkerServer server(loop, "127.0.0.1:0");
  on_io([&](net::io_context& context) -> net::awaitable<void> {
    WorkerClient client(context.get_executor(), server.address());
    const auto stream = client.generate(request_of(2, 12));
    std::vector<engine::TokenId> tokens;
    GenerationEvent::End end = GenerationEvent::End::kNotYet;
    while (end == GenerationEvent::End::kNotYet) {
      const auto event = co_await stream->next();
      if (!event) continue;
      tokens.insert(tokens.end(), event->tokens.begin(), event->tokens.end());
      end = event->end;
      if (end == GenerationEvent::End::kFinished) {
        EXPECT_EQ(event->finish, policy::FinishReason::kLength);
      }
    }
    EXPECT_EQ(end, GenerationEvent::End::kFinished);
    EXPECT_EQ(tokens, direct->tokens());
    EXPECT_FALSE((co_await stream->next()).has_value()) << "nothing comes after the end";
    const auto status = co_await client.status(std::chrono::seconds(5));
    EXPECT_TRUE(status.has_value());
    EXPECT_EQ(status ? status->running : -1, 0);
  });
}

TEST(Control, a_cancelled_call_still_has_its_one_submit_and_frees_the_engine) {
  EngineLoop loop(tiny_core(), "");
  WorkerServer server(loop, "127.0.0.1:0");
  on_io([&](net::io_context& context) -> net::awaitable<void> {
    WorkerClient client(context.get_executor(), server.address());
    const auto now = client.generate(request_of(1, 8000));
    now->cancel();  // before the worker can hold it
    const auto later = client.generate(request_of(2, 8000));
    co_await later->next();
    later->cancel();
    for (int i = 0; i < 400; ++i) {
      const auto status = co_await client.status(std::chrono::seconds(5));
      if (status && status->running + status->waiting == 0 && status->steps > 0) break;
      co_await sleep_for(std::chrono::milliseconds(10));
    }
    const EngineSnapshot snapshot = loop.snapshot();
    EXPECT_EQ(snapshot.load.running + snapshot.load.waiting, 0);
    EXPECT_EQ(snapshot.load.blocks_free.value(), snapshot.load.blocks_total.value());
    EXPECT_LT(snapshot.generated_tokens, 8000U);
  });
}

TEST(Control, a_worker_that_is_gone_ends_the_stream_with_a_lost_worker) {
  auto loop = std::make_unique<EngineLoop>(tiny_core(), "");
  auto server = std::make_unique<WorkerServer>(*loop, "127.0.0.1:0");
  const std::string address = server->address();
  server.reset();
  loop.reset();
  on_io([&](net::io_context& context) -> net::awaitable<void> {
    WorkerClient client(context.get_executor(), address);
    const auto stream = client.generate(request_of(1, 5));
    const auto event = co_await stream->next();
    EXPECT_TRUE(event && event->end == GenerationEvent::End::kWorkerLost);
    EXPECT_FALSE((co_await client.status(std::chrono::milliseconds(300))).has_value());
  });
}

}  // namespace
}  // namespace orrery::serve
