#include "runtime/policy/journal_words.h"

#include "runtime/base/errors.h"
#include "runtime/policy/scheduler/run_recorder.h"

namespace orrery::policy {
namespace {

std::uint64_t word(std::int64_t v) { return static_cast<std::uint64_t>(v); }

void append_hashes(Words& words, std::span<const BlockHash> hashes) {
  words.push_back(hashes.size());
  for (const BlockHash h : hashes) words.push_back(h.value);
}

void read_hashes(WordReader& words, std::vector<BlockHash>& hashes) {
  hashes.resize(words.next_count());
  for (BlockHash& h : hashes) h.value = words.next();
}

[[noreturn]] void bad(const char* field, const std::string& found, const std::string& expected) {
  throw InputError({"journal", 0, field}, found, expected);
}

std::int32_t next_priority(WordReader& words) {
  return static_cast<std::int32_t>(words.next_signed());
}

}  // namespace

std::uint64_t WordReader::next() {
  if (at_ >= words_.size()) bad("record", "a record cut short", "its next word");
  return words_[at_++];
}

std::size_t WordReader::next_count() {
  const std::uint64_t n = next();
  if (n > words_.size() - at_) bad("count", std::to_string(n), "no more than the record holds");
  return static_cast<std::size_t>(n);
}

std::string WordReader::next_text() { return read_text(words_, at_); }

void WordReader::expect_end() const {
  if (at_ != words_.size())
    bad("record", std::to_string(words_.size() - at_) + " words more", "the end of the record");
}

void append_header(Words& words, const InstanceSettings& s) {
  append_text(words, ORRERY_VERSION);
  words.insert(words.end(), {word(s.block_tokens.value()), word(s.kv_blocks.value()),
                             word(s.max_batched_tokens.value()), word(s.max_running),
                             word(s.long_prefill_cap.value()), s.chunked_prefill ? 1U : 0U,
                             s.prefix_cache ? 1U : 0U, word(s.max_context.value()),
                             word(s.max_waiting), word(s.watermark_per_mille)});
  append_text(words, s.order);
  append_text(words, s.victim);
}

InstanceSettings read_instance_header(WordReader& words) {
  words.next_text();  // version
  InstanceSettings s;
  s.block_tokens = Tokens(words.next_signed());
  s.kv_blocks = Blocks(words.next_signed());
  s.max_batched_tokens = Tokens(words.next_signed());
  s.max_running = words.next_signed();
  s.long_prefill_cap = Tokens(words.next_signed());
  s.chunked_prefill = words.next() != 0;
  s.prefix_cache = words.next() != 0;
  s.max_context = Tokens(words.next_signed());
  s.max_waiting = words.next_signed();
  s.watermark_per_mille = words.next_signed();
  s.order = words.next_text();
  s.victim = words.next_text();
  words.expect_end();
  return s;
}

void append_submit(Words& words, const Request& r, Time now, const SubmitResult& result) {
  words.insert(words.end(), {r.id.value, word(now.ns()), word(r.arrival.ns()),
                             word(r.prompt_tokens.value()), word(r.max_tokens.value()),
                             r.model.value, r.session.value, r.tenant.value, word(r.priority)});
  append_hashes(words, r.block_hashes);
  words.insert(words.end(), {static_cast<std::uint64_t>(result.reason), word(result.needed.value()),
                             word(result.available.value())});
}

Submitted read_submit(WordReader& words) {
  Submitted s;
  s.request.id.value = words.next();
  s.now = Time(words.next_signed());
  s.request.arrival = Time(words.next_signed());
  s.request.prompt_tokens = Tokens(words.next_signed());
  s.request.max_tokens = Tokens(words.next_signed());
  s.request.model.value = static_cast<std::uint32_t>(words.next());
  s.request.session.value = words.next();
  s.request.tenant.value = static_cast<std::uint32_t>(words.next());
  s.request.priority = next_priority(words);
  read_hashes(words, s.request.block_hashes);
  if (s.request.max_tokens.value() < 1)
    bad("max_tokens", std::to_string(s.request.max_tokens.value()), "at least 1");
  return s;
}

RunRecord read_run(WordReader& words) {
  RunRecord run;
  run.flags = words.next();
  run.repetitions = words.next_signed();
  run.now = Time(words.next_signed());
  words.next();  // items
  words.next();  // digest
  if (run.flags > (kStartsOpen | kEndsOpen | kCut))
    bad("flags", std::to_string(run.flags), "known flags");
  const bool decision_only = run.flags == kEndsOpen || run.flags == (kEndsOpen | kCut);
  if (run.repetitions < (decision_only ? 0 : 1))
    bad("repetitions", std::to_string(run.repetitions), "at least 1 unless only its decision is");
  run.finishes.resize(words.next_count());
  std::int64_t last = -1;
  for (StepFinish& f : run.finishes) {
    const std::uint64_t packed = words.next();
    f.item = static_cast<std::uint32_t>(packed >> 8);
    f.reason = static_cast<FinishReason>(packed & 0xff);
    if (f.reason != FinishReason::kStop && f.reason != FinishReason::kError)
      bad("finish", std::to_string(packed & 0xff), "stop or error");
    if (packed >> 40 != 0 || f.item <= last)
      bad("finish", std::to_string(packed >> 8), "items in rising order");
    last = f.item;
  }
  read_hashes(words, run.hashes);
  words.expect_end();
  return run;
}

void append_header(Words& words, const RouterSettings& s) {
  append_text(words, ORRERY_VERSION);
  append_text(words, s.policy);
  words.push_back(s.scorers.size());
  for (const ScorerSetting& scorer : s.scorers) {
    append_text(words, scorer.name);
    words.push_back(word(scorer.weight));
  }
  words.push_back(word(s.directory_blocks_per_instance));
}

RouterSettings read_router_header(WordReader& words) {
  words.next_text();  // version
  RouterSettings s;
  s.policy = words.next_text();
  s.scorers.resize(words.next_count());
  for (ScorerSetting& scorer : s.scorers) {
    scorer.name = words.next_text();
    scorer.weight = words.next_signed();
  }
  s.directory_blocks_per_instance = words.next_signed();
  words.expect_end();
  return s;
}

void append_route(Words& words, const RouteRequest& r, bool with_hashes, Time now,
                  const RouteResult& result) {
  words.insert(words.end(),
               {r.id.value, word(now.ns()), r.model.value, word(r.prompt_tokens.value()),
                word(r.max_tokens.value()), r.session.value, r.tenant.value, word(r.priority)});
  append_hashes(words, with_hashes ? r.block_hashes : std::span<const BlockHash>());
  words.insert(words.end(),
               {result.instance ? result.instance->value + UINT64_C(1) : 0,
                static_cast<std::uint64_t>(result.reason), word(result.matched.value())});
}

Routed read_route(WordReader& words) {
  Routed r;
  r.request.id.value = words.next();
  r.now = Time(words.next_signed());
  r.request.model.value = static_cast<std::uint32_t>(words.next());
  r.request.prompt_tokens = Tokens(words.next_signed());
  r.request.max_tokens = Tokens(words.next_signed());
  r.request.session.value = words.next();
  r.request.tenant.value = static_cast<std::uint32_t>(words.next());
  r.request.priority = next_priority(words);
  read_hashes(words, r.hashes);
  return r;
}

}  // namespace orrery::policy
