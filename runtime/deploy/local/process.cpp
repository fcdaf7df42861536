#include "runtime/deploy/local/process.h"

#include <deque>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/errors.h"

extern char** environ;

namespace orrery::deploy {
namespace {

constexpr int kReadyDescriptor = 3;

}  // namespace

Child start_child(const ChildSpec& spec) {
  std::vector<char*> argv;
  for (const std::string& word : spec.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  int ready[2] = {-1, -1};
  if (spec.ready_pipe && pipe2(ready, O_CLOEXEC) != 0) {
    throw InputError({spec.argv[0], 0, ""}, strerror(errno), "room for one more pipe");
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, spec.log_path.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  if (spec.ready_pipe) posix_spawn_file_actions_adddup2(&files, ready[1], kReadyDescriptor);
  // Listening sockets, the lock, other children's pipes: none of it is the child's.
  posix_spawn_file_actions_addclosefrom_np(&files, spec.ready_pipe ? kReadyDescriptor + 1 : 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);  // Ctrl-C at the terminal is not for workers
  posix_spawnattr_setflags(
      &attributes,
      static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                         (spec.new_session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP)));
  Child child;
  const int error =
      posix_spawn(&child.pid, spec.argv[0].c_str(), &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (ready[1] >= 0) close(ready[1]);
  child.ready_fd = ready[0];
  if (error != 0) {
    if (ready[0] >= 0) close(ready[0]);
    throw InputError({spec.argv[0], 0, ""}, strerror(error), "a program that starts");
  }
  return child;
}

std::string describe_exit(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    return "killed by signal " + std::to_string(number) + " (" + strsignal(number) + ")";
  }
  return "exit code " + std::to_string(WEXITSTATUS(wait_status));
}

std::string last_lines(const std::string& path, int count) {
  std::ifstream in(path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
    if (lines.size() > static_cast<std::size_t>(count)) lines.pop_front();
  }
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "\n") + line;
  return out;
}

std::optional<FleetLock> FleetLock::try_take(const std::string& state_dir) {
  std::error_code ignored;
  std::filesystem::create_directories(state_dir, ignored);
  const std::string path = state_dir + "/fleet.lock";
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    throw InputError({path, 0, ""}, strerror(errno),
                     "a folder this user may write (ORRERY_STATE_DIR chooses another)");
  }
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    close(descriptor);
    return std::nullopt;
  }
  return FleetLock(descriptor);
}

bool FleetLock::held(const std::string& state_dir) {
  const std::string path = state_dir + "/fleet.lock";
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return false;
  // Shared: two commands that ask at once do not take each other for a fleet.
  const bool free = flock(descriptor, LOCK_SH | LOCK_NB) == 0;
  close(descriptor);
  return !free;
}

FleetLock::FleetLock(FleetLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}
FleetLock::~FleetLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace orrery::deploy
