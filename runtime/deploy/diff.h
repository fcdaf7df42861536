// From a plan to workers, and from what runs to what should run. Pure: tested without a process.
//
// Laws (tests/deploy): applying the diff to what runs gives what is desired; equal states give only
// kKeep; scaling down stops the highest places first; a changed spec is a start and a stop.
#pragma once
#include <string>
#include <vector>

#include "runtime/base/plan.h"
#include "runtime/deploy/state_store.h"
#include "runtime/policy/instance.h"

namespace orrery::deploy {

enum class ChangeKind : char { kStart = '+', kStop = '-', kKeep = '=' };

struct Change {
  ChangeKind kind = ChangeKind::kKeep;
  std::string slot;
  std::size_t worker = 0;     // index into the desired (start, keep) …
  std::int64_t instance = 0;  // … and the actual worker (stop, keep)
  std::string why;
};

// Starts and keeps in the order of the desired workers, then stops.
std::vector<Change> diff(const std::vector<DesiredWorker>& desired,
                         const std::vector<ActualWorker>& actual);

// A backend that runs workers on this machine: cpu-local instances, tp 1, unified pools. A plan
// with anything else throws Unsupported naming it.
std::vector<DesiredWorker> workers_for_local_backend(const Plan& plan, const std::string& file);
// `count` workers of one model with these settings, in pool "main".
std::vector<DesiredWorker> workers_of(const std::string& model, int count,
                                      const policy::InstanceSettings& settings);

}  // namespace orrery::deploy
