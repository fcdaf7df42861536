// The gateway's second half: a worker's tokens on their way back to the client.
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "runtime/serve/gateway_live.h"

namespace orrery::serve {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

ApiError unavailable(const std::string& message) {
  return ApiError(503, "service_unavailable", message);
}

ApiError error_of_reject(policy::RejectReason reason, std::int64_t needed, std::int64_t available) {
  switch (reason) {
    case policy::RejectReason::kNeverFits:
      return ApiError(400, "invalid_request_error",
                      "prompt and max_tokens need " + std::to_string(needed) +
                          " tokens, and a worker holds " + std::to_string(available),
                      "max_tokens", "context_length_exceeded");
    case policy::RejectReason::kQueueFull:
      return ApiError(429, "rate_limit_error", "the queue is full: try again soon");
    case policy::RejectReason::kDraining:
      return unavailable("the worker is draining: try again");
    case policy::RejectReason::kNoInstance:
      return unavailable("no worker is ready for this model: try again soon");
    default:
      return ApiError(500, "internal_error",
                      "the worker refused: " + std::string(policy::name_of(reason)));
  }
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = error.body();
  if (error.status == 429 || error.status == 503) response.headers = {{"Retry-After", "1"}};
  return response;
}

net::awaitable<void> Gateway::relay(HttpExchange& exchange, Live& live) {
  ModelMetrics& metrics = metrics_.model(live.model);
  const char* path = live.api.chat ? "/v1/chat/completions" : "/v1/completions";
  std::optional<HttpResponse> failure;
  try {
    if (live.api.stream) {
      co_await relay_stream(exchange, live);
    } else {
      co_await relay_whole(exchange, live);
    }
  } catch (const ApiError& error) {
    failure = error_response(error);
  }
  // Whatever way we came here, the worker need not go on.
  if (!live.ended || exchange.disconnected()) live.stream->cancel();
  finish(live);
  if (exchange.disconnected()) {
    ++metrics.aborted;
    metrics_.count_http(path, "POST", 499);
    co_return;
  }
  if (!failure) co_return;
  (failure->status < 500 ? metrics.rejected : metrics.failed) += 1;
  metrics_.count_http(path, "POST", failure->status);
  co_await exchange.respond(std::move(*failure));
}

// Adds an event's tokens to the answer. True: the answer is complete. Throws ApiError.
bool Gateway::take(Live& live, GenerationEvent& event, std::string& text) {
  ModelMetrics& metrics = metrics_.model(live.model);
  live.usage.cached_tokens = event.cached_tokens;
  if (!event.tokens.empty()) {
    const auto now = std::chrono::steady_clock::now();
    const auto count = event.tokens.size();
    if (live.usage.completion_tokens == 0) {
      metrics.time_to_first_token.observe(
          std::chrono::duration<double>(now - live.received).count());
      metrics.prompt_tokens += static_cast<std::uint64_t>(live.usage.prompt_tokens);
    } else {
      const double gap = std::chrono::duration<double>(now - live.last_token).count();
      metrics.inter_token_latency.observe(gap / static_cast<double>(count), count);
    }
    live.last_token = now;
    metrics.generation_tokens += count;
  }
  for (const engine::TokenId token : event.tokens) {
    ++live.usage.completion_tokens;
    text += live.filter->push(live.detokenizer->push(token));
    if (live.filter->stopped()) break;
  }
  switch (live.filter->stopped() ? GenerationEvent::End::kFinished : event.end) {
    case GenerationEvent::End::kNotYet:
      return false;
    case GenerationEvent::End::kRejected:
      throw error_of_reject(event.reject, event.needed_tokens, event.available_tokens);
    case GenerationEvent::End::kWorkerLost:
      throw unavailable("the worker that served this request is gone: try again");
    case GenerationEvent::End::kFinished:
      break;
  }
  if (live.filter->stopped()) {
    live.stream->cancel();
    live.finish_reason = "stop";
  } else if (event.finish == policy::FinishReason::kError) {
    throw ApiError(500, "internal_error", "the engine failed: " + event.error);
  } else if (event.finish == policy::FinishReason::kCancelled) {
    throw unavailable("the request was cancelled by its worker, which is stopping or over full");
  } else {
    live.finish_reason = event.finish == policy::FinishReason::kLength ? "length" : "stop";
    text += live.filter->push(live.detokenizer->finish());
    text += live.filter->finish();
  }
  live.ended = true;
  return true;
}

void Gateway::finish(Live& live) {
  if (!live.ended) return;
  ModelMetrics& metrics = metrics_.model(live.model);
  (live.finish_reason == "length" ? metrics.success_length : metrics.success_stop) += 1;
  metrics.cached_tokens += static_cast<std::uint64_t>(live.usage.cached_tokens);
  metrics.e2e_latency.observe(seconds_since(live.received));
}

net::awaitable<void> Gateway::relay_whole(HttpExchange& exchange, Live& live) {
  std::string text;
  while (!live.ended) {
    std::optional<GenerationEvent> event = co_await live.stream->next();
    if (exchange.disconnected()) co_return;
    if (event) take(live, *event, text);
  }
  HttpResponse response;
  response.body = live.writer->whole(text, live.finish_reason, live.usage);
  metrics_.count_http(live.api.chat ? "/v1/chat/completions" : "/v1/completions", "POST", 200);
  co_await exchange.respond(std::move(response));
}

// Headers leave with the first event, so that a refusal still has its own status.
net::awaitable<void> Gateway::relay_stream(HttpExchange& exchange, Live& live) {
  bool started = false;
  std::optional<ApiError> broken;
  while (!live.ended && !broken) {
    std::optional<GenerationEvent> event = co_await live.stream->next();
    if (exchange.disconnected()) co_return;
    if (!event) continue;
    std::string text, out;
    try {
      take(live, *event, text);
    } catch (const ApiError& error) {
      if (!started) throw;
      broken = error;
    }
    if (!started) {
      started = true;
      metrics_.count_http(live.api.chat ? "/v1/chat/completions" : "/v1/completions", "POST", 200);
      if (!co_await exchange.start_stream("text/event-stream", {})) co_return;
      out += live.writer->role_event();
    }
    // Also where the text is held back: clients time tokens by the events.
    if (!text.empty() || !event->tokens.empty()) out += live.writer->text_event(text);
    if (live.ended) {
      out += live.writer->finish_event(live.finish_reason) + live.writer->usage_event(live.usage) +
             AnswerWriter::done_event();
    } else if (broken) {
      ++metrics_.model(live.model).failed;
      out += AnswerWriter::error_event(*broken) + AnswerWriter::done_event();
    }
    if (!out.empty() && !co_await exchange.write(std::move(out))) co_return;
  }
  co_await exchange.finish_stream();
}

}  // namespace orrery::serve
