#include "runtime/engine/calibration.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/check.h"
#include "runtime/base/rng.h"
#include "runtime/host/process.h"

namespace orrery::engine {
namespace {

constexpr std::size_t kColumns = 5;

std::vector<double> columns_of(const cost::StepShape& s) {
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  return {1.0, d(s.tokens), d(s.sampled), d(s.decode_context), d(s.prefill_pairs)};
}

cost::StepShape shape_of(const std::vector<ShapePart>& parts) {
  cost::StepShape s;
  for (const ShapePart& p : parts) {
    s.tokens += p.sequences * p.count;
    s.sequences += p.sequences;
    if (p.samples) s.sampled += p.sequences;
    if (p.count == 1 && p.samples) {
      s.decode_sequences += p.sequences;
      s.decode_context += p.sequences * (p.first + 1);
    } else {
      s.prefill_tokens += p.sequences * p.count;
      s.prefill_context += p.sequences * (p.first + p.count);
      s.prefill_pairs += p.sequences * (p.count * p.first + p.count * (p.count + 1) / 2);
    }
  }
  return s;
}

bool fits(const std::vector<ShapePart>& parts, const ExecutorInfo& info, std::int64_t running) {
  std::int64_t tokens = 0, blocks = 0, sequences = 0;
  for (const ShapePart& p : parts) {
    if (p.first + p.count > info.max_context) return false;
    tokens += p.sequences * p.count, sequences += p.sequences;
    blocks += p.sequences * ((p.first + p.count + info.block_tokens - 1) / info.block_tokens);
  }
  return tokens <= info.max_batched_tokens && blocks <= info.kv_blocks && sequences <= running;
}

// Runs one step of these parts. What the cache holds does not matter to time, so block tables are
// simply handed out; they are spread over the pool as a live one is.
void run_step(Executor& executor, const std::vector<ShapePart>& parts, std::uint64_t id) {
  const ExecutorInfo& info = executor.info();
  RandomStream random(id);
  std::vector<TokenId> ids(static_cast<std::size_t>(info.max_batched_tokens));
  for (TokenId& token : ids)
    token = static_cast<TokenId>(random.next_below(static_cast<std::uint64_t>(info.vocabulary)));
  std::vector<BlockId> tables;
  tables.reserve(static_cast<std::size_t>(info.kv_blocks));
  std::vector<WorkItem> items;
  const std::int64_t apart = info.kv_blocks % 7 == 0 ? 1 : 7;  // prime to the pool's size
  for (const ShapePart& part : parts)
    for (std::int64_t s = 0; s < part.sequences; ++s) {
      const std::size_t from = tables.size();
      const std::int64_t blocks =
          (part.first + part.count + info.block_tokens - 1) / info.block_tokens;
      for (std::int64_t b = 0; b < blocks; ++b)
        tables.push_back(BlockId{static_cast<std::uint32_t>(
            static_cast<std::int64_t>(tables.size()) * apart % info.kv_blocks)});
      WorkItem item;
      item.first = part.first;
      item.tokens = std::span(ids).first(static_cast<std::size_t>(part.count));
      item.blocks = std::span(tables).subspan(from);
      item.samples = part.samples;
      item.sampling.temperature = 1, item.sampling.seed = id;
      items.push_back(item);
    }
  StepWork work;
  work.id = id, work.items = items;
  executor.submit(work);
  while (executor.poll() == nullptr) executor.wait();
}

// Solves the normal equations of the columns in `free` by elimination; false when singular.
bool solve(const std::vector<std::vector<double>>& a, const std::vector<double>& b,
           const std::vector<std::size_t>& free, std::vector<double>& x) {
  const std::size_t n = free.size();
  std::vector<std::vector<double>> m(n, std::vector<double>(n + 1));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) m[i][j] = a[free[i]][free[j]];
    m[i][n] = b[free[i]];
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i + 1; r < n; ++r)
      if (std::fabs(m[r][i]) > std::fabs(m[pivot][i])) pivot = r;
    std::swap(m[i], m[pivot]);
    if (std::fabs(m[i][i]) < 1e-12) return false;
    for (std::size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double factor = m[r][i] / m[i][i];
      for (std::size_t c = i; c <= n; ++c) m[r][c] -= factor * m[i][c];
    }
  }
  for (std::size_t i = 0; i < n; ++i) x[free[i]] = m[i][n] / m[i][i];
  return true;
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

