// Traces from a text in memory, for tests.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/host/files.h"
#include "traces/trace.h"
#include "traces/writer.h"

namespace orrery::traces {

class TextReader : public host::ByteReader {
 public:
  explicit TextReader(std::string text, std::size_t chunk = 4096)
      : text_(std::move(text)), chunk_(chunk) {}
  std::string_view next_chunk() override {
    const std::string_view all(text_);
    const std::string_view part = all.substr(at_, chunk_);
    at_ += part.size();
    return part;
  }

 private:
  const std::string text_;
  const std::size_t chunk_;
  std::size_t at_ = 0;
};

struct ReadResult {
  std::vector<TraceRequest> rows;
  ReadReport report;
};

inline ReadResult read_all(std::unique_ptr<TraceFile> file) {
  ReadResult result;
  TraceRequest request;
  while (file->next(request)) result.rows.push_back(request);
  result.report = file->report();
  return result;
}

inline ReadResult read_text(std::string text, const ReadOptions& options = {}) {
  return read_all(open_trace(std::make_unique<TextReader>(std::move(text)), "trace.txt", options));
}

inline const RowProblem* find_problem(const std::vector<RowProblem>& list, std::string_view kind) {
  for (const RowProblem& p : list)
    if (p.kind == kind) return &p;
  return nullptr;
}

// Requests from a vector, as a source.
class ListSource : public RequestSource {
 public:
  explicit ListSource(std::vector<TraceRequest> rows) : rows_(std::move(rows)) {}
  bool next(TraceRequest& request) override {
    if (at_ == rows_.size()) return false;
    request = rows_[at_++];
    return true;
  }

 private:
  const std::vector<TraceRequest> rows_;
  std::size_t at_ = 0;
};

class TextWriter : public host::ByteWriter {
 public:
  explicit TextWriter(std::string& out) : out_(out) {}
  void write(std::string_view bytes) override { out_ += bytes; }
  void flush() override {}
  void close() override {}

 private:
  std::string& out_;
};

struct WriteResult {
  std::string text;
  std::vector<Loss> losses;
  std::int64_t rows = 0;
  std::int64_t lost(std::string_view what) const {
    for (const Loss& l : losses)
      if (l.what.substr(0, what.size()) == what) return l.rows;
    return 0;
  }
};

inline WriteResult write_rows(const std::vector<TraceRequest>& rows, const std::string& format,
                              const WriteOptions& options = {}) {
  WriteResult result;
  const auto writer = make_writer(format, std::make_unique<TextWriter>(result.text), options);
  for (const TraceRequest& r : rows) writer->write(r);
  writer->close();
  result.losses = writer->losses();
  result.rows = writer->rows();
  return result;
}

// A file of the public data set, or empty where it is not there: then the test skips.
inline std::string public_trace(const std::string& name) {
  const char* shared = std::getenv("ORRERY_SHARED");
  const std::string path =
      std::string(shared != nullptr ? shared : ORRERY_SOURCE_DIR "/../shared") + "/data/traces/" +
      name;
  return std::filesystem::exists(path) ? path : std::string();
}

}  // namespace orrery::traces
