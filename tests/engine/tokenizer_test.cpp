#include "runtime/engine/tokenizer.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "runtime/engine/embedded.h"
#include "tests/engine/harness.h"

namespace orrery::engine::test {
namespace {

// A decoder written from the definition of UTF-8: the code points must be minimal, no surrogates.
bool valid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int extra = lead < 0x80       ? 0
                      : lead >> 5 == 6  ? 1
                      : lead >> 4 == 14 ? 2
                      : lead >> 3 == 30 ? 3
                                        : -1;
    if (extra < 0 || i + static_cast<std::size_t>(extra) >= text.size()) return false;
    std::uint32_t point = extra == 0 ? lead : lead & (0x3FU >> extra);
    for (int k = 1; k <= extra; ++k) {
      const auto next = static_cast<unsigned char>(text[i + static_cast<std::size_t>(k)]);
      if (next >> 6 != 2) return false;
      point = point << 6 | (next & 0x3FU);
    }
    constexpr std::uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
    if (point < kLeast[extra] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
      return false;
    i += static_cast<std::size_t>(extra) + 1;
  }
  return true;
}

std::string random_text(RandomStream& random, std::size_t points) {
  std::string text;
  for (std::size_t i = 0; i < points; ++i) {
    constexpr const char* kSome[] = {"é", "中", "🙂", "\n", "\t", "'", " ", "  ", "the", "ing"};
    const std::uint64_t what = random.next_below(30);
    if (what < std::size(kSome))
      text += kSome[what];
    else
      text += static_cast<char>('a' + random.next_below(26));
  }
  return text;
}

// Merging by score as it is defined: look at all pairs, join the best, begin again.
std::vector<TokenId> naive_merging(const std::map<std::string, std::pair<TokenId, float>>& pieces,
                                   const std::string& text) {
  std::vector<std::pair<std::string, TokenId>> units;  // text, id; text "" for bytes: never joined
  const std::string spaced = text.empty() ? "" : " " + text;
  for (std::size_t i = 0; i < spaced.size();) {
    std::size_t n = 1;
    while (i + n < spaced.size() && (static_cast<unsigned char>(spaced[i + n]) & 0xC0) == 0x80) ++n;
    const auto found = pieces.find(spaced.substr(i, n));
    if (found != pieces.end())
      units.push_back({found->first, found->second.first});
    else
      for (std::size_t b = 0; b < n; ++b)
        units.push_back({"", 3 + static_cast<unsigned char>(spaced[i + b])});
    i += n;
  }
  for (;;) {
    std::size_t best = units.size();
    float score = 0;
    for (std::size_t i = 0; i + 1 < units.size(); ++i) {
      if (units[i].first.empty() || units[i + 1].first.empty()) continue;
      const auto found = pieces.find(units[i].first + units[i + 1].first);
      if (found != pieces.end() && (best == units.size() || found->second.second > score))
        best = i, score = found->second.second;
    }
    if (best == units.size()) break;
    units[best].first += units[best + 1].first;
    units[best].second = pieces.at(units[best].first).first;
    units.erase(units.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::vector<TokenId> ids = {kBos};
  for (const auto& u : units) ids.push_back(u.second);
  return ids;
}

}  // namespace

TEST(Tokenizer, merging_equals_the_naive_definition_on_random_vocabularies) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomStream random(seed);
    std::map<std::string, std::pair<TokenId, float>> known;
    std::vector<std::string> pieces;
    std::vector<float> scores;
    const auto add = [&](const std::string& piece) {
      const auto id = static_cast<TokenId>(kFirstPiece + pieces.size());
      const auto score = static_cast<float>(-static_cast<double>(random.next_below(12)));
      if (!known.emplace(piece, std::pair(id, score)).second) return;
      pieces.push_back(piece), scores.push_back(score);
    };
    for (const char* single : {" ", "a", "b", "c", "é"}) add(single);
    for (int i = 0; i < 40; ++i) {
      const auto& left = pieces[random.next_below(pieces.size())];
      const std::string joined = left + pieces[random.next_below(pieces.size())];
      if (joined.size() < 12) add(joined);
    }
    const Tokenizer tokenizer(Tokenizer::Method::kMergeByScore, pieces, scores);
    for (int round = 0; round < 30; ++round) {
      std::string text;
      for (std::uint64_t n = random.next_below(60); n > 0; --n)
        text += std::vector<std::string>{"a", "b", "c", "é", " ", "x", "中"}[random.next_below(7)];
      ASSERT_EQ(tokenizer.encode(text), naive_merging(known, text)) << text;
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

TEST(Tokenizer, decoding_what_was_encoded_gives_the_text_back) {
  const ModelCard card = embedded_card();
  RandomStream random(2);
  for (int round = 0; round < 200; ++round) {
    const std::string text = random_text(random, random.next_below(40));
    EXPECT_EQ(card.tokenizer->decode(card.tokenizer->encode(text)), text);
  }
  EXPECT_LT(card.tokenizer->encode("the people of the world know that they want to live").size(),
            20U);
}

TEST(Detokenizer, pushes_are_valid_utf8_and_join_to_the_whole_for_any_ids) {
  const ModelCard card = embedded_card();
  RandomStream random(3);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    // Many single bytes, so that code points form, break and stay incomplete.
    std::vector<TokenId> ids;
    for (std::uint64_t n = random.next_below(50); n > 0; --n)
      ids.push_back(static_cast<TokenId>(random.next_below(4) == 0 ? random.next_below(600)
                                                                   : 131 + random.next_below(128)));
    Detokenizer stream(*card.tokenizer);
    std::string joined;
    for (const TokenId id : ids) {
      const std::string text = stream.push(id);
      EXPECT_TRUE(valid_utf8(text));
      joined += text;
    }
    const std::string rest = stream.finish();
    EXPECT_TRUE(valid_utf8(rest));
    EXPECT_EQ(joined + rest, card.tokenizer->decode(ids));
  }
}

TEST(Detokenizer, a_code_point_comes_out_whole_with_its_last_byte) {
  const Tokenizer tokenizer(Tokenizer::Method::kLongestMatch, {}, {});
  for (const std::string point : {"é", "中", "🙂"}) {
    Detokenizer stream(tokenizer);
    for (std::size_t i = 0; i < point.size(); ++i)
      EXPECT_EQ(stream.push(kFirstByte + static_cast<unsigned char>(point[i])),
                i + 1 == point.size() ? point : "");
    EXPECT_EQ(stream.finish(), "");
  }
  Detokenizer cut(tokenizer);
  EXPECT_EQ(cut.push(kFirstByte + 0xE4), "");
  EXPECT_EQ(cut.push(kFirstByte + 'x'), "\xEF\xBF\xBDx");  // what was held was no code point
  EXPECT_EQ(cut.push(kFirstByte + 0xF0), "");
  EXPECT_EQ(cut.finish(), "\xEF\xBF\xBD");
}

TEST(EmbeddedModel, whatever_it_may_sample_is_printable_ascii) {
  const ModelCard card = embedded_card();
  ASSERT_EQ(card.tokenizer->size(), card.shape.vocabulary);
  int allowed = 0;
  for (TokenId id = 0; id < card.tokenizer->size(); ++id) {
    if (std::binary_search(card.never_sampled.begin(), card.never_sampled.end(), id)) continue;
    ++allowed;
    for (const char c : card.tokenizer->bytes_of(id))
      EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
  }
  EXPECT_GT(allowed, 300);
}

}  // namespace orrery::engine::test
