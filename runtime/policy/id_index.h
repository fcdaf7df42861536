// IdIndex: finds 32-bit ids by 64-bit hashes that the ids' owner keeps. Open addressing with linear
// probing and backward-shift deletion; at most half full, so that a miss ends after a probe or two.
// The owner passes `hash_of(id)`; an id's hash must not change while it is in the index.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace orrery::policy {

class IdIndex {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  explicit IdIndex(std::size_t expected = 8) { resize(expected); }
  std::size_t places() const { return ids_.size(); }
  std::uint32_t at(std::size_t place) const { return ids_[place]; }
  void set(std::size_t place, std::uint32_t id) { ids_[place] = id; }

  // The place of the id with this hash, or the empty place where it would go.
  template <class HashOf>
  std::size_t place_of(std::uint64_t hash, const HashOf& hash_of) const {
    const std::size_t mask = ids_.size() - 1;
    std::size_t place = home_of(hash);
    while (ids_[place] != kNone && hash_of(ids_[place]) != hash) place = (place + 1) & mask;
    return place;
  }
  template <class HashOf>
  void erase(std::size_t hole, const HashOf& hash_of) {
    const std::size_t mask = ids_.size() - 1;
    for (std::size_t p = (hole + 1) & mask; ids_[p] != kNone; p = (p + 1) & mask) {
      const std::size_t home = home_of(hash_of(ids_[p]));
      if (((p - home) & mask) < ((p - hole) & mask)) continue;  // it may not move before its home
      ids_[hole] = ids_[p];
      hole = p;
    }
    ids_[hole] = kNone;
  }
  // Room for `count` ids. Call before the count-th is set.
  template <class HashOf>
  void reserve(std::size_t count, const HashOf& hash_of) {
    if (count * 2 <= ids_.size()) return;
    const std::vector<std::uint32_t> old = std::move(ids_);
    resize(count);
    for (const std::uint32_t id : old)
      if (id != kNone) ids_[place_of(hash_of(id), hash_of)] = id;
  }

 private:
  void resize(std::size_t count) {
    const std::size_t places = std::bit_ceil(count < 8 ? 16 : count * 2);
    ids_.assign(places, kNone);
    shift_ = 64 - std::countr_zero(places);
  }
  std::size_t home_of(std::uint64_t hash) const {
    return static_cast<std::size_t>((hash * 0x9e3779b97f4a7c15ULL) >> shift_);
  }

  std::vector<std::uint32_t> ids_;
  int shift_ = 0;
};

}  // namespace orrery::policy
