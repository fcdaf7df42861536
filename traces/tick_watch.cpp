#include "traces/tick_watch.h"

#include <algorithm>

#include "runtime/base/hash.h"

namespace orrery::traces {
namespace {
// A coarse clock shows a handful of distances; a fine one would show millions.
constexpr std::size_t kMostGaps = 256;
// One timestamp's digests that are compared; more at one time are counted, not compared.
constexpr std::size_t kMostCompared = 4096;
}  // namespace

std::uint64_t TickWatch::digest(const TraceRequest& r) {
  std::uint64_t h = hash_combine(static_cast<std::uint64_t>(r.input_tokens),
                                 static_cast<std::uint64_t>(r.output_tokens));
  for (const std::uint64_t id : r.hash_ids) h = hash_combine(h, id);
  for (const std::string* s : {&r.id, &r.model, &r.session, &r.tenant, &r.app, &r.kind, &r.task})
    if (!s->empty()) h = hash_bytes(*s, h);
  return h;
}

bool TickWatch::add(std::int64_t timestamp, const TraceRequest& request) {
  if (rows_++ > 0 && timestamp != last_) {
    close_group();
    const std::int64_t gap = timestamp - last_;
    if (gaps_.size() < kMostGaps || gaps_.count(gap) > 0) ++gaps_[gap];
  }
  last_ = timestamp;
  const std::uint64_t d = digest(request);
  const bool known = std::find(group_.begin(), group_.end(), d) != group_.end();
  most_ = std::max(most_, static_cast<std::int64_t>(++group_size_));
  if (group_.size() < kMostCompared) group_.push_back(d);
  return known;
}

void TickWatch::close_group() {
  if (group_size_ > 1) sharing_ += group_size_;
  group_size_ = 0;
  group_.clear();
}

Duration TickWatch::tick() const {
  std::int64_t best = 0, times = 0;
  for (const auto& [gap, count] : gaps_)
    if (count > times) best = gap, times = count;
  return Duration(best);
}

}  // namespace orrery::traces
