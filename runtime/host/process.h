// The process: wall clock, signals, memory use, paths of the project's own data.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/base/units.h"

namespace orrery::host {

Time monotonic_now();           // since an arbitrary start; never jumps
Duration thread_cpu_time();     // processor time of the calling thread so far
double wall_clock_seconds();    // seconds since 1970, UTC
std::int64_t peak_rss_bytes();  // of this process so far
// True once SIGINT or SIGTERM came (install_stop_signals first). Long work polls this.
void install_stop_signals();
bool stop_requested();
// Prints a failed CHECK with the command line that replays it and exits with 70.
void install_check_handler(int argc, char** argv);
// The command line as it can be pasted into a shell.
std::string quoted_command_line(int argc, char** argv);
// The folder that holds scenarios/ (data that comes with the project): $ORRERY_HOME, else found
// from the executable's place upwards. Throws InputError naming what was looked for.
// The catalogue is then data_dir() + "/scenarios/catalog".
std::string data_dir();
std::string executable_path();  // of this process, for starting ourselves again
// State of this user's fleet: $ORRERY_STATE_DIR, else ${XDG_STATE_HOME:-~/.local/state}/orrery.
std::string state_dir();

}  // namespace orrery::host
