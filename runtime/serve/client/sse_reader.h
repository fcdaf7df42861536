// SseReader: splits a stream of server-sent events into the data of each event, however the bytes
// were cut. Law (tests/serve/sse_reader_test.cpp): feeding byte by byte gives the same events.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace orrery::serve {

class SseReader {
 public:
  // The data of the events that are complete now ("[DONE]" included); comments give none.
  std::vector<std::string> push(std::string_view bytes);

 private:
  std::string line_, data_;
  bool has_data_ = false, skip_newline_ = false;
};

}  // namespace orrery::serve
