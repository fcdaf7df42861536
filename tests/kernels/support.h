// What the kernel tests share: the sides they run on (the CPU in three thread orders, and the GPU
// if there is one), buffers with canaries around them, and encoding to and from an element type.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/decode_ops.h"
#include "kernels/dispatch.h"
#include "runtime/base/rng.h"

namespace orrery::kernels {

struct Side {
  const char* name;
  const DecodeOps* (*ops)();
  unsigned order_seed;
};
inline void PrintTo(const Side& side, std::ostream* out) { *out << side.name; }

inline const DecodeOps* simt_side() { return &simt_ops(); }

class OnEachSide : public testing::TestWithParam<Side> {
 protected:
  void SetUp() override {
    if (GetParam().ops() == nullptr) GTEST_SKIP() << "GPU not tested: " << no_gpu_reason();
  }
  const DecodeOps& ops() const { return *GetParam().ops(); }
  LaunchOptions options() const { return {nullptr, GetParam().order_seed}; }
};
#define ORRERY_ON_EACH_SIDE(Suite)                                                             \
  INSTANTIATE_TEST_SUITE_P(                                                                    \
      Each, Suite,                                                                             \
      testing::Values(Side{"simt_in_order", simt_side, 0}, Side{"simt_order_1", simt_side, 1}, \
                      Side{"simt_order_2", simt_side, 2}, Side{"gpu", gpu_ops, 0}),            \
      [](const auto& param_info) { return std::string(param_info.param.name); })

inline constexpr Element kElements[] = {Element::kFloat32, Element::kBfloat16, Element::kFloat16};
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Bytes = std::vector<std::uint8_t>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes out(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}
inline Bytes encode(Element element, const std::vector<float>& values) {
  return with_element(element, [&]<class T>() {
    std::vector<T> typed(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) typed[i] = from_float<T>(values[i]);
    return bytes_of(typed);
  });
}
inline std::vector<float> decode(Element element, const Bytes& bytes) {
  return with_element(element, [&]<class T>() {
    std::vector<float> values(bytes.size() / sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      T typed;
      std::memcpy(&typed, bytes.data() + i * sizeof(T), sizeof(T));
      values[i] = to_float(typed);
    }
    return values;
  });
}

// Values in [-scale, scale) that the element type holds exactly.
inline std::vector<float> noise(RandomStream& random, Element element, std::size_t n,
                                double scale = 1) {
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>((random.next_unit() * 2 - 1) * scale);
  return decode(element, encode(element, values));
}

// Memory of one side with 64 bytes of 0xff on either side: NaN to whoever reads it, and read()
// fails when someone wrote it. `shift` bytes move it off its 16-byte alignment.
class Guarded {
 public:
  Guarded(const DecodeOps& ops, const Bytes& bytes, std::size_t shift = 0)
      : ops_(ops), size_(bytes.size()), before_(kGuard + shift) {
    Bytes all(before_ + size_ + kGuard, 0xff);
    std::copy(bytes.begin(), bytes.end(), all.begin() + static_cast<std::ptrdiff_t>(before_));
    data_ = ops.allocate(all.size());
    if (data_ == nullptr || ops.copy_in(data_, all.data(), all.size()) != nullptr) std::abort();
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { ops_.release(data_); }

  template <class T = void>
  T* get() const {
    return reinterpret_cast<T*>(static_cast<std::uint8_t*>(data_) + before_);
  }
  Bytes read() const {
    Bytes all(before_ + size_ + kGuard);
    const char* error = ops_.copy_out(all.data(), data_, all.size());
    EXPECT_EQ(error, nullptr) << (error == nullptr ? "" : error);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(before_);
    const auto end = begin + static_cast<std::ptrdiff_t>(size_);
    const auto untouched = [](std::uint8_t b) { return b == 0xff; };
    EXPECT_TRUE(std::all_of(all.begin(), begin, untouched)) << "written before the buffer";
    EXPECT_TRUE(std::all_of(end, all.end(), untouched)) << "written after the buffer";
    return Bytes(begin, end);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  const DecodeOps& ops_;
  void* data_ = nullptr;
  std::size_t size_, before_;
};

inline void expect_launched(const char* error) {
  EXPECT_EQ(error, nullptr) << (error == nullptr ? "" : error);
}

// Half a unit in the last place for the store in the element type, and `arithmetic` (relative to
// `size`, the size of the terms that were added) for the float arithmetic before it.
inline void expect_near(Element element, float got, double want, double arithmetic, double size,
                        const std::string& where) {
  const double store = element == Element::kFloat32    ? 0x1p-24
                       : element == Element::kBfloat16 ? 0x1p-8
                                                       : 0x1p-11;
  const double floor = element == Element::kFloat16 ? 0x1p-25 : 0;
  EXPECT_NEAR(got, want, store * std::fabs(want) + floor + arithmetic * size) << where;
}

}  // namespace orrery::kernels
