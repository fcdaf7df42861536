#include "runtime/host/process.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/check.h"
#include "runtime/base/errors.h"

namespace orrery::host {
namespace {

namespace fs = std::filesystem;

std::atomic<bool> g_stop = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

extern "C" void on_stop_signal(int) { g_stop.store(true); }

std::string g_command_line;  // for the CHECK handler

[[noreturn]] void report_failed_check(const char* where, const char* expression,
                                      const char* detail) {
  std::fprintf(stderr, "orrery: a broken invariant at %s: %s%s%s\nreplay with: %s\n", where,
               expression, detail[0] != '\0' ? ": " : "", detail, g_command_line.c_str());
  constexpr int kOurFault = 70;
  ::_exit(kOurFault);
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets them
  return value != nullptr && value[0] != '\0' ? value : nullptr;
}

bool holds_scenarios(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "scenarios", ignored);
}

}  // namespace

Time monotonic_now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return Time(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

Duration thread_cpu_time() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return seconds(t.tv_sec) + Duration(t.tv_nsec);
}

double wall_clock_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{1024} * usage.ru_maxrss;
}

void install_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  // A second Ctrl-C ends the process at once, whatever it is doing. No SA_RESTART: a blocking
  // read or wait returns, so that its loop sees the request.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() { return g_stop.load(std::memory_order_relaxed); }

std::string quoted_command_line(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-+=./:,@%") == std::string::npos;
    if (i > 0) line += ' ';
    if (plain) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? "'\\''" : std::string(1, c);
    line += '\'';
  }
  return line;
}

void install_check_handler(int argc, char** argv) {
  g_command_line = quoted_command_line(argc, argv);
  set_check_handler(report_failed_check);
}

std::string executable_path() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).string();
}

std::string data_dir() {
  if (const char* home = environment("ORRERY_HOME")) {
    if (!holds_scenarios(home))
      throw InputError({"ORRERY_HOME", 0, ""}, std::string(home), "a folder that holds scenarios/");
    return home;
  }
  const fs::path executable = executable_path();
  for (fs::path folder = executable.parent_path(); !folder.empty(); folder = folder.parent_path()) {
    if (holds_scenarios(folder)) return folder.string();
    if (holds_scenarios(folder / "share" / "orrery")) return (folder / "share" / "orrery").string();
    if (folder == folder.root_path()) break;
  }
  throw InputError({"scenarios/", 0, ""}, "no such folder above " + executable.string(),
                   "the project's data; set ORRERY_HOME to the folder that holds it");
}

std::string state_dir() {
  if (const char* own = environment("ORRERY_STATE_DIR")) return own;
  if (const char* xdg = environment("XDG_STATE_HOME")) return std::string(xdg) + "/orrery";
  if (const char* home = environment("HOME")) return std::string(home) + "/.local/state/orrery";
  throw InputError({"HOME", 0, ""}, "not set", "a home folder, or ORRERY_STATE_DIR");
}

}  // namespace orrery::host
