#include "runtime/engine/tokenizer.h"

#include <algorithm>
#include <queue>

#include "runtime/base/check.h"

namespace orrery::engine {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Bytes of the code point that starts at `at`: 1 to 4; 0 when its bytes are no code point; -1 when
// the text ends before it is complete (and it is well formed so far). Follows the table of
// well-formed sequences in the Unicode standard (no surrogates, no overlong forms).
int code_point_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (int i = 1; i < length; ++i) {
    if (at + static_cast<std::size_t>(i) >= text.size()) return -1;
    unsigned low = 0x80, high = 0xBF;
    if (i == 1 && lead == 0xE0) low = 0xA0;
    if (i == 1 && lead == 0xED) high = 0x9F;
    if (i == 1 && lead == 0xF0) low = 0x90;
    if (i == 1 && lead == 0xF4) high = 0x8F;
    const unsigned next = byte(at + static_cast<std::size_t>(i));
    if (next < low || next > high) return 0;
  }
  return length;
}

std::uint64_t pair_key(TokenId left, TokenId right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
         static_cast<std::uint32_t>(right);
}

}  // namespace

std::size_t complete_utf8_prefix(std::string_view bytes) {
  // Only the last three bytes can begin a code point that is still incomplete.
  for (std::size_t back = std::min<std::size_t>(3, bytes.size()); back > 0; --back)
    if (code_point_length(bytes, bytes.size() - back) == -1) return bytes.size() - back;
  return bytes.size();
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const int length = code_point_length(bytes, at);
    if (length > 0)
      text += bytes.substr(at, static_cast<std::size_t>(length));
    else
      text += kReplacement;
    at += static_cast<std::size_t>(std::max(length, 1));
  }
  return text;
}

Tokenizer::Tokenizer(Method method, std::vector<std::string> pieces, std::vector<float> scores)
    : method_(method) {
  bytes_.resize(kFirstByte);  // <unk>, BOS and EOS stand for no text
  for (int b = 0; b < 256; ++b) bytes_.emplace_back(1, static_cast<char>(b));
  scores_.resize(kFirstPiece, 0.0F);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    ids_.emplace(pieces[i], static_cast<TokenId>(bytes_.size()));
    longest_ = std::max(longest_, pieces[i].size());
    bytes_.push_back(std::move(pieces[i]));
    scores_.push_back(i < scores.size() ? scores[i] : 0.0F);
  }
  if (method != Method::kMergeByScore) return;
  for (std::size_t id = kFirstPiece; id < bytes_.size(); ++id) {
    const std::string_view text = bytes_[id];
    if (piece(text) != static_cast<TokenId>(id)) continue;  // written twice: the first counts
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const TokenId left = piece(text.substr(0, cut)), right = piece(text.substr(cut));
      if (left != kUnknown && right != kUnknown)
        joined_.emplace(pair_key(left, right), static_cast<TokenId>(id));
    }
  }
}

TokenId Tokenizer::piece(std::string_view text) const {
  const auto found = ids_.find(std::string(text));
  return found == ids_.end() ? kUnknown : found->second;
}

std::string_view Tokenizer::bytes_of(TokenId id) const {
  return id >= 0 && id < size() ? std::string_view(bytes_[static_cast<std::size_t>(id)])
                                : std::string_view();
}

// The best pair first, the leftmost of equal ones: a heap over a linked list, where an entry whose
// two sides are no longer neighbours is passed over.
void Tokenizer::encode_merging(std::string_view text, std::vector<TokenId>& ids) const {
  if (text.empty()) return;
  const std::string spaced = " " + std::string(text);
  std::vector<TokenId> units;
  for (std::size_t at = 0; at < spaced.size();) {
    const auto length = static_cast<std::size_t>(std::max(code_point_length(spaced, at), 1));
    const TokenId id = piece(std::string_view(spaced).substr(at, length));
    if (id != kUnknown) units.push_back(id);
    for (std::size_t i = 0; id == kUnknown && i < length; ++i)
      units.push_back(kFirstByte + static_cast<unsigned char>(spaced[at + i]));
    at += length;
  }
  const int count = static_cast<int>(units.size());
  std::vector<int> next(units.size()), previous(units.size());
  for (int i = 0; i < count; ++i)
    next[static_cast<std::size_t>(i)] = i + 1, previous[static_cast<std::size_t>(i)] = i - 1;
  struct Pair {
    float score;
    int at;
    TokenId left, right, joined;
    bool operator<(const Pair& o) const {  // the heap's top is the greatest
      return score != o.score ? score < o.score : at > o.at;
    }
  };
  std::priority_queue<Pair> heap;
  const auto offer = [&](int at) {
    if (at < 0 || next[static_cast<std::size_t>(at)] >= count) return;
    const TokenId left = units[static_cast<std::size_t>(at)];
    const TokenId right = units[static_cast<std::size_t>(next[static_cast<std::size_t>(at)])];
    const auto found = joined_.find(pair_key(left, right));
    if (found == joined_.end()) return;
    heap.push({scores_[static_cast<std::size_t>(found->second)], at, left, right, found->second});
  };
  for (int i = 0; i < count; ++i) offer(i);
  constexpr TokenId kGone = -1;
  while (!heap.empty()) {
    const Pair pair = heap.top();
    heap.pop();
    const auto at = static_cast<std::size_t>(pair.at);
    const int right = next[at];
    if (units[at] != pair.left || right >= count ||
        units[static_cast<std::size_t>(right)] != pair.right)
      continue;
    units[at] = pair.joined;
    units[static_cast<std::size_t>(right)] = kGone;
    next[at] = next[static_cast<std::size_t>(right)];
    if (next[at] < count) previous[static_cast<std::size_t>(next[at])] = pair.at;
    offer(previous[at]);
    offer(pair.at);
  }
  for (const TokenId id : units)
    if (id != kGone) ids.push_back(id);
}

void Tokenizer::encode_longest(std::string_view text, std::vector<TokenId>& ids) const {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = std::min(longest_, text.size() - at);
    TokenId id = kUnknown;
    for (; length > 0; --length)
      if ((id = piece(text.substr(at, length))) != kUnknown) break;
    if (id == kUnknown) id = kFirstByte + static_cast<unsigned char>(text[at]), length = 1;
    ids.push_back(id);
    at += length;
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool bos) const {
  std::vector<TokenId> ids;
  if (bos) ids.push_back(kBos);
  if (method_ == Method::kMergeByScore)
    encode_merging(text, ids);
  else
    encode_longest(text, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string bytes;
  bool drop_space = false;
  for (const TokenId id : ids) {
    std::string_view text = bytes_of(id);
    if (drop_space && text.starts_with(' ')) text.remove_prefix(1);
    drop_space = id == kBos && method_ == Method::kMergeByScore;
    bytes += text;
  }
  return to_valid_utf8(bytes);
}

std::string Detokenizer::push(TokenId id) {
  std::string_view text = tokenizer_->bytes_of(id);
  if (drop_space_ && text.starts_with(' ')) text.remove_prefix(1);
  drop_space_ = id == kBos && tokenizer_->method() == Tokenizer::Method::kMergeByScore;
  held_ += text;
  const std::size_t complete = complete_utf8_prefix(held_);
  const std::string out = to_valid_utf8(std::string_view(held_).substr(0, complete));
  held_.erase(0, complete);
  return out;
}

std::string Detokenizer::finish() {
  const std::string out = to_valid_utf8(held_);
  held_.clear();
  return out;
}

}  // namespace orrery::engine
