// The shape of a command: one file a command in this folder, one line in commands.cpp.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace orrery::cli {

// Exit codes, as documented for every command.
enum ExitCode { kDone = 0, kAnswerIsNo = 1, kBadInput = 2, kUnsupported = 3, kOurFault = 70 };

// Options that every command has.
struct Globals {
  bool json = false;              // --json: one JSON document on stdout and nothing else
  std::string progress = "auto";  // --progress=auto|never|always, on stderr
  std::uint64_t seed = 1;         // --seed
  int argc = 0;  // the command line as typed, for messages and for starting ourselves
  char** argv = nullptr;
};

struct Command {
  const char* group;        // heading in --help: "Traces", "Twin", "Plan", "Serve", "Check"
  const char* name;         // "simulate" or "trace inspect"
  const char* summary;      // one line
  const char* examples[2];  // work as pasted in a clone
  // Adds options to `app`; the function returned runs the command. It may throw InputError (exit 2)
  // and Unsupported (exit 3).
  std::function<int()> (*setup)(CLI::App& app, Globals& globals);
};

const std::vector<Command>& commands();

}  // namespace orrery::cli
