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
  int tp = 1;  // tensor-parallel GPUs of one replica
};

// Throws InputError when the combination is not legal (heads not divisible by tp, …).
std::unique_ptr<StepModel> make_roofline_model(const ModelSpec& model, const GpuSpec& gpu,
                                               const Parallelism& parallelism,
                                               const EngineProfile& profile);
std::unique_ptr<StepModel> make_measured_model(const MeasuredProfile& profile);

}  // namespace orrery::cost
