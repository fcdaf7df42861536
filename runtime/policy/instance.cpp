#include "runtime/policy/instance.h"

#include <algorithm>
#include <string>

#include "runtime/base/check.h"
#include "runtime/base/errors.h"
#include "runtime/policy/journal.h"
#include "runtime/policy/journal_words.h"
#include "runtime/policy/scheduler/scheduler.h"
#include "runtime/policy/table_names.h"

namespace orrery::policy {
namespace {

void require(bool fine, const char* field, const std::string& found, const char* expected) {
  if (!fine) throw InputError({"instance settings", 0, field}, found, expected);
}

void check_settings(const InstanceSettings& s) {
  const auto text = [](std::int64_t v) { return std::to_string(v); };
  require(s.block_tokens.value() >= 1 && s.block_tokens.value() <= 65536, "block_tokens",
          text(s.block_tokens.value()), "1 to 65536 tokens in a block");
  require(s.kv_blocks.value() >= 1 && s.kv_blocks.value() <= (1 << 24), "kv_blocks",
          text(s.kv_blocks.value()), "1 to 16777216 blocks");
  require(s.max_batched_tokens.value() >= 1, "max_batched_tokens",
          text(s.max_batched_tokens.value()), "at least 1");
  require(s.max_running >= 1 && s.max_running <= (1 << 20), "max_running", text(s.max_running),
          "1 to 1048576");
  require(s.long_prefill_cap.value() >= 0, "long_prefill_cap_tokens",
          text(s.long_prefill_cap.value()), "0 (no cap) or more");
  require(s.chunked_prefill || s.long_prefill_cap.value() == 0, "long_prefill_cap_tokens",
          text(s.long_prefill_cap.value()), "0 when chunked_prefill is off");
  require(s.max_context.value() >= 2 && s.max_context.value() <= INT64_C(1) << 40,
          "max_context_tokens", text(s.max_context.value()), "2 (a prompt and an answer) to 2^40");
  require(s.max_waiting >= 0, "max_waiting", text(s.max_waiting), "0 (unbounded) or more");
  require(s.watermark_per_mille >= 0 && s.watermark_per_mille < 1000, "watermark_per_mille",
          text(s.watermark_per_mille), "0 to 999");
  if (find_order(s.order) == nullptr)
    throw InputError({"instance settings", 0, "order"}, "\"" + s.order + "\"",
                     one_of_names(registered_orders()));
  if (find_victim(s.victim) == nullptr)
    throw InputError({"instance settings", 0, "victim"}, "\"" + s.victim + "\"",
                     one_of_names(registered_victims()));
}

}  // namespace

Instance::Impl::Impl(const InstanceSettings& s)
    : settings((check_settings(s), s)), pool(s.kv_blocks) {
  order = find_order(s.order);
  victim = find_victim(s.victim);
  max_request_tokens = std::min(s.max_context, s.block_tokens * s.kv_blocks.value());
  watermark_blocks = s.kv_blocks.value() * s.watermark_per_mille / 1000;
  std::vector<std::uint64_t> header;
  append_header(header, settings);
  recorder.set_header(static_cast<std::uint32_t>(RecordKind::kInstanceHeader), std::move(header));
}

SubmitResult Instance::Impl::judge(const Request& r) const {
  SubmitResult result;
  const std::int64_t prompt = r.prompt_tokens.value(), output = r.max_tokens.value();
  const std::int64_t most = max_request_tokens.value();
  const std::int64_t one_step = settings.max_batched_tokens.value();
  if (prompt <= 0) {
    result.reason = RejectReason::kEmptyPrompt;
  } else if (prompt > most || output > most - prompt) {
    // Written so that no sum overflows, whatever the limits asked for.
    const bool huge = output > INT64_MAX - prompt;
    result = {RejectReason::kNeverFits, Tokens(huge ? INT64_MAX : prompt + output), Tokens(most)};
  } else if (!settings.chunked_prefill && prompt > one_step) {
    result = {RejectReason::kNeverFits, Tokens(prompt), Tokens(one_step)};
  } else if (draining) {
    result.reason = RejectReason::kDraining;
  } else if (slot_of.find(r.id.value) != nullptr) {
    result.reason = RejectReason::kDuplicateId;
  } else if (settings.max_waiting > 0 && waiting.size() >= settings.max_waiting) {
    result.reason = RejectReason::kQueueFull;
  }
  return result;
}

SubmitResult Instance::Impl::submit(const Request& request, Time now) {
  ORRERY_CHECK(request.max_tokens.value() >= 1, "the gateway sets max_tokens");
  recorder.split(step_out, false);
  const SubmitResult result = judge(request);
  append_submit(recorder.begin(), request, now, result);
  recorder.append(static_cast<std::uint32_t>(RecordKind::kSubmit));
  if (!result.accepted()) return result;

  std::uint32_t slot = 0;
  if (free_slots.empty()) {
    slot = static_cast<std::uint32_t>(sequences.size());
    sequences.emplace_back();
  } else {
    slot = free_slots.back();
    free_slots.pop_back();
  }
  Sequence& s = sequences[slot];
  s.state = SequenceState::kWaiting;
  s.resumed = s.in_step = false;
  s.priority = request.priority;
  s.id = request.id;
  s.arrival = request.arrival;
  s.prompt = s.known = request.prompt_tokens.value();
  s.limit = s.prompt + request.max_tokens.value();
  s.computed = s.reached = s.room = s.promised = s.published = 0;
  s.rank = next_rank++;
  s.hashes.clear();
  s.chain_open = false;
  if (settings.prefix_cache) {
    // Only full blocks count: a hash of a partial tail, and all after a missing one, is left out.
    const std::size_t full = static_cast<std::size_t>(s.prompt / block_tokens());
    const std::size_t given = std::min(full, request.block_hashes.size());
    for (std::size_t i = 0; i < given && request.block_hashes[i].value != 0; ++i)
      s.hashes.push_back(request.block_hashes[i]);
    s.chain_open = s.hashes.size() == full;
  }
  slot_of.insert(request.id.value, slot);
  waiting.push(slot, order(s));

  if (waiting.front() == slot) front_blocked = false;
  const bool batch_full = static_cast<std::int64_t>(running.size()) >= settings.max_running ||
                          (pure_decode && static_cast<std::int64_t>(items.size()) >=
                                              settings.max_batched_tokens.value());
  if (!front_blocked && !batch_full) {
    steady = false;
    if (step_out) horizon = 1;
  }
  return result;
}

bool Instance::Impl::cancel(RequestId id, Time now) {
  recorder.split(step_out, false);
  const std::uint32_t* found = slot_of.find(id.value);
  auto& words = recorder.begin();
  words.insert(words.end(),
               {id.value, static_cast<std::uint64_t>(now.ns()), found != nullptr ? 1U : 0U});
  recorder.append(static_cast<std::uint32_t>(RecordKind::kCancel));
  if (found == nullptr) return false;

  const std::uint32_t slot = *found;
  slot_of.erase(id.value);
  Sequence& s = sequences[slot];
  if (s.state == SequenceState::kWaiting) {
    if (waiting.front() == slot) front_blocked = false;
    waiting.erase(slot);
    free_slot(slot);
  } else {
    running.erase(std::find(running.begin(), running.end(), slot));
    promised -= s.promised, s.promised = 0;
    if (step_out && s.in_step) {
      s.state = SequenceState::kFenced;
    } else {
      release_blocks(s);
      free_slot(slot);
    }
  }
  steady = false;
  if (step_out) horizon = 1;
  return true;
}

void Instance::Impl::drain(Time now) {
  recorder.split(step_out, false);
  recorder.begin().push_back(static_cast<std::uint64_t>(now.ns()));
  recorder.append(static_cast<std::uint32_t>(RecordKind::kDrain));
  draining = true;
}

void Instance::Impl::release_blocks(Sequence& s) {
  if (s.table.empty()) return;
  pool.release(s.table);
  s.table.clear();
  s.room = 0;
  front_blocked = false;
}

void Instance::Impl::free_slot(std::uint32_t slot) {
  Sequence& s = sequences[slot];
  s.state = SequenceState::kFree;
  s.in_step = false;
  s.hashes.clear();
  free_slots.push_back(slot);
}

void Instance::Impl::check_invariants() const {
  pool.check_invariants();
  std::vector<std::int64_t> holders(static_cast<std::size_t>(pool.size()), 0);
  std::int64_t live = 0, queued = 0, in_batch = 0, promises = 0;
  for (const Sequence& s : sequences) {
    for (const BlockId b : s.table) ++holders[b.value];
    ORRERY_CHECK(s.room == static_cast<std::int64_t>(s.table.size()) * block_tokens());
    if (s.state == SequenceState::kFree || s.state == SequenceState::kWaiting)
      ORRERY_CHECK(s.table.empty() && s.promised == 0 && !s.in_step);
    if (s.state == SequenceState::kFenced) ORRERY_CHECK(step_out && s.in_step);
    queued += s.state == SequenceState::kWaiting;
    in_batch += s.state == SequenceState::kRunning;
    promises += s.promised;
    if (s.state != SequenceState::kWaiting && s.state != SequenceState::kRunning) continue;
    ++live;
    ORRERY_CHECK(s.prompt <= s.known && s.known < s.limit && s.computed < s.known);
    ORRERY_CHECK(s.state == SequenceState::kRunning ? s.computed <= s.room : s.computed == 0);
    const std::uint32_t* slot = slot_of.find(s.id.value);
    ORRERY_CHECK(slot != nullptr && &sequences[*slot] == &s);
  }
  for (std::size_t b = 0; b < holders.size(); ++b)
    ORRERY_CHECK(pool.references({static_cast<std::uint32_t>(b)}) == holders[b]);
  ORRERY_CHECK(live == static_cast<std::int64_t>(slot_of.size()) && queued == waiting.size());
  ORRERY_CHECK(in_batch == static_cast<std::int64_t>(running.size()) && promises == promised);
  ORRERY_CHECK(in_batch <= settings.max_running);
  for (const std::uint32_t slot : running)
    ORRERY_CHECK(sequences[slot].state == SequenceState::kRunning);
  ORRERY_CHECK(!front_blocked || !waiting.empty());
}

Instance::Instance(const InstanceSettings& settings) : impl_(std::make_unique<Impl>(settings)) {}
Instance::~Instance() = default;
Instance::Instance(Instance&&) noexcept = default;
Instance& Instance::operator=(Instance&&) noexcept = default;

SubmitResult Instance::submit(const Request& request, Time now) {
  return impl_->submit(request, now);
}
bool Instance::cancel(RequestId id, Time now) { return impl_->cancel(id, now); }
void Instance::drain(Time now) { impl_->drain(now); }
bool Instance::draining() const { return impl_->draining; }
bool Instance::drained() const { return impl_->draining && !has_work(); }
bool Instance::has_work() const { return impl_->slot_of.size() > 0 || impl_->step_out; }
std::int64_t Instance::horizon() const { return impl_->step_out ? impl_->horizon : 0; }

std::optional<Step> Instance::next_step(Time) {
  Impl& impl = *impl_;
  ORRERY_CHECK(!impl.step_out, "complete the step that is out first");
  if (impl.slot_of.size() == 0) return std::nullopt;
  return impl.next_step();
}

std::span<const Finished> Instance::complete(std::uint64_t step_id, std::int64_t n,
                                             std::span<const StepFinish> finishes,
                                             BlockHasher* hasher, Time now) {
  Impl& impl = *impl_;
  ORRERY_CHECK(impl.step_out && step_id == impl.step_id, "not the step that is out");
  ORRERY_CHECK(n >= 1 && n <= impl.horizon, "repeated more often than the horizon");
  impl.complete(n, finishes, hasher);
  impl.recorder.complete(n, now);
  return impl.finished;
}

std::span<const BlockId> Instance::block_table(std::uint32_t slot) const {
  return impl_->sequences[slot].table;
}
Tokens Instance::generated(std::uint32_t slot) const {
  const Sequence& s = impl_->sequences[slot];
  return Tokens(s.known - s.prompt);
}
InstanceLoad Instance::load() const {
  InstanceLoad load = impl_->counters;
  load.running = static_cast<std::int64_t>(impl_->running.size());
  load.waiting = impl_->waiting.size();
  load.blocks_total = Blocks(impl_->pool.size());
  load.blocks_free = Blocks(impl_->pool.free_count());
  return load;
}
const InstanceSettings& Instance::settings() const { return impl_->settings; }
Tokens Instance::max_request_tokens() const { return impl_->max_request_tokens; }
JournalWriter& Instance::journal() { return impl_->recorder.journal(); }
void Instance::flush_journal() { impl_->recorder.split(impl_->step_out, true); }
void Instance::check_invariants() const { impl_->check_invariants(); }

}  // namespace orrery::policy
