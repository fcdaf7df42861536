// Calibration: measures an executor's steps over a grid of shapes and fits the five coefficients of
// a MeasuredProfile, so that the planner's twin of this machine is this machine.
//
// Time is the thread's processor time, not the wall's: a busy machine then shows in `busy` and not
// in the profile, which holds for a worker that has a core. Shapes are measured in rounds, each
// shape once a round, so that a disturbance hits all of them; the lower quartile of a shape counts.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/engine/executor.h"
#include "runtime/policy/cost/catalog.h"
#include "runtime/policy/cost/step_shape.h"

namespace orrery::engine {

// Some requests of a step: `sequences` of them compute `count` tokens after `first` cached ones.
struct ShapePart {
  std::int64_t sequences = 1, first = 0, count = 1;
  bool samples = true;
};

struct CalibrationPoint {
  std::vector<ShapePart> parts;
  cost::StepShape shape;
  std::vector<double> seconds;  // of every round
  double lower_quartile() const;
};

// Decode batches by context, prompt chunks by what is cached before them, and both in one step, as
// far as the executor's pool, context and token budget and max_running allow.
std::vector<CalibrationPoint> calibration_grid(const ExecutorInfo& info, std::int64_t max_running,
                                               bool quick);

struct CalibrationRun {
  std::vector<CalibrationPoint> points;
  int rounds = 0;
  double busy = 1;  // wall time over processor time; well above 1: others had the processor
};
// Whole rounds until `budget` is used up, at least two. `go_on(steps)` is asked after every step;
// false stops at once, and only whole rounds are kept (maybe none).
CalibrationRun measure(Executor& executor, std::vector<CalibrationPoint> grid, Duration budget,
                       const std::function<bool(std::int64_t steps)>& go_on);

// Coefficients (only the five of MeasuredProfile are set) >= 0 that make relative errors small:
// iteratively reweighted least squares, so that single disturbed points count little.
cost::MeasuredProfile fit(std::span<const CalibrationPoint> points);

struct FitError {
  double median = 0, p90 = 0;  // of |predicted / measured - 1|
};
FitError error_of(const cost::MeasuredProfile& profile, std::span<const CalibrationPoint> points);
// Each point predicted by a fit to the others.
FitError leave_one_out(std::span<const CalibrationPoint> points);

double predicted_seconds(const cost::MeasuredProfile& profile, const cost::StepShape& shape);

// Least squares with x >= 0: rows of `columns` values and what they should give, with weights.
// Exact for few columns: every set of free columns is tried.
std::vector<double> non_negative_least_squares(std::span<const std::vector<double>> rows,
                                               std::span<const double> wanted,
                                               std::span<const double> weights);

}  // namespace orrery::engine
