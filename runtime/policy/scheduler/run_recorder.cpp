#include "runtime/policy/scheduler/run_recorder.h"

#include "runtime/base/check.h"
#include "runtime/policy/journal.h"

namespace orrery::policy {

void RunRecorder::start(bool open) {
  pending_ = true;
  starts_open_ = open;
  repetitions_ = 0;
  now_ = Time();
  digest_ = {};
  finishes_.clear();
  hashes_.clear();
}

bool RunRecorder::decide(bool repeats) {
  if (repeats && pending_) return false;
  if (pending_) write(starts_open_ ? kStartsOpen : 0);
  start(false);
  return true;
}

void RunRecorder::composed(std::span<const StepItem> items) {
  items_ = items.size();
  for (const StepItem& item : items) {
    // One link of the chain an item: the multiplications within it do not wait for each other.
    digest_.mix(item.id.value * 0xbf58476d1ce4e5b9ULL +
                static_cast<std::uint64_t>(item.slot) * 0x94d049bb133111ebULL +
                static_cast<std::uint64_t>(item.first) * 0xd6e8feb86659fd93ULL +
                (static_cast<std::uint64_t>(item.count) << 1 | (item.samples ? 1 : 0)));
  }
}

void RunRecorder::complete(std::int64_t n, Time now) {
  repetitions_ += static_cast<std::uint64_t>(n);
  now_ = now;
}

void RunRecorder::split(bool step_is_out, bool cut) {
  if (!header_.empty()) {
    append_sealed(journal_, header_kind_, header_);
    header_.clear();
  }
  if (pending_) {
    const bool nothing_yet = starts_open_ && repetitions_ == 0;
    if (!nothing_yet) {
      write((starts_open_ ? kStartsOpen : 0) | (step_is_out ? kEndsOpen : 0) | (cut ? kCut : 0));
    }
  }
  pending_ = false;
  // What completes the step that is out goes to a record that starts open.
  if (step_is_out) start(true);
}

void RunRecorder::write(std::uint64_t flags) {
  // The digest covers the inputs too: a forged count or time is found where it stands.
  digest_.mix(flags);
  digest_.mix(repetitions_);
  digest_.mix(static_cast<std::uint64_t>(now_.ns()));
  words_.clear();
  words_.push_back(flags);
  words_.push_back(repetitions_);
  words_.push_back(static_cast<std::uint64_t>(now_.ns()));
  words_.push_back(items_);
  words_.push_back(digest_.value());
  words_.push_back(finishes_.size());
  words_.insert(words_.end(), finishes_.begin(), finishes_.end());
  words_.push_back(hashes_.size());
  words_.insert(words_.end(), hashes_.begin(), hashes_.end());
  append(static_cast<std::uint32_t>(RecordKind::kRun));
  pending_ = false;
}

}  // namespace orrery::policy
