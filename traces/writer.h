// Traces written out, a request at a time. A new exporter is a TraceWriter and one line in the
// table of writer.cpp. Every field that the target cannot hold is counted, so that nothing is lost
// silently.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/host/files.h"
#include "traces/trace.h"

namespace orrery::traces {

// What of the trace is not in the file written.
struct Loss {
  std::string what;  // a field's name, or a sentence about its precision
  std::int64_t rows = 0;
};

struct WriteOptions {
  std::string start;  // wall-clock time of arrival 0, when known
};

class TraceWriter {
 public:
  explicit TraceWriter(std::unique_ptr<host::ByteWriter> out) : out_(std::move(out)) {}
  virtual ~TraceWriter() = default;
  // In order of arrival.
  virtual void write(const TraceRequest& request) = 0;
  void close();  // flushes and reports errors of the file
  std::int64_t rows() const { return rows_; }
  const std::vector<Loss>& losses() const { return losses_; }

 protected:
  void lose(std::string_view what);
  void put(std::string_view text);  // buffered
  std::int64_t rows_ = 0;

 private:
  std::unique_ptr<host::ByteWriter> out_;
  std::string buffer_;
  std::vector<Loss> losses_;
};

// `format`: orrery, mooncake, azure, burstgpt, openai-batch. Throws InputError for another name.
std::unique_ptr<TraceWriter> make_writer(const std::string& format,
                                         std::unique_ptr<host::ByteWriter> out,
                                         const WriteOptions& options = {});
std::vector<std::string> writer_formats();

// Fields of a request, for counting what a format does not hold.
enum Field : unsigned {
  kHashIds = 1u << 0,
  kModel = 1u << 1,
  kSession = 1u << 2,
  kTenant = 1u << 3,
  kApp = 1u << 4,
  kAdapter = 1u << 5,
  kModality = 1u << 6,
  kKind = 1u << 7,
  kTask = 1u << 8,
  kId = 1u << 9,
  kAfter = 1u << 10,
  kThink = 1u << 11,
  kPriority = 1u << 12,
  kDeadline = 1u << 13,
  kMaxTokens = 1u << 14,
  kHistory = 1u << 15,
  kArrival = 1u << 16,
  kOutput = 1u << 17,
  kOk = 1u << 18,
};
// Names of the fields that the request has and `kept` lacks.
std::vector<std::string_view> fields_lost(const TraceRequest& request, unsigned kept);

// Text of about `input_tokens` tokens, a word each: equal blocks have equal text, so that a prefix
// cache finds in the text what hash_ids say.
std::string filler_text(const TraceRequest& request);

void append_json_string(std::string& out, std::string_view text);

}  // namespace orrery::traces
