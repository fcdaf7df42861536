// What the summary means: definitions of latency, who counts, and what is not known.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "tests/sim/toys.h"

namespace orrery::sim {
namespace {

// 10 ms a step, but 2 s when a long prompt is in it.
class StallModel : public ToyModel {
 public:
  StallModel() : ToyModel(10 * kMs, 0, 0) {}
  cost::StepTime time(const cost::StepShape& s) const override {
    return {s.prefill_tokens >= 1000 ? 2000 * kMs : 10 * kMs, 0};
  }
};

FleetSpec one(PoolSpec pool) { return {{std::move(pool)}, {}}; }

// A stall of three requests out of ten is invisible in a mean per request, not in pooled gaps.
TEST(Metrics, itl_pools_gaps_and_tpot_is_a_mean_per_request) {
  std::vector<traces::TraceRequest> rows(3, row(0, 8, 101));
  rows.push_back(row(0.5, 1000, 1));
  rows.insert(rows.end(), 7, row(10, 8, 101));
  const Summary s =
      simulate(one(toy_pool(std::make_shared<StallModel>(), 1000)), list_workload(rows), {}, {});
  EXPECT_EQ(s.itl.ns.count(), 1000);
  EXPECT_EQ(s.itl.ns.quantile(0.5), s.itl.ns.quantile(0.99));
  EXPECT_NEAR(static_cast<double>(s.itl.ns.quantile(0.99)), 10e6, 10e6 / 256);
  EXPECT_NEAR(static_cast<double>(s.itl.ns.quantile(0.999)), 2000e6, 2000e6 / 256);
  EXPECT_EQ(s.itl.ns.max(), 2'000'000'000);
  EXPECT_EQ(s.tpot.ns.count(), 10) << "one token has no time per output token";
  EXPECT_EQ(s.tpot.ns.max(), 29'900'000);
  EXPECT_EQ(s.tpot.ns.min(), 10'000'000);
}

TEST(Metrics, latency_is_of_completed_requests_and_goodput_divides_by_all) {
  std::vector<traces::TraceRequest> rows;
  for (int i = 0; i < 7; ++i) rows.push_back(row(i, 16, 10));
  auto failed = row(7, 512, 0);
  failed.ok = false;
  rows.push_back(failed);
  auto huge = row(8, 100'000, 10), after = row(9, 16, 10);
  huge.session = after.session = "s";
  rows.push_back(huge);
  rows.push_back(after);
  WorkloadSpec workload = list_workload(rows);
  workload.mode = LoadMode::kSessions;
  const Summary s =
      simulate(one(toy_pool(std::make_shared<ToyModel>(10 * kMs, 0, 0), 1000)), workload, {}, {});
  EXPECT_EQ(s.submitted, 9) << "what failed in production is not sent";
  EXPECT_EQ(s.completed, 7);
  EXPECT_EQ(s.rejected, 1);
  EXPECT_EQ(s.cancelled, 1);
  EXPECT_EQ(s.unfinished, 0);
  EXPECT_EQ(s.ttft.ns.count(), 7);
  EXPECT_EQ(s.e2e.ns.count(), 7);
  EXPECT_EQ(s.json["workload"]["failed_in_trace_skipped"], 1);
  EXPECT_DOUBLE_EQ(s.json["goodput"]["fraction"].get<double>(), 7.0 / 9);
  EXPECT_DOUBLE_EQ(s.json["completed_fraction"].get<double>(), 7.0 / 9);
}

// History grows until a turn is larger than the whole pool.
TEST(Metrics, a_turn_that_never_fits_is_refused_with_its_numbers_and_the_next_are_cancelled) {
  std::vector<traces::TraceRequest> rows;
  for (int turn = 0; turn < 6; ++turn) {
    auto r = row(turn, 934 * (turn + 1) + 1448 * turn, 1448);
    r.session = "chat", r.max_tokens = 1448, r.history_tokens = turn > 0 ? 2382 * turn : 0;
    rows.push_back(r);
  }
  WorkloadSpec workload = list_workload(rows);
  workload.mode = LoadMode::kSessions;
  const Summary s =
      simulate(one(toy_pool(std::make_shared<ToyModel>(kMs, 0, 0), 466)), workload, {}, {});
  EXPECT_EQ(s.completed, 3);
  EXPECT_EQ(s.rejected, 1);
  EXPECT_EQ(s.cancelled, 2);
  EXPECT_EQ(s.submitted, s.completed + s.rejected + s.cancelled);
  bool found = false;
  for (const Json& entry : s.json["rejections"]) {
    if (!entry.contains("needed_tokens")) continue;
    found = true;
    EXPECT_EQ(entry["needed_tokens"], 9528);
    EXPECT_EQ(entry["available_tokens"], 7456);
    EXPECT_EQ(entry["first_request"], 4);
  }
  EXPECT_TRUE(found) << s.json["rejections"].dump();
}

TEST(Metrics, a_prompt_larger_than_the_pool_ends_at_once) {
  const Summary s = simulate(one(toy_pool(std::make_shared<ToyModel>(kMs, 0, 0), 50)),
                             list_workload({row(0, 912, 10), row(0, 100, 10)}), {}, {});
  EXPECT_EQ(s.rejected, 1);
  EXPECT_EQ(s.completed, 1);
}

TEST(Metrics, a_trace_without_prefix_data_has_no_hit_rate) {
  const Summary s = simulate(one(toy_pool(std::make_shared<ToyModel>(kMs, 0, 0), 1000)),
                             list_workload({row(0, 2162, 5), row(1, 2162, 5)}), {}, {});
  EXPECT_TRUE(s.json["kv"]["hit_rate"].is_null());
  EXPECT_EQ(s.json["kv"]["note"], "no prefix data in trace: nothing is shared");
}

// Lengths alone say nothing of sharing. 1 ms a prompt token computed: TTFT shows the effective
// prefill, which is input - cached.
TEST(Metrics, a_hit_rate_is_only_what_the_workload_gives) {
  const FleetSpec fleet = one(toy_pool(std::make_shared<ToyModel>(0, kMs, 1), 1000));
  std::vector<traces::TraceRequest> rows;
  for (int i = 0; i < 20; ++i) rows.push_back(row(10 * i, 2162, 5));
  for (const std::optional<double> rate :
       {std::optional<double>(), std::optional<double>(0.0), std::optional<double>(0.5)}) {
    WorkloadSpec workload = list_workload(rows);
    workload.prefix_hit_rate = rate;
    const std::int64_t shared = rate.value_or(0) > 0 ? 1072 : 0;  // whole blocks of 16 of 1081
    RunOptions options;
    options.on_request = [&](const RequestOutcome& o) {
      const std::int64_t cached = o.id == 1 ? 0 : shared;  // the first to come finds nothing
      EXPECT_EQ(o.cached_tokens, cached) << o.id;
      EXPECT_NEAR(to_seconds(o.first_token - o.arrival), static_cast<double>(2162 - cached) * 1e-3,
                  1e-6);
    };
    const Summary s = simulate(fleet, workload, {}, options);
    const Json& kv = s.json["kv"];
    EXPECT_EQ(kv["assumed_hit_rate"].get<double>(), rate.value_or(0));
    EXPECT_EQ(kv["note"].get<std::string>().find("no prefix data in trace"), 0U);
    if (rate) {
      EXPECT_DOUBLE_EQ(kv["hit_rate"].get<double>(),
                       static_cast<double>(19 * shared) / (20 * 2162));
    } else {
      EXPECT_TRUE(kv["hit_rate"].is_null());
    }
  }
}

TEST(Metrics, a_hit_rate_over_what_the_trace_says_is_refused) {
  const FleetSpec fleet = one(toy_pool(std::make_shared<ToyModel>(kMs, 0, 0), 1000));
  auto named = row(0, 64, 1), turn = row(1, 64, 1);
  named.hash_ids = {1, 2, 3, 4}, named.block_tokens = 16;
  turn.session = "s", turn.history_tokens = 32;
  for (const auto& request : {named, turn}) {
    WorkloadSpec workload = list_workload({row(0, 9, 1), request});
    workload.prefix_hit_rate = 0.5;
    EXPECT_THROW(simulate(fleet, workload, {}, {}), InputError);
    workload.prefix_hit_rate.reset();
    EXPECT_EQ(simulate(fleet, workload, {}, {}).completed, 2);
  }
  WorkloadSpec workload = list_workload({row(0, 9, 1)});
  workload.prefix_hit_rate = 1.5;
  EXPECT_THROW(simulate(fleet, workload, {}, {}), InputError);
}

TEST(Metrics, shared_prefixes_are_hit_by_whole_blocks) {
  auto a = row(0, 1024, 8), b = row(5, 694, 8);
  a.hash_ids = b.hash_ids = {1, 2};
  a.block_tokens = b.block_tokens = 512;
  std::map<std::uint64_t, std::int64_t> cached;
  RunOptions options;
  options.on_request = [&](const RequestOutcome& o) { cached[o.id] = o.cached_tokens; };
  const Summary s = simulate(one(toy_pool(std::make_shared<ToyModel>(kMs, 0, 0), 1000)),
                             list_workload({a, b}), {}, options);
  EXPECT_EQ(cached[1], 0);
  EXPECT_EQ(cached[2], 512);
  EXPECT_DOUBLE_EQ(s.json["kv"]["hit_rate"].get<double>(), 512.0 / (1024 + 694));
}

// The turn's prompt repeats the conversation: the same tokens are found in both timing modes. The
// last token of an answer is never computed, so of 2100 tokens 2099 can be cached.
TEST(Metrics, a_session_finds_its_history_open_loop_and_after_its_answers) {
  std::vector<traces::TraceRequest> rows{row(0, 2000, 100), row(4, 2400, 100), row(9, 3000, 100)};
  rows[1].history_tokens = 2100, rows[2].history_tokens = 2500;
  for (auto& r : rows) r.session = "s";
  for (const LoadMode mode : {LoadMode::kOpen, LoadMode::kSessions}) {
    WorkloadSpec workload = list_workload(rows);
    workload.mode = mode;
    std::vector<std::int64_t> cached, prompts;
    RunOptions options;
    options.on_request = [&](const RequestOutcome& o) {
      cached.push_back(o.cached_tokens);
      prompts.push_back(o.input_tokens);
    };
    simulate(one(toy_pool(std::make_shared<ToyModel>(kMs, 0, 0), 1000)), workload, {}, options);
    EXPECT_EQ(prompts, (std::vector<std::int64_t>{2000, 2400, 3000}));
    EXPECT_EQ(cached, (std::vector<std::int64_t>{0, 2096, 2496}));
  }
}

TEST(Metrics, answers_are_hit_where_the_next_turns_block_ids_go_on_from_them) {
  std::vector<traces::TraceRequest> rows{row(0, 64, 65), row(10, 256, 8), row(20, 256, 8)};
  rows[0].hash_ids = {1, 2, 3, 4};
  rows[1].hash_ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  rows[2].hash_ids = {1, 2, 3, 99, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17};
  for (auto& r : rows) r.block_tokens = 16, r.session = "s";
  std::vector<std::int64_t> cached;
  RunOptions options;
  options.on_request = [&](const RequestOutcome& o) { cached.push_back(o.cached_tokens); };
  simulate(one(toy_pool(std::make_shared<ToyModel>(kMs, 0, 0), 1000)), list_workload(rows), {},
           options);
  EXPECT_EQ(cached, (std::vector<std::int64_t>{0, 128, 48}));
}

// A rate above what a limit on requests in flight lets through is offered, not sent.
TEST(Metrics, late_sending_shows_and_counts_as_latency) {
  std::vector<traces::TraceRequest> rows;
  for (int i = 0; i < 200; ++i) rows.push_back(row(i * 0.1, 1, 1));
  WorkloadSpec workload = list_workload(rows);
  workload.concurrency = 4;
  PoolSpec pool = toy_pool(std::make_shared<ToyModel>(5000 * kMs, 0, 0), 1000, 4);
  pool.settings.max_running = 1;
  const Summary s = simulate(one(pool), workload, {}, {});
  const Json& load = s.json["workload"];
  EXPECT_FALSE(load["open_loop"].get<bool>());
  EXPECT_NEAR(load["offered_requests_per_s"].get<double>(), 10, 0.1);
  EXPECT_NEAR(load["sent_requests_per_s"].get<double>(), 0.8, 0.01);
  EXPECT_GT(load["send_delay_ms"]["p99"].get<double>(), 200e3);
  EXPECT_GT(s.ttft.ns.max(), 225'000'000'000) << "from the intended arrival";

  rows.clear();
  for (int i = 0; i < 10; ++i) rows.push_back(row(i * 2.0, 1, 1));
  workload = list_workload(rows);
  workload.concurrency = 4;
  const Summary easy = simulate(one(pool), workload, {}, {});
  EXPECT_EQ(easy.json["workload"]["send_delay_ms"]["max"], 0.0);
}

TEST(Metrics, percentiles_pool_samples_and_say_when_they_are_the_maximum) {
  // 1000 fast answers on one pool, 10 slow ones on another: the pooled p95 is the fast one's.
  FleetSpec fleet;
  fleet.pools = {toy_pool(std::make_shared<ToyModel>(10 * kMs, 0, 0), 1000),
                 toy_pool(std::make_shared<ToyModel>(1900 * kMs, 0, 0), 1000)};
  fleet.pools[1].name = "slow", fleet.pools[1].model = "other";
  std::vector<traces::TraceRequest> rows;
  for (int i = 0; i < 1010; ++i) {
    rows.push_back(row(i, 1, 1));
    rows.back().model = i % 101 == 100 ? "other" : "toy";
  }
  const Summary s = simulate(fleet, list_workload(rows), {}, {});
  EXPECT_NEAR(s.json["ttft_ms"]["p95"].get<double>(), 10, 0.1);
  EXPECT_FALSE(s.json["ttft_ms"].contains("note"));
  const Json& slow = s.json["by"]["pool"]["slow"]["ttft_ms"];
  EXPECT_EQ(slow["count"], 10);
  EXPECT_EQ(slow["note"], "p99 is the maximum of 10 values");
  EXPECT_EQ(s.json["by"]["model"]["other"]["requests"]["submitted"], 10);
}

// Nearest rank: the p-th percentile of n values is the ceil(p n / 100)-th smallest.
TEST(Metrics, of_eight_values_p99_is_marked_as_the_maximum_and_p50_is_the_fourth) {
  std::vector<traces::TraceRequest> rows;
  for (int i = 0; i < 8; ++i) rows.push_back(row(i * 10, 100 * (8 - i), 1));
  const Summary s = simulate(one(toy_pool(std::make_shared<ToyModel>(0, kMs, 0), 1000)),
                             list_workload(rows), {}, {});
  const Json& ttft = s.json["ttft_ms"];
  EXPECT_EQ(ttft["count"], 8);
  EXPECT_EQ(ttft["max"], 800.0);
  EXPECT_NEAR(ttft["p99"].get<double>(), 800, 800.0 / 256);
  EXPECT_NEAR(ttft["p50"].get<double>(), 400, 400.0 / 256);
  EXPECT_EQ(ttft["note"], "p99 is the maximum of 8 values");
  rows.resize(99, row(100, 100, 1));
  for (int i = 8; i < 99; ++i) rows[static_cast<std::size_t>(i)].arrival = seconds(10 * i);
  rows.push_back(row(1000, 100, 1));
  const Summary more = simulate(one(toy_pool(std::make_shared<ToyModel>(0, kMs, 0), 1000)),
                                list_workload(rows), {}, {});
  EXPECT_EQ(more.json["ttft_ms"]["count"], 100);
  EXPECT_FALSE(more.json["ttft_ms"].contains("note")) << "the 99th of 100 is not the maximum";
  EXPECT_NEAR(more.json["ttft_ms"]["p99"].get<double>(), 700, 700.0 / 256);
}

TEST(Metrics, an_unknown_price_is_null_and_named) {
  PoolSpec pool = toy_pool(std::make_shared<ToyModel>(kMs, 0, 0), 1000);
  pool.usd_per_hour_per_replica = std::numeric_limits<double>::quiet_NaN();
  const Summary s = simulate(one(pool), list_workload({row(0, 9, 9)}), {}, {});
  EXPECT_TRUE(s.json["cost"]["usd_per_hour"].is_null());
  EXPECT_TRUE(s.json["cost"]["usd_per_million_output_tokens"].is_null());
  EXPECT_EQ(s.json["cost"]["unpriced"][0], "toy-machine");
}

TEST(Metrics, cost_is_that_of_the_whole_fleet_for_the_whole_run) {
  // 2 replicas at 3.6 USD/h for 1000 s: 2 USD, for 1000 requests of 2 tokens.
  std::vector<traces::TraceRequest> rows;
  for (int i = 0; i < 1000; ++i) rows.push_back(row(i + 0.998, 16, 2));
  const Summary s = simulate(one(toy_pool(std::make_shared<ToyModel>(kMs, 0, 0), 1000, 2)),
                             list_workload(rows), {}, {});
  const Json& cost = s.json["cost"];
  EXPECT_NEAR(cost["usd_per_hour"].get<double>(), 7.2, 1e-9);
  EXPECT_NEAR(cost["usd_per_request"].get<double>(), 0.002, 1e-9);
  EXPECT_NEAR(cost["usd_per_million_output_tokens"].get<double>(), 1000, 1e-6);
  EXPECT_NEAR(cost["output_tokens_per_usd"].get<double>(), 1000, 1e-6);
}

TEST(Metrics, a_request_is_good_when_it_is_within_every_limit) {
  std::vector<traces::TraceRequest> rows(3, row(0, 8, 101));
  rows.push_back(row(0.5, 1000, 1));
  rows.insert(rows.end(), 7, row(10, 8, 101));
  rows.back().deadline = seconds(1);  // takes 1.01 s
  Slo slo;
  slo.targets = {{"itl_ms", 99.5, 50}};  // of 100 gaps none may be longer
  const FleetSpec fleet = one(toy_pool(std::make_shared<StallModel>(), 1000));
  EXPECT_EQ(simulate(fleet, list_workload(rows), slo, {}).good_requests, 11 - 3 - 1);
  slo.targets = {{"itl_ms", 99, 50}};  // one may
  const Summary s = simulate(fleet, list_workload(rows), slo, {});
  EXPECT_EQ(s.good_requests, 11 - 1);
  EXPECT_TRUE(judge(s, slo).met) << "3 of 1000 gaps are over";
  slo.targets = {{"ttft_ms", 90, 1000}};
  EXPECT_TRUE(judge(simulate(fleet, list_workload(rows), slo, {}), slo).met);
  slo.targets = {{"ttft_ms", 95, 1000}};
  const SloVerdict verdict = judge(simulate(fleet, list_workload(rows), slo, {}), slo);
  EXPECT_FALSE(verdict.met);
  EXPECT_EQ(verdict.missed.substr(0, 11), "ttft_ms p95");
}

TEST(Metrics, giving_up_early_is_only_done_when_the_slo_is_lost) {
  std::vector<traces::TraceRequest> rows;
  for (int i = 0; i < 5000; ++i) rows.push_back(row(i * 0.01, 16, 20));
  const FleetSpec slow = one(toy_pool(std::make_shared<ToyModel>(100 * kMs, 0, 0), 100));
  const FleetSpec fast = one(toy_pool(std::make_shared<ToyModel>(kMs, 0, 0), 1000));
  Slo slo;
  slo.targets = {{"ttft_ms", 99, 500}};
  RunOptions options;
  options.give_up_when_slo_impossible = &slo;
  const Summary lost = simulate(slow, list_workload(rows), slo, options);
  EXPECT_TRUE(lost.slo_impossible);
  EXPECT_LT(lost.completed, 5000);
  EXPECT_FALSE(judge(lost, slo).met);
  EXPECT_FALSE(judge(simulate(slow, list_workload(rows), slo, {}), slo).met);
  const Summary kept = simulate(fast, list_workload(rows), slo, options);
  EXPECT_FALSE(kept.slo_impossible);
  EXPECT_EQ(kept.completed, 5000);
}

TEST(Metrics, groups_add_up_to_the_total) {
  std::vector<traces::TraceRequest> rows;
  for (int i = 0; i < 900; ++i) {
    rows.push_back(row(i * 10.0, 16, 1 + i % 7));
    rows.back().tenant = i % 3 == 0 ? "a" : i % 3 == 1 ? "b" : "";
    rows.back().app = "x";
  }
  const Summary s = simulate(one(toy_pool(std::make_shared<ToyModel>(kMs, 0, 0), 1000)),
                             list_workload(rows), {}, {});
  std::int64_t hours = 0;
  for (const auto& [hour, entry] : s.json["by"]["hour"].items())
    hours += entry["requests"]["completed"].get<std::int64_t>();
  EXPECT_EQ(hours, 900);
  EXPECT_EQ(s.json["by"]["hour"].size(), 3U);
  EXPECT_EQ(s.json["by"]["hour"]["0"]["requests"]["submitted"], 360);
  EXPECT_EQ(s.json["by"]["tenant"]["a"]["requests"]["completed"], 300);
  EXPECT_EQ(s.json["by"]["tenant"].size(), 2U);
  EXPECT_EQ(s.json["by"]["app"]["x"]["requests"]["completed"], 900);
  EXPECT_EQ(s.json["by"]["pool"]["main"]["requests"]["completed"], 900);
}

void expect_same_keys(const Json& whole, const Json& part, const std::string& where) {
  for (const auto& [key, value] : whole.items()) {
    if (key == "note" || key == "unpriced") continue;
    ASSERT_TRUE(part.contains(key)) << where << "." << key;
    if (value.is_object() && !part[key].is_null())
      expect_same_keys(value, part[key], where + "." + key);
  }
}

TEST(Metrics, every_row_has_the_nested_keys_of_the_whole_and_null_where_there_is_no_meaning) {
  FleetSpec fleet = one(toy_pool(std::make_shared<ToyModel>(kMs, 100'000, 0), 1000));
  fleet.pools.push_back(toy_pool(std::make_shared<ToyModel>(2 * kMs, 100'000, 0), 1000));
  fleet.pools[1].name = "second", fleet.pools[1].model = "other";
  std::vector<traces::TraceRequest> rows;
  for (int i = 0; i < 900; ++i) {
    rows.push_back(row(i * 10.0, 48, 1 + i % 7));
    rows.back().tenant = "a", rows.back().app = "x";
    rows.back().model = i % 3 == 0 ? "other" : i % 3 == 1 ? "toy" : "nobody's";
    rows.back().hash_ids = {1, 2, static_cast<std::uint64_t>(100 + i)};
    rows.back().block_tokens = 16;
  }
  const Summary s = simulate(fleet, list_workload(rows), {}, {});
  Json whole = Json::object();
  for (const char* key :
       {"requests", "completed_fraction", "ttft_ms", "itl_ms", "tpot_ms", "e2e_ms", "queue_ms",
        "throughput", "goodput", "kv", "queue_depth", "gpu", "cost"}) {
    ASSERT_TRUE(s.json.contains(key)) << key;
    whole[key] = s.json[key];
  }
  int seen = 0;
  for (const auto& [by, parts] : s.json["by"].items()) {
    for (const auto& [name, part] : parts.items())
      expect_same_keys(whole, part, by + "." + name), ++seen;
  }
  EXPECT_EQ(seen, 3 + 2 + 1 + 1 + 3);  // models (one not served), pools, tenant, app, hours
  const Json& by = s.json["by"];
  EXPECT_TRUE(by["pool"]["main"]["requests"]["submitted"].is_null());
  EXPECT_EQ(by["pool"]["main"]["requests"]["completed"], 300);
  EXPECT_EQ(by["model"]["(not served)"]["requests"]["rejected"], 300);
  EXPECT_TRUE(by["model"]["(not served)"]["cost"]["usd_per_hour"].is_null());
  EXPECT_NEAR(by["model"]["toy"]["cost"]["usd_per_hour"].get<double>(), 3.6, 1e-9);
  EXPECT_EQ(by["model"]["toy"]["kv"], [&] {
    Json pool = by["pool"]["main"]["kv"];
    pool.erase("blocks_per_replica");
    return pool;
  }());
  EXPECT_EQ(by["model"]["toy"]["gpu"], by["pool"]["main"]["gpu"]);
  EXPECT_TRUE(by["tenant"]["a"]["itl_ms"]["p99"].is_null());
  EXPECT_TRUE(by["tenant"]["a"]["gpu"]["busy_fraction"].is_null());
  // One tenant sent all: its share of cached tokens is the fleet's.
  EXPECT_DOUBLE_EQ(by["tenant"]["a"]["kv"]["hit_rate"].get<double>(),
                   s.json["kv"]["hit_rate"].get<double>());
  EXPECT_GT(s.json["kv"]["hit_rate"].get<double>(), 0.6);
  EXPECT_DOUBLE_EQ(by["tenant"]["a"]["goodput"]["concurrent_requests"].get<double>(),
                   s.json["goodput"]["concurrent_requests"].get<double>());
}

TEST(Metrics, a_stop_request_ends_the_run_and_says_so) {
  std::vector<traces::TraceRequest> rows;
  for (int i = 0; i < 20000; ++i) rows.push_back(row(i * 0.01, 16, 20));
  RunOptions options;
  int polls = 0;
  options.stop = [&] { return ++polls == 2; };
  const Summary s = simulate(one(toy_pool(std::make_shared<ToyModel>(kMs, 0, 0), 1000)),
                             list_workload(rows), {}, options);
  EXPECT_TRUE(s.stopped_early);
  EXPECT_GT(s.completed, 0);
  EXPECT_LT(s.completed, 20000);
  EXPECT_EQ(s.submitted, s.completed + s.rejected + s.cancelled + s.unfinished);
}

}  // namespace
}  // namespace orrery::sim
