// The fleet's log: one line an event, with its time and level. spdlog stays in the .cpp.
#pragma once
#include <string>

namespace orrery::deploy {

// Lines go to `path` (appended), and to standard error too when asked.
void open_log(const std::string& path, bool to_stderr);
void log_info(const std::string& text);
void log_warning(const std::string& text);
void log_error(const std::string& text);

}  // namespace orrery::deploy
