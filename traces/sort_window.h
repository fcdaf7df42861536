// SortWindow: rows in, rows out in order of (timestamp, order of coming), through a bounded buffer.
// Rows that come in order, the usual case, pass through a queue at O(1); the others through a heap.
// Owns the buffered requests; their memory is reused.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "traces/trace.h"

namespace orrery::traces {

class SortWindow {
 public:
  struct Entry {
    std::int64_t timestamp = 0;
    std::int64_t order = 0;  // of coming
    std::uint32_t slot = 0;
    bool operator>(const Entry& o) const {
      return timestamp != o.timestamp ? timestamp > o.timestamp : order > o.order;
    }
  };
  std::size_t size() const { return queue_.size() + heap_.size(); }
  std::size_t hash_ids() const { return hash_ids_; }  // held by all buffered rows together

  // A cleared request to fill; then keep it with push(), or not at all.
  TraceRequest& scratch();
  void push(std::int64_t timestamp);
  // The first in order; size() > 0. Swaps it into `request`.
  Entry pop(TraceRequest& request);

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::deque<TraceRequest> slots_;
  std::vector<std::uint32_t> free_;
  std::uint32_t scratch_ = kNone;
  std::deque<Entry> queue_;  // non-decreasing
  std::vector<Entry> heap_;  // min-heap
  std::int64_t order_ = 0;
  std::size_t hash_ids_ = 0;
};

}  // namespace orrery::traces
