#include "kernels/element.h"

#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "runtime/base/rng.h"

namespace orrery::kernels {

template <class T>
class ElementTest : public testing::Test {};
using Narrow = testing::Types<Bfloat16, Float16>;
TYPED_TEST_SUITE(ElementTest, Narrow);

TYPED_TEST(ElementTest, every_bit_pattern_survives_the_way_to_float_and_back) {
  for (unsigned bits = 0; bits <= 0xffff; ++bits) {
    const float wide = to_float(TypeParam{static_cast<std::uint16_t>(bits)});
    const unsigned back = from_float<TypeParam>(wide).bits;
    if (std::isnan(wide)) {
      EXPECT_EQ(back, 0x7fffu);
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TYPED_TEST(ElementTest, from_float_takes_the_nearest_and_of_two_the_even) {
  RandomStream random(3);
  const auto distance = [](double x, std::uint16_t bits) {
    return std::fabs(static_cast<double>(to_float(TypeParam{bits})) - x);
  };
  for (int i = 0; i < 200000; ++i) {
    float x = std::bit_cast<float>(static_cast<std::uint32_t>(random.next_u64()) & 0x7fffffffu);
    if (i % 2 != 0) x = static_cast<float>(random.next_unit() * (i % 4 == 1 ? 1e-4 : 4.0));
    if (i % 8 == 0) {  // exactly between two neighbours
      const auto low = static_cast<std::uint16_t>(random.next_below(0x7b00));
      const auto high = static_cast<std::uint16_t>(low + 1);
      x = (to_float(TypeParam{low}) + to_float(TypeParam{high})) / 2;
    }
    const std::uint16_t got = from_float<TypeParam>(x).bits;
    if (!std::isfinite(to_float(TypeParam{got}))) continue;  // overflow: the next test
    if (got > 0) {
      const double down = distance(x, static_cast<std::uint16_t>(got - 1));
      ASSERT_TRUE(distance(x, got) < down || (distance(x, got) == down && got % 2 == 0)) << x;
    }
    const float above = to_float(TypeParam{static_cast<std::uint16_t>(got + 1)});
    if (!std::isfinite(above)) continue;
    const double up = distance(x, static_cast<std::uint16_t>(got + 1));
    ASSERT_TRUE(distance(x, got) < up || (distance(x, got) == up && got % 2 == 0)) << x;
    ASSERT_EQ(from_float<TypeParam>(-x).bits, got | 0x8000u);
  }
}

TEST(Element, float16_overflows_to_infinity_from_65520_on) {
  EXPECT_EQ(from_float<Float16>(std::nextafterf(65520.0f, 0.0f)).bits, 0x7bff);
  EXPECT_EQ(from_float<Float16>(65520.0f).bits, 0x7c00);
  EXPECT_EQ(from_float<Float16>(-INFINITY).bits, 0xfc00);
}

}  // namespace orrery::kernels
