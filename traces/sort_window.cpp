#include "traces/sort_window.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace orrery::traces {

TraceRequest& SortWindow::scratch() {
  if (scratch_ == kNone) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    scratch_ = free_.back();
    free_.pop_back();
  }
  TraceRequest& request = slots_[scratch_];
  request.clear();
  return request;
}

void SortWindow::push(std::int64_t timestamp) {
  const Entry entry{timestamp, order_++, scratch_};
  hash_ids_ += slots_[scratch_].hash_ids.size();
  scratch_ = kNone;
  if (queue_.empty() || timestamp >= queue_.back().timestamp) {
    queue_.push_back(entry);
  } else {
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
}

SortWindow::Entry SortWindow::pop(TraceRequest& request) {
  Entry entry;
  if (heap_.empty() || (!queue_.empty() && heap_.front() > queue_.front())) {
    entry = queue_.front();
    queue_.pop_front();
  } else {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    entry = heap_.back();
    heap_.pop_back();
  }
  std::swap(request, slots_[entry.slot]);
  hash_ids_ -= request.hash_ids.size();
  free_.push_back(entry.slot);
  return entry;
}

}  // namespace orrery::traces
