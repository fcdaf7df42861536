// The choice of the next step.
#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/policy/scheduler/scheduler.h"

namespace orrery::policy {

Step Instance::Impl::next_step() {
  admitted.clear();
  preempted.clear();
  if (!steady || !compose_repeat()) compose_anew();
  ++step_id;
  step_out = true;
  return {step_id, items, horizon, shape, admitted, preempted};
}

// The same requests, one token further each. Only the blocks that they cross into are new.
bool Instance::Impl::compose_repeat() {
  crossing.clear();
  shape.decode_context = 0;
  for (StepItem& item : items) {
    const Sequence& s = sequences[item.slot];
    item.first = s.computed;
    shape.decode_context += s.computed + 1;
    if (s.computed == s.room) crossing.push_back(item.slot);
  }
  if (static_cast<std::int64_t>(crossing.size()) > pool.free_count()) return false;
  const bool new_run = recorder.decide(true);
  for (const std::uint32_t slot : crossing) take_blocks(sequences[slot], sequences[slot].room + 1);
  if (new_run) recorder.composed(items);
  horizon = memory_horizon(shortest);
  return true;
}

void Instance::Impl::compose_anew() {
  recorder.decide(false);
  for (const StepItem& item : items) sequences[item.slot].in_step = false;
  items.clear();
  budget = settings.max_batched_tokens.value();
  // Again only when a request preempted itself before anyone was scheduled; each pass preempts one.
  do {
    compose_running();
  } while (items.empty() && !running.empty());
  if (preempted.empty()) admit_waiting();
  ORRERY_CHECK(!items.empty(), "there is work, but no step");
  recorder.composed(items);
  shape = shape_of_items();
  pure_decode = shape.decode_sequences == shape.sequences;
  steady = pure_decode && preempted.empty();
  horizon = 1;
  if (!steady) return;
  shortest = INT64_MAX;
  for (const StepItem& item : items)
    shortest = std::min(shortest, sequences[item.slot].limit - sequences[item.slot].known);
  horizon = memory_horizon(shortest);
}

void Instance::Impl::compose_running() {
  std::size_t at = 0;
  while (at < running.size() && budget > 0)
    if (!schedule_running(at)) return;
}

bool Instance::Impl::schedule_running(std::size_t& at) {
  const std::uint32_t slot = running[at];
  Sequence& s = sequences[slot];
  std::int64_t count = std::min(s.known - s.computed, budget);
  if (settings.long_prefill_cap.value() > 0)
    count = std::min(count, settings.long_prefill_cap.value());
  const std::int64_t lacking = s.computed + count - s.room;
  const std::int64_t need = lacking <= 0 ? 0 : (lacking + block_tokens() - 1) / block_tokens();
  while (need > pool.free_count()) {
    const std::size_t chosen = victim(sequences, running);
    const bool itself = running[chosen] == slot;
    preempt(chosen);
    if (itself) return false;
    if (chosen < at) --at;
  }
  take_blocks(s, s.computed + count);
  add_item(slot, count);
  ++at;
  return true;
}

// Its blocks are freed (their hashes stay, so that it usually finds them again) and its place in
// this step, if it has one, is given back.
void Instance::Impl::preempt(std::size_t at) {
  const std::uint32_t slot = running[at];
  Sequence& s = sequences[slot];
  running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
  if (s.in_step) {
    const auto item =
        std::find_if(items.begin(), items.end(), [&](const StepItem& i) { return i.slot == slot; });
    budget += item->count;
    items.erase(item);
    s.in_step = false;
  }
  release_blocks(s);
  promised -= s.promised;
  s.promised = 0;
  s.reached = std::max(s.reached, s.computed);
  s.computed = s.published = 0;
  s.resumed = true;
  s.rank = front_rank--;
  s.state = SequenceState::kWaiting;
  waiting.push(slot, order(s));
  ++counters.preemptions;
  preempted.push_back(s.id);
  recorder.preempted(s.id);
}

void Instance::Impl::admit_waiting() {
  while (budget > 0 && !waiting.empty() && !front_blocked &&
         static_cast<std::int64_t>(running.size()) < settings.max_running) {
    front_blocked = !admit_front();
  }
}

bool Instance::Impl::admit_front() {
  const std::uint32_t slot = waiting.front();
  Sequence& s = sequences[slot];
  const std::int64_t hit_blocks = prefix_hits(s);
  const std::int64_t cached = hit_blocks * block_tokens();
  std::int64_t count = s.known - cached;
  // Without chunks a prompt waits for a step that holds all of it. A resumed request may have
  // outgrown every step; it alone is computed in chunks.
  const bool whole = !settings.chunked_prefill && count <= settings.max_batched_tokens.value();
  if (whole && count > budget) return false;
  count = std::min(count, budget);
  if (settings.long_prefill_cap.value() > 0)
    count = std::min(count, settings.long_prefill_cap.value());

  // All known tokens must fit, not just this chunk; hit blocks that are free leave the free list.
  std::int64_t need = blocks_for(Tokens(s.known), settings.block_tokens).value() - hit_blocks;
  const std::int64_t new_blocks = need;
  for (const BlockId b : hits) need += pool.is_free(b);
  const std::int64_t kept = running.empty() ? 0 : watermark_blocks;
  if (need > pool.free_count() - promised - kept) return false;

  waiting.pop();
  running.push_back(slot);
  s.state = SequenceState::kRunning;
  for (const BlockId b : hits) pool.share(b);
  s.table.assign(hits.begin(), hits.end());
  s.room = s.computed = cached;
  s.published = hit_blocks;
  s.promised = new_blocks;
  promised += new_blocks;
  if (!s.resumed && settings.prefix_cache) {
    counters.prefix_query_tokens += s.prompt;
    counters.prefix_hit_tokens += cached;
  }
  admitted.push_back({s.id, Tokens(cached), s.resumed});
  recorder.admitted(admitted.back());
  take_blocks(s, cached + count);
  add_item(slot, count);
  return true;
}

// At least one token is left to compute: its logits give the next one.
std::int64_t Instance::Impl::prefix_hits(const Sequence& s) {
  hits.clear();
  const auto most = static_cast<std::size_t>((s.known - 1) / block_tokens());
  for (std::size_t i = 0; i < std::min(most, s.hashes.size()); ++i) {
    const std::optional<BlockId> block = pool.find(s.hashes[i]);
    if (!block) break;
    hits.push_back(*block);
  }
  return static_cast<std::int64_t>(hits.size());
}

void Instance::Impl::take_blocks(Sequence& s, std::int64_t tokens) {
  while (s.room < tokens) {
    const BlockPool::Taken taken = pool.allocate();
    s.table.push_back(taken.block);
    s.room += block_tokens();
    if (s.promised > 0) --s.promised, --promised;
    recorder.allocated(taken.block, taken.evicted);
  }
}

void Instance::Impl::add_item(std::uint32_t slot, std::int64_t count) {
  Sequence& s = sequences[slot];
  s.in_step = true;
  items.push_back({s.id, slot, s.computed, count, s.computed + count == s.known});
  budget -= count;
}

cost::StepShape Instance::Impl::shape_of_items() const {
  cost::StepShape sum;
  sum.sequences = static_cast<std::int64_t>(items.size());
  for (const StepItem& item : items) {
    sum.tokens += item.count;
    sum.sampled += item.samples;
    if (item.count == 1 && item.samples) {
      ++sum.decode_sequences;
      sum.decode_context += item.first + 1;
    } else {
      sum.prefill_tokens += item.count;
      sum.prefill_context += item.first + item.count;
      sum.prefill_pairs += item.count * item.first + item.count * (item.count + 1) / 2;
    }
  }
  return sum;
}

// The largest h <= bound so that repetitions 2 … h find free blocks for all that they cross into.
// With m = h - 1 = q*B + r (0 <= r < B) an item that still has room for `slack` < B tokens takes
// q + (slack < r) blocks.
std::int64_t Instance::Impl::memory_horizon(std::int64_t bound) {
  const std::int64_t b = block_tokens(), n = static_cast<std::int64_t>(items.size());
  const std::int64_t free = pool.free_count();
  if ((bound - 1 + b - 1) / b <= free / n) return bound;
  buckets.assign(static_cast<std::size_t>(b), 0);
  for (const StepItem& item : items)
    ++buckets[static_cast<std::size_t>(sequences[item.slot].room - item.first - 1)];
  std::int64_t left = free % n, r = 0;
  while (r < b - 1 && buckets[static_cast<std::size_t>(r)] <= left)
    left -= buckets[static_cast<std::size_t>(r++)];
  return std::min(bound, free / n * b + r + 1);
}

}  // namespace orrery::policy
