#include "sim/pool_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/host/files.h"
#include "runtime/host/process.h"
#include "runtime/policy/settings.h"

namespace orrery::sim {
namespace {

constexpr std::int64_t kLargeGpuBytes = 70'000'000'000;

std::string grouped(double value) {
  std::string text = std::to_string(static_cast<std::int64_t>(std::ceil(value)));
  for (auto i = static_cast<std::ptrdiff_t>(text.size()) - 3; i > 0; i -= 3)
    text.insert(static_cast<std::size_t>(i), 1, ' ');
  return text;
}

ReplicaPlan refuse(ReplicaPlan plan, std::string kind, std::string why) {
  plan.why_not_kind = std::move(kind);
  plan.why_not = std::move(why);
  return plan;
}

ReplicaPlan plan_local(const ReplicaChoice& choice, ReplicaPlan plan) {
  const std::string path = choice.measured_profile.empty()
                               ? host::state_dir() + "/profiles/cpu-local.json"
                               : choice.measured_profile;
  std::shared_ptr<const JsonDocument> document;
  try {
    document = host::read_json(path);
  } catch (const InputError& e) {
    throw InputError({path, e.place().line, "cpu-local"},
                     e.found() + ": this machine has not been measured",
                     "a profile written by: orrery calibrate --local");
  }
  const cost::MeasuredProfile profile = cost::read_measured_profile(JsonView(document));
  if (choice.tp != 1)
    return refuse(std::move(plan), "tp_not_legal", "a CPU worker is one process: tp must be 1");
  if (profile.model != choice.model)
    return refuse(std::move(plan), "not_modelled",
                  "cpu-local was measured with model \"" + profile.model + "\", not \"" +
                      choice.model + "\"");
  policy::InstanceSettings settings;
  settings.block_tokens = Tokens(profile.block_tokens);
  settings.kv_blocks = Blocks(profile.kv_blocks);
  settings.max_batched_tokens = Tokens(profile.max_batched_tokens);
  settings.max_running = profile.max_running;
  settings.max_context = Tokens(profile.max_context);
  plan.pool.settings =
      choice.settings ? policy::read_instance_settings(*choice.settings, settings) : settings;
  plan.pool.step_model = cost::make_measured_model(profile);
  plan.pool.gpus_per_replica = 0;
  return plan;
}

// How many GPUs' worth of replicas fit one instance; 0: tp exceeds it.
std::int64_t replicas_on(const cost::InstanceType& type, int tp) {
  return static_cast<std::int64_t>(type.gpu_count) / tp;
}

ReplicaPlan plan_on_gpu(const Catalog& catalog, const ReplicaChoice& choice,
                        const cost::InstanceType& type, ReplicaPlan plan) {
  if (type.gpu_count < 1)
    return refuse(std::move(plan), "fractional_gpu",
                  "it holds a share of a GPU; step times of a share are not modelled yet");
  plan.per_instance = replicas_on(type, choice.tp);
  if (plan.per_instance < 1)
    return refuse(std::move(plan), "tp_not_legal",
                  "tp " + std::to_string(choice.tp) +
                      " needs that many GPUs in one instance, it has " +
                      std::to_string(static_cast<std::int64_t>(type.gpu_count)) +
                      " (replicas across instances are not modelled yet)");
  const cost::ModelSpec model =
      cost::with_weight_type(catalog.model(choice.model), choice.precision);
  const cost::GpuSpec gpu = catalog.gpu_of(type);
  const cost::EngineProfile& profile = choice.profile.empty()
                                           ? catalog.default_profile_for(type.gpu)
                                           : catalog.profile(choice.profile);
  const cost::Parallelism parallelism{choice.tp, false};
  if (std::string why = cost::why_illegal(model, parallelism); !why.empty())
    return refuse(std::move(plan), "tp_not_legal", std::move(why));
  if (std::string why = cost::why_kv_precision_is_refused(model, gpu, choice.kv_precision);
      !why.empty())
    return refuse(std::move(plan), "kv_precision", std::move(why));

  policy::InstanceSettings settings;
  const bool large = gpu.memory_bytes >= kLargeGpuBytes;
  settings.max_batched_tokens = Tokens(large ? 8192 : 2048);
  settings.max_running = large ? 1024 : 256;
  settings.max_context = Tokens(model.max_context);
  if (choice.settings) settings = policy::read_instance_settings(*choice.settings, settings);
  plan.memory =
      cost::plan_memory(model, gpu, choice.tp, profile, settings.block_tokens,
                        settings.max_batched_tokens, choice.kv_precision, settings.max_running);
  if (!plan.memory->fits)
    return refuse(std::move(plan), "does_not_fit",
                  "does not fit by " + grouped(plan.memory->missing_bytes) +
                      " bytes on each GPU: weights " + grouped(plan.memory->weights_bytes) +
                      ", overheads and activations " +
                      grouped(plan.memory->reserved_bytes + plan.memory->activation_bytes) +
                      ", usable " + grouped(plan.memory->usable_bytes));
  if (settings.kv_blocks.value() == 0) settings.kv_blocks = plan.memory->kv_blocks;
  if (settings.kv_blocks > plan.memory->kv_blocks)
    return refuse(std::move(plan), "does_not_fit",
                  "kv_blocks " + std::to_string(settings.kv_blocks.value()) + " is more than the " +
                      std::to_string(plan.memory->kv_blocks.value()) + " that fit");
  plan.pool.settings = settings;
  plan.pool.step_model =
      cost::make_roofline_model(model, gpu, parallelism, profile, choice.kv_precision);
  plan.pool.gpus_per_replica = choice.tp;
  return plan;
}

}  // namespace

ReplicaPlan plan_replica(const Catalog& catalog, const ReplicaChoice& choice) {
  const cost::InstanceType& type = catalog.instance(choice.instance_type);
  ReplicaPlan plan;
  plan.pool.name = "main";
  plan.pool.model = choice.model;
  plan.pool.instance_type = choice.instance_type;
  plan.usd_per_instance_hour =
      choice.usd_per_instance_hour ? choice.usd_per_instance_hour : type.on_demand_usd_per_hour;
  plan = type.gpu.empty() ? plan_local(choice, std::move(plan))
                          : plan_on_gpu(catalog, choice, type, std::move(plan));
  plan.pool.usd_per_hour_per_replica =
      plan.usd_per_instance_hour
          ? *plan.usd_per_instance_hour / static_cast<double>(plan.per_instance)
          : std::numeric_limits<double>::quiet_NaN();
  return plan;
}

}  // namespace orrery::sim
