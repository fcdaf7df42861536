// Router policies, registered by name: each picks one of the ready, large enough instances.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/policy/router/replicas.h"
#include "runtime/policy/router/scorers.h"

namespace orrery::policy {

struct WeightedScorer {
  const NamedScorer* scorer = nullptr;
  std::int64_t weight = 1;
};

// One request to place, and what a policy may use.
struct Choice {
  Replicas& replicas;
  Replicas::Model& model;
  Tokens needed;  // prompt + max_tokens
  Tokens prompt;
  std::span<const BlockHash> hashes;  // without a partial tail; empty: nothing to match
  std::span<const WeightedScorer> scorers;
  std::vector<Candidate>& candidates;  // scratch

  bool fits(std::uint32_t index) const { return needed <= replicas[index].info.max_request_tokens; }
  // Prompt tokens expected to be cached there; at least one is always computed.
  std::int64_t matched_tokens(std::uint32_t index) const;
  // False when it certainly matches fewer tokens than these (a single look).
  bool may_match(std::uint32_t index, std::int64_t tokens) const;
  std::span<const BlockHash> usable_chain(std::uint32_t index) const;
};
// Index of the replica, Replicas::kNone when none is ready and large enough.
using Picker = std::uint32_t (*)(Choice&);

struct NamedPolicy {
  std::string_view name;
  bool reads_prefixes;  // for "scored" it depends on the scorers
  Picker pick;
};
std::span<const NamedPolicy> registered_router_policies();
const NamedPolicy* find_router_policy(std::string_view name);  // nullptr: not registered

}  // namespace orrery::policy
