// Scenario files against their schema, and what the reader makes of variants.
#include "sim/scenario.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/host/files.h"
#include "runtime/host/json_schema.h"

namespace orrery::sim {
namespace {

const std::string kScenarios = ORRERY_SOURCE_ROOT "/scenarios";

Json schema(const std::string& name) {
  return host::read_json(kScenarios + "/schema/" + name)->root();
}

TEST(ScenarioFiles, every_shipped_scenario_fits_the_schema_and_reads_with_all_its_variants) {
  const Json schema_json = schema("scenario.v1.json");
  const Catalog catalog = load_catalog(ORRERY_SOURCE_ROOT);
  int scenarios = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kScenarios + "/whatif")) {
    const std::string path = entry.path().string();
    EXPECT_NO_THROW(host::check_schema(*host::read_json(path), schema_json)) << path;
    const ScenarioFile file(path);
    ++scenarios;
    EXPECT_TRUE(file.read(catalog, {}).misfits.empty()) << path;
    for (const std::string& variant : file.variants())
      EXPECT_EQ(file.read(catalog, {}, variant).variant, variant) << path;
  }
  EXPECT_GE(scenarios, 1);
}

// Schema and reader must not drift apart: what one refuses, the other does.
TEST(ScenarioFiles, schema_and_reader_refuse_the_same) {
  const Json schema_json = schema("scenario.v1.json");
  const Catalog catalog = load_catalog(ORRERY_SOURCE_ROOT);
  const std::string good =
      R"({"schema": "orrery.scenario.v1",
          "fleet": [{"model": "llama-3.1-8b", "instance_type": "g6.xlarge",
                     "settings": {"max_running": 8}}],
          "workload": {"synth": {"schema": "orrery.synth.v1", "requests": 3,
                                 "arrivals": {"process": "poisson", "rate_per_s": 1},
                                 "tenants": [{"name": "a", "input_tokens": 9, "output_tokens": 9}]},
                       "mode": "open"},
          "slo": {"ttft_ms": {"p99": 500}}})";
  const std::pair<const char*, const char*> changes[] = {
      {"", ""},
      {"\"fleet\"", "\"flete\""},
      {"orrery.scenario.v1", "orrery.scenario.v2"},
      {"\"instance_type\"", "\"instance\""},
      {"\"max_running\": 8", "\"max_runing\": 8"},
      {"\"mode\": \"open\"", "\"mode\": \"opened\""},
      {"\"mode\": \"open\"", "\"rate_scale\": 0"},
      {"\"mode\": \"open\"", "\"max_requests\": 0"},
      {"\"mode\": \"open\"", "\"prefix_hit_rate\": 1.5"},
      {"\"mode\": \"open\"", "\"time_unit\": \"minutes\""},
      {"\"ttft_ms\"", "\"ttft\""},
      {"500", "-1"},
  };
  const auto path = std::filesystem::path(testing::TempDir()) / "scenario.json";
  for (const auto& [from, to] : changes) {
    std::string text = good;
    const bool changed = *from != '\0';
    if (changed) text.replace(text.find(from), std::string(from).size(), to);
    host::write_file(path.string(), text);
    bool schema_refuses = false, reader_refuses = false;
    try {
      host::check_schema(*host::read_json(path.string()), schema_json);
    } catch (const InputError&) {
      schema_refuses = true;
    }
    try {
      ScenarioFile(path.string()).read(catalog, {});
    } catch (const InputError& e) {
      reader_refuses = true;
      EXPECT_GT(e.place().line, 0) << e.what();
    }
    EXPECT_EQ(schema_refuses, changed) << to;
    EXPECT_EQ(reader_refuses, changed) << to;
  }
}

TEST(ScenarioFiles, a_model_with_an_id_alone_is_the_catalogues) {
  const Catalog catalog = load_catalog(ORRERY_SOURCE_ROOT);
  const auto path = std::filesystem::path(testing::TempDir()) / "models.json";
  const auto text = [](const std::string& id) {
    return R"({"schema": "orrery.scenario.v1", "models": [{"id": ")" + id +
           R"("}], "fleet": [{"model": "llama-3.1-8b", "instance_type": "g6.xlarge"}],
               "workload": {"trace": "none.csv"}})";
  };
  host::write_file(path.string(), text("llama-3.1-8b"));
  const Scenario scenario = ScenarioFile(path.string()).read(catalog, {});
  EXPECT_TRUE(scenario.misfits.empty());
  EXPECT_EQ(scenario.fleet.pools.at(0).model, "llama-3.1-8b");
  host::write_file(path.string(), text("llama-3.1-9b"));
  try {
    ScenarioFile(path.string()).read(catalog, {});
    FAIL() << "a name that the catalogue does not have";
  } catch (const InputError& e) {
    EXPECT_EQ(e.place().field, "models[0].id");
    EXPECT_NE(std::string(e.what()).find("llama-3.1-8b"), std::string::npos) << e.what();
  }
}

TEST(ScenarioFiles, the_shipped_sample_trace_fits_the_row_schema) {
  const Json row_schema = schema("trace.v1.json");
  const std::string path = kScenarios + "/traces/sample.jsonl";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  host::LineReader lines(host::open_reader(path));
  std::string_view line;
  int rows = 0;
  while (lines.next(line)) {
    const auto document = JsonDocument::parse(line, path);
    if (document->root().contains("schema")) continue;  // the file's first line
    ASSERT_NO_THROW(host::check_schema(*document, row_schema)) << "line " << lines.line_number();
    ++rows;
  }
  EXPECT_GT(rows, 100);
}

}  // namespace
}  // namespace orrery::sim
