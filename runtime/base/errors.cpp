#include "runtime/base/errors.h"

#include <utility>

namespace orrery {

InputError::InputError(Place place, std::string found, std::string expected)
    : place_(std::move(place)), found_(std::move(found)), expected_(std::move(expected)) {
  message_ = place_.file;
  if (place_.line > 0) message_ += ":" + std::to_string(place_.line);
  if (!place_.field.empty()) message_ += ": " + place_.field;
  message_ += ": found " + found_ + ", expected " + expected_;
}

}  // namespace orrery
