// The step model whose coefficients were measured on this machine.
#include <algorithm>

#include "runtime/base/errors.h"
#include "runtime/policy/cost/step_model.h"

namespace orrery::cost {
namespace {

double d(std::int64_t x) { return static_cast<double>(x); }
std::int64_t rounded(double x) { return static_cast<std::int64_t>(std::min(x, 1e18) + 0.5); }

class Measured final : public StepModel {
 public:
  explicit Measured(const MeasuredProfile& p)
      : p_(p), per_context_(rounded(p.per_decode_context_ps)) {}

  StepTime time(const StepShape& s) const override {
    const double fixed = p_.fixed_ps + p_.per_token_ps * d(s.tokens) +
                         p_.per_sampled_ps * d(s.sampled) +
                         p_.per_prefill_pair_ps * d(s.prefill_pairs);
    return {rounded(fixed), s.decode_sequences > 0 ? per_context_ : 0, INT64_MAX};
  }

  std::vector<OperatorTime> breakdown(const StepShape& s) const override {
    std::vector<OperatorTime> list;
    const auto add = [&](const char* name, double ps) {
      if (ps > 0) list.push_back({name, ps, 0, 0, ps});
    };
    add("fixed", p_.fixed_ps);
    add("tokens", p_.per_token_ps * d(s.tokens));
    add("output_head", p_.per_sampled_ps * d(s.sampled));
    add("prefill_attention", p_.per_prefill_pair_ps * d(s.prefill_pairs));
    add("decode_attention",
        s.decode_sequences > 0 ? p_.per_decode_context_ps * d(s.decode_context) : 0);
    return list;
  }

  std::string source() const override {
    return "measured: " + p_.model + " on " + p_.machine + ", " + p_.date;
  }

 private:
  MeasuredProfile p_;
  std::int64_t per_context_;
};

}  // namespace

std::unique_ptr<StepModel> make_measured_model(const MeasuredProfile& p) {
  const auto check = [&](double value, const char* field) {
    if (!(value >= 0)) {
      throw InputError({p.id, 0, field}, std::to_string(value), "zero or more picoseconds");
    }
  };
  check(p.fixed_ps, "fixed_ps");
  check(p.per_token_ps, "per_token_ps");
  check(p.per_sampled_ps, "per_sampled_ps");
  check(p.per_decode_context_ps, "per_decode_context_ps");
  check(p.per_prefill_pair_ps, "per_prefill_pair_ps");
  return std::make_unique<Measured>(p);
}

}  // namespace orrery::cost
