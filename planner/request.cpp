#include "planner/request.h"

#include "runtime/base/errors.h"
#include "runtime/policy/settings.h"
#include "sim/scenario.h"

namespace orrery::planner {
namespace {

// Constraints that the request format knows and this planner does not plan for yet. Ignoring one
// would be a wrong answer, so each is refused by name.
void refuse_unplanned(const JsonView& constraints) {
  for (const char* key : {"regions", "survive_failures", "stockout", "spot_share", "quota"}) {
    if (constraints.find(key))
      throw Unsupported("constraints." + std::string(key) +
                        " is understood but not planned for yet");
  }
}

std::vector<InstanceChoice> read_choices(const JsonView& v) {
  std::vector<InstanceChoice> choices;
  for (const JsonView& item : v.items()) {
    InstanceChoice choice;
    if (item.is_string()) {
      choice.type = item.as_string();
    } else {
      item.allow_only({"type", "max_instances", "usd_per_hour"});
      choice.type = item.at("type").as_string();
      if (const auto most = item.find("max_instances")) {
        choice.max_instances = most->as_int();
        if (*choice.max_instances < 1) most->fail("at least 1");
      }
      if (const auto price = item.find("usd_per_hour")) {
        choice.usd_per_hour = price->as_number();
        if (*choice.usd_per_hour < 0) price->fail("a price of at least 0");
      }
    }
    for (const InstanceChoice& other : choices)
      if (other.type == choice.type) item.fail("each instance type once");
    choices.push_back(std::move(choice));
  }
  if (choices.empty()) v.fail("at least one instance type");
  return choices;
}

void read_constraints(const JsonView& v, PlanRequest& request) {
  refuse_unplanned(v);
  v.allow_only({"instance_types", "tp", "max_replicas", "budget_usd_per_hour"});
  request.instance_types = read_choices(v.at("instance_types"));
  if (const auto tp = v.find("tp")) {
    for (const JsonView& item : tp->items()) {
      const std::int64_t n = item.as_int();
      if (n < 1 || n > 64) item.fail("a tensor-parallel size from 1 to 64");
      request.tp.push_back(static_cast<int>(n));
    }
    if (request.tp.empty()) tp->fail("at least one size");
  }
  request.max_replicas = v.get("max_replicas", request.max_replicas);
  if (request.max_replicas < 1) v.at("max_replicas").fail("at least 1");
  if (const auto budget = v.find("budget_usd_per_hour"))
    request.max_usd_per_hour = budget->as_number();
}

void read_model(const JsonView& v, PlanRequest& request) {
  if (v.size() != 1)
    v.fail("one model (fleets of several models are not planned for yet)",
           std::to_string(v.size()));
  const JsonView model = v.at(std::size_t{0});
  if (model.is_string()) {
    request.model = model.as_string();
    return;
  }
  model.allow_only({"id", "precision", "kv_precision"});
  request.model = model.at("id").as_string();
  request.precision = model.get("precision", "");
  request.kv_precision = model.get("kv_precision", "");
}

void read_workload(const JsonView& v, const std::string& folder, PlanRequest& request) {
  v.allow_only({"trace", "rate_scale", "max_requests", "tolerate", "time_unit"});
  request.trace = v.get("trace", "");
  if (!request.trace.empty() && request.trace.front() != '/' && !folder.empty())
    request.trace = folder + "/" + request.trace;
  request.rate_scale = v.get("rate_scale", 1.0);
  if (!(request.rate_scale > 0)) v.at("rate_scale").fail("a number above 0");
  request.reading.tolerate = v.get("tolerate", false);
  request.reading.time_unit = v.get("time_unit", "auto");
  if (const auto most = v.find("max_requests")) {
    request.max_requests = most->as_int();
    if (*request.max_requests < 1) most->fail("at least 1");
  }
}

void read_search(const JsonView& v, PlanRequest& request) {
  v.allow_only({"sizing_fraction", "time_limit_s"});
  request.sizing_fraction = v.get("sizing_fraction", request.sizing_fraction);
  if (!(request.sizing_fraction > 0 && request.sizing_fraction <= 1))
    v.at("sizing_fraction").fail("a share above 0 and at most 1");
  request.time_limit_s = v.get("time_limit_s", request.time_limit_s);
}

}  // namespace

PlanRequest read_plan_request(const JsonView& v, const std::string& folder) {
  if (v.at("schema").as_string() != "orrery.request.v1")
    v.at("schema").fail("\"orrery.request.v1\"");
  v.allow_only({"schema", "name", "models", "workload", "slo", "objective", "constraints", "search",
                "router", "settings"});
  PlanRequest request;
  request.name = v.get("name", "");
  read_model(v.at("models"), request);
  if (const auto workload = v.find("workload")) read_workload(*workload, folder, request);
  request.slo = sim::read_slo(v.at("slo"));
  request.slo_json = v.at("slo").json();
  if (request.slo.targets.empty() && request.slo.goodput_fraction <= 0)
    v.at("slo").fail("at least one target, such as {\"ttft_ms\": {\"p99\": 500}}");
  const std::string objective = v.get("objective", "cost");
  if (objective == "latency" || objective == "throughput" || objective == "tokens_per_usd")
    throw Unsupported("objective \"" + objective +
                      "\" is understood but not planned for yet; \"cost\" is");
  if (objective != "cost") v.at("objective").fail("\"cost\"");
  read_constraints(v.at("constraints"), request);
  if (const auto search = v.find("search")) read_search(*search, request);
  if (const auto router = v.find("router")) request.router = policy::read_router_settings(*router);
  request.settings = v.find("settings");
  if (request.settings)
    (void)policy::read_instance_settings(*request.settings);  // bad keys show at once
  return request;
}

}  // namespace orrery::planner
