// The twin on trace files: what the reader found is told, and a trace that was written and read
// again gives the same run.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/host/files.h"
#include "sim/workload.h"
#include "tests/sim/toys.h"
#include "traces/writer.h"

namespace orrery::sim {
namespace {

std::string path_of(const std::string& name) {
  return (std::filesystem::path(testing::TempDir()) / name).string();
}

FleetSpec toy_fleet() {
  return {{toy_pool(std::make_shared<ToyModel>(kMs, 100'000, 0), 1000)}, {}};
}

std::string exported(const std::string& from, const std::string& name,
                     const traces::ReadOptions& options) {
  const auto file = traces::open_trace(from, options);
  const auto writer = traces::make_writer("orrery", host::open_writer(path_of(name)));
  traces::TraceRequest request;
  while (file->next(request)) writer->write(request);
  writer->close();
  EXPECT_EQ(writer->rows(), 3);
  return path_of(name);
}

std::string result_of(const std::string& path, LoadMode mode, const traces::ReadOptions& options,
                      std::vector<std::int64_t>& prompts, std::vector<std::int64_t>& cached) {
  WorkloadSpec workload = trace_workload(path, options);
  workload.mode = mode, workload.description = "turns";
  RunOptions run;
  prompts.clear(), cached.clear();
  run.on_request = [&](const RequestOutcome& o) {
    prompts.push_back(o.input_tokens), cached.push_back(o.cached_tokens);
  };
  Summary summary = simulate(toy_fleet(), workload, {}, run);
  EXPECT_EQ(summary.completed, 3);
  summary.json["workload"].erase("trace_rows");  // tells that the first file held new tokens only
  return comparable(summary);
}

// Rows that hold each turn's new tokens become whole prompts; written out and read back they are
// the same requests, so the same run to the bit, whichever way the turns are timed.
TEST(TraceFiles, export_and_import_give_the_same_run_to_the_bit_in_both_timing_modes) {
  const std::string path = path_of("turns.jsonl");
  host::write_file(path,
                   R"({"arrival_s": 0, "input_tokens": 2000, "output_tokens": 100, "session": "s"}
{"arrival_s": 4, "input_tokens": 300, "output_tokens": 100, "session": "s"}
{"arrival_s": 9, "input_tokens": 500, "output_tokens": 100, "session": "s"}
)");
  using Counts = std::vector<std::int64_t>;
  for (const char* turns : {"delta", "full"}) {
    traces::ReadOptions options;
    options.turns = turns;
    const std::string again = exported(path, std::string(turns) + ".jsonl", options);
    const std::string twice = exported(again, std::string(turns) + "2.jsonl", {});
    std::string by_mode[2];
    for (const LoadMode mode : {LoadMode::kOpen, LoadMode::kSessions}) {
      Counts prompts, cached, prompts_again, cached_again;
      const std::string first = result_of(path, mode, options, prompts, cached);
      EXPECT_EQ(first, result_of(again, mode, {}, prompts_again, cached_again)) << turns;
      EXPECT_EQ(prompts, prompts_again);
      EXPECT_EQ(cached, cached_again);
      EXPECT_EQ(first, result_of(twice, mode, {}, prompts_again, cached_again)) << turns;
      const bool delta = std::string(turns) == "delta";
      EXPECT_EQ(prompts, delta ? (Counts{2000, 2400, 3000}) : (Counts{2000, 300, 500}));
      // Of 2100 and 2500 reusable tokens the whole blocks; an answer's last token is not computed.
      EXPECT_EQ(cached, delta ? (Counts{0, 2096, 2496}) : (Counts{0, 0, 0}));
      by_mode[mode == LoadMode::kOpen ? 0 : 1] = first;
    }
    EXPECT_NE(by_mode[0], by_mode[1]) << "turns that wait for answers come later";
  }
}

// 200 rows of which one is bad, one jumps back; CRLF; no newline at the end.
std::string odd_file() {
  std::string text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n";
  for (int i = 0; i < 200; ++i) {
    const int second = i == 60 ? 50 : i;
    text += "2023-11-16 18:" + std::to_string(10 + second / 60) + ":" +
            (second % 60 < 10 ? "0" : "") + std::to_string(second % 60) + ".0," +
            (i == 4 ? "x" : "10") + ",5" + (i < 199 ? "\r\n" : "");
  }
  host::write_file(path_of("odd.csv"), text);
  return path_of("odd.csv");
}

bool tells(const Json& list, const std::string& part, std::int64_t line) {
  for (const Json& entry : list) {
    if (entry["kind"].get<std::string>().find(part) == std::string::npos) continue;
    return line == 0 || entry["first_line"] == line;
  }
  return false;
}

TEST(TraceFiles, bad_and_odd_rows_are_told_in_the_summary) {
  WorkloadSpec workload = trace_workload(odd_file());
  for (const bool macro : {true, false}) {
    RunOptions options;
    options.macro_steps = macro;
    const Summary s = simulate(toy_fleet(), workload, {}, options);
    ASSERT_TRUE(s.trace_rows.has_value());
    EXPECT_EQ(s.trace_rows->bad, 1);
    const Json& rows = s.json["workload"]["trace_rows"];
    EXPECT_EQ(rows["rows"], 200);
    EXPECT_EQ(rows["good_rows"], s.submitted);
    EXPECT_EQ(rows["bad_rows"], 1);
    EXPECT_EQ(rows["bad_rows_by_kind"][0]["first_line"], 6);
    EXPECT_TRUE(rows["read_to_end"].get<bool>());
    EXPECT_TRUE(tells(rows["oddities"], "CRLF", 0)) << rows.dump(1);
    EXPECT_TRUE(tells(rows["oddities"], "no newline", 0)) << rows.dump(1);
    EXPECT_TRUE(tells(rows["oddities"], "before the row above", 62)) << rows.dump(1);
    EXPECT_TRUE(s.warnings.empty());
  }
  workload.max_requests = 20;  // a part of the file: what was read of it
  const Summary part = simulate(toy_fleet(), workload, {}, {});
  EXPECT_FALSE(part.json["workload"]["trace_rows"]["read_to_end"].get<bool>());
  EXPECT_EQ(part.json["workload"]["trace_rows"]["bad_rows"], 1);
  EXPECT_TRUE(tells(part.json["workload"]["trace_rows"]["oddities"], "CRLF", 0));
  const Summary listed = simulate(toy_fleet(), list_workload({row(0, 9, 1)}), {}, {});
  EXPECT_FALSE(listed.trace_rows.has_value());
  EXPECT_FALSE(listed.json["workload"].contains("trace_rows"));
}

// The same rows as milliseconds and as seconds: nothing in the file says which.
TEST(TraceFiles, a_time_unit_can_be_given_and_an_implausible_rate_is_questioned) {
  std::string text;
  for (int i = 0; i < 4; ++i)
    text += "{\"timestamp\": " + std::to_string(500 * i) +
            ", \"input_length\": 10, \"output_length\": 5, \"hash_ids\": [1]}\n";
  host::write_file(path_of("unit.jsonl"), text);
  const auto span_and_warnings = [&](const std::string& unit) {
    traces::ReadOptions options;
    options.time_unit = unit;
    const Summary s = simulate(toy_fleet(), trace_workload(path_of("unit.jsonl"), options), {}, {});
    return std::pair(4 / s.json["workload"]["offered_requests_per_s"].get<double>(),
                     s.json["workload"]["warnings"].size());
  };
  EXPECT_NEAR(span_and_warnings("auto").first, 1.5, 1e-9);
  EXPECT_NEAR(span_and_warnings("s").first, 1500, 1e-6);
  EXPECT_EQ(span_and_warnings("auto").second, 0U);
  text =
      "{\"timestamp\": 0, \"input_length\": 10, \"output_length\": 5, \"hash_ids\": [1]}\n"
      "{\"timestamp\": 5000000, \"input_length\": 10, \"output_length\": 5, \"hash_ids\": [1]}\n";
  host::write_file(path_of("unit.jsonl"), text);
  EXPECT_EQ(span_and_warnings("auto").second, 1U) << "one request in 5000 s";
  EXPECT_EQ(span_and_warnings("ms").second, 0U) << "confirmed";
  EXPECT_EQ(span_and_warnings("us").second, 0U);
}

}  // namespace
}  // namespace orrery::sim
