// Which divisions of a model over GPUs exist.
#include <string>

#include "runtime/policy/cost/step_model.h"

namespace orrery::cost {
namespace {

std::string n(std::int64_t x) { return std::to_string(x); }

// Why `width` cannot be sliced tp times, in slices that are multiples of `block` (0: any), or "".
std::string why_not_sliced(const std::string& what, std::int64_t width, int tp,
                           std::int64_t block) {
  if (width % tp != 0) return what + " " + n(width) + " is not divisible by tp " + n(tp);
  if (block > 0 && (width / tp) % block != 0) {
    return what + " " + n(width) + " over tp " + n(tp) + " is " + n(width / tp) +
           " per GPU, no multiple of the quantisation block " + n(block);
  }
  return {};
}

// Expert weights may be of another type than the rest; a block belongs to the types that have one.
bool has_blocks(const std::string& type) {
  return type == "fp8" || type == "mxfp4" || type == "nvfp4";
}

std::string why_ffn_illegal(const ModelSpec& m, const Parallelism& p) {
  const std::int64_t dense_layers = m.layers - (m.dense_beside_experts ? 0 : m.moe_layers);
  const std::int64_t block = has_blocks(m.weight_type) ? m.quant_block : 0;
  std::string why;
  if (dense_layers > 0) why = why_not_sliced("FFN width", m.intermediate, p.tp, block);
  if (!why.empty() || m.experts == 0) return why;
  if (m.shared_experts > 0) {
    why = why_not_sliced("shared expert width", m.shared_experts * m.expert_intermediate, p.tp,
                         block);
    if (!why.empty()) return why;
  }
  if (p.expert_parallel) {
    return m.experts % p.tp == 0
               ? std::string{}
               : n(m.experts) + " experts cannot be spread evenly over " + n(p.tp) + " GPUs";
  }
  const std::string& type = m.expert_weight_type.empty() ? m.weight_type : m.expert_weight_type;
  return why_not_sliced("expert width", m.expert_intermediate, p.tp,
                        has_blocks(type) ? m.quant_block : 0);
}

}  // namespace

std::string why_illegal(const ModelSpec& m, const Parallelism& p) {
  if (p.tp < 1) return "tp must be at least 1";
  if (p.tp == 1) return {};
  if (m.heads % p.tp != 0)
    return n(m.heads) + " attention heads are not divisible by tp " + n(p.tp);
  const auto kv_fits = [&](std::int64_t heads) { return heads % p.tp == 0 || p.tp % heads == 0; };
  if (m.mla_kv_rank == 0) {
    for (const std::int64_t heads :
         {m.kv_heads, m.full_kv_heads > 0 ? m.full_kv_heads : m.kv_heads}) {
      if (!kv_fits(heads)) {
        return n(heads) + " KV heads can neither be divided among nor copied evenly to " + n(p.tp) +
               " GPUs";
      }
    }
  }
  if (m.linear_layers > 0 && (m.linear_key_heads % p.tp != 0 || m.linear_value_heads % p.tp != 0)) {
    return n(m.linear_key_heads) + " key and " + n(m.linear_value_heads) +
           " value heads of linear attention are not divisible by tp " + n(p.tp);
  }
  return why_ffn_illegal(m, p);
}

}  // namespace orrery::cost
