// The replay client's parts: reading server-sent events, prompts from a trace, reports.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "runtime/serve/client/replay.h"
#include "runtime/serve/client/sse_reader.h"
#include "sim/prefix.h"

namespace orrery::serve {
namespace {

TEST(SseReader, byte_by_byte_gives_the_same_events_as_at_once) {
  const std::string stream =
      ": comment\n\ndata: {\"a\":1}\n\ndata: two\ndata: lines\r\n\r\nevent: x\ndata:tight\n\n"
      "data: [DONE]\n\ndata: not ended";
  const std::vector<std::string> expected{"{\"a\":1}", "two\nlines", "tight", "[DONE]"};
  SseReader whole;
  EXPECT_EQ(whole.push(stream), expected);
  SseReader split;
  std::vector<std::string> events;
  for (const char c : stream) {
    for (std::string& event : split.push(std::string(1, c))) events.push_back(std::move(event));
  }
  EXPECT_EQ(events, expected);
}

TEST(Prompt, equal_hash_ids_give_equal_tokens_and_other_rows_share_nothing) {
  traces::TraceRequest a, b, c;
  a.row = 1, a.input_tokens = 40, a.block_tokens = 16, a.hash_ids = {7, 8, 9};
  b.row = 2, b.input_tokens = 40, b.block_tokens = 16, b.hash_ids = {7, 8, 10};
  c.row = 3, c.input_tokens = 40;
  const auto prompt_of = [](const traces::TraceRequest& row, std::uint64_t seed) {
    return PromptMaker(seed).prompt_of(row);
  };
  const auto pa = prompt_of(a, 1), pb = prompt_of(b, 1), pc = prompt_of(c, 1);
  ASSERT_EQ(pa.size(), 40U);
  EXPECT_TRUE(std::equal(pa.begin(), pa.begin() + 32, pb.begin()));
  EXPECT_FALSE(std::equal(pa.begin() + 32, pa.end(), pb.begin() + 32));
  EXPECT_NE(pa, pc);
  EXPECT_EQ(pc, prompt_of(c, 1));
  EXPECT_NE(pc, prompt_of(c, 2));
  c.row = 4;
  EXPECT_NE(pc, prompt_of(c, 1));
  for (const std::int32_t id : pa) EXPECT_TRUE(id >= 5 && id < 255) << id;
}

TEST(Prompt, a_partial_block_is_not_the_start_of_a_whole_one) {
  traces::TraceRequest whole, part;
  whole.row = 1, whole.input_tokens = 64, whole.block_tokens = 64, whole.hash_ids = {7};
  part.row = 2, part.input_tokens = 40, part.block_tokens = 64, part.hash_ids = {7};
  PromptMaker maker(1);
  const auto pw = maker.prompt_of(whole), pp = maker.prompt_of(part);
  EXPECT_FALSE(std::equal(pp.begin(), pp.begin() + 16, pw.begin()));
}

template <class T>
std::int64_t shared_prefix(const std::vector<T>& a, const std::vector<T>& b) {
  std::size_t n = 0;
  while (n < std::min(a.size(), b.size()) && a[n] == b[n]) ++n;
  return static_cast<std::int64_t>(n);
}

TEST(Prompt, turns_of_a_session_share_the_history_that_the_twin_counts) {
  constexpr std::int64_t kBlock = 16;
  RandomStream random(7);
  const auto draw = [&random](std::uint64_t below) {
    return static_cast<std::int64_t>(random.next_below(below));
  };
  for (int repeat = 0; repeat < 50; ++repeat) {
    PromptMaker maker(1);
    sim::PrefixHashes twin(1);
    std::vector<std::int32_t> last_prompt;
    std::vector<BlockHash> last_chain;
    std::int64_t tokens = 0;
    for (std::int64_t turn = 0; turn < 8; ++turn) {
      traces::TraceRequest row;
      row.row = turn, row.session = "s";
      // All of the conversation, a part of it, or none.
      const std::int64_t kind = draw(4);
      row.history_tokens = kind == 0 ? 0 : kind == 1 ? tokens / 2 : tokens;
      row.input_tokens = row.history_tokens + 1 + draw(60);
      row.output_tokens = 1 + draw(40);
      tokens = row.input_tokens + row.output_tokens;
      sim::Row same;
      same.id = static_cast<std::uint64_t>(turn + 1), same.session = 1;
      same.history_tokens = row.history_tokens;
      same.input_tokens = row.input_tokens, same.output_tokens = row.output_tokens;
      const auto prompt = maker.prompt_of(row);
      const auto chain = twin.prompt_chain(same, Tokens(kBlock));
      ASSERT_EQ(static_cast<std::int64_t>(prompt.size()), row.input_tokens);
      EXPECT_EQ(shared_prefix(prompt, last_prompt) / kBlock, shared_prefix(chain, last_chain))
          << "repeat " << repeat << " turn " << turn;
      last_prompt = prompt, last_chain = chain;
    }
  }
}

TEST(Prompt, sessions_and_rows_without_one_share_nothing) {
  PromptMaker maker(1);
  traces::TraceRequest a, b, c, d;
  a.row = 0, a.session = "a", a.input_tokens = 64;
  b.row = 1, b.session = "b", b.input_tokens = 64, b.history_tokens = 32;
  c.row = 2, c.input_tokens = 64, c.history_tokens = 32;
  d.row = 3, d.input_tokens = 64, d.history_tokens = 32;
  std::vector<std::vector<std::int32_t>> prompts;
  for (const auto* row : {&a, &b, &c, &d}) prompts.push_back(maker.prompt_of(*row));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_LT(shared_prefix(prompts[i], prompts[j]), 8);
  }
}

TEST(Url, parts_and_refusals) {
  const Endpoint plain = parse_url("http://localhost:8000/v1/");
  EXPECT_EQ(plain.host, "localhost");
  EXPECT_EQ(plain.port, 8000);
  EXPECT_EQ(plain.path, "");
  EXPECT_EQ(parse_url("example.test/base").path, "/base");
  EXPECT_EQ(parse_url("http://[::1]:81").host, "::1");
  EXPECT_EQ(parse_url("http://[::1]:81").port, 81);
  EXPECT_THROW(parse_url("http://:80"), InputError);
  EXPECT_THROW(parse_url("http://a:b"), InputError);
  EXPECT_THROW(parse_url("ftp://a"), InputError);
  EXPECT_THROW(parse_url("https://a"), Unsupported);
}

TEST(LoadReport, every_request_is_accounted_for_and_tpot_leaves_out_the_first_token) {
  LoadReport report;
  for (int i = 0; i < 4; ++i) report.submitted();
  AnswerTimes times;
  times.first = milliseconds(100), times.last = milliseconds(500);
  times.prompt_tokens = 10, times.completion_tokens = 5, times.cached_tokens = 5;
  report.completed(times);
  report.rejected("HTTP 400");
  report.failed("broken");
  report.cancelled();
  report.set_wall(seconds(2));
  const Json json = report.to_json();
  EXPECT_EQ(report.ended(), 4);
  EXPECT_NEAR(json["tpot_ms"]["p50"].get<double>(), 100, 0.5);
  EXPECT_NEAR(json["ttft_ms"]["p50"].get<double>(), 100, 0.5);
  EXPECT_DOUBLE_EQ(json["throughput"]["output_tokens_per_s"].get<double>(), 2.5);
  EXPECT_DOUBLE_EQ(json["kv"]["hit_rate"].get<double>(), 0.5);
  EXPECT_EQ(json["errors"]["HTTP 400"], 1);
}

// Seven good answers, an error before the first token, an HTTP 500, and one cut after five tokens.
TEST(LoadReport, statistics_are_of_the_completed_and_goodput_divides_by_all) {
  LoadReport report;
  RequestLimits limits;
  limits.limits.push_back({RequestLimits::Limit::Of::kTtft, 95, milliseconds(100)});
  limits.limits.push_back({RequestLimits::Limit::Of::kItl, 95, milliseconds(30)});
  report.set_limits(limits);
  for (int i = 0; i < 10; ++i) report.submitted();
  for (int i = 0; i < 7; ++i) {
    AnswerTimes times;  // the last comes too late for its limit
    times.first = milliseconds(i == 6 ? 150 : 50);
    times.gaps.assign(9, milliseconds(10));
    times.last = times.first + milliseconds(90);
    times.prompt_tokens = 100, times.completion_tokens = 10;
    report.completed(times);
  }
  report.failed("stream error overloaded");
  report.failed("HTTP 500");
  report.unfinished("the stream broke off", 5);
  report.set_wall(seconds(2));
  const Json json = report.to_json();
  EXPECT_EQ(json["requests"], Json::parse(R"({"submitted":10,"completed":7,"rejected":0,"failed":2,
                                              "cancelled":0,"unfinished":1})"));
  EXPECT_EQ(report.ended(), 10);
  EXPECT_DOUBLE_EQ(json["completed_fraction"].get<double>(), 0.7);
  for (const char* metric : {"ttft_ms", "tpot_ms", "e2e_ms"}) {
    EXPECT_EQ(json[metric]["count"], 7) << metric;
    EXPECT_EQ(json[metric]["note"], "p99 is the maximum of 7 values") << metric;
  }
  EXPECT_EQ(json["itl_ms"]["count"], 63);
  EXPECT_DOUBLE_EQ(json["itl_ms"]["mean"].get<double>(), 10);
  EXPECT_DOUBLE_EQ(json["goodput"]["fraction"].get<double>(), 0.6);
  EXPECT_DOUBLE_EQ(json["goodput"]["requests_per_s"].get<double>(), 3);
  EXPECT_EQ(json["client"]["output_tokens"], 70);
  EXPECT_EQ(json["client"]["unfinished_output_tokens"], 5);
  EXPECT_EQ(json["errors"].size(), 3U);
  EXPECT_TRUE(json["kv"]["hit_rate"].is_null());
}

TEST(LoadReport, gaps_may_be_late_as_often_as_the_percentile_allows) {
  RequestLimits limits;
  limits.limits.push_back({RequestLimits::Limit::Of::kItl, 90, milliseconds(20)});
  AnswerTimes times;
  times.gaps.assign(10, milliseconds(10));
  times.gaps[3] = milliseconds(500);
  EXPECT_TRUE(limits.met_by(times));
  times.gaps[4] = milliseconds(21);
  EXPECT_FALSE(limits.met_by(times));
  times.gaps.clear();
  EXPECT_TRUE(limits.met_by(times));
  times.last = milliseconds(30), times.deadline = milliseconds(29);
  EXPECT_FALSE(limits.met_by(times));
}

TEST(LoadReport, without_limits_there_is_no_goodput_and_nothing_measured_is_null) {
  const Json json = LoadReport().to_json();
  EXPECT_TRUE(json["goodput"]["fraction"].is_null());
  EXPECT_TRUE(json["completed_fraction"].is_null());
  EXPECT_TRUE(json["ttft_ms"]["p99"].is_null());
  EXPECT_EQ(json["ttft_ms"]["count"], 0);
}

TEST(LoadReport, a_client_that_lags_is_not_open_loop) {
  LoadReport report;
  report.sent(milliseconds(1));
  EXPECT_TRUE(report.open_loop());
  for (int i = 0; i < 10; ++i) report.sent(milliseconds(400));
  EXPECT_FALSE(report.open_loop());
}

}  // namespace
}  // namespace orrery::serve
