// Completion of a step, once or repeated.
#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/policy/scheduler/scheduler.h"

namespace orrery::policy {

void Instance::Impl::complete(std::int64_t n, std::span<const StepFinish> finishes,
                              BlockHasher* hasher) {
  finished.clear();
  if (n > 1) repeat(n - 1, hasher);
  shortest -= n;
  std::size_t next = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool given = next < finishes.size() && finishes[next].item == i;
    if (steady && !given) {
      complete_decode(items[i].slot, hasher);
    } else {
      complete_item(items[i], given ? &finishes[next] : nullptr, hasher);
    }
    next += given;
  }
  ORRERY_CHECK(next == finishes.size(), "finishes are sorted by item and name items of the step");
  step_out = false;
  if (!finished.empty()) {
    std::erase_if(running, [&](std::uint32_t slot) {
      return sequences[slot].state != SequenceState::kRunning;
    });
    steady = false;
  }
  // Its blocks may be shared by the front of the queue.
  if (!pure_decode) front_blocked = false;
}

// The first `repetitions` repetitions of a pure decode step that does not end with them: each
// publishes the blocks that it fills, in item order, and then, as the next step would, allocates
// those that the next repetition writes. Cost: O(items + crossings).
void Instance::Impl::repeat(std::int64_t repetitions, BlockHasher* hasher) {
  const std::int64_t b = block_tokens();
  // Items that cross, sorted by when (slack: tokens that still have room), then by item.
  buckets.assign(static_cast<std::size_t>(std::min(b, repetitions)) + 1, 0);
  const auto slack_of = [&](const StepItem& item) {
    return static_cast<std::size_t>(sequences[item.slot].room - item.first - 1);
  };
  const std::size_t kinds = buckets.size() - 1;
  for (const StepItem& item : items)
    if (slack_of(item) < kinds) ++buckets[slack_of(item) + 1];
  for (std::size_t k = 0; k < kinds; ++k) buckets[k + 1] += buckets[k];
  crossing.resize(buckets[kinds]);
  for (std::uint32_t i = 0; i < items.size(); ++i)
    if (slack_of(items[i]) < kinds) crossing[buckets[slack_of(items[i])]++] = i;
  // Now buckets[k] is the end of the items with slack k in `crossing`.
  for (std::int64_t base = 0; base < repetitions; base += b) {
    for (std::size_t k = 0, begin = 0; k < kinds; begin = buckets[k++]) {
      const std::int64_t done = base + static_cast<std::int64_t>(k) + 1;
      if (done > repetitions) break;
      const auto group = std::span(crossing).subspan(begin, buckets[k] - begin);
      for (const std::uint32_t i : group)
        publish_up_to(sequences[items[i].slot], items[i].slot, items[i].first + done, hasher);
      for (const std::uint32_t i : group)
        take_blocks(sequences[items[i].slot], items[i].first + done + 1);
    }
  }
  for (StepItem& item : items) {
    Sequence& s = sequences[item.slot];
    s.known += repetitions;
    s.computed += repetitions;
    item.first += repetitions;
  }
}

// complete_item() for the common case: one token of a request past its prompt, not cancelled.
inline void Instance::Impl::complete_decode(std::uint32_t slot, BlockHasher* hasher) {
  Sequence& s = sequences[slot];
  ++s.computed;
  ++s.known;
  if (s.computed == s.room) publish_up_to(s, slot, s.computed, hasher);
  if (s.known == s.limit) finish(slot, FinishReason::kLength);
}

void Instance::Impl::complete_item(const StepItem& item, const StepFinish* given,
                                   BlockHasher* hasher) {
  Sequence& s = sequences[item.slot];
  if (s.state == SequenceState::kFenced) {  // cancelled meanwhile: its result is ignored
    release_blocks(s);
    free_slot(item.slot);
    return;
  }
  if (given != nullptr) {
    const bool stop = given->reason == FinishReason::kStop && item.samples;
    ORRERY_CHECK(stop || given->reason == FinishReason::kError, "not a finish of this item");
    recorder.finish_given(*given);
    if (!stop) return finish(item.slot, FinishReason::kError);
  }
  if (item.first < s.reached)
    counters.recomputed_tokens += std::min(item.first + item.count, s.reached) - item.first;
  s.computed += item.count;
  s.known += item.samples;
  publish_up_to(s, item.slot, s.computed, hasher);
  if (given != nullptr) return finish(item.slot, FinishReason::kStop);
  if (s.known == s.limit) finish(item.slot, FinishReason::kLength);
}

// Blocks that are full once `tokens` tokens are computed become findable.
void Instance::Impl::publish_up_to(Sequence& s, std::uint32_t slot, std::int64_t tokens,
                                   BlockHasher* hasher) {
  while ((s.published + 1) * block_tokens() <= tokens) {
    const auto index = static_cast<std::size_t>(s.published);
    if (index >= s.hashes.size()) {
      if (!s.chain_open) {
        s.published = tokens / block_tokens();  // what follows a block without a hash has none
        return;
      }
      const BlockHash parent = s.hashes.empty() ? BlockHash{} : s.hashes.back();
      const BlockHash hash =
          hasher == nullptr ? BlockHash{} : hasher->hash_block(s.id, slot, s.published, parent);
      recorder.hash_given(hash);
      s.chain_open = hash.value != 0;
      if (!s.chain_open) continue;
      s.hashes.push_back(hash);
    }
    pool.publish(s.table[index], s.hashes[index]);
    recorder.published(s.table[index], s.hashes[index]);
    ++s.published;
  }
}

void Instance::Impl::finish(std::uint32_t slot, FinishReason reason) {
  Sequence& s = sequences[slot];
  finished.push_back({s.id, reason, Tokens(s.known - s.prompt), slot});
  recorder.ended(finished.back());
  promised -= s.promised;
  s.promised = 0;
  release_blocks(s);
  slot_of.erase(s.id.value);
  free_slot(slot);
}

}  // namespace orrery::policy
