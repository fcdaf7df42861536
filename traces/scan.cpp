#include "traces/scan.h"

#include <array>
#include <limits>

namespace orrery::traces {
namespace {

constexpr std::array<std::int64_t, 19> kPow10 = [] {
  std::array<std::int64_t, 19> p{};
  p[0] = 1;
  for (std::size_t i = 1; i < p.size(); ++i) p[i] = p[i - 1] * 10;
  return p;
}();

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Exactly n digits at text[at..at+n).
bool fixed_digits(std::string_view text, std::size_t at, int n, int& value) {
  if (at + static_cast<std::size_t>(n) > text.size()) return false;
  value = 0;
  for (int i = 0; i < n; ++i) {
    const char c = text[at + static_cast<std::size_t>(i)];
    if (!is_digit(c)) return false;
    value = value * 10 + (c - '0');
  }
  return true;
}

// Days since 1970-01-01 in the proleptic Gregorian calendar (H. Hinnant, "chrono-compatible
// low-level date algorithms").
std::int64_t days_from_civil(int year, int month, int day) {
  const int y = month <= 2 ? year - 1 : year;
  const int era = (y >= 0 ? y : y - 399) / 400;
  const int yoe = y - era * 400;
  const int doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
  return static_cast<std::int64_t>(era) * 146097 + doe - 719468;
}

int days_in_month(int year, int month) {
  constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return month == 2 && leap ? 29 : kDays[static_cast<std::size_t>(month - 1)];
}

// The rest after the seconds: fraction and zone.
bool scan_fraction_and_zone(std::string_view rest, WallTime& time, std::int64_t& offset_s) {
  std::size_t at = 0;
  std::int64_t fraction = 0;
  time.digits = 0, time.exact = true, time.has_zone = false, offset_s = 0;
  if (!rest.empty() && rest[0] == '.') {
    for (at = 1; at < rest.size() && is_digit(rest[at]); ++at) {
      if (++time.digits <= 9)
        fraction = fraction * 10 + (rest[at] - '0');
      else if (rest[at] != '0')
        time.exact = false;
    }
    if (time.digits == 0) return false;
    if (time.digits < 9) fraction *= kPow10[static_cast<std::size_t>(9 - time.digits)];
  }
  time.ns = fraction;
  rest = rest.substr(at);
  if (rest.empty()) return true;
  time.has_zone = true;
  if (rest == "Z" || rest == "z" || rest == " UTC") return true;
  if (rest[0] != '+' && rest[0] != '-') return false;
  int hours = 0, minutes = 0;
  if (!fixed_digits(rest, 1, 2, hours) || hours > 15) return false;
  std::string_view tail = rest.substr(3);
  if (!tail.empty() && tail[0] == ':') {
    if (tail.size() != 3) return false;
    tail = tail.substr(1);
  }
  if (!tail.empty() && (tail.size() != 2 || !fixed_digits(tail, 0, 2, minutes) || minutes > 59))
    return false;
  offset_s = (rest[0] == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
  return true;
}

}  // namespace

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool scan_int(std::string_view text, std::int64_t& value) {
  const bool negative = !text.empty() && text[0] == '-';
  if (negative || (!text.empty() && text[0] == '+')) text.remove_prefix(1);
  if (text.empty() || text.size() > 18) return false;
  std::int64_t v = 0;
  for (const char c : text) {
    if (!is_digit(c)) return false;
    v = v * 10 + (c - '0');
  }
  value = negative ? -v : v;
  return true;
}

bool scan_scaled(std::string_view text, int power, std::int64_t& value, bool& exact) {
  const bool negative = !text.empty() && text[0] == '-';
  if (negative || (!text.empty() && text[0] == '+')) text.remove_prefix(1);
  exact = true;
  std::int64_t mantissa = 0;
  int digits = 0, exponent = power;
  bool any = false, after_point = false, significant = false;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.') {
      if (after_point) return false;
      after_point = true;
      continue;
    }
    if (!is_digit(c)) break;
    any = true;
    if (c != '0') significant = true;
    if (significant && ++digits > 18) {  // beyond what the mantissa holds: dropped
      if (c != '0') exact = false;
      if (!after_point) ++exponent;
      continue;
    }
    mantissa = mantissa * 10 + (c - '0');
    if (after_point) --exponent;
  }
  if (!any) return false;
  if (at < text.size()) {
    std::int64_t e = 0;
    if ((text[at] != 'e' && text[at] != 'E') || !scan_int(text.substr(at + 1), e)) return false;
    if (e > 400 || e < -400) return false;
    exponent += static_cast<int>(e);
  }
  if (mantissa == 0) return value = 0, true;
  __int128 v = mantissa;
  for (; exponent > 0; --exponent) {
    v *= 10;
    if (v > std::numeric_limits<std::int64_t>::max()) return false;
  }
  if (exponent < 0) {
    if (exponent < -18) return value = 0, exact = false, true;
    const std::int64_t divisor = kPow10[static_cast<std::size_t>(-exponent)];
    if (v % divisor != 0) exact = false;
    v = (v + divisor / 2) / divisor;
  }
  value = static_cast<std::int64_t>(negative ? -v : v);
  return true;
}

