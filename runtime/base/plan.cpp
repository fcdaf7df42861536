#include "runtime/base/plan.h"

#include <cmath>
#include <limits>

namespace orrery {
namespace {

constexpr const char* kSchema = "orrery.plan.v1";

// A price that nobody knows is NaN in memory and null in the file.
Json price(double usd) { return std::isnan(usd) ? Json(nullptr) : Json(usd); }
double read_price(const JsonView& v) {
  if (v.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (v.as_number() < 0) v.fail("a price of 0 or more");
  return v.as_number();
}

int read_count(const JsonView& pool, std::string_view key, int least) {
  const int n = pool.get(key, 1);
  if (n < least) pool.at(key).fail("at least " + std::to_string(least));
  return n;
}

PlanPool read_pool(const JsonView& v) {
  v.allow_only(
      {"name", "model", "role", "instance_type", "tp", "replicas", "usd_per_hour", "settings"});
  PlanPool pool;
  pool.name = v.get("name", pool.name);
  pool.model = v.at("model").as_string();
  pool.role = v.get("role", pool.role);
  if (pool.role != "unified" && pool.role != "prefill" && pool.role != "decode")
    v.at("role").fail("unified, prefill or decode");
  pool.instance_type = v.at("instance_type").as_string();
  pool.tp = read_count(v, "tp", 1);
  pool.replicas = read_count(v, "replicas", 0);
  if (v.has("usd_per_hour")) pool.usd_per_hour = read_price(v.at("usd_per_hour"));
  if (const auto settings = v.find("settings")) {
    if (!settings->is_object()) settings->fail("an object");
    pool.settings = settings->json();
  }
  return pool;
}

Json read_part(const JsonView& v, std::string_view key) {
  const auto part = v.find(key);
  return part ? part->json() : Json();
}

}  // namespace

Plan read_plan(const JsonView& v) {
  // First of all: the keys of another kind of file are not misspelled.
  if (const JsonView schema = v.at("schema"); schema.as_string() != kSchema)
    schema.fail("\"" + std::string(kSchema) + "\"");
  v.allow_only({"schema", "pools", "router", "slo", "usd_per_hour", "predicted", "alternatives",
                "rejected", "later", "repeat"});
  Plan plan;
  for (const JsonView& pool : v.at("pools").items()) plan.pools.push_back(read_pool(pool));
  if (plan.pools.empty()) v.at("pools").fail("at least one pool");
  for (std::size_t i = 0; i < plan.pools.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (plan.pools[i].name == plan.pools[j].name)
        v.at("pools").at(i).fail("pools of different names",
                                 "\"" + plan.pools[i].name + "\" again");
  if (const auto router = v.find("router")) {
    router->allow_only({"policy"});
    plan.router_policy = router->get("policy", plan.router_policy);
  }
  if (v.has("usd_per_hour")) plan.usd_per_hour = read_price(v.at("usd_per_hour"));
  plan.slo = read_part(v, "slo");
  plan.predicted = read_part(v, "predicted");
  plan.alternatives = read_part(v, "alternatives");
  plan.rejected = read_part(v, "rejected");
  plan.later = read_part(v, "later");
  plan.repeat = read_part(v, "repeat");
  return plan;
}

Json to_json(const Plan& plan) {
  Json pools = Json::array();
  for (const PlanPool& pool : plan.pools) {
    pools.push_back(Json{{"name", pool.name},
                         {"model", pool.model},
                         {"role", pool.role},
                         {"instance_type", pool.instance_type},
                         {"tp", pool.tp},
                         {"replicas", pool.replicas},
                         {"usd_per_hour", price(pool.usd_per_hour)},
                         {"settings", pool.settings}});
  }
  return Json{{"schema", kSchema},
              {"pools", std::move(pools)},
              {"router", Json{{"policy", plan.router_policy}}},
              {"slo", plan.slo},
              {"usd_per_hour", price(plan.usd_per_hour)},
              {"predicted", plan.predicted},
              {"alternatives", plan.alternatives},
              {"rejected", plan.rejected},
              {"later", plan.later},
              {"repeat", plan.repeat}};
}

}  // namespace orrery
