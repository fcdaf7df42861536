// FlatMap: 64-bit key -> small value, open addressing with linear probing and backward-shift
// deletion. No allocation while the size stays below a bound seen before. It has no iteration in
// table order except for_each(), whose caller must not let that order show.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace orrery::policy {

template <class Value>
class FlatMap {
 public:
  FlatMap() : entries_(kMinimum) {}

  Value* find(std::uint64_t key) {
    std::size_t at = 0;
    return probe(key, at) ? &entries_[at].value : nullptr;
  }
  const Value* find(std::uint64_t key) const { return const_cast<FlatMap*>(this)->find(key); }
  // The key must not be there.
  void insert(std::uint64_t key, Value value) {
    if ((size_ + 1) * 2 > entries_.size()) grow();
    std::size_t at = 0;
    probe(key, at);
    entries_[at] = {key, std::move(value), true};
    ++size_;
  }
  // False when it was not there.
  bool erase(std::uint64_t key) {
    std::size_t hole = 0;
    if (!probe(key, hole)) return false;
    const std::size_t mask = entries_.size() - 1;
    for (std::size_t at = (hole + 1) & mask; entries_[at].used; at = (at + 1) & mask) {
      const std::size_t home = home_of(entries_[at].key);
      if (((at - home) & mask) < ((at - hole) & mask)) continue;  // not allowed to move before home
      entries_[hole] = std::move(entries_[at]);
      hole = at;
    }
    entries_[hole] = {};
    --size_;
    return true;
  }
  std::size_t size() const { return size_; }
  template <class F>
  void for_each(F&& f) const {
    for (const Entry& e : entries_)
      if (e.used) f(e.key, e.value);
  }

 private:
  static constexpr std::size_t kMinimum = 16;  // a power of two; load factor stays at most 1/2
  struct Entry {
    std::uint64_t key = 0;
    Value value{};
    bool used = false;
  };

  std::size_t home_of(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ULL) >> 32) & (entries_.size() - 1);
  }
  bool probe(std::uint64_t key, std::size_t& at) const {
    const std::size_t mask = entries_.size() - 1;
    for (at = home_of(key); entries_[at].used; at = (at + 1) & mask)
      if (entries_[at].key == key) return true;
    return false;
  }
  void grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    for (Entry& e : old) {
      if (!e.used) continue;
      std::size_t at = 0;
      probe(e.key, at);
      entries_[at] = std::move(e);
    }
  }

  std::vector<Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace orrery::policy
