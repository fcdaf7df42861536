// Backend: makes a plan's desired state so, somewhere. "local" runs worker processes on this
// machine; others are understood and say what they would need.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/plan.h"
#include "runtime/deploy/diff.h"
#include "runtime/deploy/state_store.h"

namespace orrery::deploy {

struct Outcome {
  std::string failure;  // empty: it is so
  int exit_code = 0;
  FleetRow fleet;
  std::vector<ActualWorker> workers;
};

// What runs, as far as the store and the lock say.
struct Actual {
  bool alive = false;
  std::optional<FleetRow> fleet;      // also of a fleet that has ended
  std::vector<ActualWorker> workers;  // empty when nothing is alive
};

class Backend {
 public:
  virtual ~Backend() = default;
  // The workers this plan asks for. Throws InputError, or Unsupported naming what cannot run here.
  virtual std::vector<DesiredWorker> workers_for(const Plan& plan,
                                                 const std::string& file) const = 0;
  virtual Actual actual() const = 0;
  // Writes the desired state and waits until it is so. Where workers fail to start, what ran
  // before goes on. progress(ready, wanted) is called now and then.
  virtual Outcome make_so(const Desired& desired,
                          const std::function<void(std::int64_t, std::int64_t)>& progress) = 0;
  // Drains and ends everything. False: it had to be killed after `timeout_s`. Nothing runs: true.
  virtual bool stop(double timeout_s, const std::function<void(const Actual&)>& progress) = 0;
};

// "local"; "twin" and "kubernetes" throw Unsupported; another name throws InputError.
std::unique_ptr<Backend> make_backend(const std::string& name, const std::string& state_dir);

}  // namespace orrery::deploy
