// What instance and router records share: the digest of decisions, and the seal. Every record ends
// in a seal, a digest of its kind and of the words before it, so that an altered word is found in
// its own record even where no later decision depends on it.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/journal.h"

namespace orrery::policy {

// Order-dependent 64-bit digest of words: one multiplication a word, because it stands on the path
// of every allocation. Not the journal's hash, which covers it.
class Digest {
 public:
  void mix(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x9e3779b97f4a7c15ULL;
    value_ ^= value_ >> 29;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0x6469676573740001ULL;
};

inline std::uint64_t seal_of(std::uint32_t kind, std::span<const std::uint64_t> words) {
  Digest digest;
  digest.mix(kind);
  for (const std::uint64_t word : words) digest.mix(word);
  return digest.value();
}

// Appends the seal and the record.
inline void append_sealed(JournalWriter& journal, std::uint32_t kind,
                          std::vector<std::uint64_t>& words) {
  words.push_back(seal_of(kind, words));
  journal.append(kind, words);
}

}  // namespace orrery::policy
