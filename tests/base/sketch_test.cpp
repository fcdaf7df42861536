#include "runtime/base/sketch.h"

#include <cmath>

#include <gtest/gtest.h>

#include "runtime/base/hex.h"
#include "runtime/base/latency_json.h"
#include "runtime/base/percentile.h"
#include "runtime/base/portable_math.h"
#include "runtime/base/rng.h"

namespace orrery {

TEST(Sketch, every_quantile_is_within_the_stated_relative_error_of_the_exact_one) {
  RandomStream random(7);
  for (int round = 0; round < 20; ++round) {
    QuantileSketch sketch;
    ExactQuantiles exact;
    const std::int64_t n = 1 + static_cast<std::int64_t>(random.next_below(3000));
    for (std::int64_t i = 0; i < n; ++i) {
      const auto value =
          static_cast<std::int64_t>(random.next_u64() >> (1 + random.next_below(62)));
      sketch.add(value);
      exact.add(value);
    }
    for (const double q : {0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0}) {
      const double want = static_cast<double>(exact.quantile(q));
      EXPECT_NEAR(static_cast<double>(sketch.quantile(q)), want,
                  want * QuantileSketch::kRelativeError + 1e-9);
    }
    EXPECT_DOUBLE_EQ(sketch.mean(), exact.mean());
  }
}

TEST(Sketch, merging_in_any_order_equals_adding_all) {
  RandomStream random(8);
  QuantileSketch all, a, b, ab, ba;
  for (int i = 0; i < 5000; ++i) {
    const auto value = static_cast<std::int64_t>(random.next_below(1'000'000'000));
    all.add(value, 3);
    (i % 3 == 0 ? a : b).add(value, 3);
  }
  ab.merge(a), ab.merge(b), ba.merge(b), ba.merge(a);
  for (const double q : {0.0, 0.1, 0.5, 0.99, 1.0}) {
    EXPECT_EQ(ab.quantile(q), all.quantile(q));
    EXPECT_EQ(ba.quantile(q), all.quantile(q));
  }
  EXPECT_EQ(ab.count(), all.count());
  EXPECT_EQ(ab.mean(), all.mean());
}

TEST(Latency, a_few_values_say_that_their_p99_is_the_largest) {
  QuantileSketch ns;
  EXPECT_TRUE(latency_json(ns)["p99"].is_null());
  EXPECT_FALSE(latency_json(ns).contains("note"));
  for (int i = 1; i < 100; ++i) ns.add(i * 1'000'000);
  EXPECT_EQ(latency_json(ns)["note"], "p99 is the maximum of 99 values");
  EXPECT_DOUBLE_EQ(latency_json(ns)["mean"].get<double>(), 50);
  EXPECT_DOUBLE_EQ(latency_json(ns)["max"].get<double>(), 99);
  ns.add(100'000'000);
  EXPECT_FALSE(latency_json(ns).contains("note"));
}

TEST(Percentile, allowed_over_agrees_with_sorting) {
  for (const double percentile : {1.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    for (std::int64_t n = 1; n <= 300; ++n) {
      // Of 1 … n with the limit at the rank's value, those above it are allowed, one more is not.
      ExactQuantiles values;
      for (std::int64_t i = 1; i <= n; ++i) values.add(i);
      EXPECT_EQ(n - values.quantile(percentile / 100), allowed_over(percentile, n))
          << "p" << percentile << " of " << n;
    }
  }
  EXPECT_EQ(allowed_over(99, 0), 0);
}

TEST(Hex, sixteen_digits) {
  EXPECT_EQ(hex(0), "0000000000000000");
  EXPECT_EQ(hex(0x1234abcd), "000000001234abcd");
  EXPECT_EQ(hex(~std::uint64_t{0}), "ffffffffffffffff");
}

TEST(PortableMath, agrees_with_libm) {
  RandomStream random(9);
  for (int i = 0; i < 10000; ++i) {
    const double x = (random.next_unit() + 1e-12) *
                     std::pow(10.0, static_cast<double>(random.next_below(12)) - 6);
    EXPECT_NEAR(portable_log(x), std::log(x), 4e-15 * std::fabs(std::log(x)) + 4e-16) << x;
    const double y = (random.next_unit() - 0.5) * 100;
    EXPECT_NEAR(portable_exp(y), std::exp(y), 4e-14 * std::exp(y));
    const double t = random.next_unit();
    EXPECT_NEAR(portable_sin_2pi(t), std::sin(2 * 3.14159265358979323846 * t), 1e-13);
  }
}

TEST(RandomStream, streams_forked_by_other_names_are_independent_of_draws_taken) {
  RandomStream a(1), b(1);
  (void)a.next_u64();
  EXPECT_EQ(a.fork("lengths").next_u64(), b.fork("lengths").next_u64());
  EXPECT_NE(a.fork("lengths").next_u64(), a.fork("arrivals").next_u64());
  EXPECT_NE(a.fork("client", 1).next_u64(), a.fork("client", 2).next_u64());
}

TEST(RandomStream, means_of_the_distributions_are_right) {
  RandomStream random(3);
  double exponential = 0, gamma = 0, small_gamma = 0, normal = 0, square = 0;
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; ++i) {
    exponential += random.next_exponential();
    gamma += random.next_gamma(2.5);
    small_gamma += random.next_gamma(0.3);
    const double z = random.next_normal();
    normal += z, square += z * z;
  }
  EXPECT_NEAR(exponential / kDraws, 1.0, 0.01);
  EXPECT_NEAR(gamma / kDraws, 2.5, 0.02);
  EXPECT_NEAR(small_gamma / kDraws, 0.3, 0.01);
  EXPECT_NEAR(normal / kDraws, 0.0, 0.01);
  EXPECT_NEAR(square / kDraws, 1.0, 0.02);
}

}  // namespace orrery
