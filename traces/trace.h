// The canonical trace: one request a row, streamed, so memory does not grow with the trace.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/units.h"

namespace orrery::traces {

struct TraceRequest {
  std::int64_t row = 0;            // 0-based among good rows, in arrival order; also the default id
  Duration arrival;                // since the trace's start; meaning with `after`: see below
  std::int64_t input_tokens = 0;   // >= 1
  std::int64_t output_tokens = 0;  // >= 1 for a good request; 0: it failed (ok == false)
  std::optional<std::int64_t> max_tokens;
  std::vector<std::uint64_t>
      hash_ids;  // one per block_tokens tokens of the prompt, the last may be partial
  std::int64_t block_tokens = 0;  // of hash_ids; 0: none given
  std::string id;                 // empty: the row number is its name
  std::string model, session, tenant, app, adapter, modality, kind, task;  // empty: not given
  std::string after;  // id of the request whose answer this one waits for; empty: none
  std::optional<Duration>
      think;  // then it arrives this long after that answer (default: arrival difference)
  std::int32_t priority = 0;
  std::optional<Duration> deadline;
  bool ok = true;
};

// A forward stream of requests in non-decreasing arrival order.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  virtual bool next(TraceRequest& request) = 0;  // false at the end; strings are reused
};

// A bad row: skipped, counted by kind, with the line where the kind first showed.
struct RowProblem {
  std::string kind;  // "empty field", "negative tokens", "timestamp not understood", …
  std::int64_t count = 0;
  std::int64_t first_line = 0;
  std::string example;  // the offending text, shortened
};

struct ReadReport {
  std::string format;          // "orrery", "azure", "mooncake", "burstgpt"
  std::string timestamp_unit;  // what one unit of the file's time is
  std::int64_t rows = 0, good = 0, bad = 0, failed_requests = 0;
  std::vector<RowProblem> problems;  // bad rows by kind
  std::vector<RowProblem>
      oddities;  // handled: CRLF, no final newline, out of order, duplicates, ties
};

struct ReadOptions {
  bool tolerate = false;  // go on with more than 1 % bad rows
  std::string format = "auto";
  // Rows may be out of order (they are in Azure 2024): sorted through a window of this many rows;
  // a row that is older still is placed at the window's edge and counted.
  std::int64_t sort_window = 65536;
};

// A trace file read as a stream. report() is complete once next() has returned false; more than
// 1 % bad rows then throws InputError unless tolerated.
class TraceFile : public RequestSource {
 public:
  virtual const ReadReport& report() const = 0;
};
std::unique_ptr<TraceFile> open_trace(const std::string& path, const ReadOptions& options = {});

}  // namespace orrery::traces
