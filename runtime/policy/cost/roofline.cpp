// The roofline step model. All coefficients are worked out at construction, in picoseconds per row,
// per key, per sequence; time() only multiplies, compares and adds.
#include <algorithm>
#include <optional>

#include "runtime/base/errors.h"
#include "runtime/policy/cost/memory_plan.h"
#include "runtime/policy/cost/model_matrices.h"
#include "runtime/policy/cost/rates.h"
#include "runtime/policy/cost/step_model.h"

namespace orrery::cost {
namespace {

double d(std::int64_t x) { return static_cast<double>(x); }

// x >= 0 to the nearest integer. A step longer than 10^6 s is a mistake somewhere, not a time.
std::int64_t rounded(double x) { return static_cast<std::int64_t>(std::min(x, 1e18) + 0.5); }

// base^n for n >= 0 by squaring: IEEE multiplications in one order only.
double power(double base, std::int64_t n) {
  double result = 1;
  for (; n > 0; n >>= 1, base *= base) {
    if ((n & 1) != 0) result *= base;
  }
  return result;
}

// Beyond the largest entry its figures hold; a profile without any has a free, perfect link.
AllReduce all_reduce_of(const EngineProfile& e, int tp) {
  for (const AllReduce& a : e.all_reduce) {
    if (a.gpus >= tp) return a;
  }
  return e.all_reduce.empty() ? AllReduce{} : e.all_reduce.back();
}

// One operator: max(compute per row, what is read once + what moves per row).
struct Operator {
  std::string name;
  Rows rows = Rows::kTokens;
  double compute_per_row = 0, memory_once = 0, memory_per_row = 0;  // ps
};

// Attention over keys; the layers with a window and those without each have one.
struct Attention {
  double decode_per_key = 0;  // ps per (sequence, key) of a decode: max
  double decode_compute_per_key = 0, decode_memory_per_key = 0;
  double prefill_per_pair = 0, prefill_per_key = 0;  // compute; KV reads
  std::int64_t window = 0;                           // 0: none
  std::int64_t decode_ps = 0;                        // decode_per_key in whole picoseconds
};

class Roofline final : public StepModel {
 public:
  Roofline(const ModelSpec& m, const GpuSpec& gpu, const Parallelism& p, const EngineProfile& e,
           const std::string& kv)
      : rates_(gpu, e), model_(m), profile_(e), tp_(p.tp), batch_sizes_(e.batch_sizes) {
    std::sort(batch_sizes_.begin(), batch_sizes_.end());
    source_ = (e.kind.empty() ? std::string("derived") : e.kind) + ": " + e.id + ", " + m.id +
              " on " + gpu.id + ", tp " + std::to_string(p.tp);
    value_bytes_ = m.weight_type == "fp32" ? 4 : 2;
    set_matrices(m, p);
    set_attention(m, kv);
    set_rest(m, e);
    set_communication(m, gpu, e);
  }

  StepTime time(const StepShape& s) const override {
    const Counts n = counts(s);
    double fixed = host_fixed_ + host_per_sequence_ * d(s.sequences) + elementwise_ * n.tokens +
                   state_per_sequence_ * d(s.sequences);
    for (const Operator& op : operators_) {
      const double rows = rows_of(op, n);
      if (rows > 0) fixed += std::max(op.compute_per_row * rows, memory(op, rows, n));
    }
    fixed += prefill(full_, s) + prefill(windowed_, s);
    if (tp_ > 1) fixed += all_reduce(n) + gather_per_row_ * n.sampled;
    StepTime t;
    t.fixed_ps = rounded(fixed);
    if (s.decode_sequences > 0) add_decode(s, t);
    return t;
  }

  std::vector<OperatorTime> breakdown(const StepShape& s) const override;
  std::string source() const override { return source_; }

 private:
  struct Counts {
    double tokens = 0, sampled = 0, latent = 0;
    double experts_touched = 0;  // share of all
  };

