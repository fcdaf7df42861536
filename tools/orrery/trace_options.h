// Options that the trace commands share: how a file is read, and how its time is changed.
#pragma once
#include <string>

#include "traces/trace.h"
#include "traces/transform.h"

namespace CLI {
class App;
}

namespace orrery::cli {

struct ReadArguments {
  std::string file;
  traces::ReadOptions options;
  bool unit_given() const { return options.time_unit != "auto"; }
};
void add_read_options(CLI::App& app, ReadArguments& arguments);

}  // namespace orrery::cli
