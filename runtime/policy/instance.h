// Instance: the scheduler and KV cache of one model replica, a state machine driven from outside.
// The simulator and the live engine drive the same object; they differ only in where results come
// from. Pure: time is an argument, nothing is read from the machine.
//
// A request has tokens *known* (prompt + generated), *computed* (their KV is in the cache) and
// *in flight* (in the step now out). Each step tries to let computed catch up with known: prefill,
// chunked prefill, a prefix hit, and a resumed request are the same case. An item that computes
// the last known token samples the next one.
//
// Laws (tests/laws): after all requests end every block is free; no block has two owners unless
// shared by hash; budgets are never exceeded; every accepted request ends exactly once; equal
// inputs give equal journals; complete(step, n) equals n single completions; after cancel a request
// owns nothing; no decision depends on an output length not yet produced.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/journal.h"
#include "runtime/base/units.h"
#include "runtime/policy/cost/step_shape.h"
#include "runtime/policy/request.h"

namespace orrery::policy {

struct InstanceSettings {
  Tokens block_tokens{16};
  Blocks kv_blocks{0};              // usable blocks of the pool (no reserved block is counted)
  Tokens max_batched_tokens{8192};  // tokens computed in one step
  std::int64_t max_running = 256;   // sequences in one step
  Tokens long_prefill_cap{0};       // most prompt tokens of one request in one step; 0: no cap
  bool chunked_prefill = true;      // off: a prompt is computed in one step or waits
  bool prefix_cache = true;
  Tokens max_context{1 << 30};           // prompt + output of one request
  std::int64_t max_waiting = 0;          // bound of the waiting queue; 0: unbounded
  std::int64_t watermark_per_mille = 0;  // share of blocks kept free at admission while others run
  std::string order = "fcfs";            // registered order of the waiting queue
  std::string victim = "newest";         // registered choice of the request to preempt
  bool operator==(const InstanceSettings&) const = default;
};

struct StepItem {
  RequestId id;
  std::uint32_t slot = 0;  // dense index of the request inside the instance while it lives
  std::int64_t first = 0;  // position of the first token computed (= tokens already computed)
  std::int64_t count = 0;  // tokens computed, >= 1; in a repeated step: per repetition
  bool samples = false;    // computes the last known token, so a new token comes out
};

struct Admission {
  RequestId id;
  Tokens cached;         // tokens found in the prefix cache
  bool resumed = false;  // it was preempted before
};

// What to compute next. Owned by the instance and valid until its next call.
struct Step {
  std::uint64_t id = 0;                  // 1, 2, 3, …; one step is in flight at a time
  std::span<const StepItem> items;       // running order; never empty
  std::int64_t horizon = 1;              // may be repeated this often, one token for each item
  cost::StepShape shape;                 // of the first repetition
  std::span<const Admission> admitted;   // entered the batch with this step
  std::span<const RequestId> preempted;  // lost their blocks to let this step run
};

// What the executor says of a completed step. An item that samples gives one token a repetition.
struct StepFinish {
  std::uint32_t item = 0;  // index into Step::items
  // kStop (the item samples, and its token counts) or kError (its last repetition gave nothing:
  // no token counts and no block of it is shared).
  FinishReason reason = FinishReason::kStop;
};

// Content hashes of blocks that fill up with generated tokens: the engine hashes token ids, the
// simulator a session's identity, a replay reads the journal. Asked once a block, in canonical
// order (by repetition, then item). Return BlockHash{0} for "not to be shared".
class BlockHasher {
 public:
  virtual ~BlockHasher() = default;
  // Block `index` of the request (counted from its first token) whose parent block hash is given.
  virtual BlockHash hash_block(RequestId id, std::uint32_t slot, std::int64_t index,
                               BlockHash parent) = 0;
};

struct Finished {
  RequestId id;
  FinishReason reason = FinishReason::kStop;
  Tokens generated;
  std::uint32_t slot = 0;
};

struct InstanceLoad {
  std::int64_t running = 0, waiting = 0;
  Blocks blocks_total, blocks_free;  // free includes cached blocks that may be evicted
  std::int64_t preemptions = 0;
  // Prompt tokens looked up in and found in the prefix cache, counted at admission (first time).
  std::int64_t prefix_query_tokens = 0, prefix_hit_tokens = 0;
  std::int64_t recomputed_tokens = 0;  // computed again after preemption
};

class Instance {
 public:
  // Throws InputError for settings that cannot work (unknown order, zero blocks, …).
  explicit Instance(const InstanceSettings& settings);
  ~Instance();
  Instance(Instance&&) noexcept;
  Instance& operator=(Instance&&) noexcept;

  SubmitResult submit(const Request& request, Time now);
  // True when the request was here and is not finished. It then owns nothing; if it is in the step
  // in flight, that item's result is ignored, and its blocks and slot, which the device may still
  // write, belong to the step and return when it completes.
  bool cancel(RequestId id, Time now);
  // The next step, or nullopt when there is nothing to compute. At most one step in flight: call
  // complete() first. Allocates the blocks that the first repetition writes.
  std::optional<Step> next_step(Time now);
  // How often the step in flight may still be repeated; 0: none is out. submit() and cancel() lower
  // it to 1 while the step is out when they may change the composition that follows.
  std::int64_t horizon() const;
  // n repetitions of the step are done, 1 <= n <= horizon(). finishes: sorted by item; they hold at
  // the last repetition. Requests that reach max_tokens finish by themselves (kLength).
  // hasher may be null: generated blocks are then not shared. Returns who finished, in item order;
  // valid until the next call.
  std::span<const Finished> complete(std::uint64_t step_id, std::int64_t n,
                                     std::span<const StepFinish> finishes, BlockHasher* hasher,
                                     Time now);
  // No new requests are accepted; those here go on. drained(): nothing is left.
  void drain(Time now);
  bool draining() const;
  bool drained() const;
  bool has_work() const;

  // Blocks of a request in position order; valid until the next call.
  std::span<const BlockId> block_table(std::uint32_t slot) const;
  Tokens generated(std::uint32_t slot) const;
  InstanceLoad load() const;
  const InstanceSettings& settings() const;
  // Most tokens (prompt + output) one request may have here: min(max_context, pool).
  Tokens max_request_tokens() const;

  JournalWriter& journal();
  // Writes what is pending, so that the journal's hash covers everything so far. Call at the end;
  // coalescing starts anew after it.
  void flush_journal();
  // Checks the pool's and the queues' invariants; stops (ORRERY_CHECK) when one is broken. O(size).
  void check_invariants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace orrery::policy
