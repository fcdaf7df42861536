#include "runtime/serve/worker.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <semaphore>
#include <string>
#include <utility>

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "runtime/base/errors.h"
#include "runtime/engine/cpu/cpu_executor.h"
#include "runtime/engine/engine_core.h"
#include "runtime/engine/model.h"
#include "runtime/host/process.h"
#include "runtime/serve/control/engine_loop.h"
#include "runtime/serve/control/worker_server.h"

namespace orrery::serve {
namespace {

// A cache that the machine cannot hold would end in a failed allocation, or in its being killed
// long after it said that it is ready.
void check_cache_fits(const policy::InstanceSettings& settings, const engine::ModelShape& shape) {
  const double bytes = static_cast<double>(settings.kv_blocks.value()) *
                       static_cast<double>(settings.block_tokens.value()) * 2 * sizeof(float) *
                       static_cast<double>(shape.kv_width() * shape.layers);
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes <= memory) return;
  const auto gib = [](double value) {
    return std::to_string(static_cast<std::int64_t>(value / (1 << 30))) + " GiB";
  };
  throw InputError({"--settings", 0, "kv_blocks"},
                   std::to_string(settings.kv_blocks.value()) + " (" + gib(bytes) + ")",
                   "a KV cache within this machine's memory, " + gib(memory));
}

std::unique_ptr<engine::EngineCore> make_core(const WorkerOptions& options) {
  const engine::ModelCard card = engine::load_card(options.model);
  policy::InstanceSettings settings = options.settings;
  settings.max_context = std::min(settings.max_context, Tokens(card.shape.max_context));
  check_cache_fits(settings, card.shape);
  engine::CpuExecutorSettings cpu;
  cpu.block_tokens = settings.block_tokens.value();
  cpu.kv_blocks = settings.kv_blocks.value();
  cpu.max_batched_tokens = settings.max_batched_tokens.value();
  cpu.never_sampled = card.never_sampled;
  engine::EngineOptions engine;
  engine.end_ids = card.end_ids;
  return std::make_unique<engine::EngineCore>(
      settings, engine::make_cpu_executor(engine::load_weights(card), cpu), std::move(engine));
}

}  // namespace

void run_worker(const WorkerOptions& options) {
  host::install_stop_signals();
  if (options.parent_pid != 0) {
    // The kernel tells us when the thread that started us ends; if it already has, go at once.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != options.parent_pid) return;
  }
  EngineLoop loop(make_core(options), options.journal_path);
  std::binary_semaphore drained(0);
  loop.on_drained([&drained] { drained.release(); });
  WorkerServer server(loop, options.listen);
  if (options.on_ready) options.on_ready(server.address());
  while (!drained.try_acquire_for(std::chrono::milliseconds(50)) && !host::stop_requested()) {
  }
  loop.stop();  // first: what still runs hears of its end while the server can say so
  server.shutdown();
}

}  // namespace orrery::serve
