#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace orrery::kernels::reference {

template <class Real>
void rms_norm(std::span<const float> x, std::span<const float> weight, double eps,
              std::span<Real> y) {
  Real sum = 0;
  for (const float v : x) sum += static_cast<Real>(v) * static_cast<Real>(v);
  const Real scale =
      Real{1} / std::sqrt(sum / static_cast<Real>(x.size()) + static_cast<Real>(eps));
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = static_cast<Real>(x[i]) * scale * static_cast<Real>(weight[i]);
}

template <class Real>
void swiglu(std::span<const float> gate_up, std::span<Real> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Real g = gate_up[i];
    out[i] = g / (Real{1} + std::exp(-g)) * static_cast<Real>(gate_up[out.size() + i]);
  }
}

std::vector<float> rope_table(int positions, int rotary_dim, double base) {
  std::vector<float> table;
  table.reserve(static_cast<std::size_t>(positions) * static_cast<std::size_t>(rotary_dim));
  for (int p = 0; p < positions; ++p)
    for (int i = 0; i < rotary_dim; i += 2) {
      const double angle = p * std::pow(base, -static_cast<double>(i) / rotary_dim);
      table.push_back(static_cast<float>(std::cos(angle)));
      table.push_back(static_cast<float>(std::sin(angle)));
    }
  return table;
}

template <class Real>
void rope(std::span<const float> head, std::span<const float> cos_sin, RopePairs pairs,
          std::span<Real> out) {
  std::copy(head.begin(), head.end(), out.begin());
  const std::size_t half = cos_sin.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const std::size_t a = pairs == RopePairs::kAdjacent ? 2 * i : i;
    const std::size_t b = pairs == RopePairs::kAdjacent ? 2 * i + 1 : i + half;
    const Real x = head[a], y = head[b], c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
    out[a] = x * c - y * s;
    out[b] = x * s + y * c;
  }
}

std::size_t cache_index(const KvLayout& kv, std::int32_t block, int kv_head, int slot) {
  return ((static_cast<std::size_t>(block) * static_cast<std::size_t>(kv.kv_heads) +
           static_cast<std::size_t>(kv_head)) *
              static_cast<std::size_t>(kv.block_size) +
          static_cast<std::size_t>(slot)) *
         static_cast<std::size_t>(kv.head_dim);
}

template <class Real>
void paged_attention(std::span<const float> q, std::span<const float> k_cache,
                     std::span<const float> v_cache, std::span<const std::int32_t> blocks,
                     const KvLayout& kv, int kv_head, int context, double scale,
                     std::span<Real> out) {
  std::fill(out.begin(), out.end(), Real{0});
  const auto index = [&](int t) {
    return cache_index(kv, blocks[static_cast<std::size_t>(t / kv.block_size)], kv_head,
                       t % kv.block_size);
  };
  std::vector<Real> weights(static_cast<std::size_t>(context));
  Real top = -std::numeric_limits<Real>::infinity(), sum = 0;
  for (int t = 0; t < context; ++t) {
    Real dot = 0;
    for (std::size_t i = 0; i < q.size(); ++i)
      dot += static_cast<Real>(q[i]) * static_cast<Real>(k_cache[index(t) + i]);
    weights[static_cast<std::size_t>(t)] = dot * static_cast<Real>(scale);
    top = std::max(top, weights[static_cast<std::size_t>(t)]);
  }
  for (Real& w : weights) {
    w = std::exp(w - top);
    sum += w;
  }
  for (int t = 0; t < context; ++t)
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] += weights[static_cast<std::size_t>(t)] * static_cast<Real>(v_cache[index(t) + i]);
  for (Real& v : out)
    if (context > 0) v /= sum;
}

std::int32_t argmax(std::span<const float> logits) {
  std::int32_t best = 0;
  float best_value = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > best_value) {
      best = static_cast<std::int32_t>(i);
      best_value = logits[i];
    }
  return best;
}

#define ORRERY_INSTANTIATE(Real)                                                             \
  template void rms_norm<Real>(std::span<const float>, std::span<const float>, double,       \
                               std::span<Real>);                                             \
  template void swiglu<Real>(std::span<const float>, std::span<Real>);                       \
  template void rope<Real>(std::span<const float>, std::span<const float>, RopePairs,        \
                           std::span<Real>);                                                 \
  template void paged_attention<Real>(std::span<const float>, std::span<const float>,        \
                                      std::span<const float>, std::span<const std::int32_t>, \
                                      const KvLayout&, int, int, double, std::span<Real>);
ORRERY_INSTANTIATE(float)
ORRERY_INSTANTIATE(double)
#undef ORRERY_INSTANTIATE

}  // namespace orrery::kernels::reference
