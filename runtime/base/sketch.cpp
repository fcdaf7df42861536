#include "runtime/base/sketch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "runtime/base/check.h"

namespace orrery {
namespace {
constexpr int kSubBits = 7;  // 2^7 = 128 buckets to each power of two

// Rank of the q-quantile among n values, 1-based: ceil(q * n), at least 1.
std::int64_t rank_of(double q, std::int64_t n) {
  const auto rank = static_cast<std::int64_t>(std::ceil(q * static_cast<double>(n)));
  return std::clamp<std::int64_t>(rank, 1, n);
}
}  // namespace

int QuantileSketch::bucket_of(std::int64_t value) {
  const auto v = static_cast<std::uint64_t>(value);
  const int width = static_cast<int>(std::bit_width(v));
  if (width <= kSubBits) return static_cast<int>(v);
  const int shift = width - 1 - kSubBits;  // v >> shift is in [128, 256)
  return (shift + 1) * (1 << kSubBits) + static_cast<int>((v >> shift) - (1U << kSubBits));
}

std::int64_t QuantileSketch::middle_of(int bucket) {
  constexpr int kPer = 1 << kSubBits;
  if (bucket < kPer) return bucket;
  const int shift = bucket / kPer - 1;
  const auto low = static_cast<std::int64_t>(bucket % kPer + kPer) << shift;
  return low + (shift > 0 ? (std::int64_t{1} << shift) / 2 : 0);
}

void QuantileSketch::add(std::int64_t value, std::int64_t count) {
  ORRERY_CHECK(value >= 0 && count >= 0);
  if (count == 0) return;
  const auto bucket = static_cast<std::size_t>(bucket_of(value));
  if (bucket >= counts_.size()) counts_.resize(bucket + 1);
  counts_[bucket] += count;
  min_ = count_ > 0 ? std::min(min_, value) : value;
  max_ = count_ > 0 ? std::max(max_, value) : value;
  count_ += count;
  sum_ += static_cast<__int128>(value) * count;
}

void QuantileSketch::merge(const QuantileSketch& other) {
  if (other.count_ == 0) return;
  if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size());
  for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  min_ = count_ > 0 ? std::min(min_, other.min_) : other.min_;
  max_ = count_ > 0 ? std::max(max_, other.max_) : other.max_;
  count_ += other.count_;
  sum_ += other.sum_;
}

double QuantileSketch::mean() const {
  return count_ > 0 ? static_cast<double>(sum_) / static_cast<double>(count_) : 0;
}

std::int64_t QuantileSketch::quantile(double q) const {
  if (count_ == 0) return 0;
  const std::int64_t rank = rank_of(q, count_);
  if (rank == 1) return min_;
  if (rank == count_) return max_;
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank) return std::clamp(middle_of(static_cast<int>(i)), min_, max_);
  }
  return max_;
}

double QuantileSketch::fraction_at_most(std::int64_t bound) const {
  if (count_ == 0 || bound >= max_) return 1;
  if (bound < min_) return 0;
  std::int64_t seen = 0;
  const int last = bucket_of(bound);
  for (int i = 0; i <= last && i < static_cast<int>(counts_.size()); ++i)
    seen += counts_[static_cast<std::size_t>(i)];
  return static_cast<double>(seen) / static_cast<double>(count_);
}

void ExactQuantiles::add(std::int64_t value, std::int64_t count) {
  values_.insert(values_.end(), static_cast<std::size_t>(count), value);
}

void ExactQuantiles::merge(const ExactQuantiles& other) {
  values_.insert(values_.end(), other.values_.begin(), other.values_.end());
}

std::int64_t ExactQuantiles::quantile(double q) {
  if (values_.empty()) return 0;
  const auto nth = values_.begin() + (rank_of(q, count()) - 1);
  std::nth_element(values_.begin(), nth, values_.end());
  return *nth;
}

double ExactQuantiles::mean() const {
  __int128 sum = 0;
  for (const std::int64_t v : values_) sum += v;
  return values_.empty() ? 0 : static_cast<double>(sum) / static_cast<double>(values_.size());
}

}  // namespace orrery
