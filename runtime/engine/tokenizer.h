// Tokenizer: text to token ids and back; Detokenizer: the same for a stream.
//
// Laws (tests/engine/tokenizer_test.cpp): what comes out of decode() and Detokenizer is valid UTF-8
// for any ids (bytes that are no code point become U+FFFD); a code point is never split between
// two pushes; the pushes joined equal decode() of all ids; decode(encode(text)) == text for valid
// UTF-8.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/engine/token.h"

namespace orrery::engine {

// Ids 0 <unk>, 1 BOS, 2 EOS; 3..258 the bytes 0..255; 259.. learned pieces.
inline constexpr TokenId kUnknown = 0, kBos = 1, kEos = 2, kFirstByte = 3, kFirstPiece = 259;

class Tokenizer {
 public:
  enum class Method : std::uint8_t {
    kMergeByScore,  // byte-pair merging, best score first; a space is put before the text
    kLongestMatch,  // at each place the longest piece, else the byte
  };
  // pieces[i] is the text of id 259 + i; larger scores merge first (kMergeByScore only).
  Tokenizer(Method method, std::vector<std::string> pieces, std::vector<float> scores);

  // Starts with BOS unless told otherwise.
  std::vector<TokenId> encode(std::string_view text, bool bos = true) const;
  // All text of these ids. BOS and EOS give none; kMergeByScore drops the space put after a BOS.
  std::string decode(std::span<const TokenId> ids) const;
  // Bytes this id stands for; empty for the special ones. Throws nothing: unknown ids are empty.
  std::string_view bytes_of(TokenId id) const;
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  Method method() const { return method_; }

 private:
  void encode_merging(std::string_view text, std::vector<TokenId>& ids) const;
  void encode_longest(std::string_view text, std::vector<TokenId>& ids) const;
  TokenId piece(std::string_view text) const;  // learned pieces only; kUnknown: none

  Method method_;
  std::vector<std::string> bytes_;                     // by id
  std::vector<float> scores_;                          // by id
  std::unordered_map<std::string, TokenId> ids_;       // of learned pieces
  std::unordered_map<std::uint64_t, TokenId> joined_;  // (left, right) to their join
  std::size_t longest_ = 1;                            // bytes of a piece
};

// Text of a stream of ids, in valid UTF-8 pieces. The tokenizer must outlive it.
class Detokenizer {
 public:
  // after_prompt: the ids continue a prompt, so that a leading space is theirs.
  explicit Detokenizer(const Tokenizer& tokenizer, bool after_prompt = true)
      : tokenizer_(&tokenizer), drop_space_(!after_prompt) {}
  // Text that is complete now; may be empty while a code point's bytes are still coming.
  std::string push(TokenId id);
  // What is still held back, as U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::string held_;  // an incomplete code point: 0 to 3 bytes
  bool drop_space_;
};

// Length of the longest prefix of `bytes` that ends no code point in the middle, with invalid
// bytes counted as complete.
std::size_t complete_utf8_prefix(std::string_view bytes);
// Each byte that belongs to no code point becomes U+FFFD.
std::string to_valid_utf8(std::string_view bytes);

}  // namespace orrery::engine
