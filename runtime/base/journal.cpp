#include "runtime/base/journal.h"

#include "runtime/base/errors.h"

namespace orrery {

void append_text(std::vector<std::uint64_t>& words, std::string_view text) {
  words.push_back(text.size());
  for (std::size_t i = 0; i < text.size(); i += 8) {
    std::uint64_t word = 0;
    for (std::size_t j = 0; j < 8 && i + j < text.size(); ++j)
      word |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i + j])) << (8 * j);
    words.push_back(word);
  }
}

std::string read_text(std::span<const std::uint64_t> words, std::size_t& at) {
  const auto cut = [] {
    return InputError({"journal", 0, "text"}, "a record cut short", "its whole text");
  };
  if (at >= words.size()) throw cut();
  const std::uint64_t size = words[at++];
  if (size > (words.size() - at) * 8) throw cut();
  std::string text;
  text.reserve(size);
  for (std::size_t i = 0; i < size; ++i) {
    text.push_back(static_cast<char>(words[at + i / 8] >> (8 * (i % 8)) & 0xff));
  }
  at += (size + 7) / 8;
  return text;
}

}  // namespace orrery
