// Scorers: how well an instance suits a request, 0 (worst) to 1024 (best). Registered by name.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/policy/router/router.h"

namespace orrery::policy {

struct Candidate {
  LedgerEntry live;
  std::int64_t matched_tokens = 0, prompt_tokens = 1;
};
// Over all candidates of the request.
struct Extremes {
  LedgerEntry least, most;
};
using Scorer = std::int64_t (*)(const Candidate&, const Extremes&);

constexpr std::int64_t kBestScore = 1024;

// load_requests, load_tokens: linear from the most (0) to the least loaded candidate (1024); all
// 1024 when they are equal. prefix: share of the prompt expected to be cached.
struct NamedScorer {
  std::string_view name;
  bool reads_prefixes;
  Scorer score;
};
std::span<const NamedScorer> registered_scorers();
const NamedScorer* find_scorer(std::string_view name);  // nullptr: not registered

}  // namespace orrery::policy
