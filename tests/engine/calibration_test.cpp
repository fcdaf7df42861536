#include "runtime/engine/calibration.h"

#include <cmath>

#include <gtest/gtest.h>

#include "runtime/base/rng.h"
#include "runtime/engine/settings.h"
#include "tests/engine/live_run.h"

namespace orrery::engine::test {
namespace {

ExecutorInfo embedded_info() {
  const policy::InstanceSettings s = default_embedded_settings();
  ExecutorInfo info;
  info.vocabulary = 512, info.block_tokens = s.block_tokens.value();
  info.kv_blocks = s.kv_blocks.value(), info.max_batched_tokens = s.max_batched_tokens.value();
  info.max_context = s.max_context.value();
  return info;
}

// Least squares with x >= 0 by coordinate descent: slow, and by another way.
std::vector<double> descend(const std::vector<std::vector<double>>& rows,
                            const std::vector<double>& wanted, const std::vector<double>& weights) {
  std::vector<double> x(rows[0].size(), 0.0);
  for (int round = 0; round < 20000; ++round)
    for (std::size_t j = 0; j < x.size(); ++j) {
      double over = 0, under = 0;
      for (std::size_t r = 0; r < rows.size(); ++r) {
        double rest = wanted[r];
        for (std::size_t k = 0; k < x.size(); ++k)
          if (k != j) rest -= rows[r][k] * x[k];
        over += weights[r] * rows[r][j] * rest;
        under += weights[r] * rows[r][j] * rows[r][j];
      }
      x[j] = std::max(0.0, over / under);
    }
  return x;
}

}  // namespace

TEST(NonNegativeLeastSquares, equals_coordinate_descent) {
  RandomStream random(1);
  int at_bound = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<double>> rows;
    std::vector<double> wanted, weights;
    for (int r = 0; r < 12; ++r) {
      rows.push_back({1.0, random.next_normal(), random.next_normal(), random.next_normal()});
      wanted.push_back(random.next_normal());
      weights.push_back(0.1 + random.next_unit());
    }
    const std::vector<double> got = non_negative_least_squares(rows, wanted, weights);
    const std::vector<double> want = descend(rows, wanted, weights);
    for (std::size_t j = 0; j < got.size(); ++j) {
      EXPECT_NEAR(got[j], want[j], 1e-6) << "round " << round;
      at_bound += got[j] == 0.0;
    }
  }
  EXPECT_GT(at_bound, 5);
}

TEST(Calibration, known_coefficients_come_back_through_noise_and_disturbances) {
  cost::MeasuredProfile truth;
  truth.fixed_ps = 1.2e9, truth.per_token_ps = 1.8e8, truth.per_sampled_ps = 3e7;
  truth.per_decode_context_ps = 8e5, truth.per_prefill_pair_ps = 4e5;
  for (const bool quick : {false, true}) {
    RandomStream random(2);
    std::vector<CalibrationPoint> points = calibration_grid(embedded_info(), 16, quick);
    ASSERT_GE(points.size(), 10U);
    for (CalibrationPoint& p : points)
      for (int i = 0; i < 8; ++i) {
        const double noise = 1 + 0.02 * random.next_unit();
        const double disturbed = random.next_below(3) == 0 ? 1 + 4 * random.next_unit() : 1;
        p.seconds.push_back(predicted_seconds(truth, p.shape) * noise * disturbed);
      }
    const cost::MeasuredProfile got = fit(points);
    EXPECT_NEAR(got.fixed_ps / truth.fixed_ps, 1, 0.1);
    EXPECT_NEAR(got.per_token_ps / truth.per_token_ps, 1, 0.05);
    EXPECT_NEAR(got.per_decode_context_ps / truth.per_decode_context_ps, 1, 0.15);
    EXPECT_NEAR(got.per_prefill_pair_ps / truth.per_prefill_pair_ps, 1, 0.3);
    EXPECT_LT(error_of(got, points).median, 0.02);
    EXPECT_LT(leave_one_out(points).median, 0.03);
  }
}

TEST(Calibration, the_grid_keeps_within_what_the_executor_allows) {
  for (const std::int64_t running : {1, 4, 16}) {
    const ExecutorInfo info = embedded_info();
    for (const CalibrationPoint& p : calibration_grid(info, running, false)) {
      EXPECT_LE(p.shape.tokens, info.max_batched_tokens);
      EXPECT_LE(p.shape.sequences, running);
      EXPECT_EQ(p.shape.decode_sequences + p.shape.prefill_tokens, p.shape.tokens);
    }
  }
}

TEST(Calibration, measuring_a_real_executor_gives_every_point_a_time) {
  const policy::InstanceSettings settings = live_settings(64, 64);
  const std::unique_ptr<Executor> executor = live_executor(settings);
  std::int64_t steps = 0;
  const auto grid = calibration_grid(executor->info(), 8, true);
  const CalibrationRun run =
      measure(*executor, grid, milliseconds(50), [&](std::int64_t n) { return steps = n, true; });
  EXPECT_GE(run.rounds, 2);
  EXPECT_EQ(static_cast<std::size_t>(steps),
            (1 + static_cast<std::size_t>(run.rounds)) * grid.size());
  for (const CalibrationPoint& p : run.points) {
    EXPECT_EQ(p.seconds.size(), static_cast<std::size_t>(run.rounds));
    EXPECT_GT(p.lower_quartile(), 0.0);
  }
  EXPECT_GT(fit(run.points).fixed_ps, 0);
  const auto two_rounds = static_cast<std::int64_t>(2 * grid.size());
  const CalibrationRun stopped =
      measure(*executor, grid, seconds(60), [&](std::int64_t n) { return n < two_rounds + 3; });
  EXPECT_EQ(stopped.rounds, 1);  // the first only warms up
  for (const CalibrationPoint& p : stopped.points) EXPECT_EQ(p.seconds.size(), 1U);
}

}  // namespace orrery::engine::test
