// What a GPU really does per second under an engine: data sheet times efficiency, as picoseconds
// per unit. Weights in a precision that the GPU does not compute in are dequantised and multiplied
// in the next wider one; only the memory traffic shrinks then.
#pragma once
#include <string>

#include "runtime/policy/cost/catalog.h"

namespace orrery::cost {

// The precision in which products with weights of this type are computed on this GPU. Throws
// InputError when the GPU has none that is wide enough.
std::string compute_precision(const GpuSpec& gpu, const std::string& weight_type);

class Rates {
 public:
  Rates(const GpuSpec& gpu, const EngineProfile& profile);
  double ps_per_byte() const { return ps_per_byte_; }
  double ps_per_attention_byte() const { return ps_per_attention_byte_; }
  double ps_per_flop(const std::string& weight_type) const;
  // Attention multiplies in the model's 16-bit type, whatever weights and cache are stored in.
  double ps_per_attention_flop(const std::string& weight_type) const;

 private:
  GpuSpec gpu_;
  EngineProfile profile_;
  double ps_per_byte_, ps_per_attention_byte_;
};

}  // namespace orrery::cost
