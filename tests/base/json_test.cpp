// JSON as people write it: places, suggestions, and no input that breaks the reader.
#include "runtime/base/json.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "runtime/base/rng.h"

namespace orrery {
namespace {

JsonView view(const std::string& text) { return JsonView(JsonDocument::parse(text, "f.json")); }

// The message of the InputError that `body` throws; "" when it throws none.
template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Json, every_value_knows_the_line_of_its_key) {
  const auto document = JsonDocument::parse(
      "{\n  \"a\": 1,\n  // a comment\n  \"list\": [10,\n    20\n    , 30],\n  /* two\n lines */\n"
      "  \"o\": {\"deep\": {\n \"x\": \"y\"}},\n  \"last\": 5\n}",
      "f.json");
  EXPECT_EQ(document->line_of(""), 1);
  EXPECT_EQ(document->line_of("/a"), 2);
  EXPECT_EQ(document->line_of("/list"), 4);
  EXPECT_EQ(document->line_of("/list/0"), 4);
  EXPECT_EQ(document->line_of("/list/1"), 5);  // a number that ends with its line
  EXPECT_EQ(document->line_of("/list/2"), 6);
  EXPECT_EQ(document->line_of("/o/deep"), 9);
  EXPECT_EQ(document->line_of("/o/deep/x"), 10);
  EXPECT_EQ(document->line_of("/last"), 11);
  EXPECT_EQ(document->line_of("/o/deep/missing"), 9);  // the nearest that is there
}

TEST(Json, a_key_given_twice_is_refused_in_small_and_large_objects) {
  EXPECT_EQ(error_of([] { view("{\"a\": 1,\n\"b\": 2,\n\"a\": 3}"); }),
            "f.json:3: a: found the key \"a\" twice in one object, expected each key once");
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += "\"k" + std::to_string(i) + "\": 0,\n";
  EXPECT_EQ(view(many + "\"z\": 0}").size(), 101U);
  EXPECT_NE(error_of([&] { view(many + "\"k7\": 0}"); }).find("f.json:101: k7"), std::string::npos);
  EXPECT_NE(error_of([&] { view(many + "\"k99\": 0}"); }).find("twice"), std::string::npos);
}

TEST(Json, broken_text_is_refused_with_its_line) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "f.json:1: found unexpected end of input"},
      {"{\n\"a\": 1,\n}", "f.json:3: found unexpected '}'"},
      {"[1]\n]", "f.json:2: found unexpected ']', expected end of input"},
      {"{\"x\":\n1e999}", "f.json:2: found number overflow"},
      {"nul", "f.json:1: found invalid literal"},
      {"\"\xff\"", "f.json:1: found invalid string: ill-formed UTF-8 byte"},
      {"NaN", "f.json:1: found invalid literal"},
  };
  for (const auto& [text, message] : cases)
    EXPECT_EQ(error_of([&] { view(text); }).rfind(message, 0), 0U)
        << text << " gave " << error_of([&] { view(text); });
}

TEST(Json, nesting_is_bounded_so_that_recursion_is_safe) {
  const std::string deep(JsonDocument::kMaxDepth, '[');
  const std::string closed(JsonDocument::kMaxDepth, ']');
  EXPECT_EQ(error_of([&] { view(deep + closed); }), "");
  EXPECT_NE(error_of([&] { view("[" + deep + closed + "]"); }).find("too deep"), std::string::npos);
  EXPECT_NE(error_of([&] { view(std::string(1'000'000, '[')); }).find("too deep"),
            std::string::npos);
}

TEST(Json, getters_name_file_line_and_field) {
  const JsonView v =
      view("{\n\"fleet\": [\n{\"replicas\": 3.5, \"tp\": \"two\", \"on\": 1,\n\"big\": 3e9}]}");
  const JsonView pool = v.at("fleet").at(0);
  EXPECT_EQ(error_of([&] { pool.get("replicas", std::int64_t{1}); }),
            "f.json:3: fleet[0].replicas: found 3.5, expected a whole number");
  EXPECT_EQ(error_of([&] { pool.get("tp", 1.0); }),
            "f.json:3: fleet[0].tp: found \"two\", expected a number");
  EXPECT_EQ(error_of([&] { pool.get("on", false); }),
            "f.json:3: fleet[0].on: found 1, expected true or false");
  EXPECT_EQ(error_of([&] { pool.get("big", 1); }),
            "f.json:4: fleet[0].big: found 3000000000.0, expected a whole number of 32 bits");
  EXPECT_EQ(error_of([&] { pool.at("missing"); }),
            "f.json:3: fleet[0].missing: found nothing, expected this key");
  EXPECT_EQ(error_of([&] { v.at("fleet").at(1); }),
            "f.json:2: fleet: found an array of 1, expected at least 2 elements");
  EXPECT_EQ(error_of([&] { v.at("fleet").find("x"); }),
            "f.json:2: fleet: found an array of 1, expected an object");
}

