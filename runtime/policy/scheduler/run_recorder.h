// RunRecorder: an instance's journal in canonical form. It gathers consecutive repetitions of one
// composition into one kRun record, so that macro-steps and single steps write the same bytes, and
// splits the run where another input arrives (see runtime/policy/journal.h).
//
// Words of a kRun record: flags, repetitions completed, time of the last completion, items of the
// composition, digest of all decisions in order, finishes given (count, then item << 8 | reason
// each), hashes given (count, then each), seal.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/journal.h"
#include "runtime/policy/instance.h"
#include "runtime/policy/record.h"

namespace orrery::policy {

// Flags of a kRun record.
constexpr std::uint64_t kStartsOpen = 1;  // its first repetition was decided in an earlier record
constexpr std::uint64_t kEndsOpen = 2;    // it holds one decision more than completions
constexpr std::uint64_t kCut = 4;         // flush_journal() ended it: nothing coalesces with it

class RunRecorder {
 public:
  JournalWriter& journal() { return journal_; }
  // The first record, written with the first input, so that a sink set before that sees it.
  void set_header(std::uint32_t kind, std::vector<std::uint64_t> words) {
    header_kind_ = kind, header_ = std::move(words);
  }

  // A decision begins. `repeats`: it is the composition before, one token further. True when a new
  // run began with it: composed() is then due once its items are known.
  bool decide(bool repeats);
  void composed(std::span<const StepItem> items);
  // Details of the decision or completion going on, in canonical order.
  void allocated(BlockId block, BlockHash evicted) {
    digest_.mix(block.value);
    if (evicted.value != 0) digest_.mix(evicted.value);
  }
  void published(BlockId block, BlockHash hash) {
    digest_.mix(block.value | 1ULL << 40);
    digest_.mix(hash.value);
  }
  void admitted(const Admission& a) {
    digest_.mix(a.id.value);
    digest_.mix(static_cast<std::uint64_t>(a.cached.value()) << 1 | (a.resumed ? 1 : 0));
  }
  void preempted(RequestId id) { digest_.mix(id.value ^ 1ULL << 63); }
  void ended(const Finished& f) {
    digest_.mix(f.id.value ^ 1ULL << 62);
    digest_.mix(static_cast<std::uint64_t>(f.generated.value()) << 8 |
                static_cast<std::uint64_t>(f.reason));
  }
  // The inputs of completions.
  void finish_given(const StepFinish& f) {
    finishes_.push_back(static_cast<std::uint64_t>(f.item) << 8 |
                        static_cast<std::uint64_t>(f.reason));
  }
  void hash_given(BlockHash hash) { hashes_.push_back(hash.value); }
  void complete(std::int64_t n, Time now);
  // Another input, or the end, comes: the run so far is written.
  void split(bool step_is_out, bool cut);
  // A record of another kind; the run so far must be split off.
  std::vector<std::uint64_t>& begin() { return words_.clear(), words_; }
  void append(std::uint32_t kind) { append_sealed(journal_, kind, words_); }

 private:
  void start(bool open);
  void write(std::uint64_t flags);

  JournalWriter journal_;
  std::uint32_t header_kind_ = 0;
  std::vector<std::uint64_t> header_;  // empty once written
  bool pending_ = false;
  bool starts_open_ = false;
  std::uint64_t repetitions_ = 0, items_ = 0;
  Time now_;
  Digest digest_;
  std::vector<std::uint64_t> finishes_, hashes_, words_;
};

}  // namespace orrery::policy
