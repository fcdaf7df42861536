// OutputFile: a file that appears under its name only when it is complete.
#pragma once
#include <memory>
#include <string>

#include "runtime/host/files.h"

namespace orrery::cli {

class OutputFile {
 public:
  explicit OutputFile(std::string path);  // "-" is standard output
  ~OutputFile();                          // removes what was not kept
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  std::unique_ptr<host::ByteWriter> open();
  void keep();  // after the writer was closed

 private:
  std::string path_, partial_;
};

}  // namespace orrery::cli
