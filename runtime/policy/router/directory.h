// PrefixDirectory: which prefix blocks one instance probably has cached, learned from placements.
// It owns a bounded, least-recently-used set of block hashes.
// Law: never more than its bound; a prompt's later blocks are dropped before its earlier ones.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/units.h"
#include "runtime/policy/id_index.h"

namespace orrery::policy {

class PrefixDirectory {
 public:
  PrefixDirectory() : PrefixDirectory(1) {}
  explicit PrefixDirectory(std::int64_t bound) : bound_(static_cast<std::size_t>(bound)) {}

  // How many leading blocks of the chain are known.
  std::size_t match(std::span<const BlockHash> chain) const {
    std::size_t n = 0;
    while (n < chain.size() && has(chain[n])) ++n;
    return n;
  }
  bool has(BlockHash hash) const { return find(hash) != kNone; }
  // The chain goes there: its blocks are now the most recently used, the first of them most.
  void learn(std::span<const BlockHash> chain);
  std::size_t size() const { return nodes_.size(); }
  void check_invariants() const;

 private:
  static constexpr std::uint32_t kNone = IdIndex::kNone;
  struct Node {
    BlockHash hash;
    std::uint32_t newer = kNone, older = kNone;
  };
  auto hash_by_id() const {
    return [this](std::uint32_t id) { return nodes_[id].hash.value; };
  }
  std::uint32_t find(BlockHash hash) const {
    return index_.at(index_.place_of(hash.value, hash_by_id()));
  }
  void unlink(std::uint32_t id);
  void link_newest(std::uint32_t id);

  std::size_t bound_;
  std::vector<Node> nodes_;
  std::uint32_t newest_ = kNone, oldest_ = kNone;
  IdIndex index_;
};

}  // namespace orrery::policy
