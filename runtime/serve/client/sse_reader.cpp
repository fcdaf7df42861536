#include "runtime/serve/client/sse_reader.h"

#include <utility>

namespace orrery::serve {

std::vector<std::string> SseReader::push(std::string_view bytes) {
  std::vector<std::string> events;
  for (const char c : bytes) {
    if (std::exchange(skip_newline_, false) && c == '\n') continue;  // of "\r\n"
    if (c != '\n' && c != '\r') {
      line_ += c;
      continue;
    }
    skip_newline_ = c == '\r';
    if (line_.empty()) {  // the end of an event
      if (std::exchange(has_data_, false)) events.push_back(std::exchange(data_, {}));
      continue;
    }
    if (line_.starts_with("data:")) {
      if (has_data_) data_ += '\n';
      has_data_ = true;
      data_ += line_.substr(line_.size() > 5 && line_[5] == ' ' ? 6 : 5);
    }
    line_.clear();
  }
  return events;
}

}  // namespace orrery::serve
