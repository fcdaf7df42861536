#include "sim/replica.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "runtime/base/check.h"

namespace orrery::sim {

std::uint32_t LiveTable::add(Row row) {
  const std::uint64_t id = row.id;
  std::uint32_t at = static_cast<std::uint32_t>(live_.size());
  if (free_.empty()) {
    live_.emplace_back();
  } else {
    at = free_.back();
    free_.pop_back();
    live_[at] = Live{};
  }
  live_[at].row = std::move(row);
  if (id >= place_.size()) place_.resize(id + 1, kNone);
  place_[id] = at;
  return at;
}

void LiveTable::remove(RequestId id) {
  free_.push_back(place_[id.value]);
  place_[id.value] = kNone;
}

Replica::Replica(const PoolSpec& pool, const ReplicaContext& context, TokenGaps& gaps)
    : pool_(&pool),
      context_(&context),
      gaps_(&gaps),
      instance_(pool.settings),
      hasher_(context),
      late_shared_(gaps.limits_ns.size()) {}

BlockHash Replica::Hasher::hash_block(RequestId id, std::uint32_t, std::int64_t index,
                                      BlockHash parent) {
  const Live& live = context_->live->of(id);
  if (live.row.hash_ids.empty()) {
    return context_->prefix->answer_block(live.row, live.turn, index, parent);
  }
  // What the next turn's prompt says of this place, if it really goes on from here.
  const std::vector<BlockHash>& chain = live.next_chain;
  const auto at = static_cast<std::size_t>(index);
  if (at >= chain.size() || (at > 0 && chain[at - 1] != parent)) return BlockHash{0};
  return chain[at];
}

Picos Replica::end_of(std::int64_t repetitions) const {
  return clock_ + Picos(cost::repetitions_ps(time_, shape_, repetitions));
}

policy::SubmitResult Replica::submit(const policy::Request& request, Time now) {
  if (busy_) advance(now);
  const policy::SubmitResult result = instance_.submit(request, now);
  if (busy_) repetitions_ = std::min(repetitions_, instance_.horizon());
  if (result.accepted()) waiting_depth_.set(++waiting_, now);
  return result;
}

// Completes the repetitions of the step in flight whose rounded end is before now.
void Replica::advance(Time now) {
  std::int64_t low = 0, high = repetitions_;  // end(low) < now <= end(high)
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (to_time_ceil(end_of(middle)) < now ? low : high) = middle;
  }
  if (low == 0) return;
  const auto finished = complete(low);
  ORRERY_CHECK(finished.empty(), "a request ended inside a macro-step");
  ORRERY_CHECK(start_step(), "a macro-step was cut and nothing was left to compute");
}

bool Replica::start_step() {
  const Time now = to_time_ceil(clock_);
  const std::optional<policy::Step> step = instance_.next_step(now);
  if (!step) {
    ORRERY_CHECK(!instance_.has_work(), "work is left and the scheduler gives no step");
    busy_ = false;
    return false;
  }
  busy_ = true;
  step_id_ = step->id;
  shape_ = step->shape;
  time_ = pool_->step_model->time(shape_);
  ORRERY_CHECK(time_.fixed_ps + time_.per_context_ps * shape_.decode_context > 0,
               "a step that takes no time");
  if (!step->admitted.empty() || !step->preempted.empty()) note_composition(*step, now);
  const std::int64_t first_finish = take_items(*step);
  repetitions_ = 1;
  if (context_->macro_steps)
    repetitions_ = std::min({step->horizon, first_finish, time_.repetitions});
  ORRERY_CHECK(repetitions_ >= 1);
  return true;
}

void Replica::note_composition(const policy::Step& step, Time now) {
  for (const RequestId id : step.preempted) {
    ++context_->live->of(id).preemptions;
    --running_, ++waiting_;
  }
  for (const policy::Admission& admission : step.admitted) {
    --waiting_, ++running_;
    if (admission.resumed) continue;
    Live& live = context_->live->of(admission.id);
    live.scheduled = std::max(now, live.row.arrival);
    live.cached = admission.cached.value();
  }
  waiting_depth_.set(waiting_, now);
  running_depth_.set(running_, now);
  const policy::InstanceLoad load = instance_.load();
  kv_blocks_.set((load.blocks_total - load.blocks_free).value(), now);
}

// Copies what is needed of the items (their span ends with the next call to the instance) and
// returns how many repetitions the first finish is away.
std::int64_t Replica::take_items(const policy::Step& step) {
  std::int64_t first_finish = INT64_MAX;
  items_.resize(step.items.size());
  sampling_ = 0;
  for (std::size_t i = 0; i < step.items.size(); ++i) {
    const policy::StepItem& item = step.items[i];
    if (item.slot >= slots_.size() || slots_[item.slot].id != item.id) claim_slot(item);
    items_[i] = {item.slot, item.samples};
    if (!item.samples) continue;
    ++sampling_;
    const Slot& slot = slots_[item.slot];
    first_finish = std::min(first_finish, slot.target - slot.generated);
  }
  return sampling_ > 0 ? first_finish : 1;
}

