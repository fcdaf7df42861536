#include "runtime/policy/settings.h"

namespace orrery::policy {

InstanceSettings read_instance_settings(const JsonView& v, const InstanceSettings& base) {
  v.allow_only({"block_tokens", "kv_blocks", "max_batched_tokens", "max_running",
                "long_prefill_cap_tokens", "chunked_prefill", "prefix_cache", "max_context_tokens",
                "max_waiting", "watermark_per_mille", "order", "victim"});
  InstanceSettings s = base;
  s.block_tokens = Tokens(v.get("block_tokens", s.block_tokens.value()));
  s.kv_blocks = Blocks(v.get("kv_blocks", s.kv_blocks.value()));
  s.max_batched_tokens = Tokens(v.get("max_batched_tokens", s.max_batched_tokens.value()));
  s.max_running = v.get("max_running", s.max_running);
  s.long_prefill_cap = Tokens(v.get("long_prefill_cap_tokens", s.long_prefill_cap.value()));
  s.chunked_prefill = v.get("chunked_prefill", s.chunked_prefill);
  s.prefix_cache = v.get("prefix_cache", s.prefix_cache);
  s.max_context = Tokens(v.get("max_context_tokens", s.max_context.value()));
  s.max_waiting = v.get("max_waiting", s.max_waiting);
  s.watermark_per_mille = v.get("watermark_per_mille", s.watermark_per_mille);
  s.order = v.get("order", s.order.c_str());
  s.victim = v.get("victim", s.victim.c_str());
  return s;
}

Json to_json(const InstanceSettings& s) {
  Json json = Json::object();
  json["block_tokens"] = s.block_tokens.value();
  json["kv_blocks"] = s.kv_blocks.value();
  json["max_batched_tokens"] = s.max_batched_tokens.value();
  json["max_running"] = s.max_running;
  json["long_prefill_cap_tokens"] = s.long_prefill_cap.value();
  json["chunked_prefill"] = s.chunked_prefill;
  json["prefix_cache"] = s.prefix_cache;
  json["max_context_tokens"] = s.max_context.value();
  json["max_waiting"] = s.max_waiting;
  json["watermark_per_mille"] = s.watermark_per_mille;
  json["order"] = s.order;
  json["victim"] = s.victim;
  return json;
}

RouterSettings read_router_settings(const JsonView& v) {
  v.allow_only({"policy", "scorers", "directory_blocks_per_instance"});
  RouterSettings s;
  s.policy = v.get("policy", s.policy.c_str());
  s.directory_blocks_per_instance =
      v.get("directory_blocks_per_instance", s.directory_blocks_per_instance);
  if (const std::optional<JsonView> scorers = v.find("scorers")) {
    for (const JsonView& item : scorers->items()) {
      item.allow_only({"name", "weight"});
      s.scorers.push_back({item.at("name").as_string(), item.get("weight", INT64_C(1))});
    }
  }
  return s;
}

Json to_json(const RouterSettings& s) {
  Json json = Json::object();
  json["policy"] = s.policy;
  if (!s.scorers.empty()) {
    Json scorers = Json::array();
    for (const ScorerSetting& scorer : s.scorers)
      scorers.push_back(Json{{"name", scorer.name}, {"weight", scorer.weight}});
    json["scorers"] = std::move(scorers);
  }
  json["directory_blocks_per_instance"] = s.directory_blocks_per_instance;
  return json;
}

}  // namespace orrery::policy
