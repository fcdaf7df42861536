#include "sim/request_log.h"

#include <cinttypes>
#include <cstdio>
#include <string_view>

namespace orrery::sim {
namespace {

constexpr std::size_t kFlushBytes = 1 << 16;

void append_text(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) {
    out += text;
  } else {
    out += '"';
    for (const char c : text) {
      if (c == '"') out += '"';
      out += c;
    }
    out += '"';
  }
  out += ',';
}

// Nanoseconds as milliseconds with six digits: exact.
void append_ms(std::string& out, Time from, Time to) {
  if (from == Time::never() || to == Time::never()) {
    out += ',';
    return;
  }
  const std::int64_t ns = (to - from).value();
  char text[48];
  std::snprintf(text, sizeof text, "%" PRId64 ".%06d,", ns / 1'000'000,
                static_cast<int>(ns % 1'000'000));
  out += text;
}

}  // namespace

RequestLog::RequestLog(const std::string& path) : out_(host::open_writer(path)) {
  buffer_ =
      "request,arrival_s,status,reason,model,tenant,app,pool,instance,input_tokens,cached_tokens,"
      "output_tokens,preemptions,queue_ms,ttft_ms,e2e_ms\n";
}

void RequestLog::add(const RequestOutcome& o) {
  char text[128];
  std::snprintf(text, sizeof text, "%" PRIu64 ",%" PRId64 ".%09d,", o.id,
                o.arrival.ns() / 1'000'000'000, static_cast<int>(o.arrival.ns() % 1'000'000'000));
  buffer_ += text;
  for (const std::string_view field : {o.status, o.reason, o.model, o.tenant, o.app, o.pool})
    append_text(buffer_, field);
  if (o.instance >= 0) buffer_ += std::to_string(o.instance);
  std::snprintf(text, sizeof text, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",",
                o.input_tokens, o.cached_tokens, o.output_tokens, o.preemptions);
  buffer_ += text;
  append_ms(buffer_, o.arrival, o.scheduled);
  append_ms(buffer_, o.arrival, o.first_token);
  append_ms(buffer_, o.arrival, o.first_token == Time::never() ? Time::never() : o.end);
  buffer_.back() = '\n';
  if (buffer_.size() < kFlushBytes) return;
  out_->write(buffer_);
  buffer_.clear();
}

void RequestLog::close() {
  out_->write(buffer_);
  buffer_.clear();
  out_->close();
}

}  // namespace orrery::sim
