#include "planner/candidate.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "runtime/base/check.h"
#include "runtime/base/hash.h"

namespace orrery::planner {
namespace {

constexpr double kPsPerMs = 1e9;

cost::StepShape prefill_shape(std::int64_t first, std::int64_t count, bool samples) {
  cost::StepShape s;
  s.tokens = count;
  s.sequences = 1;
  s.sampled = samples ? 1 : 0;
  s.prefill_tokens = count;
  s.prefill_context = first + count;
  s.prefill_pairs = count * first + count * (count + 1) / 2;
  return s;
}

cost::StepShape decode_shape(std::int64_t sequences, std::int64_t context_each) {
  cost::StepShape s;
  s.tokens = s.sequences = s.sampled = s.decode_sequences = sequences;
  s.decode_context = sequences * context_each;
  return s;
}

double step_ps(const sim::PoolSpec& pool, const cost::StepShape& shape) {
  return static_cast<double>(cost::repetition_ps(pool.step_model->time(shape), shape, 0));
}

// Picoseconds to bring one more prompt token into the cache in the fullest step there is: no step
// of this replica computes tokens at a better rate, whatever is mixed into it. Step time per token
// falls with the number of tokens up to a staircase, so all sizes are looked at.
double least_ps_per_token(const sim::PoolSpec& pool) {
  double least = 0;
  const std::int64_t most = std::max<std::int64_t>(1, pool.settings.max_batched_tokens.value());
  for (std::int64_t tokens = 1; tokens <= most;
       tokens = std::max(tokens + 1, tokens + tokens / 16)) {
    cost::StepShape shape;
    shape.tokens = tokens;
    shape.sequences = 1;
    const double each = step_ps(pool, shape) / static_cast<double>(tokens);
    if (tokens == 1 || each < least) least = each;
  }
  cost::StepShape full;
  full.tokens = most;
  full.sequences = 1;
  return std::min(least, step_ps(pool, full) / static_cast<double>(most));
}

double percentile_of(std::vector<double> values, double percentile) {
  if (values.empty()) return 0;
  const auto n = static_cast<double>(values.size());
  auto rank = static_cast<std::int64_t>(std::ceil(percentile / 100 * n));
  rank = std::clamp<std::int64_t>(rank, 1, static_cast<std::int64_t>(values.size()));
  std::nth_element(values.begin(), values.begin() + (rank - 1), values.end());
  return values[static_cast<std::size_t>(rank - 1)];
}

std::string number(double value, int decimals) {
  const double scale = std::pow(10.0, decimals);
  const auto scaled = static_cast<std::int64_t>(std::floor(std::fabs(value) * scale + 0.5));
  const auto unit = static_cast<std::int64_t>(scale);
  std::string text = std::to_string(scaled / unit);
  if (decimals > 0) {
    std::string tail = std::to_string(scaled % unit);
    text += "." + std::string(static_cast<std::size_t>(decimals) - tail.size(), '0') + tail;
  }
  return value < 0 ? "-" + text : text;
}

}  // namespace

std::string Candidate::label() const { return instance_type + " tp" + std::to_string(tp); }

std::int64_t Candidate::instances_for(std::int64_t replicas) const {
  return (replicas + replicas_per_instance - 1) / replicas_per_instance;
}

double Candidate::usd_per_hour(std::int64_t replicas) const {
  return static_cast<double>(instances_for(replicas)) * usd_per_instance_hour;
}

Demand characterise(std::vector<traces::TraceRequest> requests) {
  Demand demand;
  std::unordered_set<std::uint64_t> seen;  // chained ids of full blocks; only membership is asked
  for (const traces::TraceRequest& r : requests) {
    std::int64_t cached = 0;
    if (r.block_tokens > 0) {
      std::uint64_t chain = 0;
      bool hit = true;
      const auto full = static_cast<std::size_t>(r.input_tokens / r.block_tokens);
      for (std::size_t b = 0; b < full && b < r.hash_ids.size(); ++b) {
        chain = hash_combine(chain, r.hash_ids[b]);
        const bool known = !seen.insert(chain).second;
        hit = hit && known;
        if (hit) cached += r.block_tokens;
      }
    }
    demand.uncached_prompt_tokens.push_back(std::max<std::int64_t>(1, r.input_tokens - cached));
    demand.input_tokens += r.input_tokens;
    demand.output_tokens += r.output_tokens;
  }
  if (!requests.empty())
    demand.span_s = to_seconds(requests.back().arrival - requests.front().arrival);
  demand.requests = std::move(requests);
  return demand;
}

Floor floor_of(const sim::PoolSpec& pool, std::int64_t uncached_prompt, std::int64_t prompt,
               std::int64_t output) {
  double ttft = 0;
  const std::int64_t chunk = std::max<std::int64_t>(1, pool.settings.max_batched_tokens.value());
  for (std::int64_t done = prompt - uncached_prompt; done < prompt;) {
    const std::int64_t count = std::min(chunk, prompt - done);
    ttft += step_ps(pool, prefill_shape(done, count, done + count == prompt));
    done += count;
  }
  Floor floor;
  floor.ttft_ms = ttft / kPsPerMs;
  const double first_gap = step_ps(pool, decode_shape(1, prompt + 1));
  floor.itl_ms = output > 1 ? first_gap / kPsPerMs : 0;
  if (output > 1) {
    const cost::StepShape shape = decode_shape(1, prompt + 1);
    const auto rest = cost::repetitions_ps(pool.step_model->time(shape), shape, output - 1);
    floor.e2e_ms = (ttft + static_cast<double>(rest)) / kPsPerMs;
  } else {
    floor.e2e_ms = floor.ttft_ms;
  }
  return floor;
}

std::optional<Rejection> check_floors(const Candidate& candidate, const Demand& demand,
                                      const sim::Slo& slo) {
  std::vector<double> ttft, itl, e2e;
  for (std::size_t i = 0; i < demand.requests.size(); ++i) {
    const traces::TraceRequest& r = demand.requests[i];
    if (!r.ok) continue;
    const Floor f =
        floor_of(candidate.pool, demand.uncached_prompt_tokens[i], r.input_tokens, r.output_tokens);
    ttft.push_back(f.ttft_ms);
    e2e.push_back(f.e2e_ms);
    if (r.output_tokens > 1) itl.push_back(f.itl_ms);
  }
  for (const sim::SloTarget& t : slo.targets) {
    const std::vector<double>* values = nullptr;
    if (t.metric == "ttft_ms") values = &ttft;
    if (t.metric == "e2e_ms") values = &e2e;
    if (t.metric == "itl_ms" || t.metric == "tpot_ms") values = &itl;
    if (values == nullptr) continue;
    // Gaps are pooled over tokens, so for ITL only a floor that every gap is above counts.
    const double percentile = t.metric == "itl_ms" || t.metric == "tpot_ms" ? 0 : t.percentile;
    const double floor = percentile_of(*values, percentile);
    if (floor <= t.limit_ms) continue;
    const std::string name = t.metric.substr(0, t.metric.size() - 3);
    return Rejection{candidate.instance_type, candidate.tp, name + "_floor",
                     "a request alone on an idle replica has " + name + " p" +
                         number(t.percentile, 0) + " " + number(floor, 1) +
                         " ms, above the limit of " + number(t.limit_ms, 1) +
                         " ms: more replicas cannot help"};
  }
  return std::nullopt;
}

std::int64_t replica_bound(const Candidate& candidate, const Demand& demand, const sim::Slo& slo) {
  // The share of requests that must be served in time, and the time there is after the last
  // arrival.
  double share = slo.goodput_fraction;
  double after_ms = -1;  // < 0: no limit on how late work may be done
  for (const sim::SloTarget& t : slo.targets) {
    if (t.metric == "ttft_ms" || t.metric == "e2e_ms") {
      share = std::max(share, t.percentile / 100);
      after_ms = after_ms < 0 ? t.limit_ms : std::max(after_ms, t.limit_ms);
    }
  }
  if (after_ms < 0 || share <= 0 || demand.requests.empty()) return 1;
  // Only prompt work must be done within the TTFT limit after the last arrival: output tokens may
  // follow later, so they are left out, and the bound holds for every schedule.
  const double per_token = least_ps_per_token(candidate.pool);
  std::vector<double> work;
  work.reserve(demand.requests.size());
  for (std::size_t i = 0; i < demand.requests.size(); ++i)
    if (demand.requests[i].ok)
      work.push_back(static_cast<double>(demand.uncached_prompt_tokens[i]) * per_token);
  std::sort(work.begin(), work.end());
  const auto counted = static_cast<std::size_t>(share * static_cast<double>(work.size()));
  double total_ps = 0;
  for (std::size_t i = 0; i < std::min(counted, work.size()); ++i) total_ps += work[i];
  const double available_ps = demand.span_s * 1e12 + after_ms * kPsPerMs;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(total_ps / available_ps)));
}

}  // namespace orrery::planner
