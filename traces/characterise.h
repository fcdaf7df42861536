// What a trace is like: rates, lengths, prefix sharing, burstiness, who sent it. One pass, bounded
// memory. Definitions stand beside the figures.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/json.h"
#include "runtime/base/sketch.h"
#include "traces/block_table.h"
#include "traces/flat_set.h"
#include "traces/trace.h"

namespace orrery::traces {

// Requests per time, from the first arrival on, in at most 256 bins that widen as the trace goes
// on.
struct RateProfile {
  Duration bin = milliseconds(1000);
  std::vector<std::int64_t> requests;
  void add(Duration since_first);
};

// Arrivals per fixed window: peak, and the index of dispersion (variance / mean of the counts,
// empty windows included; 1 for a Poisson process, 0 for a metronome). The last, cut window is left
// out of the dispersion.
class WindowCounts {
 public:
  explicit WindowCounts(Duration window) : window_(window) {}
  void add(Duration since_first);
  Duration window() const { return window_; }
  std::int64_t peak() const { return current_ > peak_ ? current_ : peak_; }
  Duration peak_at() const;
  std::int64_t complete() const { return index_; }
  double dispersion() const;  // 0 with fewer than two complete windows

 private:
  Duration window_;
  std::int64_t index_ = 0, current_ = 0, peak_ = 0, peak_index_ = 0;
  __int128 sum_ = 0, squares_ = 0;  // over complete windows
};

// Requests by name, for at most 1000 names; those after share one count.
struct NameCounts {
  std::map<std::string, std::int64_t> counts;
  std::int64_t beyond = 0, unnamed = 0;
  void add(const std::string& name);
};

struct Characterisation {
  std::int64_t requests = 0, failed = 0;
  Duration first, last;
  QuantileSketch input_tokens, output_tokens;  // of requests that did not fail
  std::int64_t total_input = 0, total_output = 0;
  RateProfile profile;
  WindowCounts per_second{milliseconds(1000)}, per_minute{milliseconds(60'000)};
  double gap_cv = 0;  // standard deviation / mean of the times between arrivals
  // Prefix sharing with a cache that never forgets.
  bool has_prefix_data = false;
  std::int64_t seen_before_tokens = 0, distinct_blocks = 0, ids_both_ways = 0, sampled_one_in = 1;
  NameCounts tenants, models, apps, kinds;
  std::int64_t sessions = 0, session_requests = 0, chained = 0, unknown_after = 0;
  std::vector<std::string> warnings;

  Duration span() const { return last - first; }
  double mean_rate() const;                 // (requests - 1) / span; 0 when all arrive at once
  const WindowCounts& peak_window() const;  // minutes, or seconds for a trace under two minutes
  double peak_rate() const;
  double seen_before_share() const;  // of all prompt tokens
  Json to_json() const;
};

class Characteriser {
 public:
  void add(const TraceRequest& request);  // in order of arrival
  // `unit_confirmed`: the reader was told the time unit, so an odd rate is not questioned.
  Characterisation finish(bool unit_confirmed = false);

 private:
  void warn(bool unit_confirmed);
  Characterisation c_;
  BlockTable blocks_;
  FlatSet sessions_, ids_;
  __int128 gap_squares_ = 0;
};

// Stretches of the profile, a tenth of the trace or longer, with under a tenth of the mean rate.
struct QuietStretch {
  Duration start, end;
  double rate = 0;
};
std::optional<QuietStretch> longest_quiet_stretch(const RateProfile& profile, double mean_rate);

}  // namespace orrery::traces
