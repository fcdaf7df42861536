#include "runtime/policy/router/scorers.h"

#include <array>

namespace orrery::policy {
namespace {

std::int64_t spare(std::int64_t value, std::int64_t least, std::int64_t most) {
  return most == least ? kBestScore : kBestScore * (most - value) / (most - least);
}
std::int64_t load_requests(const Candidate& c, const Extremes& e) {
  return spare(c.live.requests, e.least.requests, e.most.requests);
}
std::int64_t load_tokens(const Candidate& c, const Extremes& e) {
  return spare(c.live.tokens.value(), e.least.tokens.value(), e.most.tokens.value());
}
std::int64_t prefix(const Candidate& c, const Extremes&) {
  return kBestScore * c.matched_tokens / c.prompt_tokens;
}

constexpr std::array<NamedScorer, 3> kScorers{{{"load_requests", false, load_requests},
                                               {"load_tokens", false, load_tokens},
                                               {"prefix", true, prefix}}};

}  // namespace

std::span<const NamedScorer> registered_scorers() { return kScorers; }

const NamedScorer* find_scorer(std::string_view name) {
  for (const NamedScorer& scorer : kScorers)
    if (scorer.name == name) return &scorer;
  return nullptr;
}

}  // namespace orrery::policy
