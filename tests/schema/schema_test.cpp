// Each kind of file against its JSON Schema: every file that comes with the project and those that
// the binary writes agree, and schema and reader know the same keys.
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "planner/request.h"
#include "runtime/base/errors.h"
#include "runtime/base/plan.h"
#include "runtime/host/files.h"
#include "runtime/host/json_schema.h"
#include "runtime/policy/cost/catalog.h"
#include "runtime/policy/settings.h"
#include "traces/synth.h"

namespace orrery {
namespace {

namespace fs = std::filesystem;
const std::string kRoot = ORRERY_SOURCE_ROOT;

Json schema_of(const std::string& kind) {
  return host::read_json(kRoot + "/scenarios/schema/" + kind + ".v1.json")->root();
}

std::string problem_of(const std::string& path, const std::string& kind) {
  try {
    host::read_checked_json(path, kind);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Schema, every_shipped_file_agrees_with_the_schema_that_it_names) {
  std::set<std::string> kinds;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot + "/scenarios")) {
    const fs::path& path = entry.path();
    if (path.extension() != ".json" || path.parent_path().filename() == "schema") continue;
    const std::string name = JsonView(host::read_json(path)).at("schema").as_string();
    const std::string kind = name.substr(7, name.size() - 10);  // orrery.KIND.v1
    EXPECT_EQ(problem_of(path, kind), "");
    kinds.insert(kind);
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"catalog", "profile", "request", "scenario", "synth"}));
}

TEST(Schema, another_kind_of_file_is_named_before_any_of_its_keys) {
  const std::string found =
      problem_of(kRoot + "/scenarios/whatif/llama8b-l4-vs-h100.json", "request");
  EXPECT_NE(found.find("found \"orrery.scenario.v1\", expected \"orrery.request.v1\""),
            std::string::npos)
      << found;
}

// Of a document and its schema, every object whose keys are closed, with the schema's part. Of
// alternatives it takes the one whose constant the document holds.
class Walk {
 public:
  using Visit = std::function<void(const std::string& pointer, const Json& schema)>;
  Walk(const Json& root, Visit visit) : root_(root), visit_(std::move(visit)) {}
  void go(const Json& value, const Json& schema, const std::string& pointer) {
    if (schema.contains("$ref"))
      return go(value, root_[Json::json_pointer(schema["$ref"].get<std::string>().substr(1))],
                pointer);
    for (const char* key : {"oneOf", "anyOf"})
      for (const Json& choice : schema.value(key, Json::array()))
        if (chosen(value, choice)) go(value, choice, pointer);
    if (value.is_object() && schema.contains("properties")) {
      if (schema.value("additionalProperties", Json(true)) == Json(false)) visit_(pointer, schema);
      for (const auto& [name, part] : schema["properties"].items())
        if (value.contains(name)) go(value[name], part, pointer + "/" + name);
    }
    if (value.is_array() && schema.contains("items"))
      for (std::size_t i = 0; i < value.size(); ++i)
        go(value[i], schema["items"], pointer + "/" + std::to_string(i));
  }

 private:
  static bool chosen(const Json& value, const Json& choice) {
    if (choice.contains("$ref")) return value.is_object();
    if (!value.is_object() || !choice.contains("properties")) return false;
    for (const auto& [name, part] : choice["properties"].items())
      if (part.contains("const") && value.value(name, Json()) != part["const"]) return false;
    return choice.contains("additionalProperties");
  }
  const Json& root_;
  Visit visit_;
};

std::set<std::string> keys_of(const Json& schema) {
  std::set<std::string> keys;
  for (const auto& [name, part] : schema["properties"].items())
    if (!part.value("description", std::string()).starts_with("Not planned for yet"))
      keys.insert(name);
  return keys;
}

// What the reader allows there, as it says itself of a key that resembles none.
std::set<std::string> keys_allowed(Json document, const std::string& pointer,
                                   const std::function<void(const JsonView&)>& read) {
  document[Json::json_pointer(pointer)]["qqqqqqqqqqqqqqqqqqqqqqqq"] = 0;
  std::set<std::string> keys;
  try {
    read(JsonView(JsonDocument::parse(document.dump(), "document")));
  } catch (const InputError& e) {
    if (e.found().find("unknown key") == std::string::npos) return {e.what()};
    std::string list = e.expected().substr(std::string("one of ").size()) + ", ";
    for (std::size_t end; (end = list.find(", ")) != std::string::npos; list.erase(0, end + 2))
      keys.insert(list.substr(0, end));
  }
  return keys;
}

