// What an error says was expected where a name is not in a table of registered ones. Keeps no
// state; the order is the table's.
#pragma once
#include <string>

namespace orrery::policy {

// "one of: fcfs, priority" of a table whose entries have a name.
template <class Table>
std::string one_of_names(const Table& table) {
  std::string names;
  for (const auto& entry : table) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return "one of: " + names;
}

}  // namespace orrery::policy
