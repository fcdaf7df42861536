// How rows become arrivals: caps, scales, closed loops, sessions.
#include "sim/workload.h"

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "tests/sim/toys.h"

namespace orrery::sim {
namespace {

std::vector<std::int64_t> arrivals_ms(const WorkloadSpec& spec) {
  Workload workload(spec);
  std::vector<std::int64_t> times;
  while (workload.next_time() != Time::never()) {
    times.push_back(workload.next_time().ns() / 1'000'000);
    workload.pop();
  }
  return times;
}

// As `trace convert --cap-gap` says it: of the idle time, not of the whole trace.
TEST(Workload, the_share_of_idle_time_removed_is_that_of_the_trace_tools) {
  const std::vector<traces::TraceRequest> rows = {row(0, 9, 1), row(10, 9, 1), row(7210, 9, 1),
                                                  row(7220, 9, 1)};
  for (const double cap : {60.0, 5.0, 8000.0}) {
    WorkloadSpec spec = list_workload(rows);
    spec.idle_gap_cap = Duration(static_cast<std::int64_t>(cap * 1e9));
    const FleetSpec fleet{{toy_pool(std::make_shared<ToyModel>(kMs, 0, 0), 100)}, {}};
    traces::TransformOptions options;
    options.cap_gap = spec.idle_gap_cap;
    traces::TransformReport report;
    const auto capped = traces::transform(spec.open(), options, report);
    traces::TraceRequest request;
    while (capped->next(request)) {
    }
    const Summary s = simulate(fleet, spec, {}, {});
    const auto share = s.json["workload"]["idle_time_compressed_fraction"].get<double>();
    EXPECT_EQ(share, report.idle_removed_share()) << cap;
    if (cap == 60) {
      EXPECT_NEAR(share, 0.992, 0.0005);
    }
    // A trace whose first rows name a session is read twice, and counted once.
    std::vector<traces::TraceRequest> turns = rows;
    for (auto& turn : turns) turn.session = "s";
    WorkloadSpec twice = list_workload(turns);
    twice.idle_gap_cap = spec.idle_gap_cap;
    EXPECT_EQ(Workload(twice).idle_removed_share(), share) << cap;
  }
}

// Two tools, two clocks: here the cap is in trace seconds and comes first, then the scale.
TEST(Workload, idle_gap_cap_is_in_trace_time_and_comes_before_the_scale) {
  WorkloadSpec spec =
      list_workload({row(0, 9, 1), row(10, 9, 1), row(7210, 9, 1), row(7220, 9, 1)});
  spec.idle_gap_cap = seconds(60);
  spec.rate_scale = 10;
  EXPECT_EQ(arrivals_ms(spec), (std::vector<std::int64_t>{0, 1000, 7000, 8000}));
  spec.rate_scale = 0.5;
  EXPECT_EQ(arrivals_ms(spec), (std::vector<std::int64_t>{0, 20'000, 140'000, 160'000}));
  spec.idle_gap_cap = seconds(5);  // below the smallest gap
  spec.rate_scale = 1;
  EXPECT_EQ(arrivals_ms(spec), (std::vector<std::int64_t>{0, 5000, 10'000, 15'000}));
  Workload workload(spec);
  EXPECT_EQ(workload.raw_span(), seconds(7220));
  EXPECT_EQ(workload.capped_span(), seconds(15));
}

TEST(Workload, rows_that_failed_or_generate_nothing_are_counted_and_not_sent) {
  auto failed = row(1, 512, 0);
  failed.ok = false;
  auto embedding = row(2, 512, 0);
  embedding.kind = "embedding";
  const WorkloadSpec spec = list_workload({row(0, 9, 1), failed, embedding, row(3, 9, 1)});
  Workload workload(spec);
  EXPECT_EQ(workload.pop().id, 1U);
  EXPECT_EQ(workload.pop().id, 2U);
  EXPECT_EQ(workload.next_time(), Time::never());
  EXPECT_EQ(workload.trace_failures(), 1);
  EXPECT_EQ(workload.skipped_kinds().at("embedding"), 1);
}

TEST(Workload, closed_loop_sends_a_clients_next_request_after_its_answer) {
  WorkloadSpec spec = list_workload({row(0, 9, 1), row(100, 9, 1), row(200, 9, 1)});
  spec.mode = LoadMode::kClosed;
  spec.concurrency = 2;
  Workload workload(spec);
  const Row first = workload.pop();
  EXPECT_EQ(first.arrival, Time(0));
  EXPECT_EQ(workload.pop().arrival, Time(0));
  EXPECT_EQ(workload.next_time(), Time::never());
  workload.on_end(first, Time(500), true);
  EXPECT_EQ(workload.next_time(), Time(501));
  EXPECT_EQ(workload.pop().arrival, Time(501)) << "a client has no other intended time";
}

TEST(Workload, a_limit_on_requests_in_flight_delays_sending_and_keeps_the_intended_arrival) {
  WorkloadSpec spec = list_workload({row(0, 9, 1), row(1, 9, 1), row(2, 9, 1)});
  spec.concurrency = 1;
  Workload workload(spec);
  const Row first = workload.pop();
  EXPECT_EQ(workload.next_time(), Time::never());
  workload.on_end(first, Time(1'500'000'000), true);
  EXPECT_EQ(workload.next_time(), Time(1'500'000'001));
  const Row second = workload.pop();
  EXPECT_EQ(second.arrival, Time(1'000'000'000));
  EXPECT_EQ(workload.send_delay().max(), 500'000'001);
  workload.on_end(second, Time(1'600'000'000), true);
  EXPECT_EQ(workload.next_time(), Time(2'000'000'000)) << "free again before the next arrival";
}

std::vector<traces::TraceRequest> two_sessions() {
  auto a1 = row(0, 10, 5), b1 = row(1, 10, 5), a2 = row(4, 20, 5), a3 = row(9, 30, 5);
  a1.session = a2.session = a3.session = "a", b1.session = "b";
  a3.think = seconds(2);
  return {a1, b1, a2, a3};
}

TEST(Workload, a_turn_comes_a_think_time_after_the_answer_before_it) {
  WorkloadSpec spec = list_workload(two_sessions());
  spec.mode = LoadMode::kSessions;
  spec.rate_scale = 10;  // thinking is not sped up
  Workload workload(spec);
  const Row a1 = workload.pop(), b1 = workload.pop();
  EXPECT_EQ(b1.arrival, Time(100'000'000));
  EXPECT_EQ(workload.next_time(), Time::never());
  workload.on_end(b1, Time(200'000'000), true);
  EXPECT_EQ(workload.next_time(), Time::never());
  workload.on_end(a1, Time(7'000'000'000), true);
  const Row a2 = workload.pop();
  EXPECT_EQ(a2.arrival, Time(7'400'000'000)) << "no think time: the difference of the arrivals";
  workload.on_end(a2, Time(8'000'000'000), true);
  EXPECT_EQ(workload.pop().arrival, Time(10'000'000'000));
}

TEST(Workload, turns_after_an_unanswered_one_are_given_up) {
  WorkloadSpec spec = list_workload(two_sessions());
  spec.mode = LoadMode::kSessions;
  Workload workload(spec);
  const Row a1 = workload.pop();
  const auto lost = workload.on_end(a1, Time(5), false);
  ASSERT_EQ(lost.size(), 2U);
  EXPECT_EQ(lost[0]->id, 3U);
  EXPECT_EQ(lost[1]->id, 4U);
  workload.pop();
  EXPECT_EQ(workload.next_time(), Time::never());
}

TEST(Workload, an_answer_causes_no_arrival_at_its_own_moment) {
  auto a1 = row(0, 10, 5), a2 = row(0, 20, 5);
  a1.session = a2.session = "a";
  a2.think = Duration(0);
  WorkloadSpec spec = list_workload({a1, a2});
  spec.mode = LoadMode::kSessions;
  Workload workload(spec);
  workload.on_end(workload.pop(), Time(77), true);
  EXPECT_EQ(workload.next_time(), Time(78));
}

TEST(Workload, at_most_max_requests_are_read) {
  WorkloadSpec spec = list_workload(std::vector<traces::TraceRequest>(1000, row(0, 9, 1)));
  spec.max_requests = 700;
  EXPECT_EQ(arrivals_ms(spec).size(), 700U);
}

TEST(Workload, what_cannot_run_is_refused) {
  WorkloadSpec spec = list_workload({row(0, 9, 1)});
  spec.mode = LoadMode::kClosed;
  EXPECT_THROW(Workload{spec}, InputError) << "no clients";
  spec = list_workload({row(0, 9, 1)});
  spec.rate_scale = 0;
  EXPECT_THROW(Workload{spec}, InputError);
  spec = list_workload({row(0, 9, 1), row(200 * 86400.0, 9, 1)});
  EXPECT_THROW(arrivals_ms(spec), InputError) << "beyond an instance's clock";
}

}  // namespace
}  // namespace orrery::sim
