// Random fleets and workloads, small enough that pools overflow and requests are preempted.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/rng.h"
#include "tests/sim/toys.h"

namespace orrery::sim {

struct RandomScenario {
  FleetSpec fleet;
  WorkloadSpec workload;
  std::vector<traces::TraceRequest> rows;
};

inline std::int64_t pick(RandomStream& r, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(r.next_below(static_cast<std::uint64_t>(high - low + 1)));
}

inline PoolSpec random_pool(RandomStream& r, std::int64_t block) {
  // One draw a statement: compilers order the arguments of a call as they like.
  const std::int64_t fixed = pick(r, 1, 20 * kMs), per_token = pick(r, 0, 20'000'000);
  const std::int64_t steepness = pick(r, 0, 3);
  const std::int64_t per_context = steepness * pick(r, 0, 500'000);
  const std::int64_t blocks = pick(r, 12, 120), replicas = pick(r, 1, 3);
  PoolSpec pool = toy_pool(std::make_shared<ToyModel>(fixed, per_token, per_context), blocks,
                           static_cast<int>(replicas));
  policy::InstanceSettings& s = pool.settings;
  s.block_tokens = Tokens(block);
  s.max_batched_tokens = Tokens(pick(r, 16, 300));
  s.max_running = pick(r, 1, 12);
  if (pick(r, 0, 2) == 0) s.long_prefill_cap = Tokens(pick(r, 8, 64));
  s.prefix_cache = pick(r, 0, 3) > 0;
  if (pick(r, 0, 3) == 0) s.watermark_per_mille = pick(r, 0, 100);
  if (pick(r, 0, 4) == 0) s.max_waiting = pick(r, 1, 10);
  return pool;
}

inline traces::TraceRequest random_row(RandomStream& r, double at) {
  const std::int64_t input = pick(r, 1, 300), output = pick(r, 1, 200);
  traces::TraceRequest q = row(at, input, output);
  if (pick(r, 0, 2) == 0) q.max_tokens = pick(r, 1, 150);
  q.tenant = pick(r, 0, 1) == 0 ? "a" : "b";
  q.priority = static_cast<std::int32_t>(pick(r, 0, 2));
  if (pick(r, 0, 2) > 0) {
    q.block_tokens = 32;
    for (std::int64_t i = 0; i * 32 < q.input_tokens; ++i)
      q.hash_ids.push_back(static_cast<std::uint64_t>(pick(r, 0, 1) * 1000 + i));
  }
  return q;
}

inline RandomScenario random_scenario(std::uint64_t seed) {
  RandomStream r = RandomStream(seed).fork("scenario");
  RandomScenario s;
  const std::int64_t block = pick(r, 0, 1) == 0 ? 16 : 4;
  s.fleet.pools.push_back(random_pool(r, block));
  if (pick(r, 0, 2) == 0) {
    s.fleet.pools.push_back(random_pool(r, block));
    s.fleet.pools.back().name = "second";
  }
  const char* routers[] = {"round_robin", "least_load", "prefix_aware"};
  s.fleet.router.policy = routers[pick(r, 0, 2)];
  const std::int64_t mode = pick(r, 0, 3);  // 3: open loop with a limit
  double at = 0;
  std::vector<std::int64_t> history(4, 0);
  for (int i = 0; i < 60; ++i) {
    // Bunches of simultaneous arrivals, and pauses in which everything ends.
    const double mean = pick(r, 0, 9) == 0 ? 5.0 : 0.05;
    if (pick(r, 0, 2) > 0) at += r.next_exponential() * mean;
    traces::TraceRequest q = random_row(r, at);
    if (mode == 2 || pick(r, 0, 4) == 0) {
      const auto session = static_cast<std::size_t>(pick(r, 0, 3));
      q.session = std::to_string(session);
      if (history[session] > 0 && history[session] < 250 && pick(r, 0, 3) > 0) {
        q.history_tokens = history[session];
        q.input_tokens = std::max(q.input_tokens, history[session] + 1);
        q.hash_ids.clear(), q.block_tokens = 0;
      }
      history[session] = q.input_tokens + q.output_tokens;
      if (pick(r, 0, 1) == 0) q.think = Duration(pick(r, 0, 300'000'000));
    }
    s.rows.push_back(std::move(q));
  }
  s.workload = list_workload(s.rows);
  s.workload.mode = mode == 1   ? LoadMode::kClosed
                    : mode == 2 ? LoadMode::kSessions
                                : LoadMode::kOpen;
  if (mode == 1 || mode == 3) s.workload.concurrency = pick(r, 1, 12);
  return s;
}

inline Slo random_slo() {
  Slo slo;
  slo.targets = {{"ttft_ms", 99, 200}, {"itl_ms", 95, 30}, {"itl_ms", 99, 100}};
  return slo;
}

}  // namespace orrery::sim