void Replica::claim_slot(const policy::StepItem& item) {
  const std::size_t limits = gaps_->limits_ns.size();
  if (item.slot >= slots_.size()) {
    slots_.resize(item.slot + 1);
    late_.resize(slots_.size() * limits);
  }
  const Live& live = context_->live->of(item.id);
  Slot& slot = slots_[item.slot];
  slot = Slot{};
  slot.id = item.id;
  slot.target = std::min(live.row.output_tokens, live.max_tokens);
  slot.ends_by_limit = live.max_tokens <= live.row.output_tokens;
  std::fill_n(late_.begin() + static_cast<std::ptrdiff_t>(item.slot * limits), limits, 0);
}

std::span<const policy::Finished> Replica::finish_step() {
  const auto finished = complete(repetitions_);
  if (!finished.empty()) {
    const Time now = to_time_ceil(clock_);
    running_ -= static_cast<std::int64_t>(finished.size());
    running_depth_.set(running_, now);
    const policy::InstanceLoad load = instance_.load();
    kv_blocks_.set((load.blocks_total - load.blocks_free).value(), now);
  }
  return finished;
}

std::span<const policy::Finished> Replica::complete(std::int64_t n) {
  record(n);
  const Picos end = end_of(n);
  busy_time_ += end - clock_;
  iterations_ += n;
  clock_ = end;
  return instance_.complete(step_id_, n, finishes_, context_->prefix ? &hasher_ : nullptr,
                            to_time_ceil(end));
}

// Tokens of n repetitions of the step in flight: times, gaps, and who ends with the last of them.
void Replica::record(std::int64_t n) {
  std::fill(late_shared_.begin(), late_shared_.end(), 0);
  std::int64_t end_ps = clock_.value(), last_ns = 0;
  std::int64_t step_ps = cost::repetition_ps(time_, shape_, 0);
  const std::int64_t growth_ps = time_.per_context_ps * shape_.decode_sequences;
  end_ps += step_ps;
  const Time first = to_time_ceil(Picos(end_ps));
  last_ns = first.ns();
  for (std::int64_t i = 1; i < n; ++i) {
    step_ps += growth_ps;
    end_ps += step_ps;
    const std::int64_t at = to_time_ceil(Picos(end_ps)).ns();
    const std::int64_t gap = at - last_ns;
    last_ns = at;
    gaps_->ns.add(gap, sampling_);
    for (std::size_t k = 0; k < late_shared_.size(); ++k)
      late_shared_[k] += gap > gaps_->limits_ns[k] ? 1 : 0;
  }
  if (context_->on_token) tell_tokens(n);
  record_items(n, first, Time(last_ns));
}

// The first repetition's gap differs by item: it counts from the item's own last token.
void Replica::record_items(std::int64_t n, Time first, Time last) {
  finishes_.clear();
  const std::size_t limits = gaps_->limits_ns.size();
  const std::int64_t before = to_time_ceil(clock_).ns();  // last token of whoever was in the step
  std::int64_t regular = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (!items_[i].samples) continue;
    Slot& slot = slots_[items_[i].slot];
    std::int64_t gap = -1;
    if (slot.last_ns == before) {
      ++regular;
      gap = first.ns() - before;
    } else if (slot.last_ns >= 0) {
      gap = first.ns() - slot.last_ns;
      gaps_->ns.add(gap);
    } else {
      slot.first_ns = first.ns();
    }
    for (std::size_t k = 0; k < limits; ++k) {
      const std::int64_t late = late_shared_[k] + (gap > gaps_->limits_ns[k] ? 1 : 0);
      late_[items_[i].slot * limits + k] += late;
      gaps_->over[k] += late;
    }
    slot.last_ns = last.ns();
    slot.generated += n;
    if (slot.generated == slot.target && !slot.ends_by_limit)
      finishes_.push_back({static_cast<std::uint32_t>(i), policy::FinishReason::kStop});
  }
  gaps_->ns.add(first.ns() - before, regular);
}

void Replica::tell_tokens(std::int64_t n) {
  for (std::int64_t i = 1; i <= n; ++i) {
    for (const Item& item : items_)
      if (item.samples) context_->on_token(slots_[item.slot].id, to_time_ceil(end_of(i)));
  }
}

void Replica::close(Time end) {
  waiting_depth_.hold_until(end);
  running_depth_.hold_until(end);
  kv_blocks_.hold_until(end);
}

}  // namespace orrery::sim
