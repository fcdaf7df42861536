// ReplicaEvents: the next event of each replica, ordered by (time, kind, replica).
// An indexed binary heap. A replica has at most one event and moving it replaces it, so there are
// no stale events to skip. Arrivals come from the workload and precede both kinds at equal time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/units.h"

namespace orrery::sim {

enum class EventKind : std::uint8_t {
  kCompletion = 1,  // the step in flight ends
  kKick = 2,        // an idle replica got work: it starts once all arrivals of that moment are in
};

struct Event {
  Time time;
  EventKind kind = EventKind::kCompletion;
  std::uint32_t replica = 0;
  bool operator<(const Event& o) const {
    return std::tie(time, kind, replica) < std::tie(o.time, o.kind, o.replica);
  }
};

class ReplicaEvents {
 public:
  explicit ReplicaEvents(std::size_t replicas) : place_(replicas, kNone) {}
  bool empty() const { return heap_.empty(); }
  const Event& top() const { return heap_.front(); }
  Time next_time() const { return heap_.empty() ? Time::never() : heap_.front().time; }

  // Sets or replaces the replica's event.
  void set(std::uint32_t replica, Time time, EventKind kind) {
    const Event event{time, kind, replica};
    std::size_t at = place_[replica];
    if (at == kNone) {
      at = heap_.size();
      heap_.push_back(event);
      place_[replica] = static_cast<std::uint32_t>(at);
      sift_up(at);
      return;
    }
    const bool earlier = event < heap_[at];
    heap_[at] = event;
    if (earlier) {
      sift_up(at);
    } else {
      sift_down(at);
    }
  }

  void pop() {
    ORRERY_CHECK(!heap_.empty());
    place_[heap_.front().replica] = kNone;
    const Event last = heap_.back();
    heap_.pop_back();
    if (heap_.empty()) return;
    heap_.front() = last;
    place_[last.replica] = 0;
    sift_down(0);
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  void swap(std::size_t a, std::size_t b) {
    std::swap(heap_[a], heap_[b]);
    place_[heap_[a].replica] = static_cast<std::uint32_t>(a);
    place_[heap_[b].replica] = static_cast<std::uint32_t>(b);
  }
  void sift_up(std::size_t at) {
    while (at > 0 && heap_[at] < heap_[(at - 1) / 2]) {
      swap(at, (at - 1) / 2);
      at = (at - 1) / 2;
    }
  }
  void sift_down(std::size_t at) {
    for (;;) {
      std::size_t least = at;
      for (std::size_t child = 2 * at + 1; child <= 2 * at + 2; ++child) {
        if (child < heap_.size() && heap_[child] < heap_[least]) least = child;
      }
      if (least == at) return;
      swap(at, least);
      at = least;
    }
  }

  std::vector<Event> heap_;
  std::vector<std::uint32_t> place_;  // of each replica in the heap
};

}  // namespace orrery::sim
