// orrery: one binary, one command a file (command.h). Finds the command, reads its options and
// turns what it throws into exit codes.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/json.h"
#include "runtime/host/process.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"
#include "tools/orrery/help.h"

namespace orrery::cli {
namespace {

int complain(const std::string& text, int code) {
  std::fflush(stdout);
  std::fprintf(stderr, "orrery: %s\n", text.c_str());
  return code;
}

// What stands on the command line before options are understood.
struct Words {
  std::vector<std::string> rest;  // without the command's own words
  const Command* command = nullptr;
};

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

// Common options may also stand before the command: `orrery --seed 3 simulate …`.
std::size_t first_command_word(const std::vector<std::string>& words) {
  std::size_t at = 0;
  while (at < words.size() && is_option(words[at]))
    at += words[at] == "--seed" || words[at] == "--progress" ? 2 : 1;
  return std::min(at, words.size());
}

// The command whose words stand at `at`; the longest name wins ("trace inspect").
const Command* command_at(const std::vector<std::string>& words, std::size_t at) {
  const Command* best = nullptr;
  std::size_t best_words = 0;
  for (const Command& command : commands()) {
    const std::vector<std::string> name = CLI::detail::split(command.name, ' ');
    if (name.size() <= best_words || at + name.size() > words.size()) continue;
    if (std::equal(name.begin(), name.end(), words.begin() + static_cast<std::ptrdiff_t>(at)))
      best = &command, best_words = name.size();
  }
  return best;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const auto nearest = did_you_mean(word, candidates);
  return nearest ? " (did you mean " + *nearest + "?)" : "";
}

int unknown_command(const std::vector<std::string>& words, std::size_t at) {
  const std::string& first = words[at];
  for (const MissingCommand& missing : missing_commands()) {
    if (first != missing.name) continue;
    if (std::find(words.begin(), words.end(), "--help") != words.end()) {
      print_line("orrery " + first + ": " + missing.summary + ".\nNot in this build yet.");
      return kDone;
    }
    return complain(first + " is not in this build yet (" + missing.summary + ")", kUnsupported);
  }
  if (const std::string help = group_help(first); !help.empty()) {
    if (at + 1 >= words.size() || is_option(words[at + 1])) {
      const bool asked =
          at + 1 < words.size() && (words[at + 1] == "--help" || words[at + 1] == "-h");
      std::fputs(help.c_str(), asked ? stdout : stderr);
      return asked ? kDone : kBadInput;
    }
    const std::string typed = first + " " + words[at + 1];
    return complain("found \"" + typed + "\", expected a command" + suggestion(typed, all_names()) +
                        "; see orrery " + first + " --help",
                    kBadInput);
  }
  return complain("found \"" + first + "\", expected a command" + suggestion(first, all_names()) +
                      "; see orrery --help",
                  kBadInput);
}

// An argument that the command does not take, with the nearest option where one was mistyped.
std::string unexpected_argument(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return "found an argument too many, expected none";
  const std::string word = extras.front().substr(0, extras.front().find('='));
  std::string text = "found \"" + extras.front() + "\", expected ";
  if (!is_option(word)) return text + "no further argument";
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  return text + "an option of this command" + suggestion(word, known);
}

// CLI11 says "Could not convert: --seed = x".
std::string unreadable_value(const std::string& text) {
  const std::string start = "Could not convert: ", middle = " = ";
  const std::size_t at = text.find(middle);
  if (!text.starts_with(start) || at == std::string::npos) return text;
  return text.substr(start.size(), at - start.size()) + ": found " +
         text.substr(at + middle.size()) + ", expected a number";
}

int bad_options(const CLI::App& app, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  const std::string& name = app.get_name();
  return complain(
      name.substr(std::string("orrery ").size()) + ": " + text + "; see " + name + " --help",
      kBadInput);
}

void add_common_options(CLI::App& app, Globals& globals) {
  const char* group = "Every command";
  app.set_help_flag("-h,--help", "This text")->group(group);
  app.add_flag("--json", globals.json, "One JSON document on stdout and nothing else")
      ->group(group);
  app.add_option("--progress", globals.progress, "auto (on a terminal, over 1 s), never or always")
      ->check(
          [](const std::string& word) {
            const bool known = word == "auto" || word == "never" || word == "always";
            return known ? std::string() : "found " + word + ", expected auto, never or always";
          },
          "{auto,never,always}")
      ->group(group);
  // Without the check "-1" would be read as 2^64 - 1.
  app.add_option("--seed", globals.seed, "Seed of everything random (default 1)")
      ->check(
          [](const std::string& word) {
            return word.starts_with('-') ? "found " + word + ", expected a whole number from 0"
                                         : std::string();
          },
          "")
      ->group(group);
}

int run_command(const Command& command, std::vector<std::string> args, Globals& globals) {
  CLI::App app(command.summary, "orrery " + std::string(command.name));
  app.get_formatter()->column_width(34);
  app.get_formatter()->label("REQUIRED", "(required)");
  const auto body = command.setup(app, globals);
  add_common_options(app, globals);
  try {
    std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
    app.parse(args);
  } catch (const CLI::CallForHelp&) {
    std::string help = app.help();
    while (help.ends_with("\n\n")) help.pop_back();
    std::fputs((help + examples_help(command)).c_str(), stdout);
    return kDone;
  } catch (const CLI::ExtrasError&) {
    return bad_options(app, unexpected_argument(app));
  } catch (const CLI::ConversionError& error) {
    return bad_options(app, unreadable_value(error.what()));
  } catch (const CLI::ParseError& error) {
    return bad_options(app, error.what());
  }
  return body();
}

int dispatch(int argc, char** argv) {
  Globals globals;
  globals.argc = argc;
  globals.argv = argv;
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "help") {  // `orrery help simulate`
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  const std::size_t at = first_command_word(words);
  const auto before = words.begin() + static_cast<std::ptrdiff_t>(at);
  if (std::find(words.begin(), before, "--version") != before) {
    if (std::find(words.begin(), before, "--json") != before)
      print_json(Json{{"name", "orrery"}, {"version", ORRERY_VERSION}});
    else
      print_line(version_line());
    return kDone;
  }
  if (at == words.size()) {
    if (!words.empty() && std::find(words.begin(), words.end(), "--help") == words.end() &&
        words[0] != "-h")
      return complain("found \"" + words[0] + "\", expected a command" +
                          suggestion(words[0], {"--help", "--version", "--json"}) +
                          "; see orrery --help",
                      kBadInput);
    std::fputs(general_help().c_str(), stdout);
    return kDone;
  }
  for (auto word = words.begin(); word != before; ++word) {
    const std::string name = word->substr(0, word->find('='));
    const std::vector<std::string> known = {"--json", "--progress", "--seed", "--help",
                                            "--version"};
    if (is_option(*word) && std::find(known.begin(), known.end(), name) == known.end())
      return complain("found \"" + *word + "\", expected a command or a common option" +
                          suggestion(name, known) + "; see orrery --help",
                      kBadInput);
  }
  const Command* command = command_at(words, at);
  if (command == nullptr) return unknown_command(words, at);
  const auto name_words = CLI::detail::split(command->name, ' ').size();
  words.erase(before, before + static_cast<std::ptrdiff_t>(name_words));
  return run_command(*command, std::move(words), globals);
}

int flush_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (errno == EPIPE) return code;  // the reader (head, less) had enough
  std::fprintf(stderr, "orrery: standard output: found %s, expected a place that can be written\n",
               std::generic_category().message(errno).c_str());
  return kBadInput;
}

int run(int argc, char** argv) {
  try {
    return flush_output(dispatch(argc, argv));
  } catch (const InputError& e) {
    return complain(e.what(), kBadInput);
  } catch (const Unsupported& e) {
    return complain(e.what(), kUnsupported);
  } catch (const std::exception& e) {
    return complain(std::string("our fault: ") + e.what() +
                        "\nreplay with: " + host::quoted_command_line(argc, argv),
                    kOurFault);
  }
}

}  // namespace
}  // namespace orrery::cli

int main(int argc, char** argv) {
  // A closed pipe or connection is an error of one write, never the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  orrery::host::install_check_handler(argc, argv);
  return orrery::cli::run(argc, argv);
}
