// Fast paths against their slow twins, on seeded mutations of lines.
#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/traces/text_trace.h"
#include "traces/flat_json.h"
#include "traces/row_parser.h"
#include "traces/scan.h"

namespace orrery::traces {
namespace {

const std::vector<std::string>& json_lines() {
  static const std::vector<std::string> lines = {
      R"({"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48]})",
      R"({"timestamp":0,"input_length":1024,"output_length":8,"hash_ids":[]})",
      R"({"timestamp": 1.5e3, "input_length": 7, "output_length": 0, "hash_ids": [0], "x": {"y": [1]}})",
      R"({"arrival_s": 1.25, "input_tokens": 40, "output_tokens": 3, "tenant": "a b", "ok": true})",
      R"({"arrival_s": -0, "input_tokens": 40.0, "output_tokens": 3, "model": "\u00e9\"x", "after": null})",
      R"({"arrival_s": "2024-05-10T00:00:00Z", "input_tokens": 40, "output_tokens": 3, "hash_ids": [18446744073709551615, 1], "block_tokens": 32})",
      R"({"schema": "orrery.trace.v1", "turns": "full", "block_tokens": 16})",
  };
  return lines;
}

const std::vector<std::string>& csv_lines() {
  static const std::vector<std::string> lines = {
      "2023-11-16 18:15:46.6805900,374,44",   "2024-05-10T00:00:00Z,5,6",
      "2024-05-10 23:59:60.999999999999,5,6", "12.5,7,8",
      "\"2024-05-10 00:00:00\",\"5\",6",      "5,ChatGPT,472,18,490,Conversation log",
      "45,GPT-4,512,0,512,API log",           "5,\"Chat,\"\"GPT\",1,2,3,API log",
  };
  return lines;
}

// One to four small edits of a line: a character changed, dropped, doubled or swapped in from the
// alphabet of both formats, or a piece cut out.
std::string mutate(const std::string& line, RandomStream& draw) {
  static constexpr std::string_view kAlphabet = "{}[]\",:.-+eE0123456789 \ttruefalsnN\\u\x01\xc3Z";
  std::string s = line;
  const std::uint64_t edits = 1 + draw.next_below(4);
  for (std::uint64_t i = 0; i < edits && !s.empty(); ++i) {
    const std::size_t at = draw.next_below(s.size());
    const char c = kAlphabet[draw.next_below(kAlphabet.size())];
    switch (draw.next_below(5)) {
      case 0:
        s[at] = c;
        break;
      case 1:
        s.erase(at, 1);
        break;
      case 2:
        s.insert(at, 1, c);
        break;
      case 3:
        s.insert(at, s.substr(at, 1 + draw.next_below(8)));
        break;
      default:
        s.erase(at, 1 + draw.next_below(12));
    }
  }
  return s;
}

void expect_same_fields(const FlatJson& fast, const FlatJson& slow, const std::string& line) {
  ASSERT_EQ(fast.fields().size(), slow.fields().size()) << line;
  EXPECT_EQ(fast.ids(), slow.ids()) << line;
  for (std::size_t i = 0; i < fast.fields().size(); ++i) {
    const JsonField &f = fast.fields()[i], &s = slow.fields()[i];
    EXPECT_EQ(f.key, s.key) << line;
    EXPECT_EQ(f.kind, s.kind) << line;
    EXPECT_EQ(f.first, s.first) << line;
    EXPECT_EQ(f.count, s.count) << line;
    if (f.kind == JsonKind::kNumber) {
      std::int64_t a = 0, b = 0;
      bool exact_a = true, exact_b = true;
      EXPECT_EQ(scan_scaled(f.text, 6, a, exact_a), scan_scaled(s.text, 6, b, exact_b)) << line;
      EXPECT_EQ(a, b) << line;
      EXPECT_EQ(exact_a, exact_b) << line;
    } else {
      EXPECT_EQ(f.text, s.text) << line;
    }
  }
}

