#include "runtime/policy/cost/model_matrices.h"

#include <algorithm>

#include "runtime/base/errors.h"

namespace orrery::cost {
namespace {

double d(std::int64_t x) { return static_cast<double>(x); }

// Collects groups; every number given is for one layer.
class Collector {
 public:
  Collector(const ModelSpec& model, const Parallelism& parallelism)
      : model_(model), tp_(d(parallelism.tp)) {}

  // A k x n matrix divided among the GPUs; row_values as one GPU sees them.
  void divided(const char* name, Rows rows, std::int64_t layers, double k, double n,
               double row_values, const std::string& precision) {
    add(name, rows, layers, k * n / tp_, k * n, row_values, precision);
  }
  void add(const char* name, Rows rows, std::int64_t layers, double elements, double parameters,
           double row_values, const std::string& precision) {
    if (layers == 0 || elements == 0) return;
    for (MatrixGroup& g : groups_) {
      if (g.name == name && g.rows == rows && g.precision == precision) {
        g.elements += elements * d(layers);
        g.parameters += parameters * d(layers);
        g.row_values += row_values * d(layers);
        g.layers += d(layers);
        return;
      }
    }
    groups_.push_back({name, rows, precision, elements * d(layers), parameters * d(layers),
                       row_values * d(layers), d(layers)});
  }
  // Embeddings, router and head stay in 16 bits (or fp32) when the rest is quantised.
  std::string wide() const { return model_.weight_type == "fp32" ? "fp32" : "bf16"; }
  std::vector<MatrixGroup> take() { return std::move(groups_); }

