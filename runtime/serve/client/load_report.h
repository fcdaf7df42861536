// LoadReport: what a client measured, in the shape that every measured result shares; what a
// client cannot know stands as null. Latencies count from the intended arrival, so a slow server
// cannot hide its queue behind a late client.
//
// Laws: a request ends once, in one of five ways, and they add up to those submitted; latencies
// and gaps are those of completed answers only; goodput divides by all submitted.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/json.h"
#include "runtime/base/sketch.h"
#include "runtime/base/units.h"

namespace orrery::serve {

// One answer, with times from the intended arrival.
struct AnswerTimes {
  Duration first, last;        // until the first and the last piece of text
  std::vector<Duration> gaps;  // between successive pieces
  std::int64_t prompt_tokens = 0, completion_tokens = 0;
  std::optional<std::int64_t> cached_tokens;  // none: the server does not say
  std::optional<Duration> deadline;           // the request's own, for its last piece
};

// What one request has to keep to be good, as the twin judges it: its own times within the limits,
// and of its gaps at most the share beyond the percentile over theirs.
struct RequestLimits {
  struct Limit {
    enum class Of : std::uint8_t { kTtft, kItl, kTpot, kE2e } of = Of::kTtft;
    double percentile = 99;  // used for gaps only
    Duration most;
  };
  std::vector<Limit> limits;
  bool met_by(const AnswerTimes& times) const;
};

class LoadReport {
 public:
  // Without limits there is no goodput: every answer would be good.
  void set_limits(RequestLimits limits) { limits_ = std::move(limits); }
  void submitted() { ++submitted_; }
  void completed(const AnswerTimes& times);
  // Refused by the server (4xx) or failed before any text (5xx, connection, error), by what was
  // said.
  void rejected(const std::string& why) { ++rejected_, ++errors_[why], ++rejections_[why]; }
  void failed(const std::string& why) { ++failed_, ++errors_[why]; }
  // The answer had begun, and broke off or ended with an error. None of its times count.
  void unfinished(const std::string& why, std::int64_t tokens) {
    ++unfinished_, ++errors_[why], lost_tokens_ += tokens;
  }
  void cancelled() { ++cancelled_; }
  void retried() { ++retries_; }
  void timed_out() { ++timeouts_; }
  void set_wall(Duration wall) { wall_ = wall; }
  void sent(Duration delay) { send_delay_.add(delay.value()); }

  std::int64_t submitted_count() const { return submitted_; }
  std::int64_t completed_count() const { return completed_; }
  std::int64_t ended() const { return completed_ + rejected_ + failed_ + unfinished_ + cancelled_; }
  double completed_fraction() const;  // of those submitted; 0 when there are none
  Duration send_delay_p99() const { return Duration(send_delay_.quantile(0.99)); }
  // The client kept to the arrival times: it lagged by at most this much at p99.
  static constexpr Duration kOpenLoopLimit = milliseconds(50);
  bool open_loop() const { return send_delay_p99() <= kOpenLoopLimit; }
  const std::map<std::string, std::int64_t>& errors() const { return errors_; }
  Json to_json() const;

 private:
  Json goodput_json() const;
  Json hit_rate_json() const;

  std::optional<RequestLimits> limits_;
  std::int64_t submitted_ = 0, completed_ = 0, rejected_ = 0, failed_ = 0, cancelled_ = 0;
  std::int64_t unfinished_ = 0, good_ = 0, retries_ = 0, timeouts_ = 0;
  std::int64_t prompt_tokens_ = 0, completion_tokens_ = 0, lost_tokens_ = 0;
  // Of the answers whose server counts cached tokens.
  std::int64_t looked_up_tokens_ = 0, cached_tokens_ = 0;
  QuantileSketch ttft_, itl_, tpot_, e2e_, send_delay_;
  std::map<std::string, std::int64_t> errors_, rejections_;
  Duration wall_;
};

}  // namespace orrery::serve