  void set_matrices(const ModelSpec& m, const Parallelism& p);
  void set_attention(const ModelSpec& m, const std::string& kv);
  void set_rest(const ModelSpec& m, const EngineProfile& e);
  void set_communication(const ModelSpec& m, const GpuSpec& gpu, const EngineProfile& e);

  Counts counts(const StepShape& s) const {
    Counts n;
    n.tokens = d(padded(s));
    n.sampled = d(s.sampled);
    n.latent = d(s.decode_sequences + s.prefill_context);
    if (experts_ > 0) n.experts_touched = 1 - power(untouched_, padded(s));
    return n;
  }
  // A step of decodes only runs in the smallest captured graph that holds it.
  std::int64_t padded(const StepShape& s) const {
    if (s.tokens == 0 || s.tokens != s.decode_sequences) return s.tokens;
    const auto it = std::lower_bound(batch_sizes_.begin(), batch_sizes_.end(), s.tokens);
    return it == batch_sizes_.end() ? s.tokens : *it;
  }
  double rows_of(const Operator& op, const Counts& n) const {
    switch (op.rows) {
      case Rows::kSampled:
        return n.sampled;
      case Rows::kLatent:
        return n.latent;
      case Rows::kExperts:
        return n.tokens * experts_per_token_;
      case Rows::kTokens:
      case Rows::kLookup:
        break;
    }
    return n.tokens;
  }
  double memory(const Operator& op, double rows, const Counts& n) const {
    const double once =
        op.rows == Rows::kExperts ? op.memory_once * n.experts_touched : op.memory_once;
    return once + op.memory_per_row * rows;
  }
  // Sums over sequences are all a step knows of its lengths, so a window cuts the sum: exact when
  // the sequences are alike, and never too short a time.
  double prefill(const Attention& a, const StepShape& s) const {
    std::int64_t pairs = s.prefill_pairs, keys = s.prefill_context;
    if (a.window > 0) {
      pairs = std::min(pairs, s.prefill_tokens * a.window);
      keys = std::min(keys, s.prefill_tokens + (s.sequences - s.decode_sequences) * a.window);
    }
    return std::max(a.prefill_per_pair * d(pairs), a.prefill_per_key * d(keys));
  }
  void add_decode(const StepShape& s, StepTime& t) const {
    t.per_context_ps = full_.decode_ps;
    if (windowed_.decode_ps == 0) return;
    const std::int64_t room = windowed_.window * s.decode_sequences - s.decode_context;
    if (room > 0) {
      t.per_context_ps += windowed_.decode_ps;
      t.repetitions = (room + s.decode_sequences - 1) / s.decode_sequences;
    } else {
      t.fixed_ps += windowed_.decode_ps * windowed_.window * s.decode_sequences;
    }
  }
  double all_reduce(const Counts& n) const {
    return all_reduce_once_ + all_reduce_per_row_ * n.tokens;
  }

