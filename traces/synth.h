// Synthetic traces: a seeded, streaming source of requests from a small spec (orrery.synth.v1).
// Laws: the same spec and seed give the same requests on every machine; draws of one purpose never
// shift another's; memory grows with the conversations that are open, not with the requests; a
// block id is never used both for a full block and for a partial tail.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/json.h"
#include "runtime/base/rng.h"
#include "traces/trace.h"

namespace orrery::traces {

// A number in the spec is drawn from this. In JSON: 64, or {"distribution": NAME, ...}:
//   fixed {value}; uniform {min, max}; exponential {mean}; lognormal {mean, cv};
//   quantiles {points: [[q, value], ...]} (linear between points, q from 0 to 1).
// min and max clamp (and so shift the mean of) exponential and lognormal.
struct Distribution {
  enum class Kind : std::uint8_t { kFixed, kUniform, kExponential, kLognormal, kQuantiles };
  Kind kind = Kind::kFixed;
  double a = 0, b = 0;  // fixed: value; uniform: min, max; exponential: mean; lognormal: mu, sigma
  double min = 0, max = 1e15;
  std::vector<std::pair<double, double>> points;
  double sample(RandomStream& stream) const;
};

// When conversations start (a request that is no session is a conversation of one turn).
struct ArrivalSpec {
  enum class Process : std::uint8_t { kPoisson, kGamma, kMmpp, kDiurnal };
  Process process = Process::kPoisson;
  double rate_per_s = 1;
  double cv = 1;                                          // gamma
  double rates[2] = {1, 1}, stay_s[2] = {1, 1};           // MMPP: rate and mean stay of each state
  double period_s = 86400, amplitude = 0, peak_at_s = 0;  // rate (1 + amplitude cos(...))
};

// A part of the prompt that requests share: `choices` different texts of `tokens` tokens each,
// equally likely. With block ids it takes whole blocks (tokens rounded up), so that no block is
// full in one request and partial in another. Layers of the same name, in the same place, are the
// same text for every tenant.
struct PrefixLayer {
  std::string name;
  std::int64_t tokens = 0, choices = 1;
};

struct SessionSpec {
  double share = 0;  // of conversations that have more than one turn
  Distribution turns, think_s;
  double answer_ms_per_token = 20;  // to state an arrival time for open-loop replay
  bool history = true;              // a turn's prompt repeats the conversation so far
};

struct TenantSpec {
  std::string name, model, app, kind;
  double weight = 1;
  std::int32_t priority = 0;
  std::optional<std::int64_t> max_tokens;
  std::vector<PrefixLayer> prefix;
  Distribution input_tokens, output_tokens;  // new tokens of a turn, without prefix and history
  SessionSpec sessions;
};

struct SynthSpec {
  std::optional<std::int64_t> requests;  // at least one of the two limits is given
  std::optional<Duration> duration;
  ArrivalSpec arrivals;
  std::int64_t block_tokens = 0;  // 0: no block ids
  std::vector<TenantSpec> tenants;
};

// Throws InputError at the place in the spec.
SynthSpec read_synth_spec(const JsonView& view);
std::unique_ptr<RequestSource> open_synth(const SynthSpec& spec, std::uint64_t seed);

}  // namespace orrery::traces
