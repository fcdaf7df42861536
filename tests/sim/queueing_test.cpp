// Limits that queueing theory knows, and the rule for saturation around a known capacity.
#include <gtest/gtest.h>

#include "runtime/base/rng.h"
#include "tests/sim/toys.h"

namespace orrery::sim {
namespace {

// A server that takes one request at a time, for the same time each.
FleetSpec server(double service_s) {
  PoolSpec pool =
      toy_pool(std::make_shared<ToyModel>(static_cast<std::int64_t>(service_s * 1e12), 0, 0), 100);
  pool.settings.max_running = 1;
  return {{pool}, {}};
}

WorkloadSpec poisson(double rate, int requests, std::uint64_t seed) {
  RandomStream arrivals = RandomStream(seed).fork("arrivals");
  std::vector<traces::TraceRequest> rows;
  double at = 0;
  for (int i = 0; i < requests; ++i) {
    at += arrivals.next_exponential() / rate;
    rows.push_back(row(at, 8, 1));
  }
  return list_workload(rows);
}

TEST(Queueing, mean_wait_of_poisson_arrivals_at_a_constant_server_is_the_formulas) {
  for (const double load : {0.3, 0.6, 0.8}) {
    const double service = 0.01;
    const Summary s = simulate(server(service), poisson(load / service, 30'000, 7), {}, {});
    const double expected = load * service / (2 * (1 - load));
    EXPECT_NEAR(s.queue.ns.mean() * 1e-9, expected, 0.05 * expected) << "load " << load;
    EXPECT_NEAR(s.json["gpu"]["busy_fraction"].get<double>(), load, 0.02);
    EXPECT_FALSE(s.saturated) << load << ": " << s.saturated_why;
  }
}

// N clients, answers of 50 tokens, 10 ms a step whatever the batch: N / 0.5 s until the batch is
// full, then the batch size is the limit.
TEST(Queueing, closed_loop_throughput_is_clients_over_answer_time_until_the_batch_is_full) {
  PoolSpec pool = toy_pool(std::make_shared<ToyModel>(10 * kMs, 0, 0), 10'000);
  pool.settings.max_running = 16;
  for (const std::int64_t clients : {1, 4, 16, 64}) {
    WorkloadSpec workload = list_workload(std::vector<traces::TraceRequest>(4000, row(0, 8, 50)));
    workload.mode = LoadMode::kClosed;
    workload.concurrency = clients;
    const Summary s = simulate({{pool}, {}}, workload, {}, {});
    EXPECT_EQ(s.completed, 4000);
    // A client's next request misses the step that starts with its answer: 51 steps a turn, until
    // others queue and fill the place at once.
    const double steps = clients <= 16 ? 51 : 50;
    const double expected =
        static_cast<double>(std::min<std::int64_t>(clients, 16)) / (steps * 0.01);
    EXPECT_NEAR(s.json["throughput"]["requests_per_s"].get<double>(), expected, 0.03 * expected)
        << clients << " clients";
    EXPECT_FALSE(s.saturated);
  }
}

TEST(Saturation, is_told_on_both_sides_of_a_known_capacity) {
  for (const double capacity : {7.3, 0.4}) {
    for (const double load : {0.5, 0.8, 0.9, 0.95, 1.05, 1.1, 1.3, 2.0}) {
      const Summary s =
          simulate(server(1 / capacity), poisson(load * capacity, 20'000, 11), {}, {});
      EXPECT_EQ(s.saturated, load > 1)
          << "capacity " << capacity << " load " << load << ": " << s.saturated_why;
    }
  }
}

TEST(Saturation, is_told_when_nothing_queues_but_everyone_slows) {
  // All are let in at once and share: no queue, but answers take longer and longer.
  PoolSpec pool = toy_pool(std::make_shared<ToyModel>(kMs, 0, 20'000'000), 100'000);
  pool.settings.max_running = 100'000;
  std::vector<traces::TraceRequest> rows;
  for (int i = 0; i < 600; ++i) rows.push_back(row(i * 0.1, 50, 50));
  EXPECT_FALSE(simulate({{pool}, {}}, list_workload(rows), {}, {}).saturated);
  for (int i = 0; i < 600; ++i) rows[static_cast<std::size_t>(i)].arrival = milliseconds(40 * i);
  const Summary s = simulate({{pool}, {}}, list_workload(rows), {}, {});
  EXPECT_TRUE(s.saturated);
  EXPECT_EQ(s.queue.ns.quantile(0.5) / 1'000'000'000, 0);
}

TEST(Saturation, a_burst_that_waits_for_most_of_the_run_is_saturated_and_one_request_is_not) {
  PoolSpec pool = toy_pool(std::make_shared<ToyModel>(10 * kMs, 0, 0), 10'000);
  pool.settings.max_running = 8;
  const auto burst = [&](std::size_t n) {
    return simulate({{pool}, {}},
                    list_workload(std::vector<traces::TraceRequest>(n, row(0, 8, 50))), {}, {});
  };
  EXPECT_TRUE(burst(200).saturated);
  EXPECT_FALSE(burst(1).saturated);
  EXPECT_FALSE(burst(8).saturated);
}

TEST(Saturation, long_answers_at_a_light_load_are_not_saturated) {
  // Answers of 40 s in a run of 60 s: more and more are in the system, and nothing is wrong.
  std::vector<traces::TraceRequest> rows;
  for (int i = 0; i < 240; ++i) rows.push_back(row(i * 0.25, 16, 4000));
  const Summary s = simulate({{toy_pool(std::make_shared<ToyModel>(10 * kMs, 0, 0), 100'000)}, {}},
                             list_workload(rows), {}, {});
  EXPECT_FALSE(s.saturated) << s.saturated_why;
}

}  // namespace
}  // namespace orrery::sim
