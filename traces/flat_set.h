// FlatSet: a set of 64-bit hashes at 8 to 16 bytes each. Two texts with the same hash count as one:
// for a million of them the odds are 1 in 37 million.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace orrery::traces {

class FlatSet {
 public:
  bool insert(std::uint64_t hash) {  // false: was there
    if (2 * (used_ + 1) > slots_.size()) grow();
    std::uint64_t& slot = slots_[place(nonzero(hash))];
    if (slot != 0) return false;
    slot = nonzero(hash), ++used_;
    return true;
  }
  bool contains(std::uint64_t hash) const { return used_ > 0 && slots_[place(nonzero(hash))] != 0; }
  std::size_t size() const { return used_; }

 private:
  static std::uint64_t nonzero(std::uint64_t hash) { return hash != 0 ? hash : 1; }
  std::size_t place(std::uint64_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = (hash >> 11) & mask;
    while (slots_[i] != 0 && slots_[i] != hash) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    const std::vector<std::uint64_t> old = std::exchange(slots_, {});
    slots_.assign(old.empty() ? 64 : old.size() * 2, 0);
    for (const std::uint64_t h : old)
      if (h != 0) slots_[place(h)] = h;
  }
  std::vector<std::uint64_t> slots_;
  std::size_t used_ = 0;
};

}  // namespace orrery::traces
