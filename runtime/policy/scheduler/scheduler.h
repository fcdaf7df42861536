// Instance::Impl: the state of one instance, and the three moves on it: inputs (instance.cpp),
// the choice of the next step (compose.cpp) and its completion (complete.cpp).
//
// Rules beyond those in instance.h:
// * Running requests come first, in the order in which they entered. New ones are admitted only in
//   a step that preempted nobody, from the front of the queue, and only if all of their known
//   tokens fit into free blocks beyond those promised to running prompts; a front that does not fit
//   is waited for (nobody overtakes it).
// * A front that does not fit is looked at again when a block came back, when another request
//   became the front, or after a step that was not pure decode (its blocks may be shared). So in a
//   run of decode steps nothing is admitted, and macro-steps equal single ones.
// * A request alone in the batch always gets its blocks, since prompt + max_tokens fit into the
//   pool; hence preemption ends.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/policy/flat_map.h"
#include "runtime/policy/instance.h"
#include "runtime/policy/kv/block_pool.h"
#include "runtime/policy/scheduler/orders.h"
#include "runtime/policy/scheduler/run_recorder.h"
#include "runtime/policy/scheduler/sequence.h"
#include "runtime/policy/scheduler/victims.h"
#include "runtime/policy/scheduler/waiting_queue.h"

namespace orrery::policy {

struct Instance::Impl {
  explicit Impl(const InstanceSettings& s);

  // ---- inputs
  SubmitResult submit(const Request& request, Time now);
  SubmitResult judge(const Request& request) const;
  bool cancel(RequestId id, Time now);
  void drain(Time now);

  // ---- compose.cpp
  Step next_step();
  bool compose_repeat();  // false: blocks are short, compose anew
  void compose_anew();
  void compose_running();                  // one pass over the running requests
  bool schedule_running(std::size_t& at);  // false: it had to preempt itself
  void preempt(std::size_t at);
  void admit_waiting();
  bool admit_front();                           // false: the front waits
  std::int64_t prefix_hits(const Sequence& s);  // leaves the blocks in hits_
  void take_blocks(Sequence& s, std::int64_t tokens);
  void add_item(std::uint32_t slot, std::int64_t count);
  std::int64_t memory_horizon(std::int64_t bound);
  cost::StepShape shape_of_items() const;

  // ---- complete.cpp
  void complete(std::int64_t n, std::span<const StepFinish> finishes, BlockHasher* hasher);
  void repeat(std::int64_t repetitions, BlockHasher* hasher);
  void complete_decode(std::uint32_t slot, BlockHasher* hasher);
  void complete_item(const StepItem& item, const StepFinish* given, BlockHasher* hasher);
  void publish_up_to(Sequence& s, std::uint32_t slot, std::int64_t tokens, BlockHasher* hasher);
  void finish(std::uint32_t slot, FinishReason reason);

  // ---- both
  void release_blocks(Sequence& s);
  void free_slot(std::uint32_t slot);
  void check_invariants() const;
  std::int64_t block_tokens() const { return settings.block_tokens.value(); }

  InstanceSettings settings;
  Order order = nullptr;
  Victim victim = nullptr;
  Tokens max_request_tokens;
  std::int64_t watermark_blocks = 0;

  BlockPool pool;
  std::vector<Sequence> sequences;        // by slot
  std::vector<std::uint32_t> free_slots;  // last freed is used first
  FlatMap<std::uint32_t> slot_of;         // by request id
  std::vector<std::uint32_t> running;     // slots, in the order in which they entered
  WaitingQueue waiting;
  std::int64_t next_rank = 1, front_rank = 0;
  std::int64_t promised = 0;  // blocks that running prompts still need
  bool draining = false;
  bool front_blocked = false;  // the front did not fit, and nothing has changed that

  // ---- the last step
  std::uint64_t step_id = 0;
  bool step_out = false;
  bool pure_decode = false;  // each item is one token of a request past its prompt
  bool steady = false;       // the next step has the same composition, blocks permitting
  std::int64_t budget = 0;   // tokens left while composing
  std::int64_t horizon = 0;
  std::int64_t shortest = 0;  // least tokens that an item of a pure decode step may still give
  cost::StepShape shape;
  std::vector<StepItem> items;
  std::vector<Admission> admitted;
  std::vector<RequestId> preempted;
  std::vector<Finished> finished;

  // ---- scratch, kept for its memory
  std::vector<BlockId> hits;
  std::vector<std::uint32_t> crossing;  // items sorted by when they cross into a new block
  std::vector<std::uint32_t> buckets;

  InstanceLoad counters;  // its sums only
  RunRecorder recorder;
};

}  // namespace orrery::policy
