#include "traces/synth.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/portable_math.h"

namespace orrery::traces {
namespace {

constexpr double kNsPerS = 1e9;

std::int64_t whole(double x) { return static_cast<std::int64_t>(x + 0.5); }

// Start times of conversations, in nanoseconds, non-decreasing.
class Arrivals {
 public:
  Arrivals(const ArrivalSpec& spec, const RandomStream& root)
      : spec_(spec), gaps_(root.fork("arrivals")), states_(root.fork("arrival states")) {
    if (spec_.process == ArrivalSpec::Process::kMmpp) switch_ns_ = stay();
  }
  std::int64_t next() {
    switch (spec_.process) {
      case ArrivalSpec::Process::kPoisson:
        now_ns_ += whole(gaps_.next_exponential() / spec_.rate_per_s * kNsPerS);
        break;
      case ArrivalSpec::Process::kGamma: {
        const double shape = 1 / (spec_.cv * spec_.cv);
        now_ns_ += whole(gaps_.next_gamma(shape) / (shape * spec_.rate_per_s) * kNsPerS);
        break;
      }
      case ArrivalSpec::Process::kMmpp:
        next_mmpp();
        break;
      case ArrivalSpec::Process::kDiurnal:
        next_diurnal();
        break;
    }
    return now_ns_;
  }

 private:
  std::int64_t stay() {
    return now_ns_ + whole(states_.next_exponential() * spec_.stay_s[state_] * kNsPerS);
  }
  // Exponential gaps forget, so a gap that would cross a change of state is drawn anew from there.
  void next_mmpp() {
    while (true) {
      if (spec_.rates[state_] > 0) {
        const std::int64_t t =
            now_ns_ + whole(gaps_.next_exponential() / spec_.rates[state_] * kNsPerS);
        if (t < switch_ns_) {
          now_ns_ = t;
          return;
        }
      }
      now_ns_ = switch_ns_, state_ = 1 - state_, switch_ns_ = stay();
    }
  }
  // Thinning: candidates at the highest rate, each kept with probability rate(t) / highest.
  void next_diurnal() {
    const double highest = spec_.rate_per_s * (1 + spec_.amplitude);
    while (true) {
      now_ns_ += whole(gaps_.next_exponential() / highest * kNsPerS);
      const double periods =
          (static_cast<double>(now_ns_) / kNsPerS - spec_.peak_at_s) / spec_.period_s + 0.25;
      double turns = periods - static_cast<double>(static_cast<std::int64_t>(periods));
      if (turns < 0) turns += 1;
      if (turns >= 1) turns = 0;
      const double rate = spec_.rate_per_s * (1 + spec_.amplitude * portable_sin_2pi(turns));
      if (states_.next_unit() * highest < rate) return;
    }
  }

  const ArrivalSpec spec_;
  RandomStream gaps_, states_;
  std::int64_t now_ns_ = 0, switch_ns_ = 0;
  std::size_t state_ = 0;
};

// Ids of the blocks of shared prefixes, reserved before any other.
class PrefixBlocks {
 public:
  explicit PrefixBlocks(const SynthSpec& spec) : block_(spec.block_tokens) {
    std::map<std::string, std::uint64_t> known;  // by the path of layers
    for (const TenantSpec& t : spec.tenants) {
      std::string path;
      std::uint64_t variants = 1;
      std::vector<Layer>& layers = tenants_.emplace_back();
      for (const PrefixLayer& layer : t.prefix) {
        path += "/" + layer.name + ":" + std::to_string(layer.tokens) + "x" +
                std::to_string(layer.choices);
        const auto choices = static_cast<std::uint64_t>(layer.choices);
        variants *= choices;
        const std::uint64_t blocks =
            block_ == 0 ? 0 : static_cast<std::uint64_t>((layer.tokens + block_ - 1) / block_);
        const auto [it, fresh] = known.emplace(path, reserved_);
        if (fresh) reserved_ += variants * blocks;
        layers.push_back({it->second, blocks, choices, layer.tokens});
      }
    }
  }
  std::uint64_t reserved() const { return reserved_; }
  // Tokens of a tenant's prefix as used: whole blocks where there are block ids.
  std::int64_t tokens(std::size_t tenant) const {
    std::int64_t sum = 0;
    for (const Layer& layer : tenants_[tenant])
      sum += block_ == 0 ? layer.tokens : static_cast<std::int64_t>(layer.blocks) * block_;
    return sum;
  }
  void append(std::size_t tenant, const std::vector<std::uint64_t>& choices,
              std::vector<std::uint64_t>& ids) const {
    std::uint64_t variant = 0;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const Layer& layer = tenants_[tenant][i];
      variant = variant * layer.choices + choices[i];
      for (std::uint64_t k = 0; k < layer.blocks; ++k)
        ids.push_back(layer.first + variant * layer.blocks + k);
    }
  }

