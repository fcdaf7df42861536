// ORRERY_CHECK: a broken invariant stops the program with a message; it is never bad input.
// The library itself writes nothing: the process installs a handler that prints and exits with 70.
#pragma once
#include <string>

namespace orrery {

// Called with file:line, the expression and a detail. Must not return. Default: std::abort.
using CheckHandler = void (*)(const char* where, const char* expression, const char* detail);
void set_check_handler(CheckHandler handler);

[[noreturn]] void check_failed(const char* where, const char* expression,
                               const std::string& detail = {});

}  // namespace orrery

#define ORRERY_CHECK_STR2(x) #x
#define ORRERY_CHECK_STR(x) ORRERY_CHECK_STR2(x)
// ORRERY_CHECK(condition) or ORRERY_CHECK(condition, std::string detail)
#define ORRERY_CHECK(condition, ...)                                                              \
  (static_cast<bool>(condition) ? void(0)                                                         \
                                : ::orrery::check_failed(__FILE__ ":" ORRERY_CHECK_STR(__LINE__), \
                                                         #condition __VA_OPT__(, ) __VA_ARGS__))
