// The canonical trace: one request a row, streamed, so memory does not grow with the trace.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/units.h"

namespace orrery::host {
class ByteReader;
}

namespace orrery::traces {

struct TraceRequest {
  std::int64_t row = 0;  // 0-based among good rows, in arrival order; also the default id
  Duration arrival;      // since the trace's start; meaning with `after`: see below
  // The whole prompt of this turn, history included; >= 1 for a good request.
  std::int64_t input_tokens = 0;
  // >= 1 for a good request of a kind that generates; 0 there: it failed (ok == false).
  std::int64_t output_tokens = 0;
  std::optional<std::int64_t> max_tokens;
  std::vector<std::uint64_t>
      hash_ids;  // one per block_tokens tokens of the prompt, the last may be partial
  std::int64_t block_tokens = 0;  // of hash_ids; 0: none given
  // Leading tokens of the prompt that are the session's previous prompt and answer; 0: not known.
  std::int64_t history_tokens = 0;
  std::string id;  // empty: the row number is its name
  std::string model, session, tenant, app, adapter, modality, kind, task;  // empty: not given
  std::string after;  // explicit id of an earlier request, whose answer this waits for; or empty
  std::optional<Duration>
      think;  // then it arrives this long after that answer (default: arrival difference)
  std::int32_t priority = 0;
  std::optional<Duration> deadline;
  bool ok = true;

  // Blocks of hash_ids that can be shared: a partial tail never matches, whatever its id.
  std::size_t full_blocks() const {
    if (block_tokens <= 0) return 0;
    return std::min(hash_ids.size(), static_cast<std::size_t>(input_tokens / block_tokens));
  }
  void clear();  // to the state of a new one, keeping the strings' memory
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
  std::string start;           // wall-clock time of arrival 0, as ISO 8601, when the file tells it
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
  std::string time_unit = "auto";  // of numeric timestamps: s, ms, us, ns; auto: the format's own
  // "full": each row holds the whole prompt. "delta": only the turn's new tokens; the prompt is
  // then the session's previous prompt and answer and these. auto: as the file says, else full.
  std::string turns = "auto";
  std::int64_t block_tokens = 0;  // of hash_ids where rows do not say; 0: the format's own
};

// A trace file read as a stream. report() is complete once next() has returned false; more than
// 1 % bad rows then throws InputError unless tolerated.
class TraceFile : public RequestSource {
 public:
  virtual const ReadReport& report() const = 0;
};
std::unique_ptr<TraceFile> open_trace(const std::string& path, const ReadOptions& options = {});
// The same from bytes that come from elsewhere; `name` stands for the path in messages.
std::unique_ptr<TraceFile> open_trace(std::unique_ptr<host::ByteReader> bytes,
                                      const std::string& name, const ReadOptions& options = {});

}  // namespace orrery::traces
