#include "tools/orrery/help.h"

#include <algorithm>

#include "tools/orrery/cli_support.h"

namespace orrery::cli {
namespace {

bool is_hidden(const Command& command) { return command.group[0] == '\0'; }

std::string names_and_summaries(const std::vector<std::pair<std::string, std::string>>& lines) {
  Table table({{"", Table::Align::kLeft}, {"", Table::Align::kLeft}});
  for (const auto& [name, summary] : lines) table.add({name, summary});
  return table.text(2);
}

}  // namespace

const std::vector<MissingCommand>& missing_commands() {
  static const std::vector<MissingCommand> list = [] {
    const std::vector<MissingCommand> all = {
        {"validate", "twin versus measurements: error by metric, load band, GPU, engine"},
        {"watch", "live view of the fleet"},
        {"diagnose", "what is wrong, the evidence, and what to change"},
        {"console", "the web page over runs, plans and the live fleet"},
    };
    std::vector<MissingCommand> missing;
    for (const MissingCommand& candidate : all) {
      const auto same = [&](const Command& c) {
        return std::string_view(c.name) == candidate.name;
      };
      if (std::none_of(commands().begin(), commands().end(), same)) missing.push_back(candidate);
    }
    return missing;
  }();
  return list;
}

std::string version_line() { return "orrery " ORRERY_VERSION; }

std::string general_help() {
  std::string out =
      "A digital twin of an LLM serving fleet, and the fleet: one brain turns both.\n\n"
      "usage: orrery COMMAND [OPTIONS]\n";
  std::vector<std::string> groups = {"Traces", "Twin", "Plan", "Serve", "Check"};  // as work goes
  for (const Command& command : commands())
    if (!is_hidden(command) &&
        std::find(groups.begin(), groups.end(), command.group) == groups.end())
      groups.emplace_back(command.group);
  std::size_t widest = 0;  // one column of names over all groups
  for (const std::string& name : all_names()) widest = std::max(widest, name.size());
  const auto padded = [&](const std::string& name) {
    return name + std::string(widest - name.size(), ' ');
  };
  for (const std::string& group : groups) {
    std::vector<std::pair<std::string, std::string>> lines;
    for (const Command& command : commands())
      if (group == command.group) lines.emplace_back(padded(command.name), command.summary);
    if (lines.empty()) continue;
    out += "\n" + styled(Style::kBold, group) + "\n" + names_and_summaries(lines);
  }
  if (!missing_commands().empty()) {
    std::vector<std::pair<std::string, std::string>> lines;
    for (const MissingCommand& command : missing_commands())
      lines.emplace_back(padded(command.name), command.summary);
    out += "\n" + styled(Style::kBold, "Understood, not in this build yet (exit code 3)") + "\n" +
           names_and_summaries(lines);
  }
  return out +
         "\nEvery command: --help (ends with two examples), --json (one JSON document on stdout "
         "and\n"
         "nothing else), --progress=auto|never|always, --seed N.\n"
         "Exit codes: 0 done; 1 done, and the answer is no; 2 bad input; 3 this build can't do "
         "it;\n"
         "70 our fault, with the command that replays it.\n";
}

std::string group_help(std::string_view first_word) {
  std::vector<std::pair<std::string, std::string>> lines;
  const std::string prefix = std::string(first_word) + " ";
  for (const Command& command : commands())
    if (std::string_view(command.name).starts_with(prefix))
      lines.emplace_back(command.name, command.summary);
  if (lines.empty()) return {};
  return "usage: orrery " + prefix + "COMMAND [OPTIONS]\n\n" + names_and_summaries(lines);
}

std::string examples_help(const Command& command) {
  std::string out = "\n" + styled(Style::kBold, "Examples:") + "\n";
  for (const char* example : command.examples) out += "  " + std::string(example) + "\n";
  return out;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const Command& command : commands())
    if (!is_hidden(command)) names.emplace_back(command.name);
  for (const MissingCommand& command : missing_commands()) names.emplace_back(command.name);
  return names;
}

}  // namespace orrery::cli
