// TickWatch: finds requests that share a timestamp, among rows in order. A trace whose clock is
// coarse (Mooncake's: 3 s) puts a burst at every tick that the real traffic did not have.
// Also finds identical rows: they share a timestamp, so only one timestamp's rows are kept.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "traces/trace.h"

namespace orrery::traces {

class TickWatch {
 public:
  // True: the same request at the same time came before.
  bool add(std::int64_t timestamp, const TraceRequest& request);
  void finish() { close_group(); }
  std::int64_t rows_sharing() const { return sharing_; }  // rows that are not alone at their time
  std::int64_t rows() const { return rows_; }
  std::int64_t most_at_once() const { return most_; }
  // More than half of the rows share their timestamp.
  bool in_ticks() const { return sharing_ * 2 > rows_ && most_ >= 4; }
  Duration tick() const;  // the most frequent distance between two distinct timestamps; 0: none

 private:
  void close_group();
  static std::uint64_t digest(const TraceRequest& request);
  std::int64_t last_ = 0, rows_ = 0, sharing_ = 0, most_ = 0, group_size_ = 0;
  std::vector<std::uint64_t> group_;           // digests of the rows at last_
  std::map<std::int64_t, std::int64_t> gaps_;  // bounded: kMostGaps distinct distances
};

}  // namespace orrery::traces
