#include "sim/scenario.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <set>
#include <utility>

#include "runtime/host/files.h"
#include "runtime/policy/settings.h"
#include "sim/workload.h"
#include "traces/synth.h"

namespace orrery::sim {
namespace {

constexpr const char* kSchema = "orrery.scenario.v1";

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

std::string beside(const std::string& folder, const std::string& path) {
  return path.empty() || path.front() == '/' || path == "-" ? path : folder + path;
}

// "fleet[0].replicas" -> "/fleet/0/replicas"
std::string pointer_of(const std::string& field) {
  std::string pointer = "/";
  for (const char c : field) {
    if (c == ']') continue;
    pointer += c == '.' || c == '[' ? '/' : c;
  }
  return pointer;
}

bool has_pointer(const Json& json, const std::string& pointer) {
  return json.contains(nlohmann::json_pointer<std::string>(pointer));
}

std::string read_name(const JsonView& variant) {
  const std::string name = variant.at("name").as_string();
  if (name.empty()) variant.at("name").fail("a name");
  return name;
}

double percentile_of(const std::string& key, const JsonView& at) {
  if (key == "max") return 100;
  char* end = nullptr;
  const double value = key.size() > 1 && key[0] == 'p' ? std::strtod(key.c_str() + 1, &end) : 0;
  if (end == nullptr || *end != '\0' || !(value > 0 && value <= 100))
    at.fail("a percentile such as p50, p99 or p99.9, or max", "key \"" + key + "\"");
  return value;
}

Duration seconds_at(const JsonView& v) {
  const double s = v.as_number();
  if (!(s > 0) || s > 1e9) v.fail("seconds above 0");
  return Duration(static_cast<std::int64_t>(std::floor(s * 1e9 + 0.5)));
}

void refuse_later_keys(const JsonView& root) {
  for (const char* key : {"autoscale", "failures"}) {
    if (root.find(key))
      throw Unsupported(std::string("a scenario's \"") + key +
                        "\" is not simulated yet: this version needs a fleet of fixed size");
  }
}

}  // namespace

Slo read_slo(const JsonView& v) {
  v.allow_only({"ttft_ms", "itl_ms", "tpot_ms", "e2e_ms", "goodput"});
  Slo slo;
  for (const auto& [metric, targets] : v.members()) {
    if (metric == "goodput") {
      slo.goodput_fraction = targets.as_number();
      if (slo.goodput_fraction < 0 || slo.goodput_fraction > 1) targets.fail("a share from 0 to 1");
      continue;
    }
    for (const auto& [key, limit] : targets.members()) {
      SloTarget target{metric, percentile_of(key, limit), limit.as_number()};
      if (!(target.limit_ms > 0)) limit.fail("milliseconds above 0");
      slo.targets.push_back(target);
    }
  }
  return slo;
}

namespace {

WorkloadSpec synth_workload(const JsonView& v, const std::string& folder, std::uint64_t seed) {
  traces::SynthSpec synth;
  WorkloadSpec spec;
  if (v.is_string()) {
    const std::string path = beside(folder, v.as_string());
    synth = traces::read_synth_spec(JsonView(host::read_json(path)));
    spec.description = "synthetic: " + path.substr(path.rfind('/') + 1);
  } else {
    synth = traces::read_synth_spec(v);
    spec.description = "synthetic";
  }
  spec.open = [synth, seed] { return traces::open_synth(synth, seed); };
  return spec;
}

}  // namespace

WorkloadSpec read_workload(const JsonView& v, const std::string& folder,
                           const ScenarioOverrides& overrides) {
  v.allow_only({"trace", "synth", "mode", "concurrency", "rate_scale", "idle_gap_cap_s",
                "max_requests", "default_max_tokens", "prefix_hit_rate", "time_unit", "tolerate"});
  const auto trace = v.find("trace"), synth = v.find("synth");
  if (trace && synth) synth->fail("either \"trace\" or \"synth\"", "both");
  traces::ReadOptions read;
  read.tolerate = overrides.tolerate || v.get("tolerate", false);
  read.time_unit = v.get("time_unit", "auto");
  if (const auto unit = v.find("time_unit"); unit && read.time_unit != "auto" &&
                                             read.time_unit != "s" && read.time_unit != "ms" &&
                                             read.time_unit != "us" && read.time_unit != "ns")
    unit->fail("auto, s, ms, us or ns");
  if (overrides.time_unit != "auto") read.time_unit = overrides.time_unit;
  WorkloadSpec spec;
  if (!overrides.trace.empty()) {
    spec = trace_workload(overrides.trace, read);
  } else if (trace) {
    spec = trace_workload(beside(folder, trace->as_string()), read);
  } else if (synth) {
    spec = synth_workload(*synth, folder, overrides.seed);
  } else {
    v.fail("\"trace\" or \"synth\", or --trace FILE", "neither");
  }
  const std::string mode = v.get("mode", "open");
  if (mode != "open" && mode != "closed" && mode != "sessions")
    v.at("mode").fail("open, closed or sessions");
  spec.mode = mode == "closed"     ? LoadMode::kClosed
              : mode == "sessions" ? LoadMode::kSessions
                                   : LoadMode::kOpen;
  spec.concurrency = v.get("concurrency", std::int64_t{0});
  if (const auto c = v.find("concurrency"); c && spec.concurrency < 1) c->fail("at least 1");
  if (mode == "closed" && spec.concurrency < 1)
    v.fail("\"concurrency\": the number of clients of a closed loop", "none");
  if (mode == "sessions" && v.find("concurrency"))
    v.at("concurrency").fail("no such key in mode \"sessions\"");
  spec.rate_scale = v.get("rate_scale", 1.0);
  if (!(spec.rate_scale > 0)) v.at("rate_scale").fail("a number above 0");
  if (const auto cap = v.find("idle_gap_cap_s")) spec.idle_gap_cap = seconds_at(*cap);
  if (const auto most = v.find("max_requests")) {
    spec.max_requests = most->as_int();
    if (*spec.max_requests < 1) most->fail("at least 1");
  }
  spec.default_max_tokens = Tokens(v.get("default_max_tokens", std::int64_t{0}));
  if (spec.default_max_tokens.value() < 0) v.at("default_max_tokens").fail("at least 1");
  if (const auto rate = v.find("prefix_hit_rate")) {
    spec.prefix_hit_rate = rate->as_number();
    if (!(*spec.prefix_hit_rate >= 0 && *spec.prefix_hit_rate <= 1))
      rate->fail("a share from 0 to 1");
  }
  return spec;
}

namespace {

// Prices that the user gives by instance type.
std::optional<double> price_of(const JsonView& root, const std::string& instance_type) {
  const auto cost = root.find("cost");
  if (!cost) return std::nullopt;
  cost->allow_only({"usd_per_hour"});
  const auto prices = cost->find("usd_per_hour");
  if (!prices) return std::nullopt;
  for (const auto& [type, price] : prices->members()) {
    if (price.as_number() < 0) price.fail("USD per hour, not below 0");
  }
  const auto price = prices->find(instance_type);
  return price ? std::optional<double>(price->as_number()) : std::nullopt;
}

// The brain knows which names and values work; here they get their place in the file. `field` of
// its error is the key in `settings`.
template <class Build>
void check_settings(const JsonView& settings, Build build) {
  try {
    build();
  } catch (const InputError& e) {
    const auto dot = e.place().field.rfind('.');
    const auto member =
        settings.find(dot == std::string::npos ? e.place().field : e.place().field.substr(dot + 1));
    if (!member) settings.fail(e.expected(), e.place().field + " " + e.found());
    std::vector<std::string> names;  // "one of: a, b, c"
    const auto list = e.expected().find(": ");
    for (std::size_t at = list == std::string::npos ? list : list + 2; at != std::string::npos;) {
      const auto comma = e.expected().find(", ", at);
      names.push_back(e.expected().substr(at, comma == std::string::npos ? comma : comma - at));
      at = comma == std::string::npos ? comma : comma + 2;
    }
    const auto near = did_you_mean(member->is_string() ? member->as_string() : "", names);
    member->fail(e.expected() + (near ? " (did you mean \"" + *near + "\"?)" : ""));
  }
}

void check_priced_types(const JsonView& root, const Catalog& catalog) {
  const auto cost = root.find("cost");
  const auto prices = cost ? cost->find("usd_per_hour") : std::nullopt;
  if (!prices) return;
  for (const auto& [type, price] : prices->members()) {
    try {
      catalog.instance(type);
    } catch (const InputError& e) {
      price.fail(e.expected(), "instance type \"" + type + "\"");
    }
  }
}

// {"id": NAME} refers to the catalogue's model.
bool only_names_a_model(const JsonView& v, const Catalog& catalog) {
  if (!v.is_object() || v.size() != 1 || !v.has("id")) return false;
  try {
    catalog.model(v.at("id").as_string());
  } catch (const InputError& e) {
    v.at("id").fail(e.expected() + ", or the keys of a model of its own", e.found());
  }
  return true;
}

void read_pool(const JsonView& v, const JsonView& root, const Catalog& catalog,
               const std::string& folder, std::size_t index, Scenario& scenario) {
  v.allow_only({"name", "model", "instance_type", "tp", "pp", "precision", "kv_precision",
                "profile", "replicas", "role", "settings", "measured_profile"});
  ReplicaChoice choice;
  choice.model = v.at("model").as_string();
  choice.instance_type = v.at("instance_type").as_string();
  choice.precision = v.get("precision", "");
  choice.kv_precision = v.get("kv_precision", "");
  choice.profile = v.get("profile", "");
  choice.tp = v.get("tp", 1);
  if (choice.tp < 1) v.at("tp").fail("at least 1");
  choice.settings = v.find("settings");
  choice.usd_per_instance_hour = price_of(root, choice.instance_type);
  if (const auto path = v.find("measured_profile"))
    choice.measured_profile = beside(folder, path->as_string());
  if (const auto pp = v.find("pp"); pp && pp->as_int() != 1)
    throw Unsupported("pipeline parallelism is not simulated yet: \"pp\" must be 1");
  if (const auto role = v.find("role"); role && role->as_string() != "unified") {
    if (role->as_string() != "prefill" && role->as_string() != "decode")
      role->fail("unified, prefill or decode");
    throw Unsupported(
        "separate prefill and decode pools are not simulated yet: \"role\" must be "
        "\"unified\"");
  }
  const std::int64_t replicas = v.get("replicas", std::int64_t{1});
  if (replicas < 1 || replicas > 100'000) v.at("replicas").fail("a whole number from 1 to 100000");

  ReplicaPlan plan;
  try {
    plan = plan_replica(catalog, choice);
  } catch (const InputError& e) {
    // Names that the catalogue does not have: say so at their place in the scenario.
    for (const char* key : {"model", "instance_type", "profile", "precision", "kv_precision"}) {
      const auto member = v.find(key);
      if (member && e.place().line == 0 && e.found().find(member->as_string()) != std::string::npos)
        member->fail(e.expected(), e.found());
    }
    throw;
  }
  plan.pool.name = v.get("name", index == 0 ? std::string("main") : "pool" + std::to_string(index));
  plan.pool.replicas = static_cast<int>(replicas);
  for (const PoolSpec& other : scenario.fleet.pools) {
    if (other.name == plan.pool.name)
      v.fail("a name that no other pool has", "pool \"" + plan.pool.name + "\" twice");
  }
  if (choice.settings) {
    check_settings(*choice.settings, [&] {
      policy::InstanceSettings settings = plan.pool.settings;
      settings.kv_blocks = std::max(settings.kv_blocks, Blocks(1));
      policy::Instance instance(settings);
    });
  }
  if (!plan.why_not.empty())
    scenario.misfits.push_back({plan.pool.name, choice.model, choice.instance_type,
                                plan.why_not_kind, plan.why_not, plan.memory});
  scenario.fleet.pools.push_back(std::move(plan.pool));
}

}  // namespace

ScenarioFile::ScenarioFile(const std::string& path)
    : path_(path), folder_(folder_of(path)), document_(host::read_json(path)) {
  const JsonView root(document_);
  if (!root.is_object()) root.fail("a scenario: an object with \"schema\": \"orrery.scenario.v1\"");
  const std::string schema = root.at("schema").as_string();
  if (schema != kSchema) root.at("schema").fail(std::string("\"") + kSchema + "\"");
  const auto list = root.find("variants");
  if (!list) return;
  std::set<std::string> names;
  for (const JsonView& variant : list->items()) {
    variant.allow_only({"name", "about", "patch"});
    if (!names.insert(read_name(variant)).second)
      variant.at("name").fail("a name that no other variant has");
    if (!variant.at("patch").is_object()) variant.at("patch").fail("an object");
    for (const char* key : {"schema", "variants"}) {
      if (variant.at("patch").has(key))
        variant.at("patch").at(key).fail("a patch of anything but schema and variants",
                                         std::string("\"") + key + "\"");
    }
  }
}

std::vector<std::string> ScenarioFile::variants() const {
  std::vector<std::string> names;
  if (const auto list = JsonView(document_).find("variants")) {
    for (const JsonView& variant : list->items()) names.push_back(read_name(variant));
  }
  return names;
}

Scenario ScenarioFile::read(const Catalog& catalog, const ScenarioOverrides& overrides,
                            const std::string& variant) const {
  if (variant.empty()) return read_document(document_, catalog, overrides);
  const std::vector<std::string> names = variants();
  const auto found = std::find(names.begin(), names.end(), variant);
  if (found == names.end()) {
    const auto nearest = did_you_mean(variant, names);
    throw InputError({path_, 0, "variants"}, "\"" + variant + "\"",
                     "a variant of this scenario" +
                         (nearest ? "; did you mean \"" + *nearest + "\"?" : std::string()));
  }
  const auto index = static_cast<std::size_t>(found - names.begin());
  const std::string patch_at = "/variants/" + std::to_string(index) + "/patch";
  const Json& patch = JsonView(document_).at("variants").at(index).at("patch").json();
  Json merged = document_->root();
  merged.merge_patch(patch);
  const auto document = JsonDocument::parse(merged.dump(1), path_);
  try {
    Scenario scenario = read_document(document, catalog, overrides);
    scenario.variant = variant;
    return scenario;
  } catch (const InputError& e) {
    if (e.place().file != path_) throw;
    // Lines of the merged text mean nothing to the reader: those of the file do.
    const std::string pointer = pointer_of(e.place().field);
    InputError::Place place{path_, document_->line_of(pointer), e.place().field};
    if (has_pointer(patch, pointer)) {
      place.line = document_->line_of(patch_at + pointer);
      place.field = "variants[" + std::to_string(index) + "].patch." + place.field;
    }
    throw InputError(place, e.found(), e.expected());
  }
}

Scenario ScenarioFile::read_document(const std::shared_ptr<const JsonDocument>& document,
                                     const Catalog& catalog,
                                     const ScenarioOverrides& overrides) const {
  const JsonView root(document);
  root.allow_only({"schema", "name", "about", "models", "fleet", "router", "workload", "slo",
                   "cost", "autoscale", "failures", "variants"});
  refuse_later_keys(root);
  Scenario scenario;
  scenario.name = root.get("name", path_.substr(path_.rfind('/') + 1));
  Catalog own = catalog;
  if (const auto models = root.find("models")) {
    for (const JsonView& model : models->items()) {
      if (!only_names_a_model(model, catalog))
        own.models.insert(own.models.begin(), cost::read_model(model));
    }
  }
  const JsonView fleet = root.at("fleet");
  if (fleet.items().empty()) fleet.fail("at least one pool", "an empty list");
  std::size_t index = 0;
  for (const JsonView& pool : fleet.items()) read_pool(pool, root, own, folder_, index++, scenario);
  check_priced_types(root, own);
  if (const auto router = root.find("router")) {
    scenario.fleet.router = policy::read_router_settings(*router);
    check_settings(*router, [&] { policy::Router made(scenario.fleet.router); });
  }
  scenario.workload = read_workload(root.at("workload"), folder_, overrides);
  if (const auto slo = root.find("slo")) scenario.slo = read_slo(*slo);
  return scenario;
}

}  // namespace orrery::sim
