#include "runtime/policy/journal.h"

#include <deque>
#include <memory>
#include <stdexcept>

#include "runtime/base/errors.h"
#include "runtime/policy/flat_map.h"
#include "runtime/policy/journal_words.h"
#include "runtime/policy/record.h"
#include "runtime/policy/scheduler/run_recorder.h"

namespace orrery::policy {
namespace {

std::string_view name_of(std::uint32_t kind) {
  return policy::name_of(static_cast<RecordKind>(kind));
}

// Compares the records that the fresh object writes with those given, which it may lag behind.
class Comparison {
 public:
  void expect(const JournalRecord& record) { expected_.push_back(record); }
  void made(std::uint32_t kind, std::span<const std::uint64_t> words) {
    if (!difference_.empty()) return;
    const std::uint64_t number = compared_++;
    if (expected_.empty()) return differ(number, "a record more than the journal has");
    const JournalRecord record = std::move(expected_.front());
    expected_.pop_front();
    if (record.kind != kind) {
      return differ(number, "the journal says " + std::string(name_of(record.kind)) +
                                ", taken again it is " + std::string(name_of(kind)));
    }
    for (std::size_t i = 0; i < words.size() || i < record.words.size(); ++i) {
      if (i < words.size() && i < record.words.size() && words[i] == record.words[i]) continue;
      return differ(number, std::string(name_of(kind)) + " differs from word " + std::to_string(i) +
                                " on when its decision is taken again");
    }
  }
  void finish(std::size_t open) {  // so many at the end may not have been made yet
    if (difference_.empty() && expected_.size() > open)
      differ(compared_, "no such record when the decisions are taken again");
  }
  void differ(std::uint64_t number, std::string what) {
    bad_ = number;
    difference_ = std::move(what);
  }
  bool differs() const { return !difference_.empty(); }
  std::uint64_t bad() const { return bad_; }
  const std::string& difference() const { return difference_; }

 private:
  std::deque<JournalRecord> expected_;
  std::uint64_t compared_ = 0, bad_ = 0;
  std::string difference_;
};

// A thing that takes one record's input and decides again.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual void apply(std::uint32_t kind, WordReader& words) = 0;
  virtual void finish() = 0;
  virtual JournalWriter& journal() = 0;
};

[[noreturn]] void impossible(const std::string& found, const std::string& expected) {
  throw InputError({"journal", 0, "record"}, found, expected);
}

// Gives the hashes that the record holds, in its order.
class RecordedHashes : public BlockHasher {
 public:
  explicit RecordedHashes(std::span<const BlockHash> hashes) : hashes_(hashes) {}
  BlockHash hash_block(RequestId, std::uint32_t, std::int64_t, BlockHash) override {
    return at_ < hashes_.size() ? hashes_[at_++] : BlockHash{};
  }

 private:
  std::span<const BlockHash> hashes_;
  std::size_t at_ = 0;
};

class InstanceReplay : public Replay {
 public:
  InstanceReplay(WordReader& header, const Comparison& comparison)
      : instance_(read_instance_header(header)), comparison_(comparison) {}
  JournalWriter& journal() override { return instance_.journal(); }
  void finish() override { instance_.flush_journal(); }

  void apply(std::uint32_t kind, WordReader& words) override {
    switch (static_cast<RecordKind>(kind)) {
      case RecordKind::kSubmit: {
        const Submitted s = read_submit(words);
        instance_.submit(s.request, s.now);
        return;
      }
      case RecordKind::kCancel: {
        const RequestId id{words.next()};
        instance_.cancel(id, Time(words.next_signed()));
        return;
      }
      case RecordKind::kDrain:
        instance_.drain(Time(words.next_signed()));
        return;
      case RecordKind::kRun:
        return run(read_run(words));
      default:
        impossible(std::string(name_of(kind)), "a record of an instance");
    }
  }

 private:
  void run(const RunRecord& record) {
    const bool starts_open = (record.flags & kStartsOpen) != 0;
    if (starts_open != (instance_.horizon() > 0))
      impossible(starts_open ? "a run that starts open" : "a run that starts",
                 starts_open ? "a step that is out" : "no step that is out");
    if (!starts_open) next(record);
    RecordedHashes hashes(record.hashes);
    for (std::int64_t left = record.repetitions; left > 0 && !comparison_.differs();) {
      const std::int64_t n = std::min(left, instance_.horizon());
      left -= n;
      std::span<const StepFinish> finishes;
      if (left == 0) finishes = record.finishes;
      for (const StepFinish& f : finishes) check(f);
      instance_.complete(step_id_, n, finishes, &hashes, record.now);
      if (left > 0 || (record.flags & kEndsOpen) != 0) next(record);
    }
    if ((record.flags & kCut) != 0) instance_.flush_journal();
  }
  void next(const RunRecord& record) {
    const std::optional<Step> step = instance_.next_step(record.now);
    if (!step) impossible("a step", "nothing to compute");
    step_id_ = step->id;
    items_.assign(step->items.begin(), step->items.end());
  }
  void check(const StepFinish& f) const {
    if (f.item >= items_.size() || (f.reason == FinishReason::kStop && !items_[f.item].samples))
      impossible("a finish of item " + std::to_string(f.item), "an item that samples");
  }

  Instance instance_;
  const Comparison& comparison_;
  std::uint64_t step_id_ = 0;
  std::vector<StepItem> items_;
};

class RouterReplay : public Replay {
 public:
  explicit RouterReplay(WordReader& header) : router_(read_router_header(header)) {}
  JournalWriter& journal() override { return router_.journal(); }
  void finish() override {}

