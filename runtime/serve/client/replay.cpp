#include "runtime/serve/client/replay.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <utility>

#include <sys/resource.h>

// Asio through our header first: it prepares Boost 1.74 for coroutines.
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "runtime/base/errors.h"
#include "runtime/serve/asio.h"
#include "runtime/serve/client/sse_reader.h"

namespace orrery::serve {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using tcp = net::ip::tcp;
using Clock = std::chrono::steady_clock;

Duration to_duration(Clock::duration d) {
  return Duration(std::chrono::duration_cast<std::chrono::nanoseconds>(d).count());
}

// A connection that may be used again, with the bytes read ahead.
struct Connection {
  explicit Connection(const net::any_io_executor& executor) : stream(executor) {}
  beast::tcp_stream stream;
  beast::flat_buffer buffer;
};

struct WholeAnswer {
  int status = 0;  // 0: the connection failed, see error
  std::string body, error;
};

// What a server says went wrong, short enough to be counted by.
std::string error_kind(int status, const std::string& body) {
  std::string kind = "HTTP " + std::to_string(status);
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("error") || !json["error"].is_object()) return kind;
  const Json& error = json["error"];
  if (error.contains("code") && error["code"].is_string()) {
    return kind + " " + error["code"].get<std::string>();
  }
  if (error.contains("type") && error["type"].is_string()) {
    return kind + " " + error["type"].get<std::string>();
  }
  return kind;
}

class Client {
 public:
  Client(traces::RequestSource& trace, const ReplayOptions& options)
      : trace_(trace),
        options_(options),
        endpoint_(parse_url(options.url)),
        prompts_(options.seed) {
    if (options.limits) result_.report.set_limits(*options.limits);
  }

  ReplayResult run() {
    raise_descriptor_limit();
    resolve();
    net::co_spawn(
        context_, [this] { return drive(); },
        [this](std::exception_ptr error) {
          error_ = error;
          context_.stop();
        });
    context_.run();
    if (error_) std::rethrow_exception(error_);
    return std::move(result_);
  }