 private:
  struct Layer {
    std::uint64_t first = 0, blocks = 0, choices = 1;
    std::int64_t tokens = 0;
  };
  const std::int64_t block_;
  std::vector<std::vector<Layer>> tenants_;
  std::uint64_t reserved_ = 0;
};

struct Turn {
  std::int64_t own_tokens = 0;  // of the prompt without prefix: history and new
  std::int64_t history = 0;     // of them, the conversation before
  std::int64_t output = 0;
  std::int64_t think_ns = 0;
  std::uint64_t first_block = 0, tail_block = 0;
};

struct Conversation {
  std::uint64_t number = 0;
  std::size_t tenant = 0;
  std::vector<std::uint64_t> choices;  // of the prefix layers
  std::vector<Turn> turns;
  std::size_t next = 0;
  std::int64_t arrival_ns = 0;  // of the next turn
};

class SynthSource : public RequestSource {
 public:
  SynthSource(const SynthSpec& spec, std::uint64_t seed)
      : spec_(spec), root_(seed), arrivals_(spec_.arrivals, root_), prefixes_(spec_) {
    next_block_ = prefixes_.reserved();
    for (const TenantSpec& t : spec_.tenants) total_weight_ += t.weight;
    next_start_ = arrivals_.next();
  }

  bool next(TraceRequest& request) override {
    if (spec_.requests && rows_ >= *spec_.requests) return false;
    while (open_.empty() || next_start_ <= open_.front().arrival_ns) {
      if (spec_.duration && next_start_ >= spec_.duration->value()) break;
      start_conversation();
    }
    if (open_.empty()) return false;
    std::pop_heap(open_.begin(), open_.end(), later);
    Conversation c = std::move(open_.back());
    open_.pop_back();
    if (spec_.duration && c.arrival_ns >= spec_.duration->value()) return open_.clear(), false;
    emit(c, request);
    if (++c.next < c.turns.size()) {
      const Turn& before = c.turns[c.next - 1];
      c.arrival_ns += whole(static_cast<double>(before.output) *
                            spec_.tenants[c.tenant].sessions.answer_ms_per_token * 1e6) +
                      c.turns[c.next].think_ns;
      open_.push_back(std::move(c));
      std::push_heap(open_.begin(), open_.end(), later);
    }
    return true;
  }

