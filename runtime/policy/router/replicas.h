// Replicas: the router's view of its instances: who is ready for which model, and the ledger of
// live placements on each. Policies read it; the router alone changes it.
#pragma once
#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/policy/flat_map.h"
#include "runtime/policy/router/directory.h"
#include "runtime/policy/router/router.h"

namespace orrery::policy {

// Load as a total order: it ends in the instance's id.
struct LoadKey {
  std::int64_t requests = 0, tokens = 0;
  std::uint32_t id = 0;
  auto operator<=>(const LoadKey&) const = default;
};

struct Replica {
  RouterInstance info;
  bool present = false;  // otherwise the place is free for another
  bool draining = false;
  LedgerEntry live;
  PrefixDirectory directory;
  std::uint32_t group = 0;
  std::uint32_t place = 0;  // in its group's heap, while ready

  LoadKey load() const { return {live.requests, live.tokens.value(), info.id.value}; }
};

class Replicas {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  // Ready instances of one model that take the same length, as a heap with the least loaded on top.
  struct Group {
    ModelId model;
    Tokens max_request_tokens;
    std::vector<std::uint32_t> heap;
  };
  struct Model {
    ModelId id;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ready;  // (instance id, index), by id
    std::vector<std::uint32_t> groups;
    std::uint64_t next_id = 0;  // round robin: the first candidate has at least this id
  };

  std::uint32_t add(const RouterInstance& info, std::int64_t directory_bound);
  void drain(std::uint32_t index);
  void remove(std::uint32_t index);
  std::uint32_t index_of(InstanceId id) const;  // kNone: not here
  Model* model_of(ModelId id);                  // nullptr: never seen
  void open(std::uint32_t index, Tokens prompt);
  void close(std::uint32_t index, Tokens prompt);

  Replica& operator[](std::uint32_t index) { return replicas_[index]; }
  const Replica& operator[](std::uint32_t index) const { return replicas_[index]; }
  std::size_t size() const { return replicas_.size(); }
  const Group& group(std::uint32_t g) const { return groups_[g]; }
  void check_invariants() const;

 private:
  std::uint32_t group_of(Model& model, const RouterInstance& info);
  bool less(std::uint32_t a, std::uint32_t b) const {
    return replicas_[a].load() < replicas_[b].load();
  }
  void put(Group& group, std::size_t at, std::uint32_t index);
  void rise(Group& group, std::size_t at);
  void sink(Group& group, std::size_t at);

  std::vector<Replica> replicas_;
  std::vector<std::uint32_t> free_;
  std::vector<Group> groups_;
  std::vector<Model> models_;
  FlatMap<std::uint32_t> by_id_, by_model_;
};

}  // namespace orrery::policy
