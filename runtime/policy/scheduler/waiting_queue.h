// WaitingQueue: slots in the order of their keys. A binary heap that knows where each slot stands,
// so that a cancelled request leaves in O(log n) from anywhere.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/policy/scheduler/orders.h"

namespace orrery::policy {

class WaitingQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::int64_t size() const { return static_cast<std::int64_t>(heap_.size()); }
  std::uint32_t front() const { return heap_.front().slot; }

  void push(std::uint32_t slot, const OrderKey& key) {
    if (slot >= place_.size()) place_.resize(slot + 1);
    heap_.push_back({key, slot});
    rise(heap_.size() - 1);
  }
  void pop() { remove(0); }
  void erase(std::uint32_t slot) { remove(place_[slot]); }

 private:
  struct Entry {
    OrderKey key;
    std::uint32_t slot;
  };
  void remove(std::size_t at) {
    const Entry last = heap_.back();
    heap_.pop_back();
    if (at == heap_.size()) return;
    heap_[at] = last;
    rise(at);
    sink(at);
  }
  void rise(std::size_t at) {
    const Entry entry = heap_[at];
    while (at > 0 && entry.key < heap_[(at - 1) / 2].key) {
      put(at, heap_[(at - 1) / 2]);
      at = (at - 1) / 2;
    }
    put(at, entry);
  }
  void sink(std::size_t at) {
    const Entry entry = heap_[at];
    for (std::size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1].key < heap_[child].key) ++child;
      if (!(heap_[child].key < entry.key)) break;
      put(at, heap_[child]);
      at = child;
    }
    put(at, entry);
  }
  void put(std::size_t at, const Entry& entry) {
    heap_[at] = entry;
    place_[entry.slot] = static_cast<std::uint32_t>(at);
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> place_;  // by slot
};

}  // namespace orrery::policy
