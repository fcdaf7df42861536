#include <cmath>
#include <utility>

#include "runtime/base/portable_math.h"
#include "traces/synth.h"

namespace orrery::traces {
namespace {

double positive(const JsonView& view, const char* key) {
  const JsonView v = view.at(key);
  const double x = v.as_number();
  if (!(x > 0)) v.fail("a number above 0");
  return x;
}

double at_least_zero(const JsonView& view, const char* key) {
  const JsonView v = view.at(key);
  const double x = v.as_number();
  if (!(x >= 0)) v.fail("a number of 0 or more");
  return x;
}

void read_points(const JsonView& points, Distribution& d) {
  for (const JsonView& p : points.items()) {
    if (!p.is_array() || p.size() != 2) p.fail("a pair [quantile, value]");
    const double q = p.at(std::size_t{0}).as_number(), value = p.at(std::size_t{1}).as_number();
    if (!(value >= 0)) p.fail("a value of 0 or more");
    if (!d.points.empty() && (q <= d.points.back().first || value < d.points.back().second))
      p.fail("rising quantiles and values");
    d.points.emplace_back(q, value);
  }
  if (d.points.size() < 2 || d.points.front().first != 0 || d.points.back().first != 1)
    points.fail("two or more points, the first at quantile 0 and the last at 1");
}

Distribution read_distribution(const JsonView& view) {
  using Kind = Distribution::Kind;
  Distribution d;
  if (view.is_number()) {
    d.a = view.as_number();
    if (!(d.a >= 0)) view.fail("a number of 0 or more");
    return d;
  }
  const JsonView name_view = view.at("distribution");
  const std::string name = name_view.as_string();
  if (name == "fixed") {
    view.allow_only({"distribution", "value"});
    d.a = at_least_zero(view, "value");
  } else if (name == "uniform") {
    view.allow_only({"distribution", "min", "max"});
    d.kind = Kind::kUniform, d.a = at_least_zero(view, "min"), d.b = at_least_zero(view, "max");
    if (d.b < d.a) view.at("max").fail("a number not below min");
  } else if (name == "exponential") {
    view.allow_only({"distribution", "mean", "min", "max"});
    d.kind = Kind::kExponential, d.a = positive(view, "mean");
  } else if (name == "lognormal") {
    view.allow_only({"distribution", "mean", "cv", "min", "max"});
    d.kind = Kind::kLognormal;
    const double mean = positive(view, "mean"), cv = positive(view, "cv");
    const double variance = portable_log(1 + cv * cv);
    d.a = portable_log(mean) - variance / 2, d.b = std::sqrt(variance);
  } else if (name == "quantiles") {
    view.allow_only({"distribution", "points"});
    d.kind = Kind::kQuantiles;
    read_points(view.at("points"), d);
  } else {
    name_view.fail("fixed, uniform, exponential, lognormal or quantiles");
  }
  if (d.kind == Kind::kExponential || d.kind == Kind::kLognormal) {
    d.min = view.get("min", 0.0), d.max = view.get("max", 1e15);
    if (d.max < d.min) view.at("max").fail("a number not below min");
  }
  return d;
}

ArrivalSpec read_arrivals(const JsonView& view) {
  using Process = ArrivalSpec::Process;
  ArrivalSpec a;
  const JsonView name_view = view.at("process");
  const std::string name = name_view.as_string();
  if (name == "poisson") {
    view.allow_only({"process", "rate_per_s"});
    a.rate_per_s = positive(view, "rate_per_s");
  } else if (name == "gamma") {
    view.allow_only({"process", "rate_per_s", "cv"});
    a.process = Process::kGamma;
    a.rate_per_s = positive(view, "rate_per_s"), a.cv = positive(view, "cv");
  } else if (name == "mmpp") {
    view.allow_only({"process", "rates_per_s", "mean_stay_s"});
    a.process = Process::kMmpp;
    const JsonView rates = view.at("rates_per_s"), stay = view.at("mean_stay_s");
    for (const JsonView& v : {rates, stay})
      if (!v.is_array() || v.size() != 2) v.fail("two numbers, one for each state");
    for (std::size_t i = 0; i < 2; ++i) {
      a.rates[i] = rates.at(i).as_number(), a.stay_s[i] = stay.at(i).as_number();
      if (!(a.rates[i] >= 0)) rates.at(i).fail("a number of 0 or more");
      if (!(a.stay_s[i] > 0)) stay.at(i).fail("a number above 0");
    }
    if (a.rates[0] + a.rates[1] <= 0) rates.fail("at least one rate above 0");
  } else if (name == "diurnal") {
    view.allow_only({"process", "rate_per_s", "period_s", "amplitude", "peak_at_s"});
    a.process = Process::kDiurnal;
    a.rate_per_s = positive(view, "rate_per_s");
    if (view.has("period_s")) a.period_s = positive(view, "period_s");
    a.amplitude = at_least_zero(view, "amplitude");
    if (a.amplitude > 1) view.at("amplitude").fail("a number from 0 to 1");
    a.peak_at_s = view.get("peak_at_s", 0.0);
  } else {
    name_view.fail("poisson, gamma, mmpp or diurnal");
  }
  return a;
}

SessionSpec read_sessions(const JsonView& view) {
  view.allow_only({"share", "turns", "think_s", "answer_ms_per_token", "history"});
  SessionSpec s;
  s.share = at_least_zero(view, "share");
  if (s.share > 1) view.at("share").fail("a number from 0 to 1");
  s.turns = read_distribution(view.at("turns"));
  s.think_s = read_distribution(view.at("think_s"));
  if (view.has("answer_ms_per_token"))
    s.answer_ms_per_token = at_least_zero(view, "answer_ms_per_token");
  s.history = view.get("history", true);
  return s;
}

PrefixLayer read_layer(const JsonView& view, std::int64_t number) {
  view.allow_only({"name", "tokens", "choices"});
  PrefixLayer layer;
  layer.name = view.get("name", "");
  if (layer.name.empty()) layer.name = "layer " + std::to_string(number);
  layer.tokens = view.at("tokens").as_int();
  layer.choices = view.get("choices", std::int64_t{1});
  if (layer.tokens < 1) view.at("tokens").fail("a whole number of 1 or more");
  if (layer.choices < 1 || layer.choices > 1'000'000)
    view.at("choices").fail("a whole number from 1 to 1000000");
  return layer;
}

TenantSpec read_tenant(const JsonView& view, const TenantSpec& base) {
  TenantSpec t = base;
  t.name = view.get("name", base.name.c_str());
  t.model = view.get("model", base.model.c_str());
  t.app = view.get("app", base.app.c_str());
  t.kind = view.get("kind", base.kind.c_str());
  if (view.has("weight")) t.weight = positive(view, "weight");
  t.priority =
      static_cast<std::int32_t>(view.get("priority", static_cast<std::int64_t>(base.priority)));
  if (const auto v = view.find("max_tokens")) {
    t.max_tokens = v->as_int();
    if (*t.max_tokens < 1) v->fail("a whole number of 1 or more");
  }
  if (const auto v = view.find("input_tokens")) t.input_tokens = read_distribution(*v);
  if (const auto v = view.find("output_tokens")) t.output_tokens = read_distribution(*v);
  if (const auto v = view.find("sessions")) t.sessions = read_sessions(*v);
  if (const auto v = view.find("prefix")) {
    t.prefix.clear();
    for (const JsonView& layer : v->items())
      t.prefix.push_back(read_layer(layer, static_cast<std::int64_t>(t.prefix.size())));
  }
  return t;
}

}  // namespace

SynthSpec read_synth_spec(const JsonView& view) {
  // First of all: the keys of another kind of file are not misspelled.
  const JsonView schema = view.at("schema");
  if (schema.as_string() != "orrery.synth.v1") schema.fail("orrery.synth.v1");
  view.allow_only({"schema", "about", "requests", "duration_s", "arrivals", "block_tokens",
                   "tenants", "model", "app", "kind", "priority", "max_tokens", "input_tokens",
                   "output_tokens", "sessions", "prefix"});
  SynthSpec spec;
  if (const auto v = view.find("requests")) {
    spec.requests = v->as_int();
    if (*spec.requests < 1) v->fail("a whole number of 1 or more");
  }
  if (view.has("duration_s"))
    spec.duration = Duration(static_cast<std::int64_t>(positive(view, "duration_s") * 1e9));
  if (!spec.requests && !spec.duration)
    view.fail("\"requests\" or \"duration_s\", to know where to end", "neither");
  spec.arrivals = read_arrivals(view.at("arrivals"));
  spec.block_tokens = view.get("block_tokens", std::int64_t{0});
  if (spec.block_tokens < 0) view.at("block_tokens").fail("a whole number of 0 or more");

  TenantSpec base;
  base.input_tokens.a = base.output_tokens.a = -1;  // not given
  base = read_tenant(view, base);
  if (const auto tenants = view.find("tenants")) {
    for (const JsonView& t : tenants->items()) {
      t.allow_only({"name", "weight", "model", "app", "kind", "priority", "max_tokens",
                    "input_tokens", "output_tokens", "sessions", "prefix"});
      spec.tenants.push_back(read_tenant(t, base));
      if (spec.tenants.back().input_tokens.a == -1) t.at("input_tokens");
      if (spec.tenants.back().output_tokens.a == -1) t.at("output_tokens");
    }
    if (spec.tenants.empty()) tenants->fail("at least one tenant");
  } else {
    view.at("input_tokens"), view.at("output_tokens");
    spec.tenants.push_back(base);
  }
  return spec;
}

}  // namespace orrery::traces
