// RequestLog: one CSV row a request, in the order in which they end. Times in milliseconds from
// the request's intended arrival; empty where there was none.
#pragma once
#include <memory>
#include <string>

#include "runtime/host/files.h"
#include "sim/simulate.h"

namespace orrery::sim {

class RequestLog {
 public:
  explicit RequestLog(const std::string& path);  // ".zst" and ".gz" compress
  void add(const RequestOutcome& outcome);
  void close();

 private:
  std::unique_ptr<host::ByteWriter> out_;
  std::string buffer_;
};

}  // namespace orrery::sim