bool scan_wall_time(std::string_view text, WallTime& time) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (text.size() < 19 || text[4] != '-' || text[7] != '-' || (text[10] != ' ' && text[10] != 'T'))
    return false;
  if (text[13] != ':' || text[16] != ':') return false;
  if (!fixed_digits(text, 0, 4, year) || !fixed_digits(text, 5, 2, month) ||
      !fixed_digits(text, 8, 2, day) || !fixed_digits(text, 11, 2, hour) ||
      !fixed_digits(text, 14, 2, minute) || !fixed_digits(text, 17, 2, second))
    return false;
  // Nanoseconds in 64 bits reach from 1678 to 2261; a minute may hold a leap second.
  if (year < 1700 || year > 2250 || month < 1 || month > 12) return false;
  if (day < 1 || day > days_in_month(year, month)) return false;
  if (hour > 23 || minute > 59 || second > 60) return false;
  std::int64_t offset_s = 0;
  if (!scan_fraction_and_zone(text.substr(19), time, offset_s)) return false;
  const std::int64_t s =
      days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset_s;
  time.ns += s * 1'000'000'000;
  return true;
}

std::string format_wall_time(std::int64_t ns, int digits, char separator) {
  std::int64_t s = ns / 1'000'000'000, fraction = ns % 1'000'000'000;
  if (fraction < 0) fraction += 1'000'000'000, --s;
  std::int64_t days = s / 86400, in_day = s % 86400;
  if (in_day < 0) in_day += 86400, --days;
  const std::int64_t z = days + 719468;
  const std::int64_t era = (z >= 0 ? z : z - 146096) / 146097;
  const std::int64_t doe = z - era * 146097;
  const std::int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const std::int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const std::int64_t mp = (5 * doy + 2) / 153;
  const std::int64_t day = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 3 : mp - 9;
  const std::int64_t year = yoe + era * 400 + (month <= 2 ? 1 : 0);
  std::string out;
  auto put = [&out](std::int64_t v, int width) {
    for (int i = width - 1; i >= 0; --i)
      out += static_cast<char>('0' + v / kPow10[static_cast<std::size_t>(i)] % 10);
  };
  put(year, 4), out += '-', put(month, 2), out += '-', put(day, 2), out += separator;
  put(in_day / 3600, 2), out += ':', put(in_day / 60 % 60, 2), out += ':', put(in_day % 60, 2);
  if (digits > 0) out += '.', put(fraction / kPow10[static_cast<std::size_t>(9 - digits)], digits);
  return out;
}

void append_seconds(std::string& out, std::int64_t ns) {
  if (ns < 0) out += '-', ns = -ns;
  out += std::to_string(ns / 1'000'000'000);
  std::int64_t fraction = ns % 1'000'000'000;
  if (fraction == 0) return;
  std::array<char, 10> digits{};
  int n = 9;
  for (int i = 8; i >= 0; --i, fraction /= 10)
    digits[static_cast<std::size_t>(i)] = static_cast<char>('0' + fraction % 10);
  while (digits[static_cast<std::size_t>(n - 1)] == '0') --n;
  out += '.';
  out.append(digits.data(), static_cast<std::size_t>(n));
}

}  // namespace orrery::traces
