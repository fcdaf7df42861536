// StepModel: how long a step takes on one kind of replica. Pure arithmetic on a profile; used by
// the simulator for time and by decisions for predictions.
//
// Step time = host overhead + sum over operators of max(compute, memory) + communication, each
// divided by a fitted or stated efficiency. Two ways to make one:
//  * roofline: from a model's shape, a GPU's data sheet and a profile of efficiencies;
//  * measured: coefficients fitted on this machine (cpu-local) by `orrery calibrate`.
// Every result carries its source: measured, fitted or derived.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/json.h"
#include "runtime/policy/cost/catalog.h"
#include "runtime/policy/cost/step_shape.h"

namespace orrery::cost {

struct OperatorTime {
  std::string name;  // "qkv_gemm", "decode_attention", "all_reduce", …
  double compute_ps = 0, memory_ps = 0, communication_ps = 0;
  double total_ps = 0;  // what counts in the step
};

class StepModel {
 public:
  virtual ~StepModel() = default;
  // Hot: called once a step. Deterministic: IEEE basic operations, rounded once to picoseconds.
  virtual StepTime time(const StepShape& shape) const = 0;
  // The same step operator by operator; sums to time() within rounding.
  virtual std::vector<OperatorTime> breakdown(const StepShape& shape) const = 0;
  virtual std::string source() const = 0;  // "measured", "fitted" or "derived", and from what
};

struct Parallelism {
  int tp = 1;                    // tensor-parallel GPUs of one replica
  bool expert_parallel = false;  // experts are spread whole over the tp GPUs, not sliced
};

// Why this model cannot be divided so, with the numbers, or "". Heads and widths must divide by tp
// (KV heads are copied where tp exceeds them), and the slice of a block-quantised matrix must be a
// multiple of the block: each of gate and up by itself, since their fused width can pass by
// accident.
std::string why_illegal(const ModelSpec& model, const Parallelism& parallelism);

// Throws InputError when the combination is not legal, Unsupported for an attention that this
// version has no model of.
std::unique_ptr<StepModel> make_roofline_model(const ModelSpec& model, const GpuSpec& gpu,
                                               const Parallelism& parallelism,
                                               const EngineProfile& profile,
                                               const std::string& kv_precision = "auto");
std::unique_ptr<StepModel> make_measured_model(const MeasuredProfile& profile);

}  // namespace orrery::cost
