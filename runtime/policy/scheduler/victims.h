// Victims: which running request loses its blocks when the pool has none left. Registered by name.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/policy/scheduler/sequence.h"

namespace orrery::policy {

// Index into `running` (slots in running order, never empty) of the one to preempt.
using Victim = std::size_t (*)(std::span<const Sequence> sequences,
                               std::span<const std::uint32_t> running);

// newest: the last that entered the batch. lowest_priority: the largest (priority, arrival, id).
struct NamedVictim {
  std::string_view name;
  Victim choose;
};
std::span<const NamedVictim> registered_victims();
Victim find_victim(std::string_view name);  // nullptr: not registered

}  // namespace orrery::policy
