#include "traces/transform.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/hash.h"
#include "traces/flat_set.h"
#include "traces/scan.h"

namespace orrery::traces {
namespace {

class Slice : public RequestSource {
 public:
  Slice(std::unique_ptr<RequestSource> in, TimeSlice slice, TransformReport& report)
      : in_(std::move(in)), slice_(slice), report_(report) {}
  bool next(TraceRequest& r) override {
    while (in_->next(r)) {
      if (r.arrival < slice_.start ||
          (slice_.end.value() > 0 &&
           r.arrival >= slice_.end)) {  // read on: the report is at the end
        ++report_.outside_slice;
        continue;
      }
      if (!r.after.empty() && !ids_.contains(hash_bytes(r.after))) {
        ++report_.after_cleared;
        r.after.clear(), r.think.reset();
      }
      if (!r.id.empty()) ids_.insert(hash_bytes(r.id));
      r.arrival -= slice_.start;
      r.row = row_++;
      return true;
    }
    return false;
  }

 private:
  std::unique_ptr<RequestSource> in_;
  const TimeSlice slice_;
  TransformReport& report_;
  FlatSet ids_;
  std::int64_t row_ = 0;
};

class Spread : public RequestSource {
 public:
  Spread(std::unique_ptr<RequestSource> in, Duration tick, TransformReport& report)
      : in_(std::move(in)), tick_(tick), report_(report) {}
  bool next(TraceRequest& r) override {
    if (group_.empty() && !fill()) return false;
    std::swap(r, group_.front());
    group_.pop_front();
    return true;
  }

 private:
  // Reads all rows of one timestamp and lays them out.
  bool fill() {
    if (!have_ahead_ && !(have_ahead_ = in_->next(ahead_))) return false;
    const Duration t = ahead_.arrival;
    do {
      group_.push_back(std::exchange(ahead_, {}));
      have_ahead_ = in_->next(ahead_);
    } while (have_ahead_ && ahead_.arrival == t);
    const Duration room = have_ahead_ ? std::min(tick_, ahead_.arrival - t) : tick_;
    const auto n = static_cast<std::int64_t>(group_.size());
    for (std::int64_t i = 0; i < n; ++i)
      group_[static_cast<std::size_t>(i)].arrival = t + Duration(room.value() / n * i);
    if (n > 1) report_.spread_rows += n;
    return true;
  }
  std::unique_ptr<RequestSource> in_;
  const Duration tick_;
  TransformReport& report_;
  std::deque<TraceRequest> group_;
  TraceRequest ahead_;
  bool have_ahead_ = false;
};

class CapAndScale : public RequestSource {
 public:
  CapAndScale(std::unique_ptr<RequestSource> in, std::optional<Duration> cap, Ratio speed,
              TransformReport& report)
      : in_(std::move(in)), cap_(cap), speed_(speed), report_(report) {}
  bool next(TraceRequest& r) override {
    if (!in_->next(r)) return false;
    const Duration gap = r.arrival - last_in_;
    last_in_ = r.arrival;
    Duration kept = gap;
    ++report_.gaps;
    if (cap_ && gap > *cap_) {
      kept = *cap_;
      ++report_.gaps_capped, report_.idle += gap, report_.idle_left += kept;
    }
    now_ += kept;
    r.arrival = scaled(now_);
    if (r.think) r.think = scaled(cap_ ? std::min(*r.think, *cap_) : *r.think);
    return true;
  }

 private:
  Duration scaled(Duration d) const {
    if (speed_.is_one()) return d;
    const __int128 n = static_cast<__int128>(d.value()) * speed_.denominator;
    return Duration(static_cast<std::int64_t>((n + speed_.numerator / 2) / speed_.numerator));
  }
  std::unique_ptr<RequestSource> in_;
  const std::optional<Duration> cap_;
  const Ratio speed_;
  TransformReport& report_;
  Duration last_in_, now_;
};

}  // namespace

Ratio parse_ratio(const std::string& option, const std::string& text) {
  std::int64_t value = 0;
  bool exact = true;
  if (!scan_scaled(text, 9, value, exact) || value <= 0)
    throw InputError({option, 0, ""}, text, "a number above 0");
  return {value, 1'000'000'000};
}

Duration parse_duration(const std::string& option, const std::string& text) {
  std::int64_t value = 0;
  bool exact = true;
  if (!scan_scaled(text, 9, value, exact) || value <= 0)
    throw InputError({option, 0, ""}, text, "seconds above 0");
  return Duration(value);
}

TimeSlice parse_slice(const std::string& option, const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string expected = "START:END in seconds of the trace (3600:7200, 3600: or :7200)";
  if (colon == std::string::npos) throw InputError({option, 0, ""}, text, expected);
  const std::string first = text.substr(0, colon), last = text.substr(colon + 1);
  TimeSlice slice;
  std::int64_t value = 0;
  bool exact = true;
  if (!first.empty()) {
    if (!scan_scaled(first, 9, value, exact) || value < 0)
      throw InputError({option, 0, ""}, text, expected);
    slice.start = Duration(value);
  }
  if (!last.empty()) {
    slice.end = parse_duration(option, last);
    if (slice.end <= slice.start) throw InputError({option, 0, ""}, text, "an end after the start");
  }
  return slice;
}

double TransformReport::idle_removed_share() const {
  if (idle.value() == 0) return 0;
  return 1 - static_cast<double>(idle_left.value()) / static_cast<double>(idle.value());
}

std::unique_ptr<RequestSource> transform(std::unique_ptr<RequestSource> source,
                                         const TransformOptions& options, TransformReport& report) {
  if (options.slice) source = std::make_unique<Slice>(std::move(source), *options.slice, report);
  if (options.spread) source = std::make_unique<Spread>(std::move(source), *options.spread, report);
  if (options.cap_gap || !options.speed.is_one())
    source =
        std::make_unique<CapAndScale>(std::move(source), options.cap_gap, options.speed, report);
  return source;
}

}  // namespace orrery::traces
