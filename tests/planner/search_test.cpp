// Laws of the planner's search: n passes and n - 1 fails, both seen in the simulator; a stricter
// SLO never asks for fewer replicas; the bound holds; the same plan on one thread and on several.
#include "planner/search.h"

#include <gtest/gtest.h>

#include "runtime/base/rng.h"

namespace orrery::planner {
namespace {

// A replica whose step takes fixed + per_token * tokens.
class LinearModel : public cost::StepModel {
 public:
  LinearModel(std::int64_t fixed_ps, std::int64_t per_token_ps)
      : fixed_(fixed_ps), per_token_(per_token_ps) {}
  cost::StepTime time(const cost::StepShape& s) const override {
    cost::StepTime t;
    t.fixed_ps = fixed_ + per_token_ * s.tokens;
    return t;
  }
  std::vector<cost::OperatorTime> breakdown(const cost::StepShape&) const override { return {}; }
  std::string source() const override { return "a test"; }

 private:
  std::int64_t fixed_, per_token_;
};

constexpr std::int64_t kMs = 1'000'000'000;  // in picoseconds

Candidate make_candidate(const std::string& type, double usd, std::int64_t fixed_ms,
                         std::int64_t per_token_us) {
  Candidate c;
  c.instance_type = type;
  c.usd_per_instance_hour = usd;
  c.pool.name = "main";
  c.pool.model = "m";
  c.pool.instance_type = type;
  c.pool.settings.kv_blocks = Blocks(2000);
  c.pool.settings.max_batched_tokens = Tokens(512);
  c.pool.settings.max_running = 16;
  c.pool.step_model = std::make_shared<LinearModel>(fixed_ms * kMs, per_token_us * kMs / 1000);
  return c;
}

std::vector<traces::TraceRequest> poisson(double per_second, int count, std::uint64_t seed) {
  RandomStream random = RandomStream(seed).fork("arrivals");
  std::vector<traces::TraceRequest> requests;
  double at = 0;
  for (int i = 0; i < count; ++i) {
    at += random.next_exponential() / per_second;
    traces::TraceRequest r;
    r.row = i;
    r.arrival = Duration(static_cast<std::int64_t>(at * 1e9));
    r.input_tokens = 50 + static_cast<std::int64_t>(random.next_below(200));
    r.output_tokens = 1 + static_cast<std::int64_t>(random.next_below(40));
    requests.push_back(r);
  }
  return requests;
}

PlanRequest make_request(double ttft_p99_ms) {
  PlanRequest request;
  request.model = "m";
  request.slo.targets.push_back({"ttft_ms", 99, ttft_p99_ms});
  request.max_replicas = 64;
  return request;
}

TEST(Search, the_answer_passes_and_one_replica_less_was_seen_to_fail) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const Demand demand = characterise(poisson(60, 600, seed));
    const PlanRequest request = make_request(100);
    const SearchResult result = search({make_candidate("a", 1, 5, 100)}, demand, request, {});
    ASSERT_EQ(result.ranked.size(), 1U) << "seed " << seed;
    const Sized& s = result.ranked[0];
    EXPECT_TRUE(sim::judge(s.summary, request.slo).met);
    EXPECT_GE(s.replicas, s.bound);
    ASSERT_GT(s.replicas, 1) << "the case should need several replicas, seed " << seed;
    bool below_failed = false;
    for (const Trial& t : s.trials)
      below_failed = below_failed || (t.replicas == s.replicas - 1 && !t.met);
    EXPECT_TRUE(below_failed) << "seed " << seed;
    const sim::Summary below =
        try_fleet(s.candidate, s.replicas - 1, demand.requests, request, {}, false);
    EXPECT_FALSE(sim::judge(below, request.slo).met);
  }
}

TEST(Search, a_stricter_slo_never_asks_for_fewer_replicas) {
  const Demand demand = characterise(poisson(20, 400, 7));
  std::int64_t before = 0;
  for (const double limit : {2000.0, 400.0, 200.0, 100.0, 60.0}) {
    const SearchResult result =
        search({make_candidate("a", 1, 5, 100)}, demand, make_request(limit), {});
    ASSERT_EQ(result.ranked.size(), 1U) << limit;
    EXPECT_GE(result.ranked[0].replicas, before) << limit;
    before = result.ranked[0].replicas;
  }
  EXPECT_GT(before, 1);
}

