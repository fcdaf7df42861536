#include "traces/synth.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/traces/text_trace.h"
#include "traces/characterise.h"

namespace orrery::traces {
namespace {

SynthSpec spec_of(const std::string& text) {
  return read_synth_spec(JsonView(JsonDocument::parse(text, "spec.json")));
}

std::vector<TraceRequest> draw(const std::string& spec, std::uint64_t seed = 1) {
  const auto source = open_synth(spec_of(spec), seed);
  std::vector<TraceRequest> rows;
  TraceRequest r;
  while (source->next(r)) rows.push_back(r);
  return rows;
}

std::string with_arrivals(const std::string& arrivals, int requests = 20'000) {
  return R"({"schema": "orrery.synth.v1", "requests": )" + std::to_string(requests) +
         R"(, "arrivals": )" + arrivals + R"(, "input_tokens": 10, "output_tokens": 5})";
}

Characterisation characterise(const std::vector<TraceRequest>& rows) {
  Characteriser c;
  for (const TraceRequest& r : rows) c.add(r);
  return c.finish(true);
}

TEST(Synth, the_checked_in_sample_is_what_its_spec_gives_byte_for_byte) {
  const std::string root = ORRERY_SOURCE_DIR;
  const auto spec = host::read_json(root + "/scenarios/synth/sample.json");
  const auto source = open_synth(read_synth_spec(JsonView(spec)), 1);
  std::vector<TraceRequest> rows;
  TraceRequest r;
  while (source->next(r)) rows.push_back(r);
  EXPECT_TRUE(write_rows(rows, "orrery").text ==
              host::read_file(root + "/scenarios/traces/sample.jsonl"))
      << "run: orrery trace synth scenarios/synth/sample.json -o scenarios/traces/sample.jsonl";
}

TEST(Synth, the_sample_is_light_enough_for_a_small_model_on_two_cores) {
  const ReadResult r =
      read_all(open_trace(std::string(ORRERY_SOURCE_DIR) + "/scenarios/traces/sample.jsonl"));
  const Characterisation c = characterise(r.rows);
  EXPECT_EQ(c.requests, 240);
  // Short enough to replay, slow enough on average for one worker; its bursts need several.
  EXPECT_NEAR(to_seconds(c.span()), 33, 3);
  EXPECT_GE(c.input_tokens.min(), 16);
  EXPECT_LE(c.input_tokens.max(), 200);
  EXPECT_NEAR(c.input_tokens.mean(), 70, 8);
  EXPECT_GE(c.output_tokens.min(), 8);
  EXPECT_LE(c.output_tokens.max(), 64);
  EXPECT_NEAR(c.output_tokens.mean(), 28, 4);
  EXPECT_EQ(c.tenants.counts.size(), 3u);
  EXPECT_GT(c.sessions, 5);
  EXPECT_GT(c.seen_before_share(), 0.2);
  EXPECT_EQ(c.ids_both_ways, 0);
}

TEST(Synth, same_seed_same_rows_other_seed_other_rows) {
  const std::string spec = with_arrivals(R"({"process": "poisson", "rate_per_s": 3})", 100);
  EXPECT_EQ(write_rows(draw(spec, 5), "orrery").text, write_rows(draw(spec, 5), "orrery").text);
  EXPECT_NE(write_rows(draw(spec, 5), "orrery").text, write_rows(draw(spec, 6), "orrery").text);
}

TEST(Synth, changing_one_purpose_leaves_the_draws_of_the_others) {
  const std::string a = R"({"schema": "orrery.synth.v1", "requests": 50,
    "arrivals": {"process": "poisson", "rate_per_s": 3}, "input_tokens":
    {"distribution": "uniform", "min": 1, "max": 100}, "output_tokens": )";
  const auto x = draw(a + "7}"), y = draw(a + R"({"distribution": "exponential", "mean": 9}})");
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(x[i].arrival, y[i].arrival);
    EXPECT_EQ(x[i].input_tokens, y[i].input_tokens);
  }
}

