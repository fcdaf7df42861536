#include "runtime/deploy/diff.h"

#include <filesystem>
#include <map>
#include <set>

#include "runtime/base/errors.h"
#include "runtime/base/hash.h"
#include "runtime/base/hex.h"
#include "runtime/engine/settings.h"
#include "runtime/policy/settings.h"

namespace orrery::deploy {
namespace {

constexpr int kMostWorkers = 256;  // one machine; more is a typing error

std::string spec_of(const DesiredWorker& worker) {
  return hex(hash_bytes(worker.model + '\n' + worker.instance_type + '\n' + worker.settings));
}

// Folders are looked for where the command was typed, not where the worker runs.
std::string settled_model(const std::string& model) {
  if (model == "embedded" || model == "orrery-embedded") return "embedded";
  return std::filesystem::absolute(model).lexically_normal().string();
}

DesiredWorker make_worker(const std::string& pool, int place, const std::string& model,
                          const std::string& instance_type,
                          const policy::InstanceSettings& settings) {
  DesiredWorker worker;
  worker.slot = pool + "-" + std::to_string(place);
  worker.pool = pool;
  worker.model = settled_model(model);
  worker.instance_type = instance_type;
  worker.settings = policy::to_json(settings).dump();
  worker.spec = spec_of(worker);
  return worker;
}

}  // namespace

std::vector<Change> diff(const std::vector<DesiredWorker>& desired,
                         const std::vector<ActualWorker>& actual) {
  std::vector<Change> changes;
  std::set<std::int64_t> kept;
  for (std::size_t i = 0; i < desired.size(); ++i) {
    const DesiredWorker& want = desired[i];
    Change change{ChangeKind::kStart, want.slot, i, 0, "new"};
    for (const ActualWorker& have : actual) {
      if (have.slot != want.slot || have.state == "draining") continue;
      if (have.spec == want.spec && have.state != "failed") {
        change = {ChangeKind::kKeep, want.slot, i, have.instance, have.state};
        kept.insert(have.instance);
        break;
      }
      change.why = have.state == "failed" ? "it failed before" : "its settings or model changed";
    }
    changes.push_back(std::move(change));
  }
  std::set<std::string> wanted;
  for (const DesiredWorker& want : desired) wanted.insert(want.slot);
  for (const ActualWorker& have : actual) {
    if (kept.contains(have.instance) || have.state == "draining") continue;
    changes.push_back({ChangeKind::kStop, have.slot, 0, have.instance,
                       wanted.contains(have.slot) ? "replaced" : "no longer wanted"});
  }
  return changes;
}

std::vector<DesiredWorker> workers_of(const std::string& model, int count,
                                      const policy::InstanceSettings& settings) {
  if (count < 1 || count > kMostWorkers) {
    throw InputError({"--workers", 0, ""}, std::to_string(count),
                     "from 1 to " + std::to_string(kMostWorkers));
  }
  std::vector<DesiredWorker> workers;
  for (int i = 0; i < count; ++i) {
    workers.push_back(make_worker("main", i, model, "cpu-local", settings));
  }
  return workers;
}

std::vector<DesiredWorker> workers_for_local_backend(const Plan& plan, const std::string& file) {
  std::string elsewhere;
  for (const PlanPool& pool : plan.pools) {
    if (pool.instance_type != "cpu-local" &&
        elsewhere.find(pool.instance_type) == std::string::npos) {
      elsewhere += (elsewhere.empty() ? "" : ", ") + pool.instance_type;
    }
  }
  if (!elsewhere.empty()) {
    throw Unsupported(file + " asks for " + elsewhere +
                      ": the local backend runs cpu-local only; this needs a cloud backend "
                      "(--backend kubernetes), which is not in this version");
  }
  std::vector<DesiredWorker> workers;
  std::set<std::string> names;
  for (const PlanPool& pool : plan.pools) {
    if (pool.role != "unified") {
      throw Unsupported("pool \"" + pool.name + "\" has the role " + pool.role +
                        ": separate prefill and decode pools need KV transfer, which is not in "
                        "this version");
    }
    if (pool.tp != 1) {
      throw Unsupported("pool \"" + pool.name + "\" has tp " + std::to_string(pool.tp) +
                        ": the CPU engine runs with tp 1");
    }
    if (!names.insert(pool.name).second) {
      throw InputError({file, 0, "pools"}, "two pools named \"" + pool.name + "\"",
                       "names that differ");
    }
    if (pool.replicas < 0 || pool.replicas > kMostWorkers) {
      throw InputError({file, 0, "pools." + pool.name + ".replicas"}, std::to_string(pool.replicas),
                       "from 1 to " + std::to_string(kMostWorkers));
    }
    policy::InstanceSettings settings = engine::default_embedded_settings();
    if (pool.settings.is_object()) {
      settings = policy::read_instance_settings(
          JsonView(JsonDocument::parse(pool.settings.dump(), file)), settings);
    }
    for (int i = 0; i < pool.replicas; ++i) {
      workers.push_back(make_worker(pool.name, i, pool.model, pool.instance_type, settings));
    }
  }
  if (workers.empty()) throw InputError({file, 0, "pools"}, "no pool", "at least one");
  return workers;
}

}  // namespace orrery::deploy