 private:
  static void raise_descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
      limit.rlim_cur = limit.rlim_max;
      setrlimit(RLIMIT_NOFILE, &limit);
    }
  }
  void resolve() {
    ErrorCode error;
    tcp::resolver resolver(context_);
    const auto found = resolver.resolve(endpoint_.host, std::to_string(endpoint_.port), error);
    if (error) {
      throw InputError({"--url", 0, ""}, "\"" + endpoint_.host + "\" (" + error.message() + ")",
                       "a host that has an address");
    }
    for (const auto& entry : found) targets_.push_back(entry.endpoint());
  }

  http::request<http::string_body> make_request(http::verb verb, const std::string& path,
                                                std::string body) const {
    http::request<http::string_body> request{verb, endpoint_.path + path, 11};
    request.set(http::field::host, endpoint_.host + ":" + std::to_string(endpoint_.port));
    request.set(http::field::user_agent, "orrery-replay/" ORRERY_VERSION);
    if (verb == http::verb::post) request.set(http::field::content_type, "application/json");
    request.body() = std::move(body);
    request.prepare_payload();
    return request;
  }

  net::awaitable<std::unique_ptr<Connection>> connect(ErrorCode& error) {
    auto connection = std::make_unique<Connection>(context_.get_executor());
    for (const tcp::endpoint& target : targets_) {
      connection->stream.expires_after(std::chrono::seconds(10));
      co_await connection->stream.async_connect(target,
                                                net::redirect_error(net::use_awaitable, error));
      if (!error) break;
    }
    if (!error) connection->stream.socket().set_option(tcp::no_delay(true));
    co_return connection;
  }

  net::awaitable<WholeAnswer> fetch(http::verb verb, std::string path, std::string body) {
    WholeAnswer answer;
    ErrorCode error;
    const auto connection = co_await connect(error);
    const auto request = make_request(verb, path, std::move(body));
    http::response<http::string_body> response;
    if (!error) {
      connection->stream.expires_after(std::chrono::seconds(60));
      co_await http::async_write(connection->stream, request,
                                 net::redirect_error(net::use_awaitable, error));
    }
    if (!error) {
      co_await http::async_read(connection->stream, connection->buffer, response,
                                net::redirect_error(net::use_awaitable, error));
    }
    if (error) {
      answer.error = error.message();
    } else {
      answer.status = static_cast<int>(response.result_int());
      answer.body = std::move(response.body());
    }
    co_return answer;
  }

  net::awaitable<void> find_model() {
    const WholeAnswer answer = co_await fetch(http::verb::get, "/v1/models", "");
    if (answer.status == 0) {
      throw InputError({"--url", 0, ""}, options_.url + " (" + answer.error + ")",
                       "a server that answers; `orrery status` says where the fleet is");
    }
    result_.model = options_.model;
    if (!options_.model.empty()) co_return;
    const Json json = Json::parse(answer.body, nullptr, false);
    if (answer.status == 200 && json.is_object() && json.contains("data") &&
        json["data"].is_array() && !json["data"].empty() && json["data"][0].contains("id")) {
      result_.model = json["data"][0]["id"].get<std::string>();
      co_return;
    }
    throw InputError({"--url", 0, ""},
                     options_.url + "/v1/models, which answers " + std::to_string(answer.status) +
                         " and lists no model",
                     "an OpenAI-compatible server (or name the model with --model)");
  }

  // Does it take token ids? One short request tells.
  net::awaitable<void> probe_token_prompts() {
    const Json body = {{"model", result_.model}, {"prompt", {7, 8, 9}}, {"max_tokens", 1}};
    const WholeAnswer answer = co_await fetch(http::verb::post, "/v1/completions", body.dump());
    result_.token_prompts = answer.status != 400 && answer.status != 422;
  }

  std::string body_of(const traces::TraceRequest& row) {
    Json body = {
        {"model", result_.model}, {"max_tokens", std::max<std::int64_t>(1, row.output_tokens)},
        {"ignore_eos", true},     {"temperature", 0},
        {"stream", true},         {"stream_options", {{"include_usage", true}}}};
    const std::vector<std::int32_t> ids = prompts_.prompt_of(row);
    if (result_.token_prompts) {
      body["prompt"] = ids;
    } else {
      std::string words;  // about a token each
      for (const std::int32_t id : ids) {
        words += ' ';
        words += static_cast<char>('a' + id % 26);
      }
      body["prompt"] = words;
    }
    return body.dump();
  }

  // Sends every row at its time. The intended times are fixed before anything is sent.
  net::awaitable<void> drive() {
    co_await find_model();
    co_await probe_token_prompts();
    net::steady_timer timer(context_);
    traces::TraceRequest row;
    std::optional<Duration> first_arrival;
    start_ = Clock::now() + std::chrono::milliseconds(20);
    net::co_spawn(context_, watch(), net::detached);
    while (!result_.stopped && trace_.next(row)) {
      if (!row.ok || row.input_tokens < 1) continue;
      if (options_.max_requests && result_.report.submitted_count() >= *options_.max_requests)
        break;
      if (!first_arrival) first_arrival = row.arrival;
      const double offset_s = to_seconds(row.arrival - *first_arrival) / options_.speed;
      const auto due = start_ + std::chrono::duration_cast<Clock::duration>(
                                    std::chrono::duration<double>(offset_s));
      std::string body = body_of(row);  // before its time has come
      while (!result_.stopped && Clock::now() < due) {
        // In short sleeps, so that a stop is seen.
        timer.expires_at(std::min(due, Clock::now() + std::chrono::milliseconds(100)));
        ErrorCode ignored;
        co_await timer.async_wait(net::redirect_error(net::use_awaitable, ignored));
      }
      if (result_.stopped) break;
      result_.report.submitted();
      net::co_spawn(
          context_,
          [this, text = std::move(body), due, deadline = row.deadline]() mutable {
            return request(std::move(text), due, deadline);
          },
          net::detached);
    }
    while (result_.report.ended() < result_.report.submitted_count() && !result_.stopped) {
      co_await sleep_for(std::chrono::milliseconds(5));
    }
    while (result_.report.ended() < result_.report.submitted_count()) result_.report.cancelled();
    result_.report.set_wall(to_duration(std::max(last_end_, start_) - start_));
  }

  net::awaitable<void> watch() {
    while (true) {
      co_await sleep_for(std::chrono::milliseconds(100));
      if (options_.stop && options_.stop()) result_.stopped = true;
      if (options_.progress) options_.progress(result_.report);
    }
  }

  struct Reading {
    AnswerTimes times;
    std::int64_t pieces = 0;
    Clock::time_point last;
    bool done = false;
    std::string error;
  };

  net::awaitable<void> request(std::string body, Clock::time_point due,
                               std::optional<Duration> deadline) {
    const auto message = make_request(http::verb::post, "/v1/completions", std::move(body));
    for (int attempt = 0; attempt < 2; ++attempt) {
      ErrorCode error;
      const bool reused = !idle_.empty();
      std::unique_ptr<Connection> connection;
      if (reused) {
        connection = std::move(idle_.back());
        idle_.pop_back();
      } else {
        connection = co_await connect(error);
      }
      connection->stream.expires_after(
          std::chrono::milliseconds(static_cast<std::int64_t>(options_.timeout_s * 1000)));
      if (!error) {
        co_await http::async_write(connection->stream, message,
                                   net::redirect_error(net::use_awaitable, error));
      }
      const Clock::time_point sent = Clock::now();
      http::response_parser<http::buffer_body> parser;
      parser.body_limit(std::uint64_t{1} << 40);  // 1.74 takes "none" for 0 beside a length
      if (!error) {
        co_await http::async_read_header(connection->stream, connection->buffer, parser,
                                         net::redirect_error(net::use_awaitable, error));
      }
      if (error && reused && attempt == 0 && error != beast::error::timeout) {
        result_.report.retried();  // the server had closed it: a new one
        continue;
      }
      result_.report.sent(to_duration(sent - due));
      if (error) {
        end_with([&] {
          if (error == beast::error::timeout) result_.report.timed_out();
          result_.report.failed(error.message());
        });
        co_return;
      }
      co_await read_answer(*connection, parser, due, deadline);
      const bool keep = parser.is_done() && parser.get().keep_alive();
      if (keep) idle_.push_back(std::move(connection));
      co_return;
    }
  }

  template <class Action>
  void end_with(Action action) {
    if (result_.stopped) return;  // counted as cancelled
    action();
    last_end_ = Clock::now();
  }

  net::awaitable<void> read_answer(Connection& connection,
                                   http::response_parser<http::buffer_body>& parser,
                                   Clock::time_point due, std::optional<Duration> deadline) {
    const int status = static_cast<int>(parser.get().result_int());
    SseReader events;
    Reading reading;
    reading.times.deadline = deadline;
    std::string plain;
    std::array<char, 8192> bytes;
    ErrorCode error;
    while (!parser.is_done() && !error) {
      parser.get().body().data = bytes.data();
      parser.get().body().size = bytes.size();
      co_await http::async_read_some(connection.stream, connection.buffer, parser,
                                     net::redirect_error(net::use_awaitable, error));
      if (error == http::error::need_buffer) error = {};
      const std::string_view part(bytes.data(), bytes.size() - parser.get().body().size);
      if (status != 200) {
        if (plain.size() < 65536) plain += part;
        continue;
      }
      for (const std::string& event : events.push(part)) take(event, due, reading);
    }
    end_with([&] {
      if (status != 200) {
        const std::string kind = error_kind(status, plain);
        status < 500 ? result_.report.rejected(kind) : result_.report.failed(kind);
      } else if (!reading.error.empty() || !reading.done) {
        if (error == beast::error::timeout) result_.report.timed_out();
        const std::string why = reading.error.empty() ? "the stream broke off" : reading.error;
        reading.pieces == 0 ? result_.report.failed(why)
                            : result_.report.unfinished(why, reading.pieces);
      } else if (reading.pieces == 0) {
        result_.report.failed("an answer without text");
      } else {
        if (reading.times.completion_tokens == 0) {
          reading.times.completion_tokens = reading.pieces;
        }
        result_.report.completed(reading.times);
      }
    });
  }

  void take(const std::string& event, Clock::time_point due, Reading& reading) {
    const Clock::time_point now = Clock::now();
    if (event == "[DONE]") {
      reading.done = true;
      return;
    }
    const Json json = Json::parse(event, nullptr, false);
    if (!json.is_object()) return;
    if (json.contains("error")) {
      reading.error = "stream error";
      const Json& error = json["error"];
      if (error.is_object() && error.contains("type") && error["type"].is_string()) {
        reading.error += " " + error["type"].get<std::string>();
      }
      return;
    }
    if (json.contains("usage") && json["usage"].is_object()) {
      const Json& usage = json["usage"];
      reading.times.prompt_tokens = usage.value("prompt_tokens", std::int64_t{0});
      reading.times.completion_tokens = usage.value("completion_tokens", std::int64_t{0});
      const auto details = usage.find("prompt_tokens_details");
      if (details != usage.end() && details->is_object()) {
        const auto cached = details->find("cached_tokens");
        if (cached != details->end() && cached->is_number_integer()) {
          reading.times.cached_tokens = cached->get<std::int64_t>();
        }
      }
    }
    if (!json.contains("choices") || json["choices"].empty()) return;
    const Json& choice = json["choices"][0];
    const bool last = choice.contains("finish_reason") && !choice["finish_reason"].is_null();
    const bool text = choice.contains("text") && choice["text"].is_string() &&
                      (!last || !choice["text"].get_ref<const std::string&>().empty());
    if (!text) return;
    if (reading.pieces++ == 0) {
      reading.times.first = to_duration(now - due);
    } else {
      reading.times.gaps.push_back(to_duration(now - reading.last));
    }
    reading.last = now;
    reading.times.last = to_duration(now - due);
  }

  traces::RequestSource& trace_;
  const ReplayOptions& options_;
  Endpoint endpoint_;
  PromptMaker prompts_;
  net::io_context context_{1};
  std::vector<tcp::endpoint> targets_;
  std::vector<std::unique_ptr<Connection>> idle_;
  ReplayResult result_;
  Clock::time_point start_, last_end_;
  std::exception_ptr error_;
};

}  // namespace