FitError summarise(const std::vector<double>& errors) {
  return {quantile(errors, 0.5), quantile(errors, 0.9)};
}

}  // namespace

double CalibrationPoint::lower_quartile() const { return quantile(seconds, 0.25); }

std::vector<CalibrationPoint> calibration_grid(const ExecutorInfo& info, std::int64_t max_running,
                                               bool quick) {
  using Values = std::vector<std::int64_t>;
  std::vector<CalibrationPoint> grid;
  const auto add = [&](std::vector<ShapePart> parts) {
    if (fits(parts, info, max_running)) grid.push_back({parts, shape_of(parts), {}});
  };
  for (const std::int64_t batch : quick ? Values{1, 4, 16} : Values{1, 2, 4, 8, 16, 32})
    for (const std::int64_t context : quick ? Values{32, 400} : Values{16, 128, 400, 900})
      add({{batch, context - 1, 1, true}});
  for (const std::int64_t count : quick ? Values{64, 256} : Values{8, 32, 64, 128, 256})
    for (const std::int64_t first : quick ? Values{0, 256} : Values{0, 192, 640})
      add({{1, first, count, first == 0}});
  for (const std::int64_t count : quick ? Values{96} : Values{32, 96, 224})
    for (const std::int64_t batch : quick ? Values{8} : Values{3, 12})
      add({{batch, 255, 1, true}, {1, 64, count, true}});
  if (!quick) add({{4, 0, 48, true}});
  return grid;
}

CalibrationRun measure(Executor& executor, std::vector<CalibrationPoint> grid, Duration budget,
                       const std::function<bool(std::int64_t steps)>& go_on) {
  constexpr int kLeastRounds = 2;
  CalibrationRun run;
  run.points = std::move(grid);
  std::int64_t steps = 0;
  Time start;
  Duration processor;
  for (int round = -1;; ++round) {  // round -1 warms up and does not count
    for (CalibrationPoint& p : run.points) {
      const Duration before = host::thread_cpu_time();
      run_step(executor, p.parts, static_cast<std::uint64_t>(++steps));
      const Duration took = host::thread_cpu_time() - before;
      if (round >= 0) p.seconds.push_back(to_seconds(took)), processor += took;
      if (go_on(steps)) continue;
      for (CalibrationPoint& each : run.points)
        each.seconds.resize(static_cast<std::size_t>(run.rounds));
      return run;
    }
    const Time now = host::monotonic_now();
    if (round < 0) {
      start = now;
      continue;
    }
    run.rounds = round + 1;
    const Duration used = now - start;
    run.busy = to_seconds(used) / to_seconds(processor);
    // Another round only when there is time for one like those before.
    if (run.rounds >= kLeastRounds && used + Duration(used.value() / run.rounds) > budget)
      return run;
  }
}

