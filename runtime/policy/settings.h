// Settings of the brain as they stand in scenario and plan files.
#pragma once
#include "runtime/base/json.h"
#include "runtime/policy/instance.h"
#include "runtime/policy/router/router.h"

namespace orrery::policy {

// Keys as the fields of InstanceSettings ("block_tokens", "kv_blocks", "max_batched_tokens",
// "max_running", "long_prefill_cap_tokens", "chunked_prefill", "prefix_cache",
// "max_context_tokens", "max_waiting", "watermark_per_mille", "order", "victim"); absent keys keep
// `base`'s value; unknown keys are errors.
InstanceSettings read_instance_settings(const JsonView& v, const InstanceSettings& base = {});
Json to_json(const InstanceSettings& settings);
RouterSettings read_router_settings(const JsonView& v);
Json to_json(const RouterSettings& settings);

}  // namespace orrery::policy
