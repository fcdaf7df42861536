// Replica: one policy::Instance driven in virtual time by a StepModel. The driver's half of a
// macro-step: it knows the requests' true output lengths (the brain never does), stops a repeated
// step at the first finish, and splits it when an input arrives.
//
// Clock: picoseconds inside; what others see is rounded up to nanoseconds. A repetition whose
// rounded end is before an arrival is done when it arrives; one whose end is that very nanosecond
// is still in flight, because arrivals come first.
// Law: taking repetitions one by one gives the same inputs to the instance at the same times.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/base/sketch.h"
#include "runtime/base/units.h"
#include "runtime/policy/instance.h"
#include "sim/prefix.h"
#include "sim/simulate.h"
#include "sim/workload.h"

namespace orrery::sim {

// A request between its arrival and its end.
struct Live {
  Row row;
  std::int64_t max_tokens = 0;  // given to the brain
  std::int64_t cached = 0;      // prompt tokens found in the cache when first scheduled
  std::int64_t preemptions = 0;
  Time scheduled = Time::never();
  std::uint64_t turn = 0;             // PrefixHashes::latest_turn() when it was sent
  std::vector<BlockHash> next_chain;  // of the session's next turn, where it is known ahead
};

// All live requests of a run, found by id in O(1).
class LiveTable {
 public:
  std::uint32_t add(Row row);
  Live& of(RequestId id) { return live_[place_[id.value]]; }
  std::uint32_t place(RequestId id) const { return place_[id.value]; }
  Live& at(std::uint32_t place) { return live_[place]; }
  void remove(RequestId id);
  std::size_t size() const { return live_.size() - free_.size(); }
  template <class F>
  void for_each(F f) {
    for (std::uint64_t id = 1; id < place_.size(); ++id)
      if (place_[id] != kNone) f(live_[place_[id]]);
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::vector<Live> live_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> place_;  // by request id
};

// Gaps between successive tokens of a request, pooled over requests (the ITL of all tokens), and
// how many exceed each limit.
struct TokenGaps {
  QuantileSketch ns;
  std::vector<std::int64_t> limits_ns, over;
};

// Shared by the replicas of a run.
struct ReplicaContext {
  LiveTable* live = nullptr;
  PrefixHashes* prefix = nullptr;  // null: answers are not shared
  bool macro_steps = true;
  std::function<void(RequestId, Time)> on_token;  // slow; for tests
};

// A quantity that stays put between changes, weighted by how long it did.
class TimeWeighted {
 public:
  void set(std::int64_t value, Time now) {
    hold_until(now);
    value_ = value;
  }
  void hold_until(Time now) {
    if (now > since_) values_.add(value_, (now - since_).value()), since_ = now;
  }
  const QuantileSketch& values() const { return values_; }

 private:
  QuantileSketch values_;
  std::int64_t value_ = 0;
  Time since_;
};

class Replica {
 public:
  // What the driver knows of a request in a slot of the instance.
  struct Slot {
    RequestId id{0};
    std::int64_t target = 0, generated = 0;  // tokens of the answer: at its end, so far
    std::int64_t first_ns = -1, last_ns = -1;
    bool ends_by_limit = false;  // max_tokens is reached no later than the answer's own end
  };

  Replica(const PoolSpec& pool, const ReplicaContext& context, TokenGaps& gaps);

  policy::Instance& instance() { return instance_; }
  const policy::Instance& instance() const { return instance_; }
  bool busy() const { return busy_; }

  // Takes a request at `now`. Repetitions done by then are completed, and the step in flight ends
  // with the one that contains now if the request may join. Look at step_end() afterwards.
  policy::SubmitResult submit(const policy::Request& request, Time now);
  // An idle replica's clock is set to now.
  void wake(Time now) { clock_ = to_picos(now); }
  // Starts the next step at the replica's clock; false: nothing to compute.
  bool start_step();
  Time step_end() const { return to_time_ceil(end_of(repetitions_)); }
  // Completes the step in flight at step_end(). The requests that ended, in item order; valid, as
  // are their slots, until the next call.
  std::span<const policy::Finished> finish_step();
  const Slot& slot(std::uint32_t index) const { return slots_[index]; }
  // Gaps of the slot's request that exceed limit `i` of the TokenGaps.
  std::int64_t late_gaps(std::uint32_t slot, std::size_t i) const {
    return late_[slot * gaps_->limits_ns.size() + i];
  }

  void close(Time end);  // the run is over: time-weighted figures are held until then
  std::int64_t iterations() const { return iterations_; }
  Picos busy_time() const { return busy_time_; }
  const TimeWeighted& waiting() const { return waiting_depth_; }
  const TimeWeighted& running() const { return running_depth_; }
  const TimeWeighted& kv_blocks() const { return kv_blocks_; }

 private:
  class Hasher : public policy::BlockHasher {
   public:
    explicit Hasher(const ReplicaContext& context) : context_(&context) {}
    BlockHash hash_block(RequestId id, std::uint32_t slot, std::int64_t index,
                         BlockHash parent) override;

   private:
    const ReplicaContext* context_;
  };
  struct Item {
    std::uint32_t slot;
    bool samples;
  };

  Picos end_of(std::int64_t repetitions) const;
  void advance(Time now);
  std::span<const policy::Finished> complete(std::int64_t n);
  void note_composition(const policy::Step& step, Time now);
  std::int64_t take_items(const policy::Step& step);
  void claim_slot(const policy::StepItem& item);
  void record(std::int64_t n);
  void record_items(std::int64_t n, Time first, Time last);
  void tell_tokens(std::int64_t n);

  const PoolSpec* pool_;
  const ReplicaContext* context_;
  TokenGaps* gaps_;
  policy::Instance instance_;
  Hasher hasher_;

  bool busy_ = false;
  Picos clock_;  // start of the step in flight; else the end of the last
  std::uint64_t step_id_ = 0;
  std::int64_t repetitions_ = 0;  // planned of the step in flight
  cost::StepShape shape_;
  cost::StepTime time_;
  std::vector<Item> items_;
  std::int64_t sampling_ = 0;  // items that sample
  std::vector<policy::StepFinish> finishes_;

  std::vector<Slot> slots_;
  std::vector<std::int64_t> late_;         // slots x limits
  std::vector<std::int64_t> late_shared_;  // scratch: late gaps that all items of a step share

  std::int64_t iterations_ = 0;
  Picos busy_time_;
  std::int64_t waiting_ = 0, running_ = 0;
  TimeWeighted waiting_depth_, running_depth_, kv_blocks_;
};

}  // namespace orrery::sim
