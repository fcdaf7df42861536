#include "runtime/policy/scheduler/victims.h"

#include <array>
#include <tuple>

namespace orrery::policy {
namespace {

std::size_t newest(std::span<const Sequence>, std::span<const std::uint32_t> running) {
  return running.size() - 1;
}

std::size_t lowest_priority(std::span<const Sequence> sequences,
                            std::span<const std::uint32_t> running) {
  const auto key = [&](std::size_t i) {
    const Sequence& s = sequences[running[i]];
    return std::tuple(s.priority, s.arrival.ns(), s.id.value);
  };
  std::size_t worst = 0;
  for (std::size_t i = 1; i < running.size(); ++i)
    if (key(i) > key(worst)) worst = i;
  return worst;
}

constexpr std::array<NamedVictim, 2> kVictims{
    {{"newest", newest}, {"lowest_priority", lowest_priority}}};

}  // namespace

std::span<const NamedVictim> registered_victims() { return kVictims; }

Victim find_victim(std::string_view name) {
  for (const NamedVictim& victim : kVictims)
    if (victim.name == name) return victim.choose;
  return nullptr;
}

}  // namespace orrery::policy
