#include "runtime/base/plan.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace orrery {
namespace {

Plan sample_plan() {
  Plan plan;
  PlanPool pool;
  pool.model = "embedded";
  pool.instance_type = "cpu-local";
  pool.replicas = 3;
  pool.settings = Json{{"block_tokens", 16}, {"max_running", 8}};
  plan.pools.push_back(pool);
  pool.name = "second";
  pool.usd_per_hour = std::numeric_limits<double>::quiet_NaN();  // nobody knows the price
  plan.pools.push_back(pool);
  plan.router_policy = "prefix";
  plan.usd_per_hour = 1.25;
  plan.slo = Json{{"ttft_ms", {{"p99", 500}}}};
  plan.repeat = Json{{"seed", 1}};
  return plan;
}

Plan parse(const Json& json) {
  return read_plan(JsonView(JsonDocument::parse(json.dump(2), "plan.json")));
}

std::string error_of(const Json& json) {
  try {
    parse(json);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Plan, written_and_read_again_it_has_the_same_bytes) {
  const Json written = to_json(sample_plan());
  const Plan again = parse(written);
  EXPECT_EQ(to_json(again).dump(), written.dump());
  EXPECT_EQ(again.pools.at(0).replicas, 3);
  EXPECT_TRUE(std::isnan(again.pools.at(1).usd_per_hour));
  EXPECT_EQ(written["pools"][1]["usd_per_hour"], nullptr);
}

TEST(Plan, each_wrong_value_is_refused_at_its_place) {
  Json wrong = to_json(sample_plan());
  wrong["pools"][1]["replicas"] = -1;
  EXPECT_NE(error_of(wrong).find("pools[1].replicas: found -1, expected at least 0"),
            std::string::npos);
  wrong = to_json(sample_plan());
  wrong["pools"][0]["role"] = "both";
  EXPECT_NE(error_of(wrong).find("expected unified, prefill or decode"), std::string::npos);
  wrong = to_json(sample_plan());
  wrong["schema"] = "orrery.plan.v9";
  EXPECT_NE(error_of(wrong).find("plan.json:2: schema"), std::string::npos);
  // Another kind of file: its kind is what is wrong, not its keys.
  wrong = Json{{"schema", "orrery.request.v1"}, {"models", {"embedded"}}, {"objective", "cost"}};
  EXPECT_NE(error_of(wrong).find("plan.json:2: schema"), std::string::npos) << error_of(wrong);
  wrong = to_json(sample_plan());
  wrong["pools"][1]["name"] = "main";
  EXPECT_NE(error_of(wrong).find("pools of different names"), std::string::npos);
  wrong = to_json(sample_plan());
  wrong["pools"] = Json::array();
  EXPECT_NE(error_of(wrong).find("at least one pool"), std::string::npos);
  wrong = to_json(sample_plan());
  wrong["pols"] = 1;
  EXPECT_NE(error_of(wrong).find("\"pools\" (did you mean that?)"), std::string::npos);
}

}  // namespace
}  // namespace orrery
