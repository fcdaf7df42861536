// Journal records: what went into the brain and what it decided, in canonical form.
// A record is a kind and a list of 64-bit words. A JournalWriter keeps a running hash over all
// records (always) and hands each to a sink (only when asked for). A record holds lengths and
// salted block hashes, never prompt text or token ids.
// On disk (journal files are written and read by runtime/host/journal_file.h): the magic
// "ORRJRNL1", then per record u32 kind, u32 word count, the words, u64 running hash after it; all
// little-endian. An altered record is named by the first running hash that does not agree.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/hash.h"

namespace orrery {

struct JournalRecord {
  std::uint32_t kind = 0;
  std::vector<std::uint64_t> words;
  bool operator==(const JournalRecord&) const = default;
};

class JournalWriter {
 public:
  using Sink = std::function<void(std::uint32_t kind, std::span<const std::uint64_t> words,
                                  std::uint64_t hash_after)>;
  void set_sink(Sink sink) { sink_ = std::move(sink); }
  void append(std::uint32_t kind, std::span<const std::uint64_t> words) {
    hash_ = hash_combine(hash_, (static_cast<std::uint64_t>(kind) << 32) | words.size());
    for (const std::uint64_t w : words) hash_ = hash_combine(hash_, w);
    ++count_;
    if (sink_) sink_(kind, words, hash_);
  }
  std::uint64_t hash() const { return hash_; }
  std::uint64_t count() const { return count_; }

 private:
  Sink sink_;
  std::uint64_t hash_ = 0x6f72726572790001ULL;
  std::uint64_t count_ = 0;
};

// Text packed into words: byte length, then 8 bytes a word. For names and settings in records.
void append_text(std::vector<std::uint64_t>& words, std::string_view text);
// Reads it back from words[at], advances `at`; throws InputError (file "journal") when cut short.
std::string read_text(std::span<const std::uint64_t> words, std::size_t& at);

}  // namespace orrery
