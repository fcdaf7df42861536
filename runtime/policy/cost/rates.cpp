#include "runtime/policy/cost/rates.h"

#include <initializer_list>

#include "runtime/base/errors.h"

namespace orrery::cost {

std::string compute_precision(const GpuSpec& gpu, const std::string& weight_type) {
  std::vector<std::string> order;
  if (weight_type == "fp8" || weight_type == "int8") {
    order = {weight_type, "bf16", "fp16", "fp32"};
  } else if (weight_type == "fp4" || weight_type == "mxfp4" || weight_type == "nvfp4") {
    order = {"fp4", "bf16", "fp16", "fp32"};
  } else if (weight_type == "fp16") {
    order = {"fp16", "bf16", "fp32"};
  } else if (weight_type == "fp32") {
    order = {"fp32"};
  } else {  // bf16; int4 stores weights only
    order = {"bf16", "fp16", "fp32"};
  }
  for (const std::string& precision : order) {
    if (gpu.dense_flops.contains(precision)) return precision;
  }
  throw InputError({gpu.id, 0, "dense_flops"},
                   "none of the precisions that " + weight_type + " needs",
                   "a rate for one of " + order.front() + " to " + order.back());
}

Rates::Rates(const GpuSpec& gpu, const EngineProfile& profile) : gpu_(gpu), profile_(profile) {
  const double kv_share = profile.attention_memory_efficiency > 0
                              ? profile.attention_memory_efficiency
                              : profile.memory_efficiency;
  ps_per_byte_ = 1e12 / (gpu.memory_bandwidth_bytes_per_s * profile.memory_efficiency);
  ps_per_attention_byte_ = 1e12 / (gpu.memory_bandwidth_bytes_per_s * kv_share);
}

double Rates::ps_per_flop(const std::string& weight_type) const {
  const std::string precision = compute_precision(gpu_, weight_type);
  const auto it = profile_.compute_efficiency_by_precision.find(precision);
  const double share = it == profile_.compute_efficiency_by_precision.end()
                           ? profile_.compute_efficiency
                           : it->second;
  return 1e12 / (gpu_.dense_flops.at(precision) * share);
}

double Rates::ps_per_attention_flop(const std::string& weight_type) const {
  const std::string precision = compute_precision(gpu_, weight_type == "fp32" ? "fp32" : "bf16");
  return 1e12 / (gpu_.dense_flops.at(precision) * profile_.attention_compute_efficiency);
}

}  // namespace orrery::cost
