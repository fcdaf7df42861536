// A worker's whole life: load the model, listen, say so, serve until drained or told to stop.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/policy/instance.h"

namespace orrery::serve {

struct WorkerOptions {
  std::string model = "embedded";      // as engine::load_card takes it
  policy::InstanceSettings settings;   // max_context is lowered to the model's
  std::string listen = "127.0.0.1:0";  // or "unix:/path"
  std::string journal_path;            // empty: no file
  std::int64_t parent_pid = 0;         // not 0: end when this process does
  std::function<void(const std::string& address)> on_ready;
};

// Returns when it is drained, or on SIGTERM or SIGINT. Throws InputError (no such model, settings
// that do not fit it, no such address).
void run_worker(const WorkerOptions& options);

}  // namespace orrery::serve
