// Orders of the waiting queue, registered by name. An order is a key: the smallest goes first, and
// each key ends in the request's id, so that no two are equal.
#pragma once
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/policy/scheduler/sequence.h"

namespace orrery::policy {

struct OrderKey {
  std::int64_t first = 0;
  std::int64_t second = 0;
  std::uint64_t id = 0;
  auto operator<=>(const OrderKey&) const = default;
};
using Order = OrderKey (*)(const Sequence&);

// fcfs: by submission; a preempted request goes to the front.
// priority: by priority (smaller first), then arrival.
struct NamedOrder {
  std::string_view name;
  Order key;
};
std::span<const NamedOrder> registered_orders();
Order find_order(std::string_view name);  // nullptr: not registered

}  // namespace orrery::policy