  void apply(std::uint32_t kind, WordReader& words) override {
    switch (static_cast<RecordKind>(kind)) {
      case RecordKind::kInstanceAdded:
        return add(words);
      case RecordKind::kInstanceDraining: {
        const InstanceId id{static_cast<std::uint32_t>(words.next())};
        router_.drain_instance(id, Time(words.next_signed()));
        return;
      }
      case RecordKind::kInstanceRemoved: {
        const InstanceId id{static_cast<std::uint32_t>(words.next())};
        router_.remove_instance(id, Time(words.next_signed()));
        here_.erase(id.value);
        return;
      }
      case RecordKind::kRoute: {
        Routed r = read_route(words);
        r.request.block_hashes = r.hashes;
        router_.route(r.request, r.now);
        return;
      }
      case RecordKind::kRelease: {
        const RequestId id{words.next()};
        router_.release(id, Time(words.next_signed()));
        return;
      }
      default:
        impossible(std::string(name_of(kind)), "a record of a router");
    }
  }

 private:
  void add(WordReader& words) {
    RouterInstance info;
    info.id.value = static_cast<std::uint32_t>(words.next());
    const Time now(words.next_signed());
    info.model.value = static_cast<std::uint32_t>(words.next());
    info.max_request_tokens = Tokens(words.next_signed());
    info.block_tokens = Tokens(words.next_signed());
    words.expect_end();
    if (info.block_tokens.value() < 1) impossible("blocks of no tokens", "at least 1");
    if (here_.find(info.id.value) != nullptr)
      impossible("an instance that is here already", "a new one");
    here_.insert(info.id.value, true);
    router_.add_instance(info, now);
  }

  Router router_;
  FlatMap<bool> here_;
};

// The record without its seal, which must be right.
std::span<const std::uint64_t> unsealed(const JournalRecord& record) {
  const std::span<const std::uint64_t> words(record.words);
  if (words.empty()) impossible("an empty record", "a seal");
  const auto body = words.first(words.size() - 1);
  if (words.back() != seal_of(record.kind, body))
    impossible("a " + std::string(name_of(record.kind)) + " record that was altered",
               "words that agree with their seal");
  return body;
}

std::unique_ptr<Replay> start(const JournalRecord& record, const Comparison& comparison) {
  WordReader words(unsealed(record));
  switch (static_cast<RecordKind>(record.kind)) {
    case RecordKind::kInstanceHeader:
      return std::make_unique<InstanceReplay>(words, comparison);
    case RecordKind::kRouterHeader:
      return std::make_unique<RouterReplay>(words);
    default:
      impossible(std::string(name_of(record.kind)), "the header of an instance or a router");
  }
}

}  // namespace

VerifyResult verify_journal(const std::function<std::optional<JournalRecord>()>& next,
                            JournalEnd end) {
  VerifyResult result;
  Comparison comparison;
  std::unique_ptr<Replay> replay;
  try {
    for (std::optional<JournalRecord> record = next(); record; record = next()) {
      if (!replay) {
        replay = start(*record, comparison);
        replay->journal().set_sink([&](std::uint32_t kind, std::span<const std::uint64_t> words,
                                       std::uint64_t) { comparison.made(kind, words); });
        comparison.expect(*record);
      } else {
        WordReader words(unsealed(*record));
        comparison.expect(*record);
        replay->apply(record->kind, words);
      }
      ++result.records;
      if (comparison.differs()) break;
    }
    if (!replay) impossible("an empty journal", "a header");
    if (end == JournalEnd::kWhole && !comparison.differs()) replay->finish();
    comparison.finish(end == JournalEnd::kLost ? 1 : 0);
  } catch (const InputError& error) {
    if (!comparison.differs()) comparison.differ(result.records, error.what());
  }
  if (replay) result.hash = replay->journal().hash();
  result.ok = !comparison.differs();
  result.bad_record = comparison.bad();
  result.detail = comparison.difference();
  return result;
}

std::string_view name_of(RecordKind kind) {
  switch (kind) {
    case RecordKind::kInstanceHeader:
      return "instance header";
    case RecordKind::kSubmit:
      return "submit";
    case RecordKind::kCancel:
      return "cancel";
    case RecordKind::kRun:
      return "run";
    case RecordKind::kDrain:
      return "drain";
    case RecordKind::kRouterHeader:
      return "router header";
    case RecordKind::kInstanceAdded:
      return "instance added";
    case RecordKind::kInstanceDraining:
      return "instance draining";
    case RecordKind::kInstanceRemoved:
      return "instance removed";
    case RecordKind::kRoute:
      return "route";
    case RecordKind::kRelease:
      return "release";
  }
  return "unknown";
}

RequestId request_of(const JournalRecord& record) {
  if (record.words.empty()) throw InputError({"journal", 0, ""}, "an empty record", "a request");
  return RequestId{record.words.front()};
}

std::optional<InstanceId> placement_of(const JournalRecord& record) {
  // append_route ends with: instance + 1 (0: none), reason, matched; then the seal.
  constexpr std::size_t kFromEnd = 4;
  if (record.words.size() < kFromEnd) {
    throw InputError({"journal", 0, ""}, "a short record", "a route");
  }
  const std::uint64_t word = record.words[record.words.size() - kFromEnd];
  if (word == 0) return std::nullopt;
  return InstanceId{static_cast<std::uint32_t>(word - 1)};
}

}  // namespace orrery::policy
