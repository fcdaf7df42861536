// Exact scanning of the numbers and times that trace files hold. No locale, no double: a timestamp
// with seven fractional digits keeps all of them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace orrery::traces {

// A whole text that is a decimal integer within 18 digits.
bool scan_int(std::string_view text, std::int64_t& value);

// A whole text that is a decimal number ("12", "-0.5", "1.5e3"), times 10^power, rounded to the
// nearest integer (halves away from zero). `exact` tells whether rounding changed it.
bool scan_scaled(std::string_view text, int power, std::int64_t& value, bool& exact);

// "2023-11-16 18:15:46.6805900", 'T' or space between, 0 or more fractional digits, then nothing,
// "Z", "+02:00", "+0200" or "+02". Nanoseconds since 1970 in UTC; without a zone UTC is assumed.
struct WallTime {
  std::int64_t ns = 0;
  bool has_zone = false;
  bool exact = true;  // false: more than nine fractional digits, cut
  int digits = 0;     // fractional digits as written
};
bool scan_wall_time(std::string_view text, WallTime& time);

std::string_view trim(std::string_view text);

// The inverse: "2023-11-16 18:15:46.6805900" (`digits` fractional digits, cut, not rounded).
std::string format_wall_time(std::int64_t ns, int digits, char separator = ' ');
// Nanoseconds as decimal seconds without trailing zeros: 1500000000 -> "1.5".
void append_seconds(std::string& out, std::int64_t ns);

}  // namespace orrery::traces