TEST(Json, defaults_stand_for_absent_and_null) {
  const JsonView v = view("{\"a\": null, \"n\": 3.0, \"s\": \"t\", \"big\": 18446744073709551615}");
  EXPECT_EQ(v.get("a", 7), 7);
  EXPECT_EQ(v.get("b", "x"), "x");
  EXPECT_EQ(v.get("b", std::string("x")), "x");
  EXPECT_EQ(v.get("b", true), true);
  EXPECT_EQ(v.get("n", 1), 3);  // a whole number may be written 3.0
  EXPECT_EQ(v.get("s", "x"), "t");
  EXPECT_TRUE(v.has("a"));
  EXPECT_FALSE(v.find("a").has_value());
  EXPECT_NE(error_of([&] { v.at("big").as_int(); }), "");
}

TEST(Json, unknown_keys_suggest_the_nearest) {
  const JsonView v = view("{\n\"replcias\": 3}");
  EXPECT_EQ(
      error_of([&] {
        v.allow_only({"tp", "replicas", "role"});
      }),
      "f.json:2: replcias: found unknown key \"replcias\", expected \"replicas\" (did you mean "
      "that?)");
  EXPECT_EQ(error_of([&] {
              v.allow_only({"tp", "role"});
            }),
            "f.json:2: replcias: found unknown key \"replcias\", expected one of tp, role");
  EXPECT_EQ(error_of([&] { v.allow_only({"replcias"}); }), "");
}

TEST(Json, suggestions_are_near_or_none) {
  const std::vector<std::string> names = {"simulate", "plan", "deploy", "trace inspect"};
  EXPECT_EQ(did_you_mean("simulte", names), "simulate");
  EXPECT_EQ(did_you_mean("Paln", names), "plan");
  EXPECT_EQ(did_you_mean("trace-inspect", names), "trace inspect");
  EXPECT_EQ(did_you_mean("zzz", names), std::nullopt);
  EXPECT_EQ(did_you_mean("", names), std::nullopt);
  EXPECT_EQ(did_you_mean("x", {"y"}), std::nullopt);  // nothing in common
}

TEST(Json, odd_keys_find_their_line) {
  const JsonView v = view("{\n\"a/b\": {\n\"c~d\": {\n\"\": 4}}}");
  EXPECT_EQ(v.at("a/b").at("c~d").place().line, 3);
  EXPECT_EQ(v.at("a/b").at("c~d").at("").place().line, 4);
}

TEST(Json, not_a_number_is_written_as_null) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Json({{"a", nan}, {"b", -inf}, {"c", 0.1}}).dump(), R"({"a":null,"b":null,"c":0.1})");
}

// Whatever bytes come: a document whose every value has a line in the text, or an InputError.
TEST(Json, mutated_texts_parse_or_are_refused) {
  const std::string good =
      "{\"a\": [1, 2.5e3, {\"b\": null}],\n// c\n\"d\": \"\\u00e9\\n\", \"e\": {\"f\": [[], {}]},\n"
      "\"g\": -0.0, \"h\": true}\n";
  const std::string letters = "{}[]\",:\\/*\n0e-u\xc3 ";
  RandomStream random = RandomStream(1).fork("mutations");
  int parsed = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    const std::uint64_t changes = 1 + random.next_below(3);
    for (std::uint64_t i = 0; i < changes; ++i) {
      const auto at = static_cast<std::size_t>(random.next_below(text.size()));
      const char letter = letters[static_cast<std::size_t>(random.next_below(letters.size()))];
      const std::uint64_t kind = random.next_below(3);
      if (kind == 0) text[at] = letter;
      if (kind == 1) text.insert(at, 1, letter);
      if (kind == 2) text.erase(at, 1);
    }
    try {
      const auto document = JsonDocument::parse(text, "f.json");
      ++parsed;
      const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
      const Json flat = document->root().flatten();
      for (auto it = flat.begin(); it != flat.end(); ++it) {
        const long line = document->line_of(it.key());
        ASSERT_TRUE(line >= 1 && line <= lines) << "seed 1, round " << round << ": " << text;
      }
    } catch (const InputError& e) {
      ASSERT_GE(e.place().line, 1) << "seed 1, round " << round << ": " << text;
    }
  }
  EXPECT_GT(parsed, 1000);
  EXPECT_LT(parsed, 19000);
}

}  // namespace
}  // namespace orrery