Endpoint parse_url(const std::string& url) {
  const auto fail = [&url](const std::string& why) {
    throw InputError({"--url", 0, ""}, "\"" + url + "\"" + why, "http://HOST:PORT");
  };
  if (url.starts_with("https://")) {
    throw Unsupported("--url " + url + ": TLS is not in this version; put a proxy in front");
  }
  std::string rest = url;
  if (rest.starts_with("http://"))
    rest = rest.substr(7);
  else if (rest.find("://") != std::string::npos)
    fail("");
  Endpoint endpoint;
  const std::size_t slash = rest.find('/');
  if (slash != std::string::npos) endpoint.path = rest.substr(slash), rest.resize(slash);
  while (endpoint.path.ends_with('/')) endpoint.path.pop_back();
  if (endpoint.path.ends_with("/v1")) endpoint.path.resize(endpoint.path.size() - 3);
  const std::size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string::npos && rest.find(']', colon) == std::string::npos;
  if (has_port) {
    const std::string digits = rest.substr(colon + 1);
    rest.resize(colon);
    if (digits.empty() || digits.size() > 5 ||
        digits.find_first_not_of("0123456789") != std::string::npos || std::stoi(digits) > 65535) {
      fail(", whose port is no port");
    }
    endpoint.port = std::stoi(digits);
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  if (rest.empty()) fail(", which names no host");
  endpoint.host = rest;
  return endpoint;
}

ReplayResult replay(traces::RequestSource& trace, const ReplayOptions& options) {
  return Client(trace, options).run();
}

}  // namespace orrery::serve