// Every closed object in any part of the schema.
std::set<std::string> closed_objects(const Json& schema, const std::string& pointer = "") {
  std::set<std::string> all;
  if (schema.is_object() && schema.value("additionalProperties", Json(true)) == Json(false))
    all.insert(schema["properties"].dump());
  if (schema.is_structured())
    for (const auto& [name, part] : schema.items())
      all.merge(closed_objects(part, pointer + "/" + name));
  return all;
}

void expect_same_keys(const Json& schema, const std::vector<Json>& documents,
                      const std::function<void(const JsonView&)>& read) {
  std::set<std::string> left = closed_objects(schema);
  for (const Json& document : documents) {
    const auto parsed = JsonDocument::parse(document.dump(), "document");
    ASSERT_NO_THROW(host::check_schema(*parsed, schema)) << document.dump(1);
    ASSERT_NO_THROW(read(JsonView(parsed))) << document.dump(1);
    Walk(schema, [&](const std::string& pointer, const Json& part) {
      EXPECT_EQ(keys_of(part), keys_allowed(document, pointer, read)) << "at " << pointer;
      left.erase(part["properties"].dump());
    }).go(document, schema, "");
  }
  EXPECT_TRUE(left.empty()) << "not compared: " << *left.begin();
}

Json request_document() {
  return Json::parse(R"({"schema": "orrery.request.v1", "models": [{"id": "m"}],
    "workload": {"trace": "t"}, "slo": {"ttft_ms": {"p99": 5}},
    "constraints": {"instance_types": ["a", {"type": "b"}]}, "search": {"time_limit_s": 5},
    "router": {"policy": "scored", "scorers": [{"name": "prefix"}]}, "settings": {"max_running": 8}})");
}

TEST(Schema, request_schema_and_reader_know_the_same_keys) {
  expect_same_keys(schema_of("request"), {request_document()},
                   [](const JsonView& v) { planner::read_plan_request(v, ""); });
}

TEST(Schema, plan_schema_and_reader_know_the_same_keys) {
  // A pool's settings are read where its instances are made.
  const Json document = Json::parse(R"({"schema": "orrery.plan.v1",
    "pools": [{"model": "m", "instance_type": "i", "settings": {"max_running": 8}}],
    "router": {"policy": "round_robin"}})");
  expect_same_keys(schema_of("plan"), {document}, [](const JsonView& v) {
    read_plan(v);
    policy::read_instance_settings(v.at("pools").at(std::size_t{0}).at("settings"));
  });
}

TEST(Schema, synth_schema_and_reader_know_the_same_keys) {
  std::vector<Json> documents;
  for (const char* arrivals :
       {R"({"process": "poisson", "rate_per_s": 1})",
        R"({"process": "gamma", "rate_per_s": 1, "cv": 2})",
        R"({"process": "mmpp", "rates_per_s": [1, 2], "mean_stay_s": [3, 4]})",
        R"({"process": "diurnal", "rate_per_s": 1, "amplitude": 0.5})"}) {
    Json document = Json::parse(R"({"schema": "orrery.synth.v1", "requests": 5,
      "input_tokens": {"distribution": "fixed", "value": 5},
      "output_tokens": {"distribution": "uniform", "min": 1, "max": 5},
      "tenants": [{"prefix": [{"tokens": 5}],
                   "input_tokens": {"distribution": "quantiles", "points": [[0, 1], [1, 9]]},
                   "sessions": {"share": 0.5,
                     "turns": {"distribution": "lognormal", "mean": 2, "cv": 1},
                     "think_s": {"distribution": "exponential", "mean": 2}}}]})");
    document["arrivals"] = Json::parse(arrivals);
    documents.push_back(document);
  }
  expect_same_keys(schema_of("synth"), documents,
                   [](const JsonView& v) { traces::read_synth_spec(v); });
}

TEST(Schema, profile_schema_and_reader_know_the_same_keys) {
  const Json document = Json::parse(R"({"schema": "orrery.profile.v1", "id": "p", "kind": "fitted",
    "all_reduce": [{"gpus": 2, "efficiency": 0.5}], "fit": {"rows": 5}})");
  expect_same_keys(schema_of("profile"), {document},
                   [](const JsonView& v) { cost::read_engine_profile(v); });
}

