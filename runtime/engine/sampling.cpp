#include "runtime/engine/sampling.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/base/check.h"
#include "runtime/base/errors.h"
#include "runtime/base/portable_math.h"
#include "runtime/base/rng.h"

namespace orrery::engine {
namespace {

struct Candidate {
  TokenId id;
  float logit;
  double weight;
};

bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// Keeps the k likeliest, then the shortest run of the likeliest that holds share p. The order of
// ids comes back, so that keeping all is the same as not asking.
void keep_likeliest(std::vector<Candidate>& candidates, const SamplingParams& params) {
  const std::size_t all = candidates.size();
  std::size_t keep = all;
  if (params.top_k > 0) keep = std::min(keep, static_cast<std::size_t>(params.top_k));
  if (keep == all && params.top_p >= 1) return;
  std::sort(candidates.begin(), candidates.end(), likelier);
  candidates.resize(keep);
  if (params.top_p < 1) {
    double total = 0, sum = 0;
    for (const Candidate& c : candidates) total += c.weight;
    std::size_t n = 0;
    while (n < candidates.size() && (n == 0 || sum < params.top_p * total))
      sum += candidates[n++].weight;
    candidates.resize(n);
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
}

}  // namespace

void check_sampling(const SamplingParams& p, const char* where) {
  if (!(p.temperature >= 0) || std::isinf(p.temperature))
    throw InputError({where, 0, "temperature"}, std::to_string(p.temperature),
                     "a finite number >= 0");
  if (p.top_k < 0)
    throw InputError({where, 0, "top_k"}, std::to_string(p.top_k), "0 (all) or a positive number");
  if (!(p.top_p > 0 && p.top_p <= 1))
    throw InputError({where, 0, "top_p"}, std::to_string(p.top_p), "a number in (0, 1]");
}

TokenId sample_token(std::span<const float> logits, const SamplingParams& params,
                     std::int64_t position, std::span<const TokenId> never_sampled) {
  thread_local std::vector<Candidate> candidates;
  candidates.clear();
  auto never = never_sampled.begin();
  Candidate best{-1, 0, 0};
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (never != never_sampled.end() && *never == id) {
      ++never;
      continue;
    }
    const Candidate c{id, logits[i], 1.0};
    if (best.id < 0 || likelier(c, best)) best = c;
    if (params.temperature > 0) candidates.push_back(c);
  }
  ORRERY_CHECK(best.id >= 0, "no token may be sampled");
  if (params.temperature <= 0) return best.id;
  for (Candidate& c : candidates) {
    const double scaled =
        (static_cast<double>(c.logit) - static_cast<double>(best.logit)) / params.temperature;
    c.weight = scaled > -700 ? portable_exp(scaled) : 0.0;
  }
  keep_likeliest(candidates, params);
  double total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  RandomStream draw = RandomStream(params.seed).fork("token", static_cast<std::uint64_t>(position));
  double left = draw.next_unit() * total;
  for (const Candidate& c : candidates) {
    if (left < c.weight) return c.id;
    left -= c.weight;
  }
  return best.id;  // rounding left a rest smaller than an ulp of the total
}

}  // namespace orrery::engine
