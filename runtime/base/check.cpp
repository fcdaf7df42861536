#include "runtime/base/check.h"

#include <cstdlib>

namespace orrery {
namespace {
CheckHandler g_handler = nullptr;
}  // namespace

void set_check_handler(CheckHandler handler) { g_handler = handler; }

void check_failed(const char* where, const char* expression, const std::string& detail) {
  if (g_handler != nullptr) g_handler(where, expression, detail.c_str());
  std::abort();
}

}  // namespace orrery
