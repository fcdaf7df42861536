#include "runtime/policy/router/replicas.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace orrery::policy {

std::uint32_t Replicas::add(const RouterInstance& info, std::int64_t directory_bound) {
  ORRERY_CHECK(by_id_.find(info.id.value) == nullptr, "the instance is here already");
  if (by_model_.find(info.model.value) == nullptr) {
    by_model_.insert(info.model.value, static_cast<std::uint32_t>(models_.size()));
    models_.push_back({info.model, {}, {}, 0});
  }
  Model& model = *model_of(info.model);
  std::uint32_t index = 0;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(replicas_.size());
    replicas_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Replica& replica = replicas_[index];
  replica = {};
  replica.info = info;
  replica.present = true;
  replica.directory = PrefixDirectory(directory_bound);
  replica.group = group_of(model, info);
  by_id_.insert(info.id.value, index);
  const std::pair entry(info.id.value, index);
  model.ready.insert(std::lower_bound(model.ready.begin(), model.ready.end(), entry), entry);
  Group& group = groups_[replica.group];
  group.heap.push_back(index);
  rise(group, group.heap.size() - 1);
  return index;
}

std::uint32_t Replicas::group_of(Model& model, const RouterInstance& info) {
  for (const std::uint32_t g : model.groups)
    if (groups_[g].max_request_tokens == info.max_request_tokens) return g;
  const auto g = static_cast<std::uint32_t>(groups_.size());
  groups_.push_back({info.model, info.max_request_tokens, {}});
  model.groups.push_back(g);
  return g;
}

void Replicas::drain(std::uint32_t index) {
  Replica& replica = replicas_[index];
  if (replica.draining) return;
  replica.draining = true;
  Model& model = *model_of(replica.info.model);
  const std::pair entry(replica.info.id.value, index);
  model.ready.erase(std::lower_bound(model.ready.begin(), model.ready.end(), entry));
  Group& group = groups_[replica.group];
  const std::size_t at = replica.place;
  const std::uint32_t last = group.heap.back();
  group.heap.pop_back();
  if (at == group.heap.size()) return;
  put(group, at, last);
  rise(group, at);
  sink(group, replicas_[last].place);
}

void Replicas::remove(std::uint32_t index) {
  drain(index);
  by_id_.erase(replicas_[index].info.id.value);
  replicas_[index] = {};
  free_.push_back(index);
}

std::uint32_t Replicas::index_of(InstanceId id) const {
  const std::uint32_t* index = by_id_.find(id.value);
  return index == nullptr ? kNone : *index;
}

Replicas::Model* Replicas::model_of(ModelId id) {
  const std::uint32_t* at = by_model_.find(id.value);
  return at == nullptr ? nullptr : &models_[*at];
}

void Replicas::open(std::uint32_t index, Tokens prompt) {
  Replica& replica = replicas_[index];
  ++replica.live.requests;
  replica.live.tokens += prompt;
  if (!replica.draining) sink(groups_[replica.group], replica.place);
}

void Replicas::close(std::uint32_t index, Tokens prompt) {
  Replica& replica = replicas_[index];
  --replica.live.requests;
  replica.live.tokens -= prompt;
  ORRERY_CHECK(replica.live.requests >= 0 && replica.live.tokens.value() >= 0);
  if (!replica.draining) rise(groups_[replica.group], replica.place);
}

void Replicas::put(Group& group, std::size_t at, std::uint32_t index) {
  group.heap[at] = index;
  replicas_[index].place = static_cast<std::uint32_t>(at);
}

void Replicas::rise(Group& group, std::size_t at) {
  const std::uint32_t index = group.heap[at];
  for (; at > 0 && less(index, group.heap[(at - 1) / 2]); at = (at - 1) / 2)
    put(group, at, group.heap[(at - 1) / 2]);
  put(group, at, index);
}

void Replicas::sink(Group& group, std::size_t at) {
  const std::uint32_t index = group.heap[at];
  for (std::size_t child = 2 * at + 1; child < group.heap.size(); child = 2 * at + 1) {
    if (child + 1 < group.heap.size() && less(group.heap[child + 1], group.heap[child])) ++child;
    if (!less(group.heap[child], index)) break;
    put(group, at, group.heap[child]);
    at = child;
  }
  put(group, at, index);
}

void Replicas::check_invariants() const {
  std::size_t ready = 0, in_heaps = 0, listed = 0;
  for (const Replica& r : replicas_) {
    r.directory.check_invariants();
    ready += r.present && !r.draining;
    if (!r.present) ORRERY_CHECK(r.live.requests == 0 && r.directory.size() == 0);
  }
  for (const Group& g : groups_) {
    in_heaps += g.heap.size();
    for (std::size_t i = 0; i < g.heap.size(); ++i) {
      const Replica& r = replicas_[g.heap[i]];
      ORRERY_CHECK(r.present && !r.draining && r.place == i && &groups_[r.group] == &g);
      if (i > 0) ORRERY_CHECK(less(g.heap[(i - 1) / 2], g.heap[i]));
    }
  }
  for (const Model& m : models_) {
    listed += m.ready.size();
    ORRERY_CHECK(std::is_sorted(m.ready.begin(), m.ready.end()));
  }
  ORRERY_CHECK(ready == in_heaps && ready == listed);
}

}  // namespace orrery::policy
