#include "traces/transform.h"

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "tests/traces/text_trace.h"

namespace orrery::traces {
namespace {

std::vector<TraceRequest> rows_at(const std::vector<double>& seconds_list) {
  std::vector<TraceRequest> rows;
  for (const double s : seconds_list) {
    TraceRequest r;
    r.row = static_cast<std::int64_t>(rows.size());
    r.arrival = Duration(static_cast<std::int64_t>(s * 1e9));
    r.input_tokens = 100 + r.row, r.output_tokens = 5;
    r.hash_ids = {static_cast<std::uint64_t>(r.row)}, r.block_tokens = 512;
    rows.push_back(r);
  }
  return rows;
}

struct Transformed {
  std::vector<TraceRequest> rows;
  TransformReport report;
};

Transformed transformed(const std::vector<TraceRequest>& rows, const TransformOptions& options) {
  Transformed t;
  const auto source = transform(std::make_unique<ListSource>(rows), options, t.report);
  TraceRequest r;
  while (source->next(r)) t.rows.push_back(r);
  return t;
}

std::vector<double> arrivals(const Transformed& t) {
  std::vector<double> out;
  for (const TraceRequest& r : t.rows) out.push_back(static_cast<double>(r.arrival.value()) / 1e9);
  return out;
}

TEST(Transform, gaps_are_capped_in_trace_seconds_before_the_speed_applies) {
  const auto rows = rows_at({0, 10, 7210, 7220});
  TransformOptions o;
  o.cap_gap = parse_duration("--cap-gap", "60");
  o.speed = parse_ratio("--speed", "10");
  const Transformed fast = transformed(rows, o);
  EXPECT_EQ(arrivals(fast), (std::vector<double>{0, 1, 7, 8}));
  EXPECT_EQ(fast.report.gaps_capped, 1);
  EXPECT_NEAR(100 * fast.report.idle_removed_share(), 99.2, 0.05);
  o.speed = parse_ratio("--speed", "0.5");
  EXPECT_EQ(arrivals(transformed(rows, o)).back(), 160);
  for (std::size_t i = 0; i < rows.size(); ++i) {  // lengths and ids are not touched
    EXPECT_EQ(fast.rows[i].input_tokens, rows[i].input_tokens);
    EXPECT_EQ(fast.rows[i].hash_ids, rows[i].hash_ids);
  }
  o.speed = Ratio{};
  o.cap_gap = seconds(5);  // below the smallest gap: evenly spaced
  EXPECT_EQ(arrivals(transformed(rows, o)), (std::vector<double>{0, 5, 10, 15}));
}

TEST(Transform, think_times_follow_cap_and_speed) {
  auto rows = rows_at({0, 300});
  rows[1].after = "x", rows[1].think = seconds(200);
  TransformOptions o;
  o.cap_gap = seconds(60);
  o.speed = parse_ratio("--speed", "2");
  EXPECT_EQ(*transformed(rows, o).rows[1].think, seconds(30));
}

TEST(Transform, a_slice_starts_at_zero_and_frees_those_who_wait_for_what_is_outside) {
  auto rows = rows_at({0, 10, 20, 30, 40});
  rows[0].id = "a", rows[2].after = "a", rows[2].think = seconds(1);
  rows[1].id = "b", rows[3].after = "b";
  TransformOptions o;
  o.slice = parse_slice("--slice", "10:40");
  const Transformed t = transformed(rows, o);
  EXPECT_EQ(arrivals(t), (std::vector<double>{0, 10, 20}));
  EXPECT_EQ(t.rows[0].row, 0);
  EXPECT_EQ(t.rows[1].after, "");
  EXPECT_FALSE(t.rows[1].think);
  EXPECT_EQ(t.rows[2].after, "b");
  EXPECT_EQ(t.report.outside_slice, 2);
  EXPECT_EQ(t.report.after_cleared, 1);
}

TEST(Transform, spread_lays_a_tick_out_evenly_and_keeps_the_order) {
  TransformOptions o;
  o.spread = seconds(3);
  const Transformed t = transformed(rows_at({0, 0, 0, 3, 3, 100, 100}), o);
  EXPECT_EQ(arrivals(t), (std::vector<double>{0, 1, 2, 3, 4.5, 100, 101.5}));
  EXPECT_EQ(t.report.spread_rows, 7);
  for (std::size_t i = 0; i < t.rows.size(); ++i)
    EXPECT_EQ(t.rows[i].input_tokens, 100 + static_cast<std::int64_t>(i));
}

TEST(Transform, bad_arguments_name_the_option) {
  EXPECT_THROW(parse_ratio("--speed", "0"), InputError);
  EXPECT_THROW(parse_ratio("--speed", "fast"), InputError);
  EXPECT_THROW(parse_slice("--slice", "5"), InputError);
  EXPECT_THROW(parse_slice("--slice", "9:5"), InputError);
  EXPECT_THROW(parse_slice("--slice", "-1:5"), InputError);
  EXPECT_THROW(parse_duration("--cap-gap", "-1"), InputError);
  EXPECT_EQ(parse_slice("--slice", ":2.5").end, milliseconds(2500));
}

}  // namespace
}  // namespace orrery::traces