 private:
  static bool later(const Conversation& a, const Conversation& b) {
    return a.arrival_ns != b.arrival_ns ? a.arrival_ns > b.arrival_ns : a.number > b.number;
  }
  std::size_t pick_tenant(RandomStream& stream) const {
    double x = stream.next_unit() * total_weight_;
    for (std::size_t i = 0; i + 1 < spec_.tenants.size(); ++i)
      if ((x -= spec_.tenants[i].weight) < 0) return i;
    return spec_.tenants.size() - 1;
  }
  void start_conversation() {
    Conversation c;
    c.number = conversations_++, c.arrival_ns = next_start_;
    next_start_ = arrivals_.next();
    const RandomStream stream = root_.fork("conversation", c.number);
    RandomStream tenants = stream.fork("tenant"), lengths = stream.fork("turns"),
                 inputs = stream.fork("input"), outputs = stream.fork("output"),
                 thinks = stream.fork("think"), prefix = stream.fork("prefix");
    c.tenant = pick_tenant(tenants);
    const TenantSpec& tenant = spec_.tenants[c.tenant];
    for (const PrefixLayer& layer : tenant.prefix)
      c.choices.push_back(prefix.next_below(static_cast<std::uint64_t>(layer.choices)));
    const SessionSpec& s = tenant.sessions;
    const bool session = lengths.next_unit() < s.share;
    const std::int64_t turns =
        session ? std::max<std::int64_t>(1, whole(s.turns.sample(lengths))) : 1;
    std::int64_t said = 0;
    for (std::int64_t i = 0; i < turns; ++i) {
      Turn& turn = c.turns.emplace_back();
      const std::int64_t fresh =
          std::max<std::int64_t>(1, whole(tenant.input_tokens.sample(inputs)));
      turn.output = std::max<std::int64_t>(1, whole(tenant.output_tokens.sample(outputs)));
      turn.history = s.history ? said : 0;
      turn.own_tokens = turn.history + fresh;
      said = turn.own_tokens + turn.output;
      if (i > 0) turn.think_ns = whole(s.think_s.sample(thinks) * kNsPerS) / 1000 * 1000;
    }
    reserve_blocks(c);
    open_.push_back(std::move(c));
    std::push_heap(open_.begin(), open_.end(), later);
  }
  // Full blocks of a conversation that keeps its history are the same in every turn; partial tails
  // get ids that nothing else has.
  void reserve_blocks(Conversation& c) {
    if (spec_.block_tokens == 0) return;
    const bool history = spec_.tenants[c.tenant].sessions.history;
    const std::uint64_t first = next_block_;
    for (Turn& turn : c.turns) {
      turn.first_block = history ? first : next_block_;
      const std::uint64_t end =
          turn.first_block + static_cast<std::uint64_t>(turn.own_tokens / spec_.block_tokens);
      next_block_ = std::max(next_block_, end);
    }
    for (Turn& turn : c.turns)
      if (turn.own_tokens % spec_.block_tokens != 0) turn.tail_block = next_block_++;
  }
  void emit(const Conversation& c, TraceRequest& r) {
    r.clear();
    const Turn& turn = c.turns[c.next];
    const TenantSpec& t = spec_.tenants[c.tenant];
    r.row = rows_++;
    r.arrival = Duration(c.arrival_ns / 1000 * 1000);  // microseconds are enough, and read better
    const std::int64_t prefix = prefixes_.tokens(c.tenant);
    r.input_tokens = prefix + turn.own_tokens, r.output_tokens = turn.output;
    r.max_tokens = t.max_tokens;
    r.model = t.model, r.tenant = t.name, r.app = t.app, r.kind = t.kind, r.priority = t.priority;
    if (c.turns.size() > 1) {
      r.session = "s" + std::to_string(c.number);
      r.id = r.session + "." + std::to_string(c.next);
      if (c.next > 0) {
        r.after = r.session + "." + std::to_string(c.next - 1);
        r.think = Duration(turn.think_ns);
        if (turn.history > 0) r.history_tokens = prefix + turn.history;
      }
    }
    if (spec_.block_tokens == 0) return;
    r.block_tokens = spec_.block_tokens;
    prefixes_.append(c.tenant, c.choices, r.hash_ids);
    const std::int64_t full = turn.own_tokens / spec_.block_tokens;
    for (std::int64_t i = 0; i < full; ++i)
      r.hash_ids.push_back(turn.first_block + static_cast<std::uint64_t>(i));
    if (turn.own_tokens % spec_.block_tokens != 0) r.hash_ids.push_back(turn.tail_block);
  }

  const SynthSpec spec_;
  const RandomStream root_;
  Arrivals arrivals_;
  const PrefixBlocks prefixes_;
  double total_weight_ = 0;
  std::vector<Conversation> open_;  // min-heap by (arrival, number)
  std::int64_t next_start_ = 0, rows_ = 0;
  std::uint64_t conversations_ = 0, next_block_ = 0;
};

}  // namespace

double Distribution::sample(RandomStream& stream) const {
  double x = a;
  switch (kind) {
    case Kind::kFixed:
      return x;
    case Kind::kUniform:
      return a + stream.next_unit() * (b - a);
    case Kind::kExponential:
      x = stream.next_exponential() * a;
      break;
    case Kind::kLognormal:
      x = portable_exp(a + b * stream.next_normal());
      break;
    case Kind::kQuantiles: {
      const double q = stream.next_unit();
      std::size_t i = 1;
      while (i + 1 < points.size() && q >= points[i].first) ++i;
      const auto [q0, v0] = points[i - 1];
      const auto [q1, v1] = points[i];
      return v0 + (v1 - v0) * ((q - q0) / (q1 - q0));
    }
  }
  return std::clamp(x, min, max);
}

std::unique_ptr<RequestSource> open_synth(const SynthSpec& spec, std::uint64_t seed) {
  ORRERY_CHECK(!spec.tenants.empty() && (spec.requests || spec.duration));
  return std::make_unique<SynthSource>(spec, seed);
}

}  // namespace orrery::traces
