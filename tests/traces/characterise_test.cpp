#include "traces/characterise.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "runtime/base/hash.h"
#include "runtime/base/rng.h"
#include "tests/traces/text_trace.h"

namespace orrery::traces {
namespace {

TraceRequest request_at(Duration arrival, std::int64_t input = 10, std::int64_t output = 5) {
  TraceRequest r;
  r.arrival = arrival, r.input_tokens = input, r.output_tokens = output, r.ok = output > 0;
  return r;
}

Characterisation characterise(const std::vector<TraceRequest>& rows, bool confirmed = false) {
  Characteriser c;
  for (const TraceRequest& r : rows) c.add(r);
  return c.finish(confirmed);
}

bool warns(const Characterisation& c, const std::string& text) {
  for (const std::string& w : c.warnings)
    if (w.find(text) != std::string::npos) return true;
  return false;
}

TEST(Characterise, a_metronome_has_no_bursts_and_poisson_has_those_of_poisson) {
  std::vector<TraceRequest> even, random;
  RandomStream draw(1);
  double t = 0;
  for (int i = 0; i < 20'000; ++i) {
    even.push_back(request_at(milliseconds(250) * i));
    random.push_back(request_at(Duration(static_cast<std::int64_t>(t * 1e9))));
    t += draw.next_exponential() / 4;
  }
  const Characterisation e = characterise(even), p = characterise(random);
  EXPECT_DOUBLE_EQ(e.gap_cv, 0);
  EXPECT_DOUBLE_EQ(e.per_second.dispersion(), 0);
  EXPECT_DOUBLE_EQ(e.mean_rate(), 4);
  EXPECT_DOUBLE_EQ(e.peak_rate(), 4);
  EXPECT_NEAR(p.gap_cv, 1, 0.03);
  EXPECT_NEAR(p.per_second.dispersion(), 1, 0.06);
  EXPECT_NEAR(p.mean_rate(), 4, 0.1);
  EXPECT_GT(p.peak_rate(), p.mean_rate());
}

TEST(Characterise, a_quiet_start_is_named_with_its_rate) {
  std::vector<TraceRequest> rows;  // 0.034/s for 20 h, then 3.17/s for 20 h
  for (double t = 0; t < 72'000; t += 1 / 0.034)
    rows.push_back(request_at(Duration(static_cast<std::int64_t>(t * 1e9)), 512, 0));
  for (double t = 72'000; t < 144'000; t += 1 / 3.17)
    rows.push_back(request_at(Duration(static_cast<std::int64_t>(t * 1e9))));
  const std::int64_t failed =
      std::count_if(rows.begin(), rows.end(), [](const TraceRequest& r) { return !r.ok; });
  const Characterisation c = characterise(rows);
  EXPECT_TRUE(warns(c, "the rate is 0.034 requests/s, 2.1 % of the mean"))
      << (c.warnings.empty() ? "" : c.warnings[0]);
  EXPECT_EQ(c.failed, failed);
  EXPECT_EQ(c.input_tokens.count(), c.requests - c.failed);  // lengths are of good requests
  EXPECT_EQ(c.input_tokens.max(), 10);
  EXPECT_NEAR(c.peak_rate(), 3.17, 0.05);
  std::int64_t sum = 0;
  for (const std::int64_t n : c.profile.requests) sum += n;
  EXPECT_EQ(sum, c.requests);
}

TEST(Characterise, implausible_rates_ask_for_the_unit) {
  std::vector<TraceRequest> fast, slow;
  for (int i = 0; i < 100; ++i) {
    fast.push_back(request_at(Duration(50'000) * i));
    slow.push_back(request_at(seconds(5000) * i));
  }
  EXPECT_TRUE(warns(characterise(fast), "implausible"));
  EXPECT_TRUE(warns(characterise(slow), "implausible"));
  EXPECT_FALSE(warns(characterise(fast, true), "implausible"));
}

TEST(Characterise, prefix_sharing_is_that_of_full_blocks_behind_a_shared_prefix) {
  std::vector<TraceRequest> rows;
  auto add = [&](std::int64_t input, std::vector<std::uint64_t> ids) {
    TraceRequest r = request_at(seconds(static_cast<std::int64_t>(rows.size())), input);
    r.block_tokens = 512, r.hash_ids = std::move(ids);
    rows.push_back(r);
  };
  add(1024, {1, 2});
  add(694, {1, 2});   // 512 seen: its tail never matches, and id 2 is used both ways
  add(1024, {3, 2});  // nothing: block 2 stands behind another prefix
  add(1536, {1, 2, 9});
  const Characterisation c = characterise(rows);
  EXPECT_EQ(c.seen_before_tokens, 512 + 0 + 1024);
  EXPECT_EQ(c.ids_both_ways, 1);
  EXPECT_TRUE(warns(c, "partial tail"));
  EXPECT_DOUBLE_EQ(c.seen_before_share(), 1536.0 / (1024 + 694 + 1024 + 1536));
  EXPECT_FALSE(characterise({request_at(seconds(1))}).has_prefix_data);
}

TEST(Characterise, the_block_table_equals_a_set_while_exact_and_stays_close_when_sampled) {
  BlockTable exact, small(1024);
  std::set<std::uint64_t> seen;
  std::int64_t hits = 0, by_exact = 0, by_small = 0;
  RandomStream draw(3);
  for (int i = 0; i < 20'000; ++i) {
    TraceRequest r;
    r.block_tokens = 16, r.input_tokens = 64;
    const std::uint64_t first = draw.next_below(3000);
    // Half of the requests begin with one of two hot blocks.
    r.hash_ids = {i % 2 == 0 ? draw.next_below(2) : first, first * 7 + 1, draw.next_below(2),
                  draw.next_below(1000)};
    std::uint64_t chain = 16;
    for (const std::uint64_t id : r.hash_ids) {
      chain = hash_combine(chain, id);
      hits += seen.insert(chain).second ? 0 : 16;
    }
    by_exact += exact.add(r), by_small += small.add(r);
  }
  EXPECT_EQ(by_exact, hits);
  EXPECT_EQ(exact.one_in(), 1);
  EXPECT_EQ(exact.distinct(), static_cast<std::int64_t>(seen.size()));
  EXPECT_GT(small.one_in(), 1);
  EXPECT_NEAR(static_cast<double>(by_small), static_cast<double>(hits),
              0.1 * static_cast<double>(hits));
}

TEST(Characterise, sessions_and_waits_are_counted_and_unknown_ones_told) {
  TraceRequest a = request_at(seconds(0)), b = request_at(seconds(1)), c = request_at(seconds(2));
  a.id = "x", a.session = b.session = "s";
  b.after = "x", c.after = "nobody";
  const Characterisation r = characterise({a, b, c});
  EXPECT_EQ(r.sessions, 1);
  EXPECT_EQ(r.session_requests, 2);
  EXPECT_EQ(r.chained, 2);
  EXPECT_EQ(r.unknown_after, 1);
  EXPECT_TRUE(warns(r, "wait for an \"after\""));
}

TEST(Characterise, one_request_or_all_at_once_give_no_nonsense) {
  const Characterisation one = characterise({request_at(seconds(5))});
  EXPECT_EQ(one.mean_rate(), 0);
  EXPECT_EQ(one.gap_cv, 0);
  const Characterisation all = characterise({request_at(seconds(5)), request_at(seconds(5))});
  EXPECT_TRUE(warns(all, "at the same time"));
  for (const Characterisation* c : {&one, &all}) {  // NaN would be written as null
    const Json json = c->to_json();
    EXPECT_TRUE(json["prefix_sharing"].is_null());
    for (const auto& [key, value] : json["rate"].items()) EXPECT_FALSE(value.is_null()) << key;
    for (const auto& [key, value] : json["burstiness"].items()) EXPECT_EQ(value, 0) << key;
  }
}

}  // namespace
}  // namespace orrery::traces
