// Strong types for units: a count of tokens is not a count of blocks, and neither is a time.
// All of them are 64-bit integers, so that sums do not depend on their order. Prices are doubles.
// Law: no operation mixes two units unless a named function says how.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>

namespace orrery {

// An amount of one unit. Amounts add, subtract, compare and scale by a plain integer.
template <class Tag>
class Quantity {
 public:
  using Rep = std::int64_t;
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity o) { return value_ += o.value_, *this; }
  constexpr Quantity& operator-=(Quantity o) { return value_ -= o.value_, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.value_ * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return a * k; }
  friend constexpr Rep operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }

 private:
  Rep value_ = 0;
};

using Tokens = Quantity<struct TokensTag>;
using Blocks = Quantity<struct BlocksTag>;  // KV-cache blocks
using Bytes = Quantity<struct BytesTag>;
using Duration = Quantity<struct DurationTag>;  // nanoseconds
using Picos = Quantity<struct PicosTag>;        // picoseconds: inside one instance's clock only

// A point in time: nanoseconds since the start of the run (simulated) or of the process (live).
class Time {
 public:
  constexpr Time() = default;
  constexpr explicit Time(std::int64_t ns) : ns_(ns) {}
  constexpr std::int64_t ns() const { return ns_; }
  constexpr auto operator<=>(const Time&) const = default;
  friend constexpr Time operator+(Time t, Duration d) { return Time(t.ns_ + d.value()); }
  friend constexpr Time operator-(Time t, Duration d) { return Time(t.ns_ - d.value()); }
  friend constexpr Duration operator-(Time a, Time b) { return Duration(a.ns_ - b.ns_); }
  static constexpr Time never() { return Time(INT64_MAX); }

 private:
  std::int64_t ns_ = 0;
};

// What the rest of the world sees of an instance's clock: rounded up to nanoseconds.
constexpr Time to_time_ceil(Picos p) {
  return Time(p.value() / 1000 + (p.value() % 1000 > 0 ? 1 : 0));
}
constexpr Picos to_picos(Time t) { return Picos(t.ns() * 1000); }
constexpr Picos to_picos(Duration d) { return Picos(d.value() * 1000); }

constexpr Duration seconds(std::int64_t s) { return Duration(s * 1'000'000'000); }
constexpr Duration milliseconds(std::int64_t ms) { return Duration(ms * 1'000'000); }
constexpr double to_seconds(Duration d) { return static_cast<double>(d.value()) * 1e-9; }
constexpr double to_milliseconds(Duration d) { return static_cast<double>(d.value()) * 1e-6; }
constexpr double to_seconds(Time t) { return static_cast<double>(t.ns()) * 1e-9; }

// Blocks needed to hold this many tokens (rounded up). block_tokens > 0.
constexpr Blocks blocks_for(Tokens tokens, Tokens block_tokens) {
  return Blocks((tokens.value() + block_tokens.value() - 1) / block_tokens.value());
}

struct UsdPerHour {
  double value = 0;
  constexpr auto operator<=>(const UsdPerHour&) const = default;
};

// A name that is a number. Kinds do not mix.
template <class Tag, class RepT = std::uint64_t>
struct Id {
  using Rep = RepT;
  Rep value = 0;
  constexpr auto operator<=>(const Id&) const = default;
};
using RequestId = Id<struct RequestIdTag>;
using SessionId = Id<struct SessionIdTag>;               // 0: none
using TenantId = Id<struct TenantIdTag, std::uint32_t>;  // 0: none
using ModelId = Id<struct ModelIdTag, std::uint32_t>;
using InstanceId = Id<struct InstanceIdTag, std::uint32_t>;  // one model replica
using BlockId = Id<struct BlockIdTag, std::uint32_t>;        // index into an instance's KV pool

// The identity of a full KV block's content together with all that precedes it: equal hashes
// mean an equal prefix. 0 is "no hash": such a block is never shared.
using BlockHash = Id<struct BlockHashTag>;

}  // namespace orrery

template <class Tag, class Rep>
struct std::hash<orrery::Id<Tag, Rep>> {
  std::size_t operator()(const orrery::Id<Tag, Rep>& id) const noexcept {
    return static_cast<std::size_t>(static_cast<std::uint64_t>(id.value) * 0x9e3779b97f4a7c15ULL >>
                                    7);
  }
};
