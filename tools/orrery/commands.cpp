// The list of commands, by task.
#include "tools/orrery/command.h"

namespace orrery::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {};
  return list;
}

}  // namespace orrery::cli