TEST(Search, no_fleet_below_the_bound_meets_the_slo) {
  const Demand demand = characterise(poisson(200, 1500, 5));
  const PlanRequest request = make_request(500);
  const Candidate candidate = make_candidate("a", 1, 1, 120);
  const std::int64_t bound = replica_bound(candidate, demand, request.slo);
  ASSERT_GT(bound, 1);
  for (std::int64_t n = 1; n < bound; ++n) {
    const sim::Summary summary = try_fleet(candidate, n, demand.requests, request, {}, false);
    EXPECT_FALSE(sim::judge(summary, request.slo).met) << n;
  }
}

TEST(Search, cheapest_first_and_every_other_with_its_reason) {
  const Demand demand = characterise(poisson(10, 200, 3));
  const PlanRequest request = make_request(150);
  const SearchResult result =
      search({make_candidate("dear", 50, 5, 100), make_candidate("cheap", 1, 5, 100),
              make_candidate("slow", 0.1, 300, 100), make_candidate("mid", 1.5, 5, 90)},
             demand, request, {});
  ASSERT_GE(result.ranked.size(), 2U);
  EXPECT_EQ(result.ranked[0].candidate.instance_type, "cheap");
  for (std::size_t i = 1; i < result.ranked.size(); ++i)
    EXPECT_LE(result.ranked[i - 1].usd_per_hour, result.ranked[i].usd_per_hour);
  bool floor = false;
  for (const Rejection& r : result.rejected) {
    EXPECT_FALSE(r.reason.empty());
    if (r.instance_type == "slow") floor = r.kind == "ttft_floor";
  }
  EXPECT_TRUE(floor) << "a 300 ms step cannot meet 150 ms";
}

TEST(Search, threads_do_not_change_the_plan) {
  const Demand demand = characterise(poisson(20, 300, 11));
  std::vector<Candidate> candidates;
  for (int i = 0; i < 7; ++i)
    candidates.push_back(make_candidate("t" + std::to_string(i), 1 + 0.7 * i, 4 + i, 110 - 10 * i));
  SearchOptions one, three;
  one.threads = 1;
  three.threads = 3;
  const SearchResult a = search(candidates, demand, make_request(150), one);
  const SearchResult b = search(candidates, demand, make_request(150), three);
  ASSERT_EQ(a.ranked.size(), b.ranked.size());
  for (std::size_t i = 0; i < a.ranked.size(); ++i) {
    EXPECT_EQ(a.ranked[i].candidate.label(), b.ranked[i].candidate.label());
    EXPECT_EQ(a.ranked[i].replicas, b.ranked[i].replicas);
    EXPECT_EQ(a.ranked[i].summary.journal_hash, b.ranked[i].summary.journal_hash);
  }
  EXPECT_EQ(a.simulations, b.simulations);
}

TEST(Floor, grows_with_the_prompt_and_falls_with_what_is_cached) {
  const Candidate c = make_candidate("a", 1, 5, 100);
  double before = 0;
  for (const std::int64_t prompt : {1, 100, 512, 513, 2000}) {
    const double ttft = floor_of(c.pool, prompt, prompt, 10).ttft_ms;
    EXPECT_GT(ttft, before);
    before = ttft;
    if (prompt > 100) {
      EXPECT_LT(floor_of(c.pool, prompt - 96, prompt, 10).ttft_ms, ttft);
    }
  }
}

TEST(Demand, a_shared_prefix_is_counted_once) {
  std::vector<traces::TraceRequest> requests(3);
  for (auto& r : requests) {
    r.input_tokens = 40;
    r.output_tokens = 1;
    r.block_tokens = 16;
    r.hash_ids = {1, 2, 3};
  }
  requests[2].hash_ids = {9, 2, 3};  // block 2 after another parent is another prefix
  const Demand demand = characterise(requests);
  EXPECT_EQ(demand.uncached_prompt_tokens, (std::vector<std::int64_t>{40, 8, 40}));
}

}  // namespace
}  // namespace orrery::planner
