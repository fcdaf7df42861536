#include "runtime/policy/cost/catalog.h"

#include <array>
#include <utility>

#include "runtime/base/errors.h"

namespace orrery::cost {
namespace {

constexpr std::array<std::pair<const char*, double>, 9> kBytes = {{{"fp32", 4},
                                                                   {"bf16", 2},
                                                                   {"fp16", 2},
                                                                   {"fp8", 1},
                                                                   {"int8", 1},
                                                                   {"fp4", 0.5},
                                                                   {"int4", 0.5},
                                                                   // an 8-bit scale for 32 values
                                                                   {"mxfp4", 0.53125},
                                                                   // an 8-bit scale for 16 values
                                                                   {"nvfp4", 0.5625}}};

std::vector<std::string> precisions() {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : kBytes) names.emplace_back(name);
  return names;
}

std::string listed(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

std::string read_one_of(const JsonView& v, const std::vector<std::string>& names) {
  const std::string text = v.as_string();
  for (const std::string& name : names) {
    if (name == text) return text;
  }
  std::string expected = "one of " + listed(names);
  if (const auto near = did_you_mean(text, names)) expected += "; did you mean \"" + *near + "\"?";
  v.fail(expected);
}

std::int64_t whole_at_least(const JsonView& v, std::int64_t least) {
  const std::int64_t value = v.as_int();
  if (value < least) v.fail("a whole number of at least " + std::to_string(least));
  return value;
}

std::int64_t whole(const JsonView& v, const char* key, std::int64_t fallback, std::int64_t least) {
  const auto found = v.find(key);
  return found ? whole_at_least(*found, least) : fallback;
}

std::int64_t required(const JsonView& v, const char* key, std::int64_t least) {
  return whole_at_least(v.at(key), least);
}

std::optional<double> optional_number(const JsonView& v, const char* key, double least) {
  const auto found = v.find(key);
  if (!found) return std::nullopt;
  const double value = found->as_number();
  if (!(value >= least)) found->fail("a number not below " + std::to_string(least));
  return value;
}

std::optional<double> optional_positive(const JsonView& v, const char* key) {
  const auto found = v.find(key);
  if (!found) return std::nullopt;
  const double value = found->as_number();
  if (!(value > 0)) found->fail("a number above 0, or null where unknown");
  return value;
}

double positive(const JsonView& v, const char* key) {
  const double value = v.at(key).as_number();
  if (!(value > 0)) v.at(key).fail("a number above 0");
  return value;
}

double not_negative(const JsonView& v, const char* key, double fallback) {
  return optional_number(v, key, 0).value_or(fallback);
}

double share(const JsonView& v, const char* key, double fallback) {
  const auto found = v.find(key);
  if (!found) return fallback;
  const double value = found->as_number();
  if (!(value > 0 && value <= 1)) found->fail("a share above 0 and up to 1");
  return value;
}

// A source is a text or a list of texts.
std::string read_source(const JsonView& v) {
  const auto found = v.find("source");
  if (!found) return {};
  if (!found->is_array()) return found->as_string();
  std::string all;
  for (const JsonView& item : found->items()) all += (all.empty() ? "" : "; ") + item.as_string();
  return all;
}

void read_attention(const JsonView& v, ModelSpec& m) {
  m.attention =
      read_one_of(v.at("attention"), {"mha", "gqa", "mla", "hybrid-linear", "compressed-sparse"});
  m.heads = required(v, "heads", 1);
  m.kv_heads = required(v, "kv_heads", 1);
  m.full_kv_heads = whole(v, "full_kv_heads", 0, 1);
  m.full_head_dim = whole(v, "full_head_dim", 0, 1);
  m.window_layers = whole(v, "window_layers", 0, 0);
  m.window_tokens = m.window_layers > 0 ? required(v, "window_tokens", 1) : 0;
  if (m.window_layers > m.layers) v.at("window_layers").fail("at most " + std::to_string(m.layers));
  if (const auto mla = v.find("mla")) {
    mla->allow_only({"kv_rank", "q_rank", "rope_dim", "nope_dim", "v_dim"});
    m.mla_kv_rank = required(*mla, "kv_rank", 1);
    m.mla_q_rank = whole(*mla, "q_rank", 0, 1);
    m.mla_rope_dim = required(*mla, "rope_dim", 1);
    m.mla_nope_dim = required(*mla, "nope_dim", 1);
    m.mla_v_dim = required(*mla, "v_dim", 1);
  } else {
    m.head_dim = required(v, "head_dim", 1);
  }
  if (const auto linear = v.find("linear")) {
    linear->allow_only(
        {"layers", "key_heads", "value_heads", "key_dim", "value_dim", "state_bytes_per_sequence"});
    m.linear_layers = required(*linear, "layers", 1);
    m.linear_key_heads = required(*linear, "key_heads", 1);
    m.linear_value_heads = required(*linear, "value_heads", 1);
    m.linear_key_dim = required(*linear, "key_dim", 1);
    m.linear_value_dim = required(*linear, "value_dim", 1);
    m.linear_state_bytes_per_sequence = positive(*linear, "state_bytes_per_sequence");
  }
  if (m.window_layers + m.linear_layers > m.layers) {
    v.fail("window and linear layers within the " + std::to_string(m.layers) + " layers");
  }
}

void read_experts(const JsonView& v, ModelSpec& m) {
  const auto moe = v.find("moe");
  if (!moe) return;
  moe->allow_only({"experts", "experts_per_token", "expert_intermediate", "shared_experts",
                   "layers", "dense_beside_experts"});
  m.experts = required(*moe, "experts", 1);
  m.experts_per_token = required(*moe, "experts_per_token", 1);
  if (m.experts_per_token > m.experts) {
    moe->at("experts_per_token").fail("at most " + std::to_string(m.experts));
  }
  m.expert_intermediate = required(*moe, "expert_intermediate", 1);
  m.shared_experts = whole(*moe, "shared_experts", 0, 0);
  m.moe_layers = required(*moe, "layers", 1);
  if (m.moe_layers > m.layers) moe->at("layers").fail("at most " + std::to_string(m.layers));
  m.dense_beside_experts = moe->get("dense_beside_experts", false);
}

void read_all_reduce(const JsonView& v, EngineProfile& p) {
  const auto list = v.find("all_reduce");
  if (!list) return;
  for (const JsonView& item : list->items()) {
    item.allow_only({"gpus", "latency_us", "efficiency"});
    AllReduce a;
    a.gpus = required(item, "gpus", 2);
    a.latency_us = not_negative(item, "latency_us", 0);
    a.efficiency = positive(item, "efficiency");
    if (!p.all_reduce.empty() && p.all_reduce.back().gpus >= a.gpus) {
      item.at("gpus").fail("more GPUs than the entry before");
    }
    p.all_reduce.push_back(a);
  }
}

}  // namespace

ModelSpec read_model(const JsonView& v) {
  v.allow_only({"id",
                "hf_id",
                "family",
                "attention",
                "layers",
                "hidden",
                "heads",
                "kv_heads",
                "head_dim",
                "full_kv_heads",
                "full_head_dim",
                "intermediate",
                "ffn_matrices",
                "vocabulary",
                "tied_embeddings",
                "max_context_tokens",
                "window_tokens",
                "window_layers",
                "moe",
                "mla",
                "linear",
                "parameters",
                "active_parameters",
                "weight_type",
                "expert_weight_type",
                "quant_block",
                "weight_bytes",
                "source",
                "confidence",
                "note"});
  ModelSpec m;
  m.id = v.at("id").as_string();
  m.hf_id = v.get("hf_id", "");
  m.family = v.get("family", "");
  m.layers = required(v, "layers", 1);
  m.hidden = required(v, "hidden", 1);
  read_attention(v, m);
  read_experts(v, m);
  m.intermediate = m.moe_layers == m.layers && !m.dense_beside_experts
                       ? whole(v, "intermediate", 0, 0)
                       : required(v, "intermediate", 1);
  m.ffn_matrices = whole(v, "ffn_matrices", 3, 2);
  if (m.ffn_matrices > 3) v.at("ffn_matrices").fail("2 (up, down) or 3 (gate, up, down)");
  m.vocabulary = required(v, "vocabulary", 1);
  m.tied_embeddings = v.get("tied_embeddings", false);
  m.max_context = required(v, "max_context_tokens", 1);
  m.parameters = optional_positive(v, "parameters").value_or(0);
  m.active_parameters = optional_positive(v, "active_parameters").value_or(m.parameters);
  m.weight_type = read_one_of(v.at("weight_type"), precisions());
  if (const auto type = v.find("expert_weight_type")) {
    m.expert_weight_type = read_one_of(*type, precisions());
  }
  m.quant_block = whole(v, "quant_block", 0, 1);
  m.weight_bytes = optional_positive(v, "weight_bytes");
  m.source = read_source(v);
  m.confidence = v.get("confidence", "");
  m.note = v.get("note", "");
  return m;
}

GpuSpec read_gpu(const JsonView& v) {
  v.allow_only({"id", "name", "architecture", "memory_bytes", "memory_bandwidth_bytes_per_s",
                "dense_flops", "nvlink_bytes_per_s", "pcie_bytes_per_s", "pcie_lanes",
                "compute_capability", "sm_count", "tdp_watts", "l2_bytes", "mig_capable", "source",
                "confidence", "note"});
  GpuSpec g;
  g.id = v.at("id").as_string();
  g.name = v.get("name", "");
  g.architecture = v.get("architecture", "");
  g.memory_bytes = required(v, "memory_bytes", 1);
  g.memory_bandwidth_bytes_per_s = positive(v, "memory_bandwidth_bytes_per_s");
  for (const auto& [precision, value] : v.at("dense_flops").members()) {
    if (value.is_null()) continue;
    const double rate = value.as_number();
    if (!(rate > 0)) value.fail("a rate above 0, or null where the GPU does not have it");
    g.dense_flops[precision] = rate;
  }
  g.nvlink_bytes_per_s = optional_positive(v, "nvlink_bytes_per_s");
  g.pcie_bytes_per_s = optional_positive(v, "pcie_bytes_per_s");
  g.pcie_lanes = whole(v, "pcie_lanes", 0, 1);
  if (const auto capability = v.find("compute_capability")) {
    g.compute_capability = capability->as_string();
  }
  g.source = read_source(v);
  g.confidence = v.get("confidence", "");
  g.note = v.get("note", "");
  return g;
}

InstanceType read_instance_type(const JsonView& v) {
  v.allow_only({"id", "gpu", "gpu_count", "gpu_memory_bytes", "gpu_interconnect", "gpu_pcie_lanes",
                "vcpu", "memory_bytes", "network_bps", "on_demand_usd_per_hour",
                "spot_usd_per_hour", "capacity_block_usd_per_hour", "price_date", "price_region",
                "spot_date", "source", "note"});
  InstanceType t;
  t.id = v.at("id").as_string();
  t.gpu = v.get("gpu", "");
  t.gpu_count = not_negative(v, "gpu_count", 0);
  if (t.gpu.empty() != (t.gpu_count == 0)) v.fail("a GPU and a count, or neither");
  if (t.gpu_count > 1 &&
      t.gpu_count != static_cast<double>(static_cast<std::int64_t>(t.gpu_count))) {
    v.at("gpu_count").fail("whole GPUs, or a share of one");
  }
  t.gpu_memory_bytes = whole(v, "gpu_memory_bytes", 0, 1);
  if (const auto link = v.find("gpu_interconnect")) {
    t.gpu_interconnect = read_one_of(*link, {"none", "pcie", "nvlink"});
  }
  t.gpu_pcie_lanes = whole(v, "gpu_pcie_lanes", 0, 1);
  t.vcpu = whole(v, "vcpu", 0, 1);
  t.memory_bytes = whole(v, "memory_bytes", 0, 1);
  t.network_bps = whole(v, "network_bps", 0, 1);
  t.on_demand_usd_per_hour = optional_positive(v, "on_demand_usd_per_hour");
  t.spot_usd_per_hour = optional_positive(v, "spot_usd_per_hour");
  t.capacity_block_usd_per_hour = optional_positive(v, "capacity_block_usd_per_hour");
  t.price_date = v.get("price_date", "");
  t.price_region = v.get("price_region", "");
  t.spot_date = v.get("spot_date", "");
  t.source = read_source(v);
  t.note = v.get("note", "");
  return t;
}

EngineProfile read_engine_profile(const JsonView& v) {
  v.allow_only({"schema",
                "id",
                "engine",
                "gpu",
                "kind",
                "date",
                "source",
                "compute_efficiency",
                "compute_efficiency_by_precision",
                "memory_efficiency",
                "attention_compute_efficiency",
                "attention_memory_efficiency",
                "all_reduce",
                "host_overhead_us",
                "per_sequence_us",
                "layer_latency_us",
                "batch_sizes",
                "memory_reserved_bytes",
                "communication_buffer_bytes",
                "graph_bytes_per_layer",
                "memory_fraction",
                "fit"});
  EngineProfile p;
  p.id = v.at("id").as_string();
  p.engine = v.get("engine", "");
  p.gpu = v.get("gpu", "");
  p.kind = read_one_of(v.at("kind"), {"fitted", "derived"});
  p.date = v.get("date", "");
  p.source = read_source(v);
  p.compute_efficiency = share(v, "compute_efficiency", p.compute_efficiency);
  if (const auto shares = v.find("compute_efficiency_by_precision")) {
    for (const auto& [precision, value] : shares->members()) {
      p.compute_efficiency_by_precision[precision] = share(*shares, precision.c_str(), 1);
    }
  }
  p.memory_efficiency = share(v, "memory_efficiency", p.memory_efficiency);
  p.attention_compute_efficiency =
      share(v, "attention_compute_efficiency", p.attention_compute_efficiency);
  p.attention_memory_efficiency = share(v, "attention_memory_efficiency", 0);
  p.host_overhead_us = not_negative(v, "host_overhead_us", 0);
  p.per_sequence_us = not_negative(v, "per_sequence_us", 0);
  p.layer_latency_us = not_negative(v, "layer_latency_us", 0);
  read_all_reduce(v, p);
  if (const auto sizes = v.find("batch_sizes")) {
    for (const JsonView& size : sizes->items()) p.batch_sizes.push_back(whole_at_least(size, 1));
  }
  p.memory_reserved_bytes = not_negative(v, "memory_reserved_bytes", 0);
  p.communication_buffer_bytes = not_negative(v, "communication_buffer_bytes", 0);
  p.graph_bytes_per_layer = not_negative(v, "graph_bytes_per_layer", 0);
  p.memory_fraction = share(v, "memory_fraction", p.memory_fraction);
  if (const auto fit = v.find("fit")) {
    fit->allow_only({"data", "median_error", "rows"});
    p.fit_data = fit->get("data", "");
    p.fit_median_error = optional_number(*fit, "median_error", 0);
    p.fit_rows = whole(*fit, "rows", 0, 0);
  }
  return p;
}

MeasuredProfile read_measured_profile(const JsonView& v) {
  v.allow_only({"schema", "id", "model", "machine", "source", "date", "fixed_ps", "per_token_ps",
                "per_sampled_ps", "per_decode_context_ps", "per_prefill_pair_ps", "kv_blocks",
                "block_tokens", "max_batched_tokens", "max_running", "max_context_tokens",
                "median_error"});
  MeasuredProfile p;
  p.id = v.at("id").as_string();
  p.model = v.at("model").as_string();
  p.machine = v.get("machine", "");
  p.source = read_source(v);
  p.date = v.get("date", "");
  p.fixed_ps = positive(v, "fixed_ps");
  p.per_token_ps = not_negative(v, "per_token_ps", 0);
  p.per_sampled_ps = not_negative(v, "per_sampled_ps", 0);
  p.per_decode_context_ps = not_negative(v, "per_decode_context_ps", 0);
  p.per_prefill_pair_ps = not_negative(v, "per_prefill_pair_ps", 0);
  p.kv_blocks = required(v, "kv_blocks", 1);
  p.block_tokens = required(v, "block_tokens", 1);
  p.max_batched_tokens = required(v, "max_batched_tokens", 1);
  p.max_running = required(v, "max_running", 1);
  p.max_context = required(v, "max_context_tokens", 1);
  p.median_error = not_negative(v, "median_error", 0);
  return p;
}

Json to_json(const MeasuredProfile& p) {
  return Json{{"schema", "orrery.measured_profile.v1"},
              {"id", p.id},
              {"model", p.model},
              {"machine", p.machine},
              {"source", p.source},
              {"date", p.date},
              {"fixed_ps", p.fixed_ps},
              {"per_token_ps", p.per_token_ps},
              {"per_sampled_ps", p.per_sampled_ps},
              {"per_decode_context_ps", p.per_decode_context_ps},
              {"per_prefill_pair_ps", p.per_prefill_pair_ps},
              {"kv_blocks", p.kv_blocks},
              {"block_tokens", p.block_tokens},
              {"max_batched_tokens", p.max_batched_tokens},
              {"max_running", p.max_running},
              {"max_context_tokens", p.max_context},
              {"median_error", p.median_error}};
}

double bytes_of(const std::string& precision) {
  for (const auto& [name, bytes] : kBytes) {
    if (precision == name) return bytes;
  }
  throw InputError({"precision", 0, ""}, "\"" + precision + "\"", "one of " + listed(precisions()));
}

ModelSpec with_weight_type(ModelSpec model, const std::string& weight_type) {
  if (weight_type.empty()) return model;
  bytes_of(weight_type);  // known, or an InputError
  if (weight_type == model.weight_type && model.expert_weight_type.empty()) return model;
  model.weight_type = weight_type;
  model.expert_weight_type.clear();
  model.quant_block = 0;
  model.weight_bytes.reset();
  return model;
}

GpuSpec gpu_in_instance(const GpuSpec& gpu, const InstanceType& instance) {
  GpuSpec here = gpu;
  const double part = instance.gpu_count < 1 ? instance.gpu_count : 1;
  if (part > 0 && part < 1) {
    here.memory_bytes = static_cast<std::int64_t>(static_cast<double>(gpu.memory_bytes) * part);
    here.memory_bandwidth_bytes_per_s *= part;
    for (auto& [precision, rate] : here.dense_flops) rate *= part;
  }
  if (here.pcie_bytes_per_s && gpu.pcie_lanes > 0 && instance.gpu_pcie_lanes > 0 &&
      instance.gpu_pcie_lanes < gpu.pcie_lanes) {
    *here.pcie_bytes_per_s *=
        static_cast<double>(instance.gpu_pcie_lanes) / static_cast<double>(gpu.pcie_lanes);
    here.pcie_lanes = instance.gpu_pcie_lanes;
  }
  if (instance.gpu_interconnect != "nvlink") here.nvlink_bytes_per_s.reset();
  return here;
}

}  // namespace orrery::cost