  Rates rates_;
  ModelSpec model_;
  EngineProfile profile_;
  int tp_;
  std::vector<std::int64_t> batch_sizes_;
  std::string source_;
  double value_bytes_ = 2;  // of an activation
  std::vector<Operator> operators_;
  Attention full_, windowed_;
  double experts_ = 0, experts_per_token_ = 0, untouched_ = 1;
  double elementwise_ = 0, state_per_sequence_ = 0;  // ps per token, per sequence
  double host_fixed_ = 0, host_per_sequence_ = 0;    // ps
  double layer_latency_ = 0;                         // ps, part of host_fixed_
  double all_reduce_once_ = 0, all_reduce_per_row_ = 0, gather_per_row_ = 0;  // ps
};

void Roofline::set_matrices(const ModelSpec& m, const Parallelism& p) {
  experts_ = d(m.experts);
  experts_per_token_ = d(m.experts_per_token);
  // A token leaves a given expert untouched with 1 - k/E; tokens choose independently.
  if (m.experts > 0) untouched_ = 1 - experts_per_token_ / experts_;
  for (const MatrixGroup& g : matrices_of(m, p)) {
    Operator op;
    op.name = g.name;
    op.rows = g.rows;
    op.memory_per_row = g.row_values * value_bytes_ * rates_.ps_per_byte();
    if (g.rows != Rows::kLookup) {
      // One row of an expert group meets one expert's share of the elements.
      const double met = g.rows == Rows::kExperts ? g.elements / experts_ : g.elements;
      op.compute_per_row = 2 * met * rates_.ps_per_flop(g.precision);
      op.memory_once = g.elements * bytes_of(g.precision) * rates_.ps_per_byte();
    }
    operators_.push_back(std::move(op));
  }
}

// flops of one (query, key) pair and bytes of one key, all layers of the kind, on this GPU.
void Roofline::set_attention(const ModelSpec& m, const std::string& kv) {
  const double per_flop = rates_.ps_per_attention_flop(m.weight_type);
  const double per_byte = rates_.ps_per_attention_byte();
  const auto set = [&](Attention& a, double prefill_flops, double decode_flops, double bytes) {
    a.prefill_per_pair = prefill_flops * per_flop;
    a.prefill_per_key = bytes * per_byte;
    a.decode_compute_per_key = decode_flops * per_flop;
    a.decode_memory_per_key = bytes * per_byte;
    a.decode_per_key = std::max(a.decode_compute_per_key, a.decode_memory_per_key);
    a.decode_ps = rounded(a.decode_per_key);
  };
  const double all = kv_bytes_per_token_per_gpu(m, tp_, kv);
  const double beyond = kv_bytes_per_token_beyond_window_per_gpu(m, tp_, kv);
  const double heads = d(m.heads) / tp_, full_layers = d(full_attention_layers(m));
  if (m.mla_kv_rank > 0) {
    // Prefill expands keys and values (kv_b_gemm) and attends head by head; decode attends in the
    // latent space, where scores take rank + rope products and the sum over values rank more.
    set(full_, 2 * heads * d(m.mla_nope_dim + m.mla_rope_dim + m.mla_v_dim) * full_layers,
        2 * heads * d(2 * m.mla_kv_rank + m.mla_rope_dim) * full_layers, all);
    return;
  }
  const double full_dim = d(m.full_head_dim > 0 ? m.full_head_dim : m.head_dim);
  const double full_flops = 4 * heads * full_dim * full_layers;
  set(full_, full_flops, full_flops, beyond);
  if (m.window_layers == 0) return;
  const double window_flops = 4 * heads * d(m.head_dim) * d(m.window_layers);
  set(windowed_, window_flops, window_flops, all - beyond);
  windowed_.window = m.window_tokens;
}

void Roofline::set_rest(const ModelSpec& m, const EngineProfile& e) {
  // Two norms a layer, each fused with the residual: read both, write both. The gate's product
  // reads two halves and writes one.
  const double layers = d(m.layers), moe = d(m.moe_layers);
  const double dense = layers - (m.dense_beside_experts ? 0 : moe);
  const double ffn =
      3 * (dense * d(m.intermediate) +
           moe * d(m.expert_intermediate * (m.experts_per_token + m.shared_experts)));
  elementwise_ = (8 * d(m.hidden) * layers + ffn / tp_) * value_bytes_ * rates_.ps_per_byte();
  state_per_sequence_ = 2 * m.linear_state_bytes_per_sequence / tp_ * rates_.ps_per_byte();
  layer_latency_ = e.layer_latency_us * layers * 1e6;
  host_fixed_ = e.host_overhead_us * 1e6 + layer_latency_;
  host_per_sequence_ = e.per_sequence_us * 1e6;
}

// Ring all-reduce: each GPU sends and receives 2(n-1)/n of the tensor. Two a layer, after attention
// and after the FFN, and one after the split embedding; the logits of split vocabularies are
// gathered once.
void Roofline::set_communication(const ModelSpec& m, const GpuSpec& gpu, const EngineProfile& e) {
  if (tp_ == 1) return;
  const std::optional<double> link =
      gpu.nvlink_bytes_per_s ? gpu.nvlink_bytes_per_s : gpu.pcie_bytes_per_s;
  if (!link) {
    throw InputError({gpu.id, 0, "pcie_bytes_per_s"}, "no link between GPUs",
                     "a link bandwidth, since tp is " + std::to_string(tp_));
  }
  const AllReduce measured = all_reduce_of(e, tp_);
  const double n = tp_, count = 2 * d(m.layers) + 1;
  const double per_byte = 1e12 / (*link * measured.efficiency);
  all_reduce_once_ = (count + 1) * measured.latency_us * 1e6;
  all_reduce_per_row_ = count * d(m.hidden) * value_bytes_ * 2 * (n - 1) / n * per_byte;
  gather_per_row_ = d(m.vocabulary) * value_bytes_ * (n - 1) / n * per_byte;
}

std::vector<OperatorTime> Roofline::breakdown(const StepShape& s) const {
  const Counts n = counts(s);
  std::vector<OperatorTime> list;
  const auto add = [&](std::string name, double compute, double mem, double comm) {
    const double total = std::max(compute, mem) + comm;
    if (total > 0) list.push_back({std::move(name), compute, mem, comm, total});
  };
  for (const Operator& op : operators_) {
    const double rows = rows_of(op, n);
    if (rows > 0) add(op.name, op.compute_per_row * rows, memory(op, rows, n), 0);
  }
  const auto attention = [&](const char* kind, const Attention& a) {
    std::int64_t pairs = s.prefill_pairs, keys = s.prefill_context, context = s.decode_context;
    if (a.window > 0) {
      pairs = std::min(pairs, s.prefill_tokens * a.window);
      keys = std::min(keys, s.prefill_tokens + (s.sequences - s.decode_sequences) * a.window);
      context = std::min(context, a.window * s.decode_sequences);
    }
    add(std::string("prefill_attention") + kind, a.prefill_per_pair * d(pairs),
        a.prefill_per_key * d(keys), 0);
    add(std::string("decode_attention") + kind, a.decode_compute_per_key * d(context),
        a.decode_memory_per_key * d(context), 0);
  };
  attention("", full_);
  attention("_window", windowed_);
  add("norms_and_activations", 0, elementwise_ * n.tokens, 0);
  add("linear_attention_state", 0, state_per_sequence_ * d(s.sequences), 0);
  if (tp_ > 1) {
    add("all_reduce", 0, 0, all_reduce(n));
    add("logits_gather", 0, 0, gather_per_row_ * n.sampled);
  }
  const auto overhead = [&](const char* name, double ps) {
    if (ps > 0) list.push_back({name, 0, 0, 0, ps});
  };
  overhead("kernel_latency", layer_latency_);
  overhead("host", host_fixed_ - layer_latency_ + host_per_sequence_ * d(s.sequences));
  return list;
}

}  // namespace

std::unique_ptr<StepModel> make_roofline_model(const ModelSpec& model, const GpuSpec& gpu,
                                               const Parallelism& parallelism,
                                               const EngineProfile& profile,
                                               const std::string& kv_precision) {
  if (const std::string why = why_illegal(model, parallelism); !why.empty()) {
    throw InputError({model.id, 0, "tp"}, std::to_string(parallelism.tp),
                     "a legal division: " + why);
  }
  const std::string refused = why_kv_precision_is_refused(model, gpu, kv_precision);
  if (!refused.empty()) {
    throw InputError({model.id, 0, "kv_precision"}, kv_precision,
                     "a possible precision: " + refused);
  }
  return std::make_unique<Roofline>(model, gpu, parallelism, profile, kv_precision);
}

}  // namespace orrery::cost
