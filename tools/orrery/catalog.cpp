// orrery catalog: what is known of GPUs, instances, models and engine profiles, with sources and
// dates. Unknown figures are shown as such.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "runtime/base/errors.h"
#include "runtime/host/process.h"
#include "runtime/policy/cost/memory_plan.h"
#include "sim/catalog_files.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"

namespace orrery::cli {
namespace {

struct Options {
  std::string kind;
  std::string part;  // of an id
};

using sim::Catalog;

std::string lower(std::string s) {
  for (char& c : s) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return s;
}

template <class T>
std::vector<T> matching(const std::vector<T>& all, const std::string& part) {
  std::vector<T> some;
  for (const T& entry : all) {
    if (lower(entry.id).find(lower(part)) != std::string::npos) some.push_back(entry);
  }
  return some;
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string usd(const std::optional<double>& price) {
  return price ? format_usd(*price) : "unknown";
}

std::string rate(const std::optional<double>& per_second, double unit, const char* name) {
  return per_second ? format_number(*per_second / unit) + " " + name : "-";
}

std::optional<double> flops_of(const cost::GpuSpec& gpu, const std::string& precision) {
  const auto it = gpu.dense_flops.find(precision);
  return it == gpu.dense_flops.end() ? std::nullopt : std::optional<double>(it->second);
}

bool is_modelled(const cost::ModelSpec& m) { return m.attention != "compressed-sparse"; }

// What a single entry has to say beyond its row.
void print_origin(const std::string& source, const std::string& confidence,
                  const std::string& note) {
  std::vector<std::pair<std::string, std::string>> facts = {{"source", source}};
  if (!confidence.empty()) facts.emplace_back("confidence", confidence);
  if (!note.empty()) facts.emplace_back("note", note);
  print_facts(facts, 2);
}

void print_gpus(const std::vector<cost::GpuSpec>& gpus) {
  using A = Table::Align;
  Table table({{"GPU"},
               {"memory", A::kRight},
               {"bandwidth", A::kRight},
               {"bf16", A::kRight},
               {"fp8", A::kRight},
               {"fp4", A::kRight},
               {"NVLink", A::kRight},
               {"PCIe", A::kRight}});
  for (const cost::GpuSpec& g : gpus) {
    const auto wide = flops_of(g, "bf16") ? flops_of(g, "bf16") : flops_of(g, "fp16");
    table.add({g.id, format_bytes(static_cast<double>(g.memory_bytes)),
               rate(g.memory_bandwidth_bytes_per_s, 1e9, "GB/s"), rate(wide, 1e12, "TFLOP/s"),
               rate(flops_of(g, "fp8"), 1e12, "TFLOP/s"), rate(flops_of(g, "fp4"), 1e12, "TFLOP/s"),
               rate(g.nvlink_bytes_per_s, 1e9, "GB/s"), rate(g.pcie_bytes_per_s, 1e9, "GB/s")});
  }
  table.print();
  if (gpus.size() == 1) print_origin(gpus[0].source, gpus[0].confidence, gpus[0].note);
}

Json json_of(const cost::GpuSpec& g) {
  Json flops = Json::object();
  for (const auto& [precision, value] : g.dense_flops) flops[precision] = value;
  return {{"id", g.id},
          {"name", g.name},
          {"architecture", g.architecture},
          {"memory_bytes", g.memory_bytes},
          {"memory_bandwidth_bytes_per_s", g.memory_bandwidth_bytes_per_s},
          {"dense_flops", flops},
          {"nvlink_bytes_per_s", or_null(g.nvlink_bytes_per_s)},
          {"pcie_bytes_per_s", or_null(g.pcie_bytes_per_s)},
          {"compute_capability", or_null(g.compute_capability)},
          {"source", g.source},
          {"confidence", g.confidence},
          {"note", g.note}};
}

void print_instances(const std::vector<cost::InstanceType>& instances) {
  using A = Table::Align;
  Table table({{"instance"},
               {"GPUs", A::kRight},
               {"GPU"},
               {"link"},
               {"vCPU", A::kRight},
               {"memory", A::kRight},
               {"on demand/h", A::kRight},
               {"as of"},
               {"spot/h", A::kRight},
               {"as of"}});
  for (const cost::InstanceType& i : instances) {
    const bool local = i.gpu.empty();
    table.add({i.id, local ? "-" : format_number(i.gpu_count), local ? "-" : i.gpu,
               i.gpu_interconnect, i.vcpu > 0 ? format_count(i.vcpu) : "-",
               i.memory_bytes > 0 ? format_bytes(static_cast<double>(i.memory_bytes)) : "-",
               usd(i.on_demand_usd_per_hour), i.price_date.empty() ? "-" : i.price_date,
               usd(i.spot_usd_per_hour), i.spot_usd_per_hour ? i.spot_date : "-"});
  }
  table.print();
  if (instances.size() == 1) print_origin(instances[0].source, "", instances[0].note);
}

Json json_of(const cost::InstanceType& i) {
  return {{"id", i.id},
          {"gpu", i.gpu.empty() ? Json(nullptr) : Json(i.gpu)},
          {"gpu_count", i.gpu_count},
          {"gpu_interconnect", i.gpu_interconnect},
          {"vcpu", i.vcpu > 0 ? Json(i.vcpu) : Json(nullptr)},
          {"memory_bytes", i.memory_bytes > 0 ? Json(i.memory_bytes) : Json(nullptr)},
          {"network_bps", i.network_bps > 0 ? Json(i.network_bps) : Json(nullptr)},
          {"on_demand_usd_per_hour", or_null(i.on_demand_usd_per_hour)},
          {"price_date", i.price_date},
          {"price_region", i.price_region},
          {"spot_usd_per_hour", or_null(i.spot_usd_per_hour)},
          {"capacity_block_usd_per_hour", or_null(i.capacity_block_usd_per_hour)},
          {"spot_date", i.spot_date},
          {"source", i.source},
          {"note", i.note}};
}

void print_models(const std::vector<cost::ModelSpec>& models) {
  using A = Table::Align;
  Table table({{"model"},
               {"parameters", A::kRight},
               {"active", A::kRight},
               {"weights"},
               {"attention"},
               {"layers", A::kRight},
               {"experts", A::kRight},
               {"context", A::kRight},
               {"weights size", A::kRight},
               {"KV/token", A::kRight}});
  const auto billions = [](double n) { return n > 0 ? format_number(n) : std::string("unknown"); };
  for (const cost::ModelSpec& m : models) {
    const bool modelled = is_modelled(m);
    table.add(
        {m.id, billions(m.parameters), billions(m.active_parameters),
         m.weight_type + (m.expert_weight_type.empty() ? "" : "+" + m.expert_weight_type),
         m.attention, format_count(m.layers), m.experts > 0 ? format_count(m.experts) : "-",
         format_count(m.max_context),
         modelled ? format_bytes(cost::weight_bytes_per_gpu(m, 1)) : "unknown",
         modelled ? format_bytes(cost::kv_bytes_per_token_per_gpu(m, 1, "auto")) : "unknown"});
  }
  table.print();
  if (models.size() == 1) print_origin(models[0].source, models[0].confidence, models[0].note);
}

Json json_of(const cost::ModelSpec& m) {
  const auto known = [](double n) { return n > 0 ? Json(n) : Json(nullptr); };
  const bool modelled = is_modelled(m);
  return {
      {"id", m.id},
      {"hf_id", m.hf_id},
      {"attention", m.attention},
      {"layers", m.layers},
      {"hidden", m.hidden},
      {"heads", m.heads},
      {"kv_heads", m.kv_heads},
      {"max_context_tokens", m.max_context},
      {"experts", m.experts},
      {"experts_per_token", m.experts_per_token},
      {"parameters", known(m.parameters)},
      {"active_parameters", known(m.active_parameters)},
      {"weight_type", m.weight_type},
      {"expert_weight_type", m.expert_weight_type.empty() ? m.weight_type : m.expert_weight_type},
      {"weight_bytes", modelled ? Json(cost::weight_bytes_per_gpu(m, 1)) : Json(nullptr)},
      {"kv_bytes_per_token",
       modelled ? Json(cost::kv_bytes_per_token_per_gpu(m, 1, "auto")) : Json(nullptr)},
      {"modelled", modelled},
      {"source", m.source},
      {"confidence", m.confidence},
      {"note", m.note}};
}

void print_profiles(const std::vector<cost::EngineProfile>& profiles) {
  using A = Table::Align;
  Table table({{"profile"},
               {"GPU"},
               {"kind"},
               {"date"},
               {"compute", A::kRight},
               {"memory", A::kRight},
               {"host/step", A::kRight},
               {"host/sequence", A::kRight},
               {"median error", A::kRight},
               {"rows", A::kRight}});
  for (const cost::EngineProfile& p : profiles) {
    table.add({p.id, p.gpu, p.kind, p.date, format_percent(p.compute_efficiency),
               format_percent(p.memory_efficiency), format_ms(p.host_overhead_us / 1e3),
               format_ms(p.per_sequence_us / 1e3),
               p.fit_median_error ? format_percent(*p.fit_median_error) : "not measured",
               p.fit_rows > 0 ? format_count(p.fit_rows) : "-"});
  }
  table.print();
  if (profiles.size() == 1) {
    print_origin(profiles[0].source,
                 profiles[0].fit_data.empty() ? "" : "compared with " + profiles[0].fit_data, "");
  }
}

Json json_of(const cost::EngineProfile& p) {
  return {
      {"id", p.id},
      {"gpu", p.gpu},
      {"engine", p.engine},
      {"kind", p.kind},
      {"date", p.date},
      {"compute_efficiency", p.compute_efficiency},
      {"memory_efficiency", p.memory_efficiency},
      {"attention_compute_efficiency", p.attention_compute_efficiency},
      {"host_overhead_us", p.host_overhead_us},
      {"per_sequence_us", p.per_sequence_us},
      {"layer_latency_us", p.layer_latency_us},
      {"fit",
       {{"data", p.fit_data}, {"median_error", or_null(p.fit_median_error)}, {"rows", p.fit_rows}}},
      {"source", p.source}};
}

// Prints the entries whose id holds options.part. Nothing found is bad input, with a suggestion.
template <class T>
int show(const std::vector<T>& all, const Options& options, const Globals& globals,
         void (*print)(const std::vector<T>&)) {
  const std::vector<T> some = matching(all, options.part);
  if (some.empty()) {
    std::vector<std::string> known;
    for (const T& entry : all) known.push_back(entry.id);
    const auto near = did_you_mean(options.part, known);
    throw InputError(
        {"orrery catalog " + options.kind, 0, "PART"}, "\"" + options.part + "\"",
        "a part of an id" + (near ? "; did you mean \"" + *near + "\"?" : std::string()));
  }
  if (globals.json) {
    Json list = Json::array();
    for (const T& entry : some) list.push_back(json_of(entry));
    print_json({{"schema", "orrery.catalog.v1"}, {"kind", options.kind}, {options.kind, list}});
  } else {
    print(some);
  }
  return kDone;
}

int overview(const Catalog& c, const Globals& globals) {
  std::int64_t unknown_prices = 0;
  std::string newest;
  for (const cost::InstanceType& i : c.instances) {
    unknown_prices += i.on_demand_usd_per_hour ? 0 : 1;
    newest = std::max(newest, i.price_date);
  }
  if (globals.json) {
    print_json({{"schema", "orrery.catalog.v1"},
                {"gpus", c.gpus.size()},
                {"instances", c.instances.size()},
                {"instances_without_price", unknown_prices},
                {"price_date", newest},
                {"models", c.models.size()},
                {"profiles", c.profiles.size()}});
    return kDone;
  }
  const auto count = [](std::size_t n) { return format_count(static_cast<std::int64_t>(n)); };
  print_facts({{"gpus", count(c.gpus.size())},
               {"instances", count(c.instances.size()) + ", prices of " + newest + ", " +
                                 format_count(unknown_prices) + " without an on-demand price"},
               {"models", count(c.models.size())},
               {"profiles", count(c.profiles.size())}});
  print_line("orrery catalog gpus|instances|models|profiles [PART] lists them.");
  return kDone;
}

int run(const Options& options, const Globals& globals) {
  if (options.kind == "mig") {
    throw Unsupported(
        "MIG profiles are not in this version's catalogue; they come with MIG layouts");
  }
  const Catalog c = sim::load_catalog(host::data_dir());
  if (options.kind == "gpus") return show(c.gpus, options, globals, print_gpus);
  if (options.kind == "instances") return show(c.instances, options, globals, print_instances);
  if (options.kind == "models") return show(c.models, options, globals, print_models);
  if (options.kind == "profiles") return show(c.profiles, options, globals, print_profiles);
  if (options.kind.empty()) return overview(c, globals);
  const auto near = did_you_mean(options.kind, {"gpus", "instances", "models", "profiles", "mig"});
  throw InputError({"orrery catalog", 0, "KIND"}, "\"" + options.kind + "\"",
                   "gpus, instances, models, profiles or mig" +
                       (near ? "; did you mean \"" + *near + "\"?" : std::string()));
}

}  // namespace

std::function<int()> setup_catalog(CLI::App& app, Globals& globals) {
  auto options = std::make_shared<Options>();
  app.add_option("KIND", options->kind, "gpus, instances, models, profiles or mig");
  app.add_option("PART", options->part, "Only ids that hold this");
  return [options, &globals] { return run(*options, globals); };
}

}  // namespace orrery::cli
