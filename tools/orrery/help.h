// The texts of orrery --help, of a command's --help and of its errors, from the list of commands.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tools/orrery/command.h"

namespace orrery::cli {

// Understood, but not in this build: exit code 3 and what it is waiting for.
struct MissingCommand {
  const char* name;
  const char* summary;
};
const std::vector<MissingCommand>& missing_commands();

std::string version_line();
std::string general_help();
// The commands that start with this word ("trace"), for `orrery trace --help`; empty: there are
// none.
std::string group_help(std::string_view first_word);
// Appended to the options of `orrery COMMAND --help`.
std::string examples_help(const Command& command);
// Names of all commands, for suggestions.
std::vector<std::string> all_names();

}  // namespace orrery::cli
