// StopFilter: ends a stream of text at the first stop string, which is not part of the answer.
// It holds back the longest end of the text that could still become a stop string.
//
// Laws (tests/serve/stop_filter_test.cpp): the pushes joined equal the whole text cut at the
// earliest end of a stop string, however the text was cut into pushes; nothing held back is longer
// than the longest stop string less one byte.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace orrery::serve {

class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops);  // empty ones are ignored
  // Text that may leave now. After stopped() is true: nothing more comes out.
  std::string push(std::string_view text);
  // At the end of the stream: what was held back.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace orrery::serve
