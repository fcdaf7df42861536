#include "runtime/policy/scheduler/orders.h"

#include <array>

namespace orrery::policy {
namespace {

OrderKey fcfs(const Sequence& s) { return {s.rank, 0, s.id.value}; }
OrderKey priority(const Sequence& s) { return {s.priority, s.arrival.ns(), s.id.value}; }

constexpr std::array<NamedOrder, 2> kOrders{{{"fcfs", fcfs}, {"priority", priority}}};

}  // namespace

std::span<const NamedOrder> registered_orders() { return kOrders; }

Order find_order(std::string_view name) {
  for (const NamedOrder& order : kOrders)
    if (order.name == name) return order.key;
  return nullptr;
}

}  // namespace orrery::policy