TEST(FlatJson, fast_scanner_takes_the_plain_lines_and_equals_nlohmann_on_what_it_takes) {
  for (std::uint64_t seed = 1; seed <= 40'000; ++seed) {
    RandomStream draw(seed);
    const auto& lines = json_lines();
    const std::string& original = lines[draw.next_below(lines.size())];
    const std::string line = seed <= lines.size() ? lines[seed - 1] : mutate(original, draw);
    FlatJson fast, slow;
    if (!fast.scan_fast(line)) continue;
    ASSERT_TRUE(slow.scan_slow(line)) << "seed " << seed << ": " << line;
    expect_same_fields(fast, slow, line);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  FlatJson fast;
  EXPECT_TRUE(fast.scan_fast(json_lines()[0]));  // the fast path is the one that is taken
  EXPECT_TRUE(fast.scan_fast(json_lines()[3]));
}

struct Parsed {
  RowParser::Verdict verdict = RowParser::Verdict::kSkip;
  std::string error, row, problems, oddities;
  std::int64_t timestamp = 0;
};

std::string listed(const ProblemList& list) {
  std::string out;
  for (const RowProblem& p : list.list()) out += p.kind + " " + std::to_string(p.count) + "; ";
  return out;
}

Parsed parse(const Format& format, const std::string& header, const std::string& line, bool slow) {
  Parsed result;
  const Probe probe{header.empty() ? line : header, "file"};
  TraceRequest request;
  try {
    const auto parser = format.make(probe, {});
    if (slow) parser->force_slow();
    if (!header.empty()) parser->parse(header, 1, request, result.timestamp);
    request.clear();
    result.verdict = parser->parse(line, 2, request, result.timestamp);
    result.problems = listed(parser->problems());
    result.oddities = listed(parser->oddities());
  } catch (const InputError& e) {
    result.error = e.what();
  }
  if (result.verdict == RowParser::Verdict::kGood)
    result.row = write_rows({request}, "orrery").text + std::to_string(result.timestamp);
  return result;
}

void expect_twins_agree(const Format& format, const std::string& header, const std::string& line,
                        std::uint64_t seed) {
  const Parsed fast = parse(format, header, line, false), slow = parse(format, header, line, true);
  const std::string where = "seed " + std::to_string(seed) + ", " + format.name + ": " + line;
  EXPECT_EQ(fast.verdict, slow.verdict) << where;
  EXPECT_EQ(fast.row, slow.row) << where;
  EXPECT_EQ(fast.error, slow.error) << where;
  EXPECT_EQ(fast.problems, slow.problems) << where;
  EXPECT_EQ(fast.oddities, slow.oddities) << where;
}

TEST(RowParsers, fast_and_slow_paths_agree_on_mutated_lines_and_none_crashes) {
  const std::string headers[] = {
      "TIMESTAMP,ContextTokens,GeneratedTokens",
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"};
  for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
    RandomStream draw(seed);
    const auto& lines = draw.next_below(2) == 0 ? json_lines() : csv_lines();
    const std::string line = mutate(lines[draw.next_below(lines.size())], draw);
    for (const Format& format : formats()) {
      const std::string name = format.name;
      if (name == "azure") expect_twins_agree(format, headers[0], line, seed);
      if (name == "burstgpt") expect_twins_agree(format, headers[1], line, seed);
      if (name == "orrery" || name == "mooncake") expect_twins_agree(format, "", line, seed);
    }
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

// Whole files of mutated lines through open_trace, whatever it detects: a result or an InputError.
TEST(OpenTrace, any_text_gives_rows_in_order_or_an_input_error) {
  int good = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    RandomStream draw(seed);
    std::string text;
    const auto& lines = draw.next_below(2) == 0 ? json_lines() : csv_lines();
    const std::string& line = lines[draw.next_below(lines.size())];
    for (std::uint64_t i = 1 + draw.next_below(12); i > 0; --i)
      text += (draw.next_below(3) == 0 ? mutate(line, draw) : line) +
              (draw.next_below(8) == 0 ? "\r\n" : "\n");
    ReadOptions options;
    options.tolerate = true;
    options.sort_window = static_cast<std::int64_t>(1 + draw.next_below(4));
    try {
      const ReadResult r = read_text(text, options);
      ++good;
      EXPECT_EQ(static_cast<std::int64_t>(r.rows.size()), r.report.good) << "seed " << seed;
      EXPECT_EQ(r.report.good + r.report.bad, r.report.rows) << "seed " << seed;
      for (std::size_t i = 1; i < r.rows.size(); ++i)
        ASSERT_GE(r.rows[i].arrival, r.rows[i - 1].arrival) << "seed " << seed;
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(good, 500);
  EXPECT_GT(refused, 50);
}

TEST(SortWindow, output_is_sorted_and_stable_when_the_window_holds_the_disorder) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    RandomStream draw(seed);
    std::string text;
    std::vector<std::pair<std::int64_t, std::int64_t>> expected;
    for (std::int64_t i = 0; i < 300; ++i) {
      const auto t = i / 4 + static_cast<std::int64_t>(draw.next_below(10));
      expected.emplace_back(t, i + 1);
      text += "{\"arrival_s\": " + std::to_string(t) +
              ", \"input_tokens\": " + std::to_string(i + 1) + ", \"output_tokens\": 1}\n";
    }
    std::stable_sort(expected.begin(), expected.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    ReadOptions options;
    options.sort_window = 64;  // a row is at most 10 s, that is 40 rows, out of place
    const ReadResult r = read_text(text, options);
    ASSERT_EQ(r.rows.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(r.rows[i].arrival, seconds(expected[i].first)) << "seed " << seed << " row " << i;
      ASSERT_EQ(r.rows[i].input_tokens, expected[i].second) << "seed " << seed << " row " << i;
    }
  }
}

TEST(Scan, scaled_decimals_are_exact_or_say_so) {
  std::int64_t v = 0;
  bool exact = false;
  ASSERT_TRUE(scan_scaled("1.000000001", 9, v, exact));
  EXPECT_EQ(v, 1'000'000'001);
  EXPECT_TRUE(exact);
  ASSERT_TRUE(scan_scaled("0.29999999999999999", 9, v, exact));
  EXPECT_EQ(v, 300'000'000);
  EXPECT_FALSE(exact);
  ASSERT_TRUE(scan_scaled("-1.5e3", 0, v, exact));
  EXPECT_EQ(v, -1500);
  ASSERT_TRUE(scan_scaled("1e-30", 9, v, exact));
  EXPECT_EQ(v, 0);
  EXPECT_FALSE(exact);
  for (const char* text : {"", ".", "-", "1.2.3", "1e", "0x1", " 1", "nan", "1e99", "9e18", "--1"})
    EXPECT_FALSE(scan_scaled(text, 9, v, exact)) << text;
}

TEST(Scan, wall_times_print_back_as_they_were) {
  RandomStream draw(7);
  for (int i = 0; i < 2000; ++i) {
    const auto ns = static_cast<std::int64_t>(draw.next_below(8'000'000'000'000'000'000)) -
                    1'000'000'000'000'000'000;
    WallTime t;
    const std::string text = format_wall_time(ns, 9);
    ASSERT_TRUE(scan_wall_time(text, t)) << text;
    EXPECT_EQ(t.ns, ns) << text;
  }
  WallTime t;
  ASSERT_TRUE(scan_wall_time("1970-01-01 00:00:00", t));
  EXPECT_EQ(t.ns, 0);
  ASSERT_TRUE(scan_wall_time("2024-02-29 12:00:00", t));
  EXPECT_EQ(t.ns, 1'709'208'000'000'000'000);  // date -u -d ... +%s
  for (const char* bad : {"2023-02-29 00:00:00", "2024-05-10", "2024-05-10 24:00:00",
                          "2024-05-10 00:00:00.", "2024-05-10 00:00:00+", "2024-5-10 00:00:00",
                          "2024-05-10 00:00:00 EST", "1600-01-01 00:00:00"})
    EXPECT_FALSE(scan_wall_time(bad, t)) << bad;
}

}  // namespace
}  // namespace orrery::traces
