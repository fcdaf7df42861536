// StepShape: what a step's time depends on. Kept by the scheduler, read by the cost model.
#pragma once
#include <cstdint>

namespace orrery::cost {

struct StepShape {
  std::int64_t tokens = 0;            // all tokens computed in the step (rows of the GEMMs)
  std::int64_t sequences = 0;         // items
  std::int64_t sampled = 0;           // items that sample: rows of the output head
  std::int64_t decode_sequences = 0;  // items with count 1 that sample (past their prompt's chunks)
  std::int64_t decode_context = 0;    // sum over them of tokens attended, own token included
  std::int64_t prefill_tokens = 0;    // tokens of all other items
  std::int64_t prefill_context = 0;   // sum over those items of (first + count): KV tokens read
  std::int64_t prefill_pairs = 0;     // sum of count*first + count*(count+1)/2: (query, key) pairs
  bool operator==(const StepShape&) const = default;
};

// Time of repetition i = 0, 1, …: fixed + per_context * (decode_context + i * decode_sequences),
// in picoseconds. Exact: the sum over n repetitions is a closed form in integers. It holds for the
// first `repetitions` of them: there the next knot is (sliding windows fill up), and time() must be
// asked again. Whoever repeats a step takes the smaller of this and Step::horizon.
struct StepTime {
  std::int64_t fixed_ps = 0;
  std::int64_t per_context_ps = 0;
  std::int64_t repetitions = INT64_MAX;
};

constexpr std::int64_t repetition_ps(const StepTime& t, const StepShape& s, std::int64_t i) {
  return t.fixed_ps + t.per_context_ps * (s.decode_context + i * s.decode_sequences);
}
// Sum of the first n repetitions.
constexpr std::int64_t repetitions_ps(const StepTime& t, const StepShape& s, std::int64_t n) {
  return n * t.fixed_ps +
         t.per_context_ps * (n * s.decode_context + s.decode_sequences * (n * (n - 1) / 2));
}

}  // namespace orrery::cost
