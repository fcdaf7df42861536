// The slow twin of every executor: a forward pass written from the formulas, in double, one token
// at a time, with a contiguous cache and no sharing of anything.
#pragma once
#include <vector>

#include "runtime/engine/model.h"

namespace orrery::engine::test {

class ReferenceForward {
 public:
  explicit ReferenceForward(const Weights& weights) : w_(weights), cache_(weights.layers.size()) {}
  // Logits after this token, which stands at the next position.
  std::vector<double> next(TokenId id);

 private:
  struct Cache {
    std::vector<std::vector<double>> k, v;  // [position][kv_width]
  };
  using Vec = std::vector<double>;
  Vec norm(const Vec& x, const std::vector<float>& weight) const;
  void rotate(Vec& x, std::int64_t heads) const;
  Vec attend(std::size_t layer, const Vec& q) const;

  const Weights& w_;
  std::vector<Cache> cache_;
  std::int64_t position_ = 0;
};

}  // namespace orrery::engine::test