 private:
  const ModelSpec& model_;
  double tp_;
  std::vector<MatrixGroup> groups_;
};

// Query, key, value and output projections of `layers` layers with grouped queries.
void grouped_attention(Collector& c, const ModelSpec& m, int tp, std::int64_t layers,
                       std::int64_t kv_heads, std::int64_t head_dim) {
  const double h = d(m.hidden), q = d(m.heads * head_dim), kv = d(2 * kv_heads * head_dim);
  const double q_here = q / tp, kv_here = d(2 * kv_heads_per_gpu(kv_heads, tp) * head_dim);
  c.add("qkv_gemm", Rows::kTokens, layers, h * (q_here + kv_here), h * (q + kv),
        h + q_here + kv_here, m.weight_type);
  c.divided("o_gemm", Rows::kTokens, layers, q, h, q_here + h, m.weight_type);
}

void latent_attention(Collector& c, const ModelSpec& m, int tp) {
  const double h = d(m.hidden), heads = d(m.heads), rank = d(m.mla_kv_rank);
  const double q_width = heads * d(m.mla_nope_dim + m.mla_rope_dim);
  const double kv_a = d(m.mla_kv_rank + m.mla_rope_dim), q_a = d(m.mla_q_rank);
  // The down-projections are copied on every GPU.
  c.add("qkv_a_gemm", Rows::kTokens, m.layers, h * (kv_a + q_a), h * (kv_a + q_a), h + kv_a + q_a,
        m.weight_type);
  const double q_in = m.mla_q_rank > 0 ? q_a : h;
  c.divided("q_b_gemm", Rows::kTokens, m.layers, q_in, q_width, q_in + q_width / tp, m.weight_type);
  const double kv_b = heads * d(m.mla_nope_dim + m.mla_v_dim);
  c.divided("kv_b_gemm", Rows::kLatent, m.layers, rank, kv_b, rank + kv_b / tp, m.weight_type);
  const double v = heads * d(m.mla_v_dim);
  c.divided("o_gemm", Rows::kTokens, m.layers, v, h, v / tp + h, m.weight_type);
}

// Gated delta-rule layers: one fused input projection (q, k, v, gate, two scalars a value head).
void linear_attention(Collector& c, const ModelSpec& m, int tp) {
  const double h = d(m.hidden), qk = d(2 * m.linear_key_heads * m.linear_key_dim);
  const double v = d(m.linear_value_heads * m.linear_value_dim);
  const double in = qk + 2 * v + d(2 * m.linear_value_heads);
  c.divided("linear_in_gemm", Rows::kTokens, m.linear_layers, h, in, h + in / tp, m.weight_type);
  c.divided("linear_out_gemm", Rows::kTokens, m.linear_layers, v, h, v / tp + h, m.weight_type);
}

void dense_ffn(Collector& c, const ModelSpec& m, int tp) {
  const std::int64_t layers = m.layers - (m.dense_beside_experts ? 0 : m.moe_layers);
  const double h = d(m.hidden), w = d(m.intermediate), up = d(m.ffn_matrices - 1);
  c.divided("gate_up_gemm", Rows::kTokens, layers, h, up * w, h + up * w / tp, m.weight_type);
  c.divided("down_gemm", Rows::kTokens, layers, w, h, w / tp + h, m.weight_type);
}

void experts(Collector& c, const ModelSpec& m, const Parallelism& p) {
  const double h = d(m.hidden), w = d(m.expert_intermediate), e = d(m.experts), tp = d(p.tp);
  const std::string& type = m.expert_weight_type.empty() ? m.weight_type : m.expert_weight_type;
  c.add("router_gemm", Rows::kTokens, m.moe_layers, h * e, h * e, h + e, c.wide());
  // Sliced or spread, a GPU has the same share of the work when experts are evenly loaded. Spread,
  // it sees 1/tp of the (token, expert) rows in full width: the same bytes but for the input rows.
  const double slice = p.expert_parallel ? 1 : tp, share = p.expert_parallel ? tp : 1;
  c.divided("expert_up_gemm", Rows::kExperts, m.moe_layers, h, 2 * w * e,
            (h + 2 * w / slice) / share, type);
  c.divided("expert_down_gemm", Rows::kExperts, m.moe_layers, w, h * e, (w / slice + h) / share,
            type);
  const double s = w * d(m.shared_experts);
  c.divided("shared_up_gemm", Rows::kTokens, m.moe_layers, h, 2 * s, h + 2 * s / tp, m.weight_type);
  c.divided("shared_down_gemm", Rows::kTokens, m.moe_layers, s, h, s / tp + h, m.weight_type);
}

}  // namespace

std::int64_t full_attention_layers(const ModelSpec& m) {
  return m.layers - m.window_layers - m.linear_layers;
}

std::int64_t kv_heads_per_gpu(std::int64_t kv_heads, int tp) {
  return kv_heads >= tp ? kv_heads / tp : std::min<std::int64_t>(kv_heads, 1);
}

std::vector<MatrixGroup> matrices_of(const ModelSpec& m, const Parallelism& p) {
  require_modelled_attention(m);
  Collector c(m, p);
  const double h = d(m.hidden), v = d(m.vocabulary);
  // A tied head uses the embedding's own elements.
  c.divided("embedding", Rows::kLookup, 1, h, v, 2 * h, c.wide());
  if (m.mla_kv_rank > 0) {
    latent_attention(c, m, p.tp);
  } else {
    grouped_attention(c, m, p.tp, m.window_layers, m.kv_heads, m.head_dim);
    grouped_attention(c, m, p.tp, full_attention_layers(m),
                      m.full_kv_heads > 0 ? m.full_kv_heads : m.kv_heads,
                      m.full_head_dim > 0 ? m.full_head_dim : m.head_dim);
    linear_attention(c, m, p.tp);
  }
  dense_ffn(c, m, p.tp);
  if (m.experts > 0) experts(c, m, p);
  c.divided("lm_head", Rows::kSampled, 1, h, v, h + v / p.tp, c.wide());
  return c.take();
}

double count_parameters(const ModelSpec& m) {
  double sum = 0;
  for (const MatrixGroup& g : matrices_of(m, Parallelism{})) {
    if (!(m.tied_embeddings && g.rows == Rows::kSampled)) sum += g.parameters;
  }
  const double norms = d(2 * m.layers + 1) * d(m.hidden);
  return sum + norms;
}

void require_modelled_attention(const ModelSpec& m) {
  if (m.attention == "mha" || m.attention == "gqa" || m.attention == "mla" ||
      m.attention == "hybrid-linear") {
    return;
  }
  throw Unsupported(
      "model " + m.id + " has " + m.attention +
      " attention, of which this version has no cost model; it would need the layout of "
      "its cache and an operator for its index");
}

}  // namespace orrery::cost
