#include "runtime/base/portable_math.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "runtime/base/rng.h"

namespace orrery {
namespace {
constexpr double kLn2Hi = 0x1.62e42fefa39efp-1;   // ln 2 rounded to double
constexpr double kLn2Lo = 0x1.abc9e3b39803fp-56;  // ln 2 - kLn2Hi
constexpr double kPi = 0x1.921fb54442d18p1;
}  // namespace

double portable_log(double x) {
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m-1)/(m+1), |s| < 0.172.
  auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  if (exponent == -1023) return portable_log(x * 0x1.0p54) - 54 * kLn2Hi;  // subnormal
  bits = (bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL;
  double m = std::bit_cast<double>(bits);
  if (m > 1.4142135623730951) m *= 0.5, ++exponent;
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double series = 0;
  for (int k = 23; k >= 1; k -= 2) series = series * s2 + 1.0 / k;
  return exponent * kLn2Hi + (exponent * kLn2Lo + 2 * s * series);
}

double portable_exp(double x) {
  // x = k ln2 + r, |r| <= ln2/2; Taylor series of e^r to the 14th term, then scaled by 2^k.
  const double k = std::floor(x / kLn2Hi + 0.5);
  // ln 2 in a head of 32 bits and a tail, so that k times the head is exact (as in fdlibm).
  constexpr double kHead = 0x1.62e42feep-1, kTail = 0x1.a39ef35793c76p-33;
  const double r = (x - k * kHead) - k * kTail;
  double series = 1;
  for (int i = 14; i >= 1; --i) series = 1 + series * r / i;
  return std::ldexp(series, static_cast<int>(k));
}

double portable_pow(double x, double y) { return portable_exp(y * portable_log(x)); }

double portable_sin_2pi(double turns) {
  // Reduced to [-1/4, 1/4] turns by symmetry, then the Taylor series.
  double t = turns;
  if (t > 0.75)
    t -= 1;
  else if (t > 0.25)
    t = 0.5 - t;
  const double a = 2 * kPi * t, a2 = a * a;
  double series = 1;
  for (int i = 21; i >= 3; i -= 2) series = 1 - series * a2 / (i * (i - 1));
  return a * series;
}

double RandomStream::next_exponential() {
  return -portable_log(1.0 - next_unit());  // 1 - u is in (0, 1]
}

double RandomStream::next_normal() {
  const double radius = std::sqrt(2 * next_exponential());
  return radius * portable_sin_2pi(next_unit());
}

double RandomStream::next_gamma(double shape) {
  if (shape < 1) {
    const double boosted = next_gamma(shape + 1);
    return boosted * portable_pow(1.0 - next_unit(), 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = next_normal();
    const double v = 1 + c * x;
    if (v <= 0) continue;
    const double v3 = v * v * v;
    const double u = 1.0 - next_unit();
    if (portable_log(u) < 0.5 * x * x + d - d * v3 + d * portable_log(v3)) return d * v3;
  }
}

}  // namespace orrery
