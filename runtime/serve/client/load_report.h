// LoadReport: what a client measured, in the shape that every measured result shares. Latencies
// count from the intended arrival, so a slow server cannot hide its queue behind a late client.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "runtime/base/json.h"
#include "runtime/base/sketch.h"
#include "runtime/base/units.h"

namespace orrery::serve {

// One answer, with times from the intended arrival.
struct AnswerTimes {
  Duration send_delay;   // until its bytes had left this client
  Duration first, last;  // until the first and the last piece of text
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

class LoadReport {
 public:
  void submitted() { ++submitted_; }
  void completed(const AnswerTimes& times);
  void gap(Duration between_pieces) { itl_.add(between_pieces.value()); }
  // Refused by the server (4xx) or failed (5xx, connection, broken stream), by what was said.
  void rejected(const std::string& why) { ++rejected_, ++errors_[why]; }
  void failed(const std::string& why) { ++failed_, ++errors_[why]; }
  void cancelled() { ++cancelled_; }
  void set_wall(Duration wall) { wall_ = wall; }
  void sent(Duration delay) { send_delay_.add(delay.value()); }

  std::int64_t submitted_count() const { return submitted_; }
  std::int64_t completed_count() const { return completed_; }
  std::int64_t ended() const { return completed_ + rejected_ + failed_ + cancelled_; }
  Duration send_delay_p99() const { return Duration(send_delay_.quantile(0.99)); }
  // The client kept to the arrival times: it lagged by at most this much at p99.
  static constexpr Duration kOpenLoopLimit = milliseconds(50);
  bool open_loop() const { return send_delay_p99() <= kOpenLoopLimit; }
  const std::map<std::string, std::int64_t>& errors() const { return errors_; }
  Json to_json() const;

 private:
  std::int64_t submitted_ = 0, completed_ = 0, rejected_ = 0, failed_ = 0, cancelled_ = 0;
  std::int64_t prompt_tokens_ = 0, completion_tokens_ = 0, cached_tokens_ = 0;
  QuantileSketch ttft_, itl_, tpot_, e2e_, send_delay_;
  std::map<std::string, std::int64_t> errors_;
  Duration wall_;
};

}  // namespace orrery::serve
