#include "runtime/policy/router/directory.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace orrery::policy {

void PrefixDirectory::learn(std::span<const BlockHash> chain) {
  chain = chain.first(std::min(chain.size(), bound_));
  for (std::size_t i = chain.size(); i-- > 0;) {
    std::uint32_t id = find(chain[i]);
    if (id != kNone) {
      unlink(id);
    } else if (nodes_.size() < bound_) {
      id = static_cast<std::uint32_t>(nodes_.size());
      index_.reserve(nodes_.size() + 1, hash_by_id());
      nodes_.push_back({chain[i]});
      index_.set(index_.place_of(chain[i].value, hash_by_id()), id);
    } else {
      id = oldest_;
      unlink(id);
      index_.erase(index_.place_of(nodes_[id].hash.value, hash_by_id()), hash_by_id());
      const std::size_t place = index_.place_of(chain[i].value, hash_by_id());
      nodes_[id].hash = chain[i];
      index_.set(place, id);
    }
    link_newest(id);
  }
}

void PrefixDirectory::unlink(std::uint32_t id) {
  Node& node = nodes_[id];
  (node.newer == kNone ? newest_ : nodes_[node.newer].older) = node.older;
  (node.older == kNone ? oldest_ : nodes_[node.older].newer) = node.newer;
  node.newer = node.older = kNone;
}

void PrefixDirectory::link_newest(std::uint32_t id) {
  Node& node = nodes_[id];
  node.older = newest_;
  node.newer = kNone;
  (newest_ == kNone ? oldest_ : nodes_[newest_].newer) = id;
  newest_ = id;
}

void PrefixDirectory::check_invariants() const {
  ORRERY_CHECK(nodes_.size() <= bound_);
  std::size_t listed = 0;
  for (std::uint32_t id = newest_; id != kNone; id = nodes_[id].older) {
    ORRERY_CHECK(find(nodes_[id].hash) == id);
    ORRERY_CHECK(++listed <= nodes_.size());
  }
  ORRERY_CHECK(listed == nodes_.size());
}

}  // namespace orrery::policy