TEST(Synth, arrival_processes_have_their_rate_and_burstiness) {
  const auto poisson =
      characterise(draw(with_arrivals(R"({"process": "poisson", "rate_per_s": 5})")));
  EXPECT_NEAR(poisson.mean_rate(), 5, 0.15);
  EXPECT_NEAR(poisson.gap_cv, 1, 0.03);
  const auto gamma =
      characterise(draw(with_arrivals(R"({"process": "gamma", "rate_per_s": 5, "cv": 2.5})")));
  EXPECT_NEAR(gamma.mean_rate(), 5, 0.3);
  EXPECT_NEAR(gamma.gap_cv, 2.5, 0.2);
  const auto even =
      characterise(draw(with_arrivals(R"({"process": "gamma", "rate_per_s": 5, "cv": 0.2})")));
  EXPECT_NEAR(even.gap_cv, 0.2, 0.01);
  // Two states, 2/s for 30 s and 20/s for 10 s on average: (2*30 + 20*10) / 40 = 6.5/s.
  const auto mmpp = characterise(draw(with_arrivals(
      R"({"process": "mmpp", "rates_per_s": [2, 20], "mean_stay_s": [30, 10]})", 60'000)));
  EXPECT_NEAR(mmpp.mean_rate(), 6.5, 0.7);
  EXPECT_GT(mmpp.per_second.dispersion(), 3);
}

TEST(Synth, a_silent_state_of_mmpp_is_silent) {
  const auto c = characterise(draw(
      with_arrivals(R"({"process": "mmpp", "rates_per_s": [0, 10], "mean_stay_s": [10, 10]})")));
  EXPECT_NEAR(c.mean_rate(), 5, 0.8);
}

TEST(Synth, a_diurnal_day_peaks_where_it_says_and_keeps_its_mean) {
  const auto rows = draw(R"({"schema": "orrery.synth.v1", "duration_s": 864000,
    "arrivals": {"process": "diurnal", "rate_per_s": 0.2, "amplitude": 0.8, "peak_at_s": 50400},
    "input_tokens": 10, "output_tokens": 5})");
  std::vector<double> hours(24);
  for (const TraceRequest& r : rows)
    ++hours[static_cast<std::size_t>(r.arrival.value() / 3'600'000'000'000 % 24)];
  const double mean = static_cast<double>(rows.size()) / 24;
  EXPECT_NEAR(static_cast<double>(rows.size()), 864'000 * 0.2, 2000);
  EXPECT_NEAR((hours[13] + hours[14]) / 2 / mean, 1.79, 0.1);
  EXPECT_NEAR((hours[1] + hours[2]) / 2 / mean, 0.21, 0.05);
  EXPECT_LT(rows.back().arrival, seconds(864'000));
}

TEST(Synth, lengths_follow_their_distribution) {
  const auto rows = draw(R"({"schema": "orrery.synth.v1", "requests": 20000,
    "arrivals": {"process": "poisson", "rate_per_s": 3},
    "input_tokens": {"distribution": "lognormal", "mean": 500, "cv": 0.8},
    "output_tokens": {"distribution": "quantiles",
                      "points": [[0, 10], [0.5, 100], [0.9, 300], [1, 1000]]}})");
  const Characterisation c = characterise(rows);
  EXPECT_NEAR(c.input_tokens.mean(), 500, 15);
  EXPECT_NEAR(static_cast<double>(c.output_tokens.quantile(0.5)), 100, 3);
  EXPECT_NEAR(static_cast<double>(c.output_tokens.quantile(0.9)), 300, 9);
  EXPECT_LE(c.output_tokens.max(), 1000);
}

TEST(Synth, turns_wait_for_the_answer_before_and_repeat_the_conversation) {
  const auto rows = draw(R"({"schema": "orrery.synth.v1", "requests": 500, "block_tokens": 16,
    "arrivals": {"process": "poisson", "rate_per_s": 1},
    "input_tokens": {"distribution": "uniform", "min": 5, "max": 60}, "output_tokens": 20,
    "prefix": [{"tokens": 40}],
    "sessions": {"share": 1, "turns": 3, "think_s": 2, "answer_ms_per_token": 50}})");
  std::map<std::string, const TraceRequest*> by_id;
  int waits = 0;
  for (const TraceRequest& r : rows) {
    ASSERT_FALSE(r.id.empty());
    by_id[r.id] = &r;
    EXPECT_EQ(static_cast<std::int64_t>(r.hash_ids.size()), (r.input_tokens + 15) / 16);
    if (r.after.empty()) continue;
    ++waits;
    ASSERT_EQ(by_id.count(r.after), 1u);
    const TraceRequest& before = *by_id[r.after];
    EXPECT_EQ(*r.think, seconds(2));
    // 20 tokens at 50 ms and 2 s of thought; arrivals are cut to microseconds.
    EXPECT_EQ(r.arrival - before.arrival, seconds(3));
    EXPECT_EQ(r.history_tokens, before.input_tokens + 20);
    EXPECT_GT(r.input_tokens, r.history_tokens);
    for (std::size_t i = 0; i < before.full_blocks(); ++i)
      EXPECT_EQ(r.hash_ids[i], before.hash_ids[i]);
  }
  EXPECT_GT(waits, 300);
}

// No id may stand for a full block in one request and for a partial tail in another, and prefix
// layers take whole blocks: 32000 and 20000 tokens are 63 and 40 blocks of 512.
TEST(Synth, no_block_id_is_ever_both_full_and_partial) {
  const auto rows = draw(R"({"schema": "orrery.synth.v1", "requests": 400, "block_tokens": 512,
    "arrivals": {"process": "poisson", "rate_per_s": 1},
    "tenants": [
      {"name": "a", "prefix": [{"tokens": 32000}, {"tokens": 20000, "choices": 3}],
       "input_tokens": {"distribution": "uniform", "min": 1, "max": 512}, "output_tokens": 300,
       "sessions": {"share": 0.5, "turns": 4, "think_s": 1}},
      {"name": "b", "input_tokens": {"distribution": "uniform", "min": 1, "max": 3000},
       "output_tokens": 5,
       "sessions": {"share": 0.5, "turns": 3, "think_s": 1, "history": false}}]})");
  std::set<std::uint64_t> full, tails, prefixes;
  for (const TraceRequest& r : rows) {
    const std::size_t n = r.full_blocks();
    full.insert(r.hash_ids.begin(), r.hash_ids.begin() + static_cast<std::ptrdiff_t>(n));
    for (std::size_t i = n; i < r.hash_ids.size(); ++i)
      EXPECT_TRUE(tails.insert(r.hash_ids[i]).second) << "a tail shares its id";
    if (r.tenant != "a") continue;
    EXPECT_GT(r.input_tokens, (63 + 40) * 512);
    prefixes.insert(r.hash_ids.begin(), r.hash_ids.begin() + 63 + 40);
  }
  EXPECT_EQ(prefixes.size(), 63u + 3 * 40);
  for (const std::uint64_t id : tails) EXPECT_EQ(full.count(id), 0u);
}

TEST(Synth, tenants_come_by_weight_and_name_themselves) {
  const auto rows = draw(R"({"schema": "orrery.synth.v1", "requests": 8000,
    "arrivals": {"process": "poisson", "rate_per_s": 1}, "input_tokens": 3, "output_tokens": 2,
    "tenants": [{"name": "x", "weight": 3, "priority": 1}, {"name": "y", "model": "m"}]})");
  const Characterisation c = characterise(rows);
  EXPECT_NEAR(static_cast<double>(c.tenants.counts.at("x")), 6000, 150);
  EXPECT_EQ(c.models.counts.at("m"), c.tenants.counts.at("y"));
}

TEST(Synth, arrivals_never_go_back_and_rows_count_up) {
  const auto rows = draw(R"({"schema": "orrery.synth.v1", "requests": 3000,
    "arrivals": {"process": "gamma", "rate_per_s": 50, "cv": 3}, "input_tokens": 3,
    "output_tokens": 40, "sessions": {"share": 0.5, "turns": 5,
    "think_s": {"distribution": "exponential", "mean": 3}}})");
  ASSERT_EQ(rows.size(), 3000u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].row, static_cast<std::int64_t>(i));
    if (i > 0) {
      EXPECT_GE(rows[i].arrival, rows[i - 1].arrival);
    }
  }
}

