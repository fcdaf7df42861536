// StateStore: what should run and what runs, in one SQLite file under the state folder. Commands
// write the desired state; the fleet's process reads it, makes it so, and writes the actual state.
// Thin over SQLite's C API: every statement is prepared, bound and finalised by a guard.
//
// Laws: desired state changes whole or not at all and its generation grows by one each time; the
// actual rows are those of one moment.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace orrery::deploy {

// One worker as it should be: a place in the fleet ("main-0") and what to run there.
struct DesiredWorker {
  std::string slot, pool, model, instance_type;
  std::string settings;  // JSON, as policy::to_json(InstanceSettings) writes it
  std::string spec;      // hash over model, type and settings: equal specs need no restart
  bool operator==(const DesiredWorker&) const = default;
};

struct Desired {
  std::int64_t generation = 0;
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string router_policy = "least_load";
  std::string source;         // what it was made from: "plan.json", "--model embedded"
  std::string plan;           // the plan's text; empty when there was none
  bool stop = false;          // drain everything and exit
  bool vllm_metrics = false;  // /metrics under the names of vLLM as well
  std::vector<DesiredWorker> workers;
};

struct ActualWorker {
  std::string slot, model, spec;
  std::int64_t instance = 0, pid = 0;
  std::string state;  // starting, ready, draining, backoff, failed
  std::string address, journal, log, message;
  double started_at = 0;  // seconds since 1970
  std::int64_t restarts = 0, running = 0, waiting = 0;
};

struct FleetRow {
  std::int64_t pid = 0;
  std::string host;
  int port = 0;
  std::string state;  // starting, ready, changing, degraded, draining, stopped, failed
  std::string run_dir, log, message;
  double started_at = 0;
  std::int64_t generation = 0;  // of the desired state that it has made so (or failed to)
};

class StateStore {
 public:
  // Opens or makes `state_dir`/state.db. Throws InputError when it cannot.
  explicit StateStore(const std::string& state_dir);
  ~StateStore();

  std::optional<Desired> desired() const;
  std::int64_t generation() const;                   // cheap; 0: nothing is desired
  std::int64_t set_desired(const Desired& desired);  // returns the new generation
  void request_stop();
  std::optional<FleetRow> fleet() const;
  std::vector<ActualWorker> workers() const;  // by slot, then instance
  void set_actual(const FleetRow& fleet, const std::vector<ActualWorker>& workers);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace orrery::deploy
