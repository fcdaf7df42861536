// What the gateway adds to the time to the first token: the same request to one worker, over gRPC
// directly and over HTTP through the gateway, one after the other, the first by turns. What is
// reported is each round's own difference: a round's two requests see the same machine, and
// quantiles of the two alone do not subtract. Bar: at most 2 ms at p50. Prints figures, asserts
// nothing.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

// Asio through our header first: it prepares Boost 1.74 for coroutines.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include "runtime/engine/cpu/cpu_executor.h"
#include "runtime/engine/settings.h"
#include "runtime/serve/asio.h"
#include "runtime/serve/control/engine_loop.h"
#include "runtime/serve/control/worker_server.h"
#include "runtime/serve/gateway.h"

namespace orrery::serve {
namespace {

using Clock = std::chrono::steady_clock;
using tcp = net::ip::tcp;
constexpr int kRounds = 300, kWarmUp = 20;
constexpr int kPromptTokens = 64;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double quantile(std::vector<double>& values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

std::unique_ptr<engine::EngineCore> make_core(const engine::ModelCard& card) {
  const policy::InstanceSettings settings = engine::default_embedded_settings();
  engine::CpuExecutorSettings cpu;
  cpu.block_tokens = settings.block_tokens.value();
  cpu.kv_blocks = settings.kv_blocks.value();
  cpu.max_batched_tokens = settings.max_batched_tokens.value();
  return std::make_unique<engine::EngineCore>(
      settings, engine::make_cpu_executor(engine::load_weights(card), cpu),
      engine::EngineOptions{});
}

// Prompts that share nothing, so that both ways compute the same.
engine::TokenId token_of(int round, int at) { return 5 + (round * 31 + at * 7 + at * round) % 200; }

class Setup {
 public:
  Setup()
      : card_(engine::load_card("embedded")),
        loop_(make_core(card_), ""),
        server_(loop_, "127.0.0.1:0") {
    gateway_ = std::make_unique<Gateway>(GatewayOptions{});
    gateway_->set_model({ModelId{1}, card_, loop_.block_tokens().value()});
    http_ = std::make_unique<HttpServer>(context_, "127.0.0.1", 0, [this](HttpExchange& exchange) {
      return gateway_->handle(exchange);
    });
    client_ = std::make_shared<WorkerClient>(context_.get_executor(), server_.address());
    thread_ = std::thread([this] {
      const auto guard = net::make_work_guard(context_);
      context_.run();
    });
    on_context([this]() -> net::awaitable<double> {
      const auto status = co_await client_->status(std::chrono::seconds(10));
      gateway_->add_worker(InstanceId{1}, "main-0", ModelId{1}, client_, *status);
      co_return 0;
    });
  }
  ~Setup() {
    socket_.reset();
    on_context([this]() -> net::awaitable<double> {  // the last answer's coroutine ends first
      http_->stop_accepting();
      while (http_->connections() > 0) co_await sleep_for(std::chrono::milliseconds(1));
      co_return 0;
    });
    context_.stop();
    thread_.join();
    client_.reset();
    server_.shutdown();
  }

  double direct(int round) {
    return on_context([this, round]() -> net::awaitable<double> {
      engine::EngineRequest request;
      request.id = RequestId{1'000'000 + static_cast<std::uint64_t>(round)};
      for (int i = 0; i < kPromptTokens; ++i) request.prompt.push_back(token_of(2 * round, i));
      request.max_tokens = 1, request.ignore_end = true;
      const auto start = Clock::now();
      const auto stream = client_->generate(request);
      co_await stream->next();
      co_return milliseconds_since(start);
    });
  }

  double through_gateway(int round) {
    std::string prompt;
    for (int i = 0; i < kPromptTokens; ++i) {
      prompt += (i > 0 ? "," : "") + std::to_string(token_of(2 * round + 1, i));
    }
    const std::string body =
        "{\"prompt\":[" + prompt +
        "],\"max_tokens\":1,\"temperature\":0,\"ignore_eos\":true,\"stream\":true}";
    const std::string request = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " +
                                std::to_string(body.size()) + "\r\n\r\n" + body;
    if (!socket_) {
      socket_ = std::make_unique<tcp::socket>(client_context_);
      socket_->connect(
          {net::ip::make_address("127.0.0.1"), static_cast<std::uint16_t>(http_->port())});
      socket_->set_option(tcp::no_delay(true));
    }
    const auto start = Clock::now();
    net::write(*socket_, net::buffer(request));
    std::string got;
    double first = 0;
    char bytes[8192];
    while (got.find("\r\n0\r\n\r\n") == std::string::npos) {
      got.append(bytes, socket_->read_some(net::buffer(bytes)));
      if (first == 0 && got.find("data: ") != std::string::npos) first = milliseconds_since(start);
    }
    return first;
  }

 private:
  template <class Body>
  double on_context(Body body) {
    std::promise<double> done;
    net::co_spawn(
        context_, [&]() -> net::awaitable<void> { done.set_value(co_await body()); },
        net::detached);
    return done.get_future().get();
  }

  engine::ModelCard card_;
  EngineLoop loop_;
  WorkerServer server_;
  net::io_context context_{1}, client_context_;
  std::unique_ptr<Gateway> gateway_;
  std::unique_ptr<HttpServer> http_;
  std::shared_ptr<WorkerClient> client_;
  std::unique_ptr<tcp::socket> socket_;
  std::thread thread_;
};

int run() {
  Setup setup;
  std::vector<double> direct, gateway, added;
  for (int round = 0; round < kRounds + kWarmUp; ++round) {
    const bool gateway_first = round % 2 == 1;
    double g = gateway_first ? setup.through_gateway(round) : 0;
    const double d = setup.direct(round);
    if (!gateway_first) g = setup.through_gateway(round);
    if (round < kWarmUp) continue;
    direct.push_back(d), gateway.push_back(g), added.push_back(g - d);
  }
  std::printf("time to first token, %d requests of %d prompt tokens, embedded model\n", kRounds,
              kPromptTokens);
  const auto row = [](const char* what, std::vector<double>& values, const char* note) {
    std::printf("  %-30s p25 %7.3f   p50 %7.3f   p75 %7.3f   p99 %7.3f ms%s\n", what,
                quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75),
                quantile(values, 0.99), note);
  };
  row("worker over gRPC", direct, "");
  row("through the gateway", gateway, "");
  row("the gateway adds, by round", added, "   (bar: 2 ms at p50)");
  return 0;
}

}  // namespace
}  // namespace orrery::serve

int main() { return orrery::serve::run(); }