TEST(Synth, bad_specs_name_the_place_and_what_was_expected) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({"schema": "orrery.synth.v2"})", "orrery.synth.v1"},
      {R"({"schema": "orrery.synth.v1", "requests": 5, "arrivals": {"process": "poison"},
           "input_tokens": 1, "output_tokens": 1})",
       "poisson"},
      {R"({"schema": "orrery.synth.v1", "requests": 5, "arivals": 1})", "arrivals"},
      {R"({"schema": "orrery.synth.v1", "requests": 0})", "1 or more"},
      {with_arrivals(R"({"process": "poisson", "rate_per_s": 0})"), "rate_per_s"},
      {R"({"schema": "orrery.synth.v1", "arrivals": {"process": "poisson", "rate_per_s": 1},
           "input_tokens": 1, "output_tokens": 1})",
       "duration_s"},
      {R"({"schema": "orrery.synth.v1", "requests": 5,
           "arrivals": {"process": "poisson", "rate_per_s": 1}, "input_tokens": 1})",
       "output_tokens"},
      {R"({"schema": "orrery.synth.v1", "requests": 5,
           "arrivals": {"process": "poisson", "rate_per_s": 1}, "output_tokens": 1,
           "input_tokens": {"distribution": "quantiles", "points": [[0, 5], [0.9, 2]]}})",
       "rising"},
  };
  for (const auto& [text, expected] : cases) {
    try {
      spec_of(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(expected), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("spec.json"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace orrery::traces
