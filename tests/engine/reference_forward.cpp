#include "tests/engine/reference_forward.h"

#include <algorithm>
#include <cmath>

namespace orrery::engine::test {
namespace {

using Vec = std::vector<double>;

Vec multiply(const std::vector<float>& m, const Vec& x) {
  Vec y(m.size() / x.size(), 0.0);
  for (std::size_t o = 0; o < y.size(); ++o)
    for (std::size_t i = 0; i < x.size(); ++i)
      y[o] += static_cast<double>(m[o * x.size() + i]) * x[i];
  return y;
}

void add(Vec& x, const Vec& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

}  // namespace

Vec ReferenceForward::norm(const Vec& x, const std::vector<float>& weight) const {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double root = std::sqrt(squares / static_cast<double>(x.size()) +
                                static_cast<double>(w_.shape.norm_epsilon));
  Vec y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * static_cast<double>(weight[i]) / root;
  return y;
}

void ReferenceForward::rotate(Vec& x, std::int64_t heads) const {
  const std::int64_t dim = w_.shape.head_dim;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t i = 0; i < dim / 2; ++i) {
      const double angle =
          static_cast<double>(position_) *
          std::pow(w_.shape.rope_base, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
      const bool neighbours = w_.shape.pairing == RopePairing::kNeighbours;
      const auto a = static_cast<std::size_t>(h * dim + (neighbours ? 2 * i : i));
      const auto b = static_cast<std::size_t>(h * dim + (neighbours ? 2 * i + 1 : i + dim / 2));
      const double xa = x[a], xb = x[b];
      x[a] = xa * std::cos(angle) - xb * std::sin(angle);
      x[b] = xa * std::sin(angle) + xb * std::cos(angle);
    }
}

Vec ReferenceForward::attend(std::size_t layer, const Vec& q) const {
  const ModelShape& s = w_.shape;
  const Cache& cache = cache_[layer];
  Vec out(q.size(), 0.0);
  for (std::int64_t h = 0; h < s.heads; ++h) {
    const std::int64_t g = h / (s.heads / s.kv_heads);
    Vec p(cache.k.size());
    for (std::size_t t = 0; t < p.size(); ++t) {
      for (std::int64_t d = 0; d < s.head_dim; ++d)
        p[t] += q[static_cast<std::size_t>(h * s.head_dim + d)] *
                cache.k[t][static_cast<std::size_t>(g * s.head_dim + d)];
      p[t] /= std::sqrt(static_cast<double>(s.head_dim));
    }
    const double most = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& v : p) sum += v = std::exp(v - most);
    for (std::size_t t = 0; t < p.size(); ++t)
      for (std::int64_t d = 0; d < s.head_dim; ++d)
        out[static_cast<std::size_t>(h * s.head_dim + d)] +=
            p[t] / sum * cache.v[t][static_cast<std::size_t>(g * s.head_dim + d)];
  }
  return out;
}

Vec ReferenceForward::next(TokenId id) {
  const ModelShape& s = w_.shape;
  const auto row = w_.embedding.begin() + id * s.width;
  Vec x(row, row + s.width);
  for (std::size_t l = 0; l < w_.layers.size(); ++l) {
    const LayerWeights& layer = w_.layers[l];
    const Vec normed = norm(x, layer.attention_norm);
    Vec q = multiply(layer.wq, normed), k = multiply(layer.wk, normed);
    rotate(q, s.heads);
    rotate(k, s.kv_heads);
    cache_[l].k.push_back(k);
    cache_[l].v.push_back(multiply(layer.wv, normed));
    add(x, multiply(layer.wo, attend(l, q)));
    const Vec inner = norm(x, layer.feed_forward_norm);
    Vec gate = multiply(layer.gate, inner);
    const Vec up = multiply(layer.up, inner);
    for (std::size_t i = 0; i < gate.size(); ++i)
      gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    add(x, multiply(layer.down, gate));
  }
  ++position_;
  return multiply(s.tied_head ? w_.embedding : w_.head, norm(x, w_.final_norm));
}

}  // namespace orrery::engine::test