cost::MeasuredProfile some_profile() {
  cost::MeasuredProfile p;
  p.id = "cpu-local", p.model = "embedded", p.fixed_ps = 1e9;
  p.kv_blocks = p.block_tokens = p.max_batched_tokens = p.max_running = p.max_context = 16;
  return p;
}

TEST(Schema, measured_profile_schema_and_reader_know_the_same_keys_and_what_is_written_agrees) {
  const Json schema = schema_of("measured_profile"), written = cost::to_json(some_profile());
  expect_same_keys(schema, {written}, [](const JsonView& v) { cost::read_measured_profile(v); });
  for (const auto& [name, part] : schema["properties"].items())
    EXPECT_TRUE(written.contains(name)) << name;
}

TEST(Schema, catalog_schema_and_readers_know_the_same_keys) {
  const Json model =
      Json::parse(R"({"id": "m", "attention": "mla", "layers": 9, "hidden": 9, "heads": 9,
    "kv_heads": 9, "intermediate": 9, "vocabulary": 9, "max_context_tokens": 9, "weight_type": "bf16",
    "moe": {"experts": 2, "experts_per_token": 1, "expert_intermediate": 9, "layers": 9},
    "mla": {"kv_rank": 9, "rope_dim": 9, "nope_dim": 9, "v_dim": 9},
    "linear": {"layers": 1, "key_heads": 1, "value_heads": 1, "key_dim": 1, "value_dim": 1,
               "state_bytes_per_sequence": 8}})");
  const Json gpu = Json::parse(R"({"id": "g", "memory_bytes": 9, "memory_bandwidth_bytes_per_s": 9,
    "dense_flops": {"bf16": 9}})");
  const Json schema = schema_of("catalog");
  // Entry by entry: a catalogue's file is of one kind.
  const Json& part = schema["definitions"];
  expect_same_keys(part["model"], {model}, [](const JsonView& v) { cost::read_model(v); });
  expect_same_keys(part["gpu"], {gpu}, [](const JsonView& v) { cost::read_gpu(v); });
  expect_same_keys(part["instance"], {Json{{"id", "i"}}},
                   [](const JsonView& v) { cost::read_instance_type(v); });
}

// What the binary writes now.
class Written : public testing::Test {
 protected:
  void SetUp() override {
    const char* binary = std::getenv("ORRERY_BINARY");
    if (binary == nullptr) GTEST_SKIP() << "ORRERY_BINARY names no orrery: run it with meson test";
    binary_ = binary;
    folder_ = testing::TempDir() + "orrery_schema_" + std::to_string(getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }
  void run(const std::string& arguments) {
    const std::string command =
        "cd '" + folder_ + "' && '" + binary_ + "' " + arguments + " > out.json";
    const int status = std::system(command.c_str());
    ASSERT_LE(WEXITSTATUS(status), 1) << command;
  }
  std::string binary_, folder_;
};

TEST_F(Written, a_plan_agrees_and_so_do_its_predicted_figures) {
  run("plan '" + kRoot + "/scenarios/requests/chat-8b.json' -o plan.json");
  EXPECT_EQ(problem_of(folder_ + "/plan.json", "plan"), "");
  Json predicted = host::read_json(folder_ + "/plan.json")->root()["predicted"];
  predicted["schema"] = "orrery.summary.v1";
  EXPECT_NO_THROW(host::check_schema(*JsonDocument::parse(predicted.dump(), "predicted"),
                                     schema_of("summary")));
}

TEST_F(Written, a_summary_agrees_as_a_file_and_as_printed) {
  run("simulate '" + kRoot + "/scenarios/whatif/llama8b-l4-vs-h100.json' -o run --json");
  EXPECT_EQ(problem_of(folder_ + "/run/summary.json", "summary"), "");
  EXPECT_EQ(problem_of(folder_ + "/out.json", "summary"), "");
  // The schema is no list of everything: without the figures that all results share it refuses.
  Json summary = host::read_json(folder_ + "/out.json")->root();
  summary.erase("ttft_ms");
  EXPECT_THROW(host::check_schema(*JsonDocument::parse(summary.dump(), "s"), schema_of("summary")),
               InputError);
}

}  // namespace
}  // namespace orrery
