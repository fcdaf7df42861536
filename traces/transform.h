// Changes of a trace's time: slice, spread of ticks, cap of idle gaps, speed; always in this order.
// Slice, spread and cap are in the trace's own seconds; speed scales what is left: speed 10 makes a
// 60 s gap 6 s long, speed 0.5 makes it 120 s. Lengths, block ids and deadlines stay as they are.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "traces/trace.h"

namespace orrery::traces {

// A positive decimal number, exact: 10, 0.5, 1.25.
struct Ratio {
  std::int64_t numerator = 1, denominator = 1;
  bool is_one() const { return numerator == denominator; }
};
Ratio parse_ratio(const std::string& option, const std::string& text);  // throws InputError

struct TimeSlice {
  Duration start, end;  // arrivals in [start, end); end 0: to the end
};
// "3600:7200", "3600:", ":7200", in seconds. Throws InputError.
TimeSlice parse_slice(const std::string& option, const std::string& text);
Duration parse_duration(const std::string& option, const std::string& text);  // seconds, > 0

struct TransformOptions {
  std::optional<TimeSlice> slice;
  std::optional<Duration> spread;  // the tick: rows that share a timestamp are laid out evenly up
                                   // to the next timestamp, at most this long
  std::optional<Duration> cap_gap;
  Ratio speed;
  bool any() const { return slice || spread || cap_gap || !speed.is_one(); }
};

struct TransformReport {
  std::int64_t outside_slice = 0;
  std::int64_t after_cleared = 0;  // rows that waited for a request outside the slice
  std::int64_t spread_rows = 0;
  std::int64_t gaps = 0, gaps_capped = 0;
  Duration idle, idle_left;           // time in the gaps above the cap, before and after
  double idle_removed_share() const;  // 0 when there was none
};

// `report` is filled as the stream is read and must outlive it.
std::unique_ptr<RequestSource> transform(std::unique_ptr<RequestSource> source,
                                         const TransformOptions& options, TransformReport& report);

}  // namespace orrery::traces
