#include "runtime/serve/http/stop_filter.h"

#include <algorithm>
#include <utility>

namespace orrery::serve {

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, std::string());
}

std::string StopFilter::push(std::string_view text) {
  if (stopped_) return {};
  if (stops_.empty()) return std::string(text);
  held_ += text;
  // The stop string that is complete first wins; of two that end together, the longer one.
  std::size_t best_end = std::string::npos, best_begin = 0;
  for (const std::string& stop : stops_) {
    const std::size_t begin = held_.find(stop);
    if (begin == std::string::npos) continue;
    const std::size_t end = begin + stop.size();
    if (end < best_end || (end == best_end && begin < best_begin)) {
      best_end = end, best_begin = begin;
    }
  }
  if (best_end != std::string::npos) {
    stopped_ = true;
    std::string out = held_.substr(0, best_begin);
    held_.clear();
    return out;
  }
  std::size_t keep = 0;
  for (const std::string& stop : stops_) {
    std::size_t length = std::min(stop.size() - 1, held_.size());
    while (length > keep && !held_.ends_with(std::string_view(stop).substr(0, length))) --length;
    keep = std::max(keep, length);
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string StopFilter::finish() { return std::exchange(held_, {}); }

}  // namespace orrery::serve
