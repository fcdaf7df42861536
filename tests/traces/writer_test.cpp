#include "traces/writer.h"

#include <set>

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/base/json.h"
#include "tests/traces/text_trace.h"
#include "traces/characterise.h"

namespace orrery::traces {
namespace {

std::int64_t seen_before(const std::vector<TraceRequest>& rows) {
  Characteriser c;
  for (const TraceRequest& r : rows) c.add(r);
  return c.finish().seen_before_tokens;
}

TEST(Writer, azure_to_orrery_to_azure_differs_in_nothing_but_line_ends) {
  const std::string azure =
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
      "2024-02-29 00:00:00.0000001,1,0\n";
  const ReadResult first = read_text(azure);
  const std::string own = write_rows(first.rows, "orrery", {first.report.start}).text;
  const ReadResult second = read_text(own);
  const WriteResult back = write_rows(second.rows, "azure", {second.report.start});
  EXPECT_EQ(back.text, azure);
  EXPECT_TRUE(back.losses.empty());
}

TEST(Writer, the_real_azure_file_comes_back_whole) {
  const std::string path = public_trace("azure2023/AzureLLMInferenceTrace_conv.csv");
  if (path.empty()) GTEST_SKIP() << "ORRERY_SHARED has no azure2023";
  std::string original;
  host::LineReader lines(host::open_reader(path));
  for (std::string_view line; lines.next(line);) original += std::string(line) + "\n";
  const ReadResult first = read_all(open_trace(path));
  const ReadResult second = read_text(write_rows(first.rows, "orrery", {first.report.start}).text);
  EXPECT_TRUE(write_rows(second.rows, "azure", {second.report.start}).text == original);
}

TEST(Writer, what_a_format_cannot_hold_is_counted_by_field) {
  TraceRequest r;
  r.arrival = Duration(1'500'000'050), r.input_tokens = 20, r.output_tokens = 4;
  r.model = "m", r.session = "s", r.tenant = "t", r.priority = 1, r.hash_ids = {1, 2};
  r.block_tokens = 16, r.deadline = seconds(3);
  TraceRequest plain;
  plain.arrival = seconds(2), plain.input_tokens = 1, plain.output_tokens = 1;
  const WriteResult azure = write_rows({r, plain}, "azure");
  for (const char* field : {"model", "session", "tenant", "priority", "hash_ids", "deadline_s",
                            "arrival_s below 100 ns"})
    EXPECT_EQ(azure.lost(field), 1) << field;
  EXPECT_EQ(azure.lost("the date"), 2);
  EXPECT_EQ(azure.lost("app"), 0);
  const WriteResult burst = write_rows({r, plain}, "burstgpt");
  EXPECT_EQ(burst.lost("session"), 0);
  EXPECT_EQ(burst.lost("model"), 0);
  EXPECT_EQ(burst.lost("arrival_s below 1 s"), 1);
  EXPECT_EQ(write_rows({r, plain}, "orrery").losses.size(), 0u);
  EXPECT_EQ(write_rows({r}, "openai-batch").lost("arrival_s"), 1);
}

TEST(Writer, every_format_but_the_batch_reads_back_with_its_lengths) {
  std::vector<TraceRequest> rows;
  for (int i = 0; i < 20; ++i) {
    TraceRequest r;
    r.arrival = seconds(i), r.input_tokens = 600 + i, r.output_tokens = i % 5, r.ok = i % 5 > 0;
    rows.push_back(r);
  }
  for (const char* format : {"orrery", "mooncake", "azure", "burstgpt"}) {
    const ReadResult r = read_text(write_rows(rows, format).text);
    EXPECT_EQ(r.report.format, format);
    ASSERT_EQ(r.rows.size(), rows.size()) << format;
    EXPECT_EQ(r.report.failed_requests, 4) << format;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(r.rows[i].arrival, rows[i].arrival) << format;
      EXPECT_EQ(r.rows[i].input_tokens, rows[i].input_tokens) << format;
      EXPECT_EQ(r.rows[i].output_tokens, rows[i].output_tokens) << format;
    }
  }
}

TEST(Writer, mooncake_blocks_share_what_blocks_of_16_shared_to_whole_512s) {
  std::vector<TraceRequest> rows;
  auto add = [&](std::int64_t shared, std::int64_t input) {  // first `shared` tokens are common
    TraceRequest r;
    r.arrival = seconds(static_cast<std::int64_t>(rows.size()));
    r.input_tokens = input, r.output_tokens = 1, r.block_tokens = 16;
    for (std::int64_t i = 0; i * 16 < input; ++i)
      r.hash_ids.push_back(static_cast<std::uint64_t>(
          (i + 1) * 16 <= shared ? i : 100'000 * (1 + static_cast<int>(rows.size())) + i));
    rows.push_back(r);
  };
  add(1500, 1500), add(1024, 1100), add(600, 2000), add(16, 300);
  const ReadResult r = read_text(write_rows(rows, "mooncake").text);
  ASSERT_EQ(r.rows.size(), 4u);
  for (const TraceRequest& row : r.rows)
    EXPECT_EQ(static_cast<std::int64_t>(row.hash_ids.size()), (row.input_tokens + 511) / 512);
  EXPECT_EQ(seen_before(r.rows), 1024 + 512);
  EXPECT_EQ(r.report.bad, 0);
  // Ids of 512-token blocks pass as they are.
  const std::string same =
      "{\"timestamp\": 0, \"input_length\": 700, \"output_length\": 2, \"hash_ids\": [5, 9]}\n";
  EXPECT_EQ(write_rows(read_text(same).rows, "mooncake").text, same);
}

TEST(Writer, blocks_of_1024_share_the_same_tokens_when_split_into_512s) {
  std::vector<TraceRequest> rows(2);
  for (TraceRequest& r : rows) r.input_tokens = 2500, r.output_tokens = 1, r.block_tokens = 1024;
  rows[0].hash_ids = {1, 2, 3}, rows[1].hash_ids = {1, 7, 8};
  const ReadResult r = read_text(write_rows(rows, "mooncake").text);
  EXPECT_EQ(seen_before(r.rows), 1024);
  EXPECT_EQ(r.rows[0].hash_ids.size(), 5u);
}

TEST(Writer, batch_lines_are_json_with_equal_text_for_equal_blocks) {
  TraceRequest a, b, failed;
  a.input_tokens = 40, a.output_tokens = 7, a.block_tokens = 16, a.hash_ids = {1, 2, 3};
  b = a, b.hash_ids = {1, 2, 4}, b.kind = "completion", b.id = "q\"1", b.row = 1;
  failed.input_tokens = 5, failed.ok = false;
  const WriteResult w = write_rows({a, b, failed}, "openai-batch");
  EXPECT_EQ(w.rows, 2);
  const std::size_t cut = w.text.find('\n');
  const Json first = Json::parse(w.text.substr(0, cut)), second = Json::parse(w.text.substr(cut));
  EXPECT_EQ(first["url"], "/v1/chat/completions");
  EXPECT_EQ(second["url"], "/v1/completions");
  EXPECT_EQ(second["custom_id"], "q\"1");
  EXPECT_EQ(first["body"]["max_tokens"], 7);
  const std::string x = first["body"]["messages"][0]["content"], y = second["body"]["prompt"];
  EXPECT_EQ(std::count(x.begin(), x.end(), ' '), 39);
  std::size_t common = 0;
  while (common < x.size() && x[common] == y[common]) ++common;
  EXPECT_GE(std::count(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(common), ' '), 31);
  EXPECT_NE(x, y);
  EXPECT_EQ(w.lost("whole rows of failed requests"), 1);
}

TEST(Writer, an_unknown_format_lists_the_known_ones) {
  try {
    write_rows({}, "csv");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("openai-batch"), std::string::npos);
  }
}

}  // namespace
}  // namespace orrery::traces
