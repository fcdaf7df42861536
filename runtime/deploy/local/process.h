// Child processes of this machine's fleet, and the lock that says a fleet is alive.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace orrery::deploy {

struct ChildSpec {
  std::vector<std::string> argv;  // argv[0]: the program's path
  std::string log_path;           // standard output and error go here (appended)
  bool new_session = false;       // outlives the terminal; else only its own process group
  bool ready_pipe = false;        // descriptor 3 of the child writes to Child::ready_fd
};
struct Child {
  pid_t pid = 0;
  int ready_fd = -1;  // owned by the caller
};
// Throws InputError when the program cannot be started. No descriptor of ours leaks into it.
Child start_child(const ChildSpec& spec);

std::string describe_exit(int wait_status);  // "exit code 2", "killed by signal 9 (Killed)"
std::string last_lines(const std::string& path, int count);

// Held by the fleet's process for as long as it lives, however it ends.
class FleetLock {
 public:
  static std::optional<FleetLock> try_take(const std::string& state_dir);
  static bool held(const std::string& state_dir);  // by someone
  FleetLock(FleetLock&& other) noexcept;
  FleetLock& operator=(FleetLock&&) = delete;
  ~FleetLock();

 private:
  explicit FleetLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace orrery::deploy