std::vector<double> non_negative_least_squares(std::span<const std::vector<double>> rows,
                                               std::span<const double> wanted,
                                               std::span<const double> weights) {
  ORRERY_CHECK(!rows.empty() && rows.size() == wanted.size() && rows.size() == weights.size());
  const std::size_t n = rows[0].size();
  ORRERY_CHECK(n <= 12, "tries every set of columns");
  // Columns are brought to a like size, so that one threshold tells a singular system.
  std::vector<double> scale(n, 0.0);
  for (const auto& row : rows)
    for (std::size_t j = 0; j < n; ++j) scale[j] = std::max(scale[j], std::fabs(row[j]));
  for (double& s : scale) s = s > 0 ? s : 1;
  double total = 0;
  for (const double w : weights) total += w;
  std::vector<std::vector<double>> a(n, std::vector<double>(n, 0.0));
  std::vector<double> b(n, 0.0);
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t i = 0; i < n; ++i) {
      const double wi = weights[r] / total * rows[r][i] / scale[i];
      b[i] += wi * wanted[r];
      for (std::size_t j = 0; j < n; ++j) a[i][j] += wi * rows[r][j] / scale[j];
    }
  const auto loss = [&](const std::vector<double>& x) {  // up to a constant
    double value = 0;
    for (std::size_t i = 0; i < n; ++i) {
      value -= 2 * b[i] * x[i];
      for (std::size_t j = 0; j < n; ++j) value += x[i] * a[i][j] * x[j];
    }
    return value;
  };
  std::vector<double> best(n, 0.0);
  for (std::size_t set = 1; set < (std::size_t{1} << n); ++set) {
    std::vector<std::size_t> free;
    for (std::size_t j = 0; j < n; ++j)
      if ((set >> j & 1) != 0) free.push_back(j);
    std::vector<double> x(n, 0.0);
    if (!solve(a, b, free, x)) continue;
    const bool allowed = std::all_of(x.begin(), x.end(), [](double v) { return v >= 0; });
    if (allowed && loss(x) < loss(best)) best = x;
  }
  for (std::size_t j = 0; j < n; ++j) best[j] /= scale[j];
  return best;
}

cost::MeasuredProfile fit(std::span<const CalibrationPoint> points) {
  std::vector<std::vector<double>> rows;
  std::vector<double> ones(points.size(), 1.0), weights(points.size(), 1.0);
  for (const CalibrationPoint& p : points) {  // relative: predicted / measured should be 1
    rows.push_back(columns_of(p.shape));
    for (double& v : rows.back()) v /= p.lower_quartile();
  }
  std::vector<double> x;
  constexpr int kRounds = 20;
  constexpr double kLeastError = 0.01;  // below it an error counts as any other
  for (int round = 0; round < kRounds; ++round) {
    x = non_negative_least_squares(rows, ones, weights);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      double predicted = 0;
      for (std::size_t j = 0; j < kColumns; ++j) predicted += rows[r][j] * x[j];
      weights[r] = 1.0 / std::max(std::fabs(predicted - 1), kLeastError);
    }
  }
  constexpr double kPicos = 1e12;
  cost::MeasuredProfile p;
  p.fixed_ps = std::max(x[0] * kPicos, 1e6);  // a step is never free: a microsecond at least
  p.per_token_ps = x[1] * kPicos, p.per_sampled_ps = x[2] * kPicos;
  p.per_decode_context_ps = x[3] * kPicos, p.per_prefill_pair_ps = x[4] * kPicos;
  return p;
}

double predicted_seconds(const cost::MeasuredProfile& p, const cost::StepShape& shape) {
  const std::vector<double> c = columns_of(shape);
  return (p.fixed_ps * c[0] + p.per_token_ps * c[1] + p.per_sampled_ps * c[2] +
          p.per_decode_context_ps * c[3] + p.per_prefill_pair_ps * c[4]) *
         1e-12;
}

FitError error_of(const cost::MeasuredProfile& profile, std::span<const CalibrationPoint> points) {
  std::vector<double> errors;
  for (const CalibrationPoint& p : points)
    errors.push_back(std::fabs(predicted_seconds(profile, p.shape) / p.lower_quartile() - 1));
  return summarise(errors);
}

FitError leave_one_out(std::span<const CalibrationPoint> points) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::vector<CalibrationPoint> others(points.begin(), points.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const double predicted = predicted_seconds(fit(others), points[i].shape);
    errors.push_back(std::fabs(predicted / points[i].lower_quartile() - 1));
  }
  return summarise(errors);
}

}  // namespace orrery::engine
