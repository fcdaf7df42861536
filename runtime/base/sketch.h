// QuantileSketch: quantiles of non-negative integers (nanoseconds, tokens) in bounded memory.
// Log-linear buckets (as in HdrHistogram): 128 to each power of two, so a reported quantile is
// within a relative error of 1/256 of the exact one; values below 128 are exact, as are count,
// sum, minimum and maximum. Mergeable: merging is adding counts, in any order, same bytes.
// Quantile rule, here and in ExactQuantiles: nearest rank, the ceil(q*n)-th smallest value.
#pragma once
#include <cstdint>
#include <vector>

namespace orrery {

class QuantileSketch {
 public:
  static constexpr double kRelativeError = 1.0 / 256;
  void add(std::int64_t value, std::int64_t count = 1);  // value >= 0, count >= 0
  void merge(const QuantileSketch& other);
  std::int64_t count() const { return count_; }
  std::int64_t max() const { return count_ > 0 ? max_ : 0; }
  std::int64_t min() const { return count_ > 0 ? min_ : 0; }
  double mean() const;                                // 0 when empty
  std::int64_t quantile(double q) const;              // q in [0, 1]; 0 when empty
  double fraction_at_most(std::int64_t bound) const;  // 1 when empty

 private:
  static int bucket_of(std::int64_t value);
  static std::int64_t middle_of(int bucket);
  std::vector<std::int64_t> counts_;  // grows to the highest bucket used
  std::int64_t count_ = 0, min_ = 0, max_ = 0;
  __int128 sum_ = 0;
};

// The slow twin: keeps every value.
class ExactQuantiles {
 public:
  void add(std::int64_t value, std::int64_t count = 1);
  void merge(const ExactQuantiles& other);
  std::int64_t count() const { return static_cast<std::int64_t>(values_.size()); }
  std::int64_t quantile(double q);
  double mean() const;

 private:
  std::vector<std::int64_t> values_;
};

}  // namespace orrery
