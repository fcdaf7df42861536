#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "tests/traces/text_trace.h"

namespace orrery::traces {
namespace {

constexpr const char* kAzureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
constexpr const char* kBurstHeader =
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";

std::string error_of(const std::string& text, const ReadOptions& options = {}) {
  try {
    read_text(text, options);
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

// --- Azure --------------------------------------------------------------------------------------

TEST(Azure, keeps_all_seven_fractional_digits) {
  const ReadResult r = read_text(std::string(kAzureHeader) +
                                 "2023-11-16 18:15:46.6805900,374,44\n"
                                 "2023-11-16 18:15:46.6805901,396,109\n"
                                 "2023-11-17 00:00:00.0000000,1,1\n");
  ASSERT_EQ(r.rows.size(), 3u);
  EXPECT_EQ(r.rows[0].arrival, Duration(0));
  EXPECT_EQ(r.rows[1].arrival, Duration(100));
  EXPECT_EQ(r.rows[2].arrival, Duration(20'653'319'410'000));
  EXPECT_EQ(r.rows[1].input_tokens, 396);
  EXPECT_EQ(r.rows[1].output_tokens, 109);
  EXPECT_EQ(r.report.format, "azure");
  EXPECT_NE(r.report.timestamp_unit.find("steps of 100 ns"), std::string::npos);
  EXPECT_NE(r.report.timestamp_unit.find("no zone"), std::string::npos);
  EXPECT_EQ(r.report.start, "2023-11-16T18:15:46.680590000");
}

TEST(Azure, crlf_and_a_missing_final_newline_change_no_value_and_are_reported) {
  const ReadResult r = read_text(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109");
  ASSERT_EQ(r.rows.size(), 2u);
  EXPECT_EQ(r.rows[1].output_tokens, 109);
  EXPECT_NE(find_problem(r.report.oddities, "line ends are CRLF"), nullptr);
  EXPECT_NE(find_problem(r.report.oddities, "no newline at the end of the file"), nullptr);
  EXPECT_EQ(r.report.bad, 0);
}

TEST(Azure, rows_out_of_order_come_out_in_order_and_are_counted) {
  const ReadResult r = read_text(std::string(kAzureHeader) +
                                 "2024-05-10 00:00:09,3,1\n2024-05-10 00:00:01,1,1\n"
                                 "2024-05-10 00:00:05,2,1\n2024-05-10 00:00:12,4,1\n");
  ASSERT_EQ(r.rows.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(r.rows[i].input_tokens, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(r.rows[i].row, static_cast<std::int64_t>(i));
  }
  EXPECT_EQ(r.rows[0].arrival, Duration(0));
  EXPECT_EQ(r.rows[3].arrival, seconds(11));
  const RowProblem* p =
      find_problem(r.report.oddities, "timestamp before the row above (put in order)");
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p->count, 1);
  EXPECT_EQ(p->first_line, 3);
}

TEST(Azure, a_row_older_than_the_window_is_placed_at_its_edge_and_counted) {
  ReadOptions options;
  options.sort_window = 2;
  const ReadResult r = read_text(std::string(kAzureHeader) +
                                     "2024-05-10 00:00:10,1,1\n2024-05-10 00:00:20,2,1\n"
                                     "2024-05-10 00:00:30,3,1\n2024-05-10 00:00:01,4,1\n",
                                 options);
  ASSERT_EQ(r.rows.size(), 4u);
  for (std::size_t i = 1; i < r.rows.size(); ++i)
    EXPECT_GE(r.rows[i].arrival, r.rows[i - 1].arrival);
  EXPECT_NE(find_problem(r.report.oddities, "row older than the sort window (placed at its edge)"),
            nullptr);
}

TEST(Azure, zones_are_honoured_and_mixed_zones_reported) {
  const ReadResult r = read_text(std::string(kAzureHeader) +
                                 "2024-05-10T00:00:00Z,1,1\n2024-05-10T02:00:01+02:00,2,1\n"
                                 "2024-05-10 00:00:02,3,1\n2024-05-09T19:00:03.5-0500,4,1\n");
  ASSERT_EQ(r.rows.size(), 4u);
  EXPECT_EQ(r.rows[1].arrival, seconds(1));
  EXPECT_EQ(r.rows[2].arrival, seconds(2));
  EXPECT_EQ(r.rows[3].arrival, milliseconds(3500));
  EXPECT_NE(find_problem(r.report.oddities, "zone given in some rows only (others taken as UTC)"),
            nullptr);
}

TEST(Azure, columns_are_found_by_name_and_without_header_by_place) {
  const ReadResult moved =
      read_text("GeneratedTokens,Extra,TIMESTAMP,ContextTokens\n7,x,2024-05-10 00:00:00,5\n");
  ASSERT_EQ(moved.rows.size(), 1u);
  EXPECT_EQ(moved.rows[0].input_tokens, 5);
  EXPECT_EQ(moved.rows[0].output_tokens, 7);
  EXPECT_NE(find_problem(moved.report.oddities, "columns that are not read"), nullptr);
  const ReadResult bare = read_text("2024-05-10 00:00:00.009930,2162,5\n");
  ASSERT_EQ(bare.rows.size(), 1u);
  EXPECT_EQ(bare.rows[0].input_tokens, 2162);
  const ReadResult marked = read_text(
      "\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\n"
      "\"2024-05-10 00:00:00\", 2162 ,5\n");
  ASSERT_EQ(marked.rows.size(), 1u);
  EXPECT_EQ(marked.rows[0].input_tokens, 2162);
}

// --- Bad rows -----------------------------------------------------------------------------------

TEST(BadRows, are_skipped_and_counted_by_kind_with_their_first_line) {
  std::string text = kAzureHeader;
  for (int i = 0; i < 1000; ++i) text += "2024-05-10 00:00:00,10,5\n";
  text += "2024-05-10 00:00:01,,5\n";     // line 1002
  text += "2024-05-10 00:00:01,-3,5\n";   // 1003
  text += "2024-13-10 00:00:01,3,5\n";    // 1004
  text += "2024-02-30 00:00:01,3,5\n";    // 1005
  text += "2024-05-10 00:00:01,3\n";      // 1006
  text += "2024-05-10 00:00:01,3.5,1\n";  // 1007
  text += "2024-05-10 00:00:01,0,5\n";    // 1008
  text += "2024-05-10 00:00:01,999999999,5\n";
  const ReadResult r = read_text(text);
  EXPECT_EQ(r.report.rows, 1008);
  EXPECT_EQ(r.report.good, 1000);
  EXPECT_EQ(r.report.bad, 8);
  auto at = [&](std::string_view kind, std::int64_t count, std::int64_t line) {
    const RowProblem* p = find_problem(r.report.problems, kind);
    ASSERT_NE(p, nullptr) << kind;
    EXPECT_EQ(p->count, count) << kind;
    EXPECT_EQ(p->first_line, line) << kind;
  };
  at("empty field", 1, 1002);
  at("negative count", 1, 1003);
  at("timestamp not understood", 2, 1004);
  at("wrong number of fields", 1, 1006);
  at("not a whole number", 1, 1007);
  at("no input tokens", 1, 1008);
  at("implausible count (over 10^8)", 1, 1009);
}

TEST(BadRows, over_one_percent_stop_unless_tolerated) {
  auto text = [](int good, int bad) {
    std::string t = kAzureHeader;
    for (int i = 0; i < good; ++i) t += "2024-05-10 00:00:00,10,5\n";
    for (int i = 0; i < bad; ++i) t += "2024-05-10 00:00:00,ten,5\n";
    return t;
  };
  EXPECT_EQ(read_text(text(99, 1)).report.bad, 1);  // exactly 1 %
  const std::string error = error_of(text(98, 2));
  EXPECT_NE(error.find("trace.txt:100"), std::string::npos) << error;
  EXPECT_NE(error.find("2 of 100 rows"), std::string::npos) << error;
  EXPECT_NE(error.find("not a whole number"), std::string::npos) << error;
  EXPECT_NE(error.find("--tolerate"), std::string::npos) << error;
  ReadOptions tolerate;
  tolerate.tolerate = true;
  EXPECT_EQ(read_text(text(98, 2), tolerate).report.good, 98);
  EXPECT_NE(error_of(text(0, 2), tolerate), "no error");  // nothing is left to go on with
}

TEST(BadRows, a_file_without_requests_is_an_error) {
  EXPECT_NE(error_of(kAzureHeader).find("no requests"), std::string::npos);
  EXPECT_NE(error_of("").find("an empty file"), std::string::npos);
  EXPECT_NE(error_of("\n \n\n").find("an empty file"), std::string::npos);
}

TEST(Detection, an_unknown_format_says_what_was_seen_and_what_is_known) {
  const std::string csv = error_of("request_id,arrival_timestamp,prompt_size\n0,1,2\n");
  EXPECT_NE(csv.find("request_id,arrival_timestamp"), std::string::npos) << csv;
  for (const char* name : {"orrery:", "mooncake:", "azure:", "burstgpt:"})
    EXPECT_NE(csv.find(name), std::string::npos) << csv;
  const std::string json = error_of(R"({"event": {"schema": "x"}, "ts": 3})");
  EXPECT_NE(json.find("\"event\", \"ts\""), std::string::npos) << json;
  EXPECT_NE(error_of(std::string("\x01\x02\x00\x03", 4)).find("binary data"), std::string::npos);
  ReadOptions options;
  options.format = "azur";
  EXPECT_NE(error_of("x\n", options).find("azure"), std::string::npos);
  options.format = "azure";
  EXPECT_NE(error_of("a,b,c\n1,2,3\n", options).find("TIMESTAMP,ContextTokens"), std::string::npos);
}

// --- BurstGPT -----------------------------------------------------------------------------------

TEST(BurstGpt, six_and_eight_columns_are_read_and_no_response_means_failed) {
  const ReadResult six = read_text(std::string(kBurstHeader) +
                                   "5,ChatGPT,472,18,490,Conversation log\n"
                                   "45,GPT-4,512,0,512,API log\n60,GPT-4,0,0,0,API log\n");
  ASSERT_EQ(six.rows.size(), 3u);
  EXPECT_EQ(six.rows[0].model, "ChatGPT");
  EXPECT_EQ(six.rows[0].kind, "chat");
  EXPECT_TRUE(six.rows[0].ok);
  EXPECT_FALSE(six.rows[1].ok);
  EXPECT_FALSE(six.rows[2].ok);
  EXPECT_EQ(six.rows[1].arrival, seconds(40));
  EXPECT_EQ(six.report.failed_requests, 2);
  EXPECT_EQ(six.report.timestamp_unit, "seconds");
  const ReadResult eight = read_text(
      "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log "
      "Type\n5.5,abc,3,ChatGPT,472,18,490,Conversation log\n7,,,GPT-4,10,5,16,API log\n");
  ASSERT_EQ(eight.rows.size(), 2u);
  EXPECT_EQ(eight.rows[0].session, "abc");
  EXPECT_EQ(eight.rows[1].session, "");
  EXPECT_EQ(eight.rows[1].arrival, milliseconds(1500));
  EXPECT_NE(find_problem(eight.report.oddities,
                         "total is not the sum of request and response tokens (not used)"),
            nullptr);
}

// --- Mooncake -----------------------------------------------------------------------------------

TEST(Mooncake, a_partial_tail_never_matches_a_full_block) {
  const ReadResult r = read_text(
      "{\"timestamp\":0,\"input_length\":1024,\"output_length\":8,\"hash_ids\":[1,2]}\n"
      "{\"timestamp\":5000,\"input_length\":694,\"output_length\":8,\"hash_ids\":[1,2]}\n");
  ASSERT_EQ(r.rows.size(), 2u);
  EXPECT_EQ(r.rows[0].block_tokens, 512);
  EXPECT_EQ(r.rows[0].full_blocks(), 2u);
  EXPECT_EQ(r.rows[1].full_blocks(), 1u);  // 512 tokens can be shared, not 694 or 1024
  EXPECT_EQ(r.rows[1].arrival, seconds(5));
}

TEST(Mooncake, ticks_are_told_with_their_length_and_largest_burst) {
  std::string text;
  for (int tick = 0; tick < 20; ++tick)
    for (int i = 0; i < 5 + tick % 3; ++i)
      text += "{\"timestamp\": " + std::to_string(tick * 3050) +
              ", \"input_length\": " + std::to_string(100 + i) +
              ", \"output_length\": 5, \"hash_ids\": [" + std::to_string(i) + "]}\n";
  const ReadResult r = read_text(text);
  const RowProblem* ticks = find_problem(r.report.oddities, "ticks");
  ASSERT_NE(ticks, nullptr);
  EXPECT_EQ(ticks->example, "timestamps come in ticks of 3.05 s: up to 7 at once");
  EXPECT_EQ(r.rows[1].arrival, Duration(0));  // reported, not altered
}

TEST(Mooncake, identical_rows_are_kept_and_counted) {
  const std::string row =
      "{\"timestamp\": 7, \"input_length\": 100, \"output_length\": 5, \"hash_ids\": [1]}\n";
  const ReadResult r = read_text(
      row + row + row +
      "{\"timestamp\": 7, \"input_length\": 100, \"output_length\": 5, \"hash_ids\": [2]}\n");
  EXPECT_EQ(r.rows.size(), 4u);
  const RowProblem* p = find_problem(r.report.oddities, "identical rows (kept)");
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p->count, 2);
}

TEST(Mooncake, ids_that_do_not_fit_the_prompt_are_refused) {
  const std::string error = error_of(
      "{\"timestamp\": 7, \"input_length\": 100, \"output_length\": 5, \"hash_ids\": [1, 2]}\n");
  EXPECT_NE(error.find("more hash_ids than the prompt has blocks"), std::string::npos) << error;
  ReadOptions options;
  options.block_tokens = 64;
  EXPECT_EQ(read_text("{\"timestamp\": 7, \"input_length\": 100, \"output_length\": 5, "
                      "\"hash_ids\": [1, 2]}\n",
                      options)
                .rows[0]
                .full_blocks(),
            1u);
}

TEST(Units, the_same_numbers_span_what_their_unit_says_and_the_unit_is_reported) {
  std::string mooncake, own = "{\"schema\": \"orrery.trace.v1\"}\n", azure = kAzureHeader;
  for (const char* t : {"0", "500", "1000", "1500"}) {
    mooncake += std::string("{\"timestamp\": ") + t +
                ", \"input_length\": 9, \"output_length\": 5, \"hash_ids\": []}\n";
    own += std::string("{\"arrival_s\": ") + t + ", \"input_tokens\": 9, \"output_tokens\": 5}\n";
  }
  for (const char* t : {"00.0000000", "00.5000000", "01.0000000", "01.5000000"})
    azure += std::string("2024-05-10 00:00:") + t + ",9,5\n";
  const ReadResult ms = read_text(mooncake), s = read_text(own), iso = read_text(azure);
  EXPECT_EQ(ms.rows.back().arrival, milliseconds(1500));
  EXPECT_EQ(s.rows.back().arrival, seconds(1500));
  EXPECT_EQ(iso.rows.back().arrival, milliseconds(1500));
  EXPECT_EQ(ms.report.timestamp_unit, "milliseconds");
  EXPECT_EQ(s.report.timestamp_unit, "seconds");
  ReadOptions options;
  options.time_unit = "s";
  const ReadResult told = read_text(mooncake, options);
  EXPECT_EQ(told.rows.back().arrival, seconds(1500));
  EXPECT_EQ(told.report.timestamp_unit, "seconds");
  const ReadResult numbers = read_text(std::string(kAzureHeader) + "0,9,5\n1.5,9,5\n");
  EXPECT_EQ(numbers.rows.back().arrival, milliseconds(1500));
  EXPECT_EQ(numbers.report.timestamp_unit, "seconds");
}

// --- Own format ---------------------------------------------------------------------------------

TEST(Orrery, every_field_survives_a_round_trip_byte_for_byte) {
  const std::string text =
      "{\"schema\": \"orrery.trace.v1\", \"turns\": \"full\", \"start\": "
      "\"2024-05-10T00:00:00.5Z\"}\n"
      "{\"arrival_s\": 0.000000001, \"input_tokens\": 33, \"output_tokens\": 7, \"max_tokens\": "
      "64, \"model\": \"m \\\"1\\\"\", \"tenant\": \"t\", \"app\": \"a\", \"kind\": \"chat\", "
      "\"modality\": \"text\", \"adapter\": \"l\", \"priority\": -2, \"session\": \"s\", \"id\": "
      "\"x\", \"task\": \"k\", \"history_tokens\": 5, \"block_tokens\": 16, \"hash_ids\": [1, 2, "
      "18446744073709551615]}\n"
      "{\"arrival_s\": 1.5, \"input_tokens\": 1, \"output_tokens\": 2, \"session\": \"s\", "
      "\"after\": \"x\", \"think_s\": 0.25, \"deadline_s\": 30}\n"
      "{\"arrival_s\": 2, \"input_tokens\": 1, \"output_tokens\": 0, \"ok\": false}\n"
      "{\"arrival_s\": 2, \"input_tokens\": 1, \"output_tokens\": 3, \"ok\": false}\n";
  const ReadResult r = read_text(text);
  ASSERT_EQ(r.rows.size(), 4u);
  EXPECT_EQ(r.rows[0].hash_ids.back(), UINT64_MAX);
  EXPECT_EQ(r.rows[0].priority, -2);
  EXPECT_EQ(r.rows[1].after, "x");
  EXPECT_EQ(*r.rows[1].think, milliseconds(250));
  EXPECT_EQ(r.report.failed_requests, 2);
  EXPECT_EQ(write_rows(r.rows, "orrery", {r.report.start}).text, text);
}

TEST(Orrery, arrivals_stay_where_they_are) {
  const ReadResult r =
      read_text("{\"arrival_s\": 100, \"input_tokens\": 1, \"output_tokens\": 1}\n");
  EXPECT_EQ(r.rows[0].arrival, seconds(100));
}

TEST(Orrery, wall_clock_arrivals_count_from_the_first) {
  const ReadResult r = read_text(
      "{\"arrival_s\": \"2024-05-10T00:00:02Z\", \"input_tokens\": 1, \"output_tokens\": 1}\n"
      "{\"arrival_s\": \"2024-05-10T00:00:00Z\", \"input_tokens\": 2, \"output_tokens\": 1}\n");
  EXPECT_EQ(r.rows[0].input_tokens, 2);
  EXPECT_EQ(r.rows[1].arrival, seconds(2));
}

TEST(Orrery, an_embedding_without_output_did_not_fail) {
  const ReadResult r = read_text(
      "{\"arrival_s\": 1, \"input_tokens\": 1, \"output_tokens\": 0, \"kind\": \"embedding\"}\n"
      "{\"arrival_s\": 1, \"input_tokens\": 1, \"output_tokens\": 0}\n");
  EXPECT_TRUE(r.rows[0].ok);
  EXPECT_FALSE(r.rows[1].ok);
}

TEST(Orrery, a_wrong_header_names_line_and_field) {
  const std::string row = "\n{\"arrival_s\": 1, \"input_tokens\": 1, \"output_tokens\": 1}\n";
  EXPECT_NE(error_of("{\"schema\": \"orrery.trace.v9\"}" + row).find("trace.txt:1: schema"),
            std::string::npos);
  EXPECT_NE(error_of("{\"schema\": \"orrery.trace.v1\", \"turns\": \"half\"}" + row)
                .find("full or delta"),
            std::string::npos);
}

// --- Turns that hold new tokens only ------------------------------------------------------------

TEST(Turns, delta_rows_become_whole_prompts_and_stay_so_through_export) {
  const std::string rows =
      "{\"arrival_s\": 0, \"input_tokens\": 2000, \"output_tokens\": 100, \"session\": \"a\"}\n"
      "{\"arrival_s\": 4, \"input_tokens\": 300, \"output_tokens\": 100, \"session\": \"a\"}\n"
      "{\"arrival_s\": 9, \"input_tokens\": 500, \"output_tokens\": 100, \"session\": \"a\"}\n";
  ReadOptions delta;
  delta.turns = "delta";
  const ReadResult by_option = read_text(rows, delta);
  const ReadResult by_header =
      read_text("{\"schema\": \"orrery.trace.v1\", \"turns\": \"delta\"}\n" + rows);
  for (const ReadResult* r : {&by_option, &by_header}) {
    ASSERT_EQ(r->rows.size(), 3u);
    EXPECT_EQ(r->rows[0].input_tokens, 2000);
    EXPECT_EQ(r->rows[1].input_tokens, 2400);
    EXPECT_EQ(r->rows[2].input_tokens, 3000);
    EXPECT_EQ(r->rows[0].history_tokens, 0);
    EXPECT_EQ(r->rows[1].history_tokens, 2100);
    EXPECT_EQ(r->rows[2].history_tokens, 2500);
    // As block ids: the leading ids of a turn are those of the turn before.
    for (std::size_t i = 0; i < r->rows[1].full_blocks(); ++i)
      EXPECT_EQ(r->rows[2].hash_ids[i], r->rows[1].hash_ids[i]);
  }
  const ReadResult full = read_text(rows);
  EXPECT_EQ(full.rows[2].input_tokens, 500);
  // Export states whole prompts, so reading it again gives the same three rows.
  const std::string exported = write_rows(by_option.rows, "orrery").text;
  const ReadResult again = read_text(exported);
  ASSERT_EQ(again.rows.size(), 3u);
  EXPECT_EQ(again.rows[2].input_tokens, 3000);
  EXPECT_EQ(write_rows(again.rows, "orrery").text, exported);
}

// --- Real files ---------------------------------------------------------------------------------

struct RealFile {
  const char* path;
  const char* format;
  std::int64_t rows, failed, input, output;
};

class RealFiles : public testing::TestWithParam<RealFile> {};

TEST_P(RealFiles, read_whole_with_known_totals) {
  const std::string path = public_trace(GetParam().path);
  if (path.empty()) GTEST_SKIP() << "ORRERY_SHARED has no " << GetParam().path;
  const ReadResult r = read_all(open_trace(path));
  EXPECT_EQ(r.report.format, GetParam().format);
  EXPECT_EQ(r.report.rows, GetParam().rows);
  EXPECT_EQ(r.report.bad, 0);
  EXPECT_EQ(r.report.failed_requests, GetParam().failed);
  std::int64_t input = 0, output = 0;
  for (std::size_t i = 0; i < r.rows.size(); ++i) {
    input += r.rows[i].input_tokens, output += r.rows[i].output_tokens;
    if (i > 0) {
      ASSERT_GE(r.rows[i].arrival, r.rows[i - 1].arrival) << i;
    }
  }
  EXPECT_EQ(input, GetParam().input);
  EXPECT_EQ(output, GetParam().output);
}

// Totals counted with awk and python from the files.
INSTANTIATE_TEST_SUITE_P(Files, RealFiles,
                         testing::Values(RealFile{"azure2023/AzureLLMInferenceTrace_conv.csv",
                                                  "azure", 19366, 0, 22361870, 4088665},
                                         RealFile{"azure2024_sample/azure_llm_2024_sample.csv",
                                                  "azure", 5880, 0, 3216501, 680370},
                                         RealFile{"burstgpt_sample/burstgpt_sample_54rows.csv",
                                                  "burstgpt", 54, 3, 29159, 18367},
                                         RealFile{"mooncake_fast25/conversation_trace.jsonl",
                                                  "mooncake", 12031, 0, 144793823, 4122048},
                                         RealFile{"mooncake_dynamo_1000/mooncake_trace_1000.jsonl",
                                                  "mooncake", 1000, 0, 9792030, 199084}));

}  // namespace
}  // namespace orrery::traces
