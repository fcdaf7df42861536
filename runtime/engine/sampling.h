// Sampling: one row of logits becomes one token id.
//
// Laws (tests/engine/sampling_test.cpp): the result is a function of the row, the parameters and
// the position alone: the draw is keyed by (seed, position), so neighbours in the batch, chunking,
// preemption and the machine cannot show. top_k at least the vocabulary and top_p = 1 change
// nothing. Exponentials are portable ones: the same token under every compiler.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/engine/token.h"

namespace orrery::engine {

struct SamplingParams {
  double temperature = 0;  // 0: greedy (the largest logit, the lowest id wins a tie)
  std::int64_t top_k = 0;  // keep the k likeliest, ties by lower id; 0: all
  double top_p = 1;        // keep the likeliest until they hold this share, in (0, 1]
  std::uint64_t seed = 0;
  bool operator==(const SamplingParams&) const = default;
};

// Throws InputError (place: `where`) for a negative or non-finite temperature, a negative top_k,
// a top_p outside (0, 1].
void check_sampling(const SamplingParams& params, const char* where);

// Position: of the token that is drawn, counted from the request's first token.
// never_sampled: sorted ids that must not come out (may be empty, never the whole vocabulary).
TokenId sample_token(std::span<const float> logits, const SamplingParams& params,
                     std::int64_t position, std::span<const TokenId> never_sampled);

}  // namespace orrery::engine
