// A 64-bit hash as people and files see it: sixteen lower-case hexadecimal digits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace orrery {

inline std::string hex(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t at = 16; value != 0; value >>= 4) text[--at] = "0123456789abcdef"[value & 15];
  return text;
}

}  // namespace orrery
