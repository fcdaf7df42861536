// Laws of the twin, over random small scenarios.
#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/random_scenario.h"

namespace orrery::sim {
namespace {

constexpr std::uint64_t kScenarios = 300;

TEST(Laws, macro_steps_and_single_steps_give_the_same_bytes) {
  std::int64_t preemptions = 0, repeated = 0, hits = 0;
  for (std::uint64_t seed = 1; seed <= kScenarios; ++seed) {
    const RandomScenario s = random_scenario(seed);
    RunOptions macro, single;
    single.macro_steps = false;
    const Summary a = simulate(s.fleet, s.workload, random_slo(), macro);
    const Summary b = simulate(s.fleet, s.workload, random_slo(), single);
    ASSERT_EQ(a.journal_hash, b.journal_hash) << "seed " << seed;
    ASSERT_EQ(comparable(a), comparable(b)) << "seed " << seed;
    preemptions += a.json["kv"]["preemptions"].get<std::int64_t>();
    repeated += b.events - a.events;
    if (a.json["kv"]["hit_rate"].is_number()) hits += a.json["kv"]["hit_rate"].get<double>() > 0;
  }
  EXPECT_GT(preemptions, 100) << "the scenarios must force preemption";
  EXPECT_GT(repeated, 10'000) << "and macro-steps must save events";
  EXPECT_GT(hits, 20) << "and prefixes must be hit";
}

TEST(Laws, the_same_seed_gives_the_same_bytes_twice) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const RandomScenario s = random_scenario(seed);
    const Summary a = simulate(s.fleet, s.workload, random_slo(), {});
    const Summary b = simulate(s.fleet, s.workload, random_slo(), {});
    ASSERT_EQ(a.journal_hash, b.journal_hash) << "seed " << seed;
    ASSERT_EQ(comparable(a), comparable(b)) << "seed " << seed;
  }
}

TEST(Laws, every_request_is_accounted_for_once_and_tokens_are_conserved) {
  for (std::uint64_t seed = 1; seed <= kScenarios; ++seed) {
    const RandomScenario s = random_scenario(seed);
    std::map<std::uint64_t, int> ends;
    std::map<std::uint64_t, std::int64_t> tokens;
    std::int64_t input = 0, output = 0;
    RunOptions options;
    options.on_token = [&](RequestId id, Time) { ++tokens[id.value]; };
    options.on_request = [&](const RequestOutcome& o) {
      ++ends[o.id];
      if (o.status != "completed") return;
      const traces::TraceRequest& r = s.rows[o.id - 1];
      EXPECT_EQ(o.input_tokens, r.input_tokens);
      EXPECT_LE(o.output_tokens, r.output_tokens);
      if (!r.max_tokens || *r.max_tokens >= r.output_tokens) {
        EXPECT_TRUE(o.output_tokens == r.output_tokens || o.reason == "length") << "seed " << seed;
      }
      EXPECT_EQ(o.output_tokens, tokens[o.id]) << "seed " << seed << " request " << o.id;
      EXPECT_LE(o.arrival, o.scheduled);
      EXPECT_LT(o.scheduled, o.first_token);
      EXPECT_LE(o.first_token, o.end);
      EXPECT_LT(o.cached_tokens, o.input_tokens);
      input += o.input_tokens, output += o.output_tokens;
    };
    const Summary summary = simulate(s.fleet, s.workload, {}, options);
    EXPECT_EQ(ends.size(), s.rows.size()) << "seed " << seed;
    for (const auto& [id, count] : ends) EXPECT_EQ(count, 1) << "seed " << seed << " id " << id;
    EXPECT_EQ(summary.submitted, static_cast<std::int64_t>(s.rows.size()));
    EXPECT_EQ(summary.submitted, summary.completed + summary.rejected + summary.cancelled);
    EXPECT_EQ(summary.input_tokens, input);
    EXPECT_EQ(summary.output_tokens, output);
  }
}

// The slow twin of the recorder: every token's time is kept, gaps are taken afterwards.
TEST(Laws, pooled_gaps_and_first_tokens_equal_those_of_a_naive_recorder) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const RandomScenario s = random_scenario(seed);
    std::map<std::uint64_t, std::vector<Time>> tokens;
    std::map<std::uint64_t, Time> arrivals;
    RunOptions single;
    single.macro_steps = false;
    single.on_token = [&](RequestId id, Time at) { tokens[id.value].push_back(at); };
    single.on_request = [&](const RequestOutcome& o) {
      if (o.status == "completed") arrivals[o.id] = o.arrival;
    };
    simulate(s.fleet, s.workload, {}, single);
    LatencyMetric itl, ttft, tpot;
    for (const auto& [id, times] : tokens) {
      for (std::size_t i = 1; i < times.size(); ++i) itl.ns.add((times[i] - times[i - 1]).value());
      ttft.ns.add((times.front() - arrivals.at(id)).value());
      const auto gaps = static_cast<std::int64_t>(times.size()) - 1;
      if (gaps > 0) tpot.ns.add(((times.back() - times.front()).value() + gaps / 2) / gaps);
    }
    const Summary macro = simulate(s.fleet, s.workload, {}, {});
    ASSERT_EQ(macro.itl.to_json(), itl.to_json()) << "seed " << seed;
    ASSERT_EQ(macro.ttft.to_json(), ttft.to_json()) << "seed " << seed;
    ASSERT_EQ(macro.tpot.to_json(), tpot.to_json()) << "seed " << seed;
  }
}

using TokenLog = std::vector<std::tuple<Time, std::uint64_t>>;

TokenLog tokens_until(const RandomScenario& s, Time until) {
  TokenLog log;
  RunOptions options;
  options.macro_steps = false;
  options.on_token = [&](RequestId id, Time at) {
    if (at <= until) log.emplace_back(at, id.value);
  };
  simulate(s.fleet, s.workload, {}, options);
  std::sort(log.begin(), log.end());
  return log;
}

// The brain must not know how long an answer will be: with another length after the k-th token,
// every token of every request up to that one's moment comes at the same time.
TEST(Laws, an_output_length_changes_nothing_before_its_last_common_token) {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    RandomScenario s = random_scenario(seed);
    RandomStream r = RandomStream(seed).fork("length");
    const std::uint64_t id = 1 + r.next_below(s.rows.size());
    traces::TraceRequest& changed = s.rows[id - 1];
    // Rows of sessions say what the trace's answer was in the next turn's history.
    if (!changed.session.empty()) continue;
    changed.output_tokens = pick(r, 1, 60);
    s.workload = [&] {
      WorkloadSpec w = list_workload(s.rows);
      w.mode = s.workload.mode, w.concurrency = s.workload.concurrency;
      return w;
    }();
    const TokenLog before = tokens_until(s, Time::never());
    Time last;
    for (const auto& [at, who] : before) {
      if (who == id) last = std::max(last, at);
    }
    if (last == Time()) continue;  // never answered
    RandomScenario longer = s;
    longer.rows[id - 1].output_tokens += pick(r, 1, 100);
    longer.workload.open = list_workload(longer.rows).open;
    ASSERT_EQ(tokens_until(s, last), tokens_until(longer, last)) << "seed " << seed;
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

}  // namespace
}  // namespace orrery::sim
