// The replay client's parts: reading server-sent events, prompts from a trace, reports.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/serve/client/replay.h"
#include "runtime/serve/client/sse_reader.h"

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

TEST(LoadReport, a_client_that_lags_is_not_open_loop) {
  LoadReport report;
  report.sent(milliseconds(1));
  EXPECT_TRUE(report.open_loop());
  for (int i = 0; i < 10; ++i) report.sent(milliseconds(400));
  EXPECT_FALSE(report.open_loop());
}

}  // namespace
}  // namespace orrery::serve
