// The fleet's process: gateway, supervisor and the loop that makes the desired state so. It reads
// the desired state from the store whenever its generation grows, and writes the actual state.
//
// Laws: one fleet a state folder (a lock says so); a stop finishes what runs; every run has its own
// folder with the journals of all its processes.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/deploy/state_store.h"

namespace orrery::deploy {

struct FleetOptions {
  std::string state_dir;
  bool foreground = true;  // log to standard error too
  bool journals = true;    // off: only running hashes are kept
  // Called once when all workers are ready.
  std::function<void(const FleetRow&, const std::vector<ActualWorker>&)> on_ready;
};

// Runs until it is told to stop (store, SIGINT, SIGTERM; a second signal ends it at once). Needs a
// desired state in the store. Returns the exit code; what went wrong is in the log and the store.
// Throws InputError when the port is taken or another fleet runs in this state folder.
int run_fleet(const FleetOptions& options);

}  // namespace orrery::deploy
