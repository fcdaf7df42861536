// Supervisor: the local backend's worker processes. It starts them, waits until they are ready,
// gives them to the gateway, starts crashed ones again with growing pauses, and drains those that
// are no longer wanted. Lives on the io_context's thread.
//
// Laws: what is to be stopped goes only after everything new is ready, and not at all when
// something new fails; a drained worker has finished its requests; every process it started is
// reaped; a restarted worker is a new instance with its own journal.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "runtime/deploy/diff.h"
#include "runtime/serve/gateway.h"

namespace orrery::deploy {

namespace net = serve::net;

struct SupervisorOptions {
  std::string executable, run_dir;
  bool journals = true;
};

// How an attempt to reach a desired state ended.
struct ApplyResult {
  std::string failure;  // empty: done
  int exit_code = 0;    // of the worker that failed: 2 and 3 are passed on
};

class Supervisor {
 public:
  Supervisor(net::io_context& context, serve::Gateway& gateway, SupervisorOptions options);
  ~Supervisor();

  net::awaitable<ApplyResult> apply(std::vector<DesiredWorker> desired);
  net::awaitable<void> drain_all();
  void give_up_waiting();  // apply() and drain_all() return soon
  void kill_all();
  std::vector<ActualWorker> actual() const;
  // fleet.json in the run folder: every process of this run and how it ended. The gateway's own end
  // is "running" until this is called.
  void note_gateway_end(const std::string& end);

 private:
  struct Slot;
  net::awaitable<void> run_slot(std::shared_ptr<Slot> slot);
  net::awaitable<bool> start_process(Slot& slot);
  net::awaitable<void> serve_until_exit(Slot& slot);
  net::awaitable<void> drain_process(Slot& slot);
  net::awaitable<void> watch_children();
  net::awaitable<void> pause_before_restart(Slot& slot);
  void read_ready_line(const std::shared_ptr<Slot>& slot, int descriptor);
  void start_slot(const DesiredWorker& want);
  ModelId model_id(const DesiredWorker& want);
  void note_exit(Slot& slot);
  void write_manifest() const;

  net::io_context& context_;
  serve::Gateway& gateway_;
  SupervisorOptions options_;
  struct Signals;
  std::unique_ptr<Signals> signals_;
  std::vector<std::shared_ptr<Slot>> slots_;
  std::map<std::string, ModelId> models_;
  struct Past {
    std::int64_t instance;
    std::string slot, journal, log, end;
  };
  std::vector<Past> history_;
  std::int64_t next_instance_ = 1;
  std::string gateway_end_ = "running";
  bool giving_up_ = false;
};

}  // namespace orrery::deploy
