#include "runtime/deploy/local/log.h"

#include <memory>
#include <vector>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace orrery::deploy {

void open_log(const std::string& path, bool to_stderr) {
  std::vector<spdlog::sink_ptr> sinks{std::make_shared<spdlog::sinks::basic_file_sink_mt>(path)};
  if (to_stderr) sinks.push_back(std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto logger = std::make_shared<spdlog::logger>("fleet", sinks.begin(), sinks.end());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}
void log_info(const std::string& text) { spdlog::info("{}", text); }
void log_warning(const std::string& text) { spdlog::warn("{}", text); }
void log_error(const std::string& text) { spdlog::error("{}", text); }

}  // namespace orrery::deploy
