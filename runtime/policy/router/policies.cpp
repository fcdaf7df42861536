#include "runtime/policy/router/policies.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace orrery::policy {
namespace {

constexpr std::uint32_t kNone = Replicas::kNone;

std::uint32_t round_robin(Choice& c) {
  auto& ready = c.model.ready;
  const auto start =
      std::lower_bound(ready.begin(), ready.end(), c.model.next_id,
                       [](const auto& entry, std::uint64_t id) { return entry.first < id; });
  const auto from = static_cast<std::size_t>(start - ready.begin());
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const std::size_t at = from + i < ready.size() ? from + i : from + i - ready.size();
    if (!c.fits(ready[at].second)) continue;
    c.model.next_id = ready[at].first + UINT64_C(1);
    return ready[at].second;
  }
  return kNone;
}

std::uint32_t least_load(Choice& c) {
  std::uint32_t best = kNone;
  for (const std::uint32_t g : c.model.groups) {
    const Replicas::Group& group = c.replicas.group(g);
    if (group.heap.empty() || group.max_request_tokens < c.needed) continue;
    const std::uint32_t top = group.heap.front();
    if (best == kNone || c.replicas[top].load() < c.replicas[best].load()) best = top;
  }
  return best;
}

std::uint32_t prefix_aware(Choice& c) {
  std::uint32_t best = kNone;
  std::int64_t best_cost = 0;
  const auto consider = [&](std::uint32_t index) {
    const Replica& replica = c.replicas[index];
    const std::int64_t whole = replica.live.tokens.value() + c.prompt.value();
    // To be as good as the best it must save this much: one look rules most of them out.
    if (best != kNone && !c.may_match(index, whole - best_cost)) return;
    const std::int64_t cost = whole - c.matched_tokens(index);
    if (best == kNone || cost < best_cost ||
        (cost == best_cost && replica.load() < c.replicas[best].load())) {
      best = index, best_cost = cost;
    }
  };
  const std::uint32_t idle = least_load(c);
  if (idle == kNone) return kNone;
  consider(idle);
  for (const auto& [id, index] : c.model.ready)
    if (index != idle && c.fits(index)) consider(index);
  return best;
}

std::uint32_t scored(Choice& c) {
  const bool reads = std::any_of(c.scorers.begin(), c.scorers.end(),
                                 [](const auto& s) { return s.scorer->reads_prefixes; });
  c.candidates.clear();
  Extremes extremes;
  for (const auto& [id, index] : c.model.ready) {
    if (!c.fits(index)) continue;
    const LedgerEntry live = c.replicas[index].live;
    if (c.candidates.empty()) extremes = {live, live};
    extremes.least.requests = std::min(extremes.least.requests, live.requests);
    extremes.least.tokens = std::min(extremes.least.tokens, live.tokens);
    extremes.most.requests = std::max(extremes.most.requests, live.requests);
    extremes.most.tokens = std::max(extremes.most.tokens, live.tokens);
    c.candidates.push_back({live, reads ? c.matched_tokens(index) : 0, c.prompt.value()});
  }
  std::uint32_t best = kNone;
  std::int64_t best_score = 0;
  std::size_t at = 0;
  for (const auto& [id, index] : c.model.ready) {
    if (!c.fits(index)) continue;
    const Candidate& candidate = c.candidates[at++];
    std::int64_t score = 0;
    for (const WeightedScorer& s : c.scorers)
      score += s.weight * s.scorer->score(candidate, extremes);
    if (best == kNone || score > best_score ||
        (score == best_score && c.replicas[index].load() < c.replicas[best].load())) {
      best = index, best_score = score;
    }
  }
  return best;
}

constexpr std::array<NamedPolicy, 4> kPolicies{{{"round_robin", false, round_robin},
                                                {"least_load", false, least_load},
                                                {"prefix_aware", true, prefix_aware},
                                                {"scored", false, scored}}};

}  // namespace

std::span<const BlockHash> Choice::usable_chain(std::uint32_t index) const {
  const std::int64_t block = replicas[index].info.block_tokens.value();
  const auto most = static_cast<std::size_t>((prompt.value() - 1) / block);
  return hashes.first(std::min(hashes.size(), most));
}

std::int64_t Choice::matched_tokens(std::uint32_t index) const {
  const auto matched = replicas[index].directory.match(usable_chain(index));
  return static_cast<std::int64_t>(matched) * replicas[index].info.block_tokens.value();
}

bool Choice::may_match(std::uint32_t index, std::int64_t tokens) const {
  if (tokens <= 0) return true;
  const std::int64_t block = replicas[index].info.block_tokens.value();
  const auto blocks = static_cast<std::size_t>((tokens + block - 1) / block);
  const auto chain = usable_chain(index);
  return blocks <= chain.size() && replicas[index].directory.has(chain[blocks - 1]);
}

std::span<const NamedPolicy> registered_router_policies() { return kPolicies; }

const NamedPolicy* find_router_policy(std::string_view name) {
  for (const NamedPolicy& policy : kPolicies)
    if (policy.name == name) return &policy;
  return nullptr;
}

}  // namespace orrery::policy
