// What touches the machine: whole files and streams of lines, plain, gzip or zstd by content.
// Every other room that needs a file comes through here; runtime/base and runtime/policy may not.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/json.h"

namespace orrery::host {

// Whole file, decompressed. Throws InputError (missing, a directory, unreadable, corrupt).
std::string read_file(const std::string& path);
// Writes whole and atomically (temporary file, then rename; a device or pipe is written in place);
// ".gz"/".zst" endings compress.
void write_file(const std::string& path, std::string_view text);
std::shared_ptr<const JsonDocument> read_json(const std::string& path);

// A forward reader over a possibly compressed file in bounded memory.
class ByteReader {
 public:
  virtual ~ByteReader() = default;
  // The next chunk, empty at the end; valid until the next call. Throws InputError when corrupt.
  virtual std::string_view next_chunk() = 0;
};
std::unique_ptr<ByteReader> open_reader(const std::string& path);  // "-" is standard input

// Lines without their "\n" or "\r\n"; a last line without newline counts.
class LineReader {
 public:
  explicit LineReader(std::unique_ptr<ByteReader> bytes) : bytes_(std::move(bytes)) {}
  // False at the end. `line` is valid until the next call.
  bool next(std::string_view& line) {
    const void* end = chunk_.empty() ? nullptr : std::memchr(chunk_.data(), '\n', chunk_.size());
    if (end == nullptr) return next_across_chunks(line);
    const auto length = static_cast<std::size_t>(static_cast<const char*>(end) - chunk_.data());
    line = without_cr(chunk_.substr(0, length));
    chunk_.remove_prefix(length + 1);
    ++number_;
    return true;
  }
  std::int64_t line_number() const { return number_; }  // 1-based, of the line last returned
  bool saw_crlf() const { return saw_crlf_; }
  bool missing_final_newline() const { return missing_final_newline_; }  // known at the end

 private:
  bool next_across_chunks(std::string_view& line);
  std::string_view without_cr(std::string_view line) {
    if (line.empty() || line.back() != '\r') return line;
    saw_crlf_ = true;
    return line.substr(0, line.size() - 1);
  }
  std::unique_ptr<ByteReader> bytes_;
  std::string_view chunk_;
  std::string carry_;  // a line that crosses chunks
  std::int64_t number_ = 0;
  bool saw_crlf_ = false, missing_final_newline_ = false;
};

// A forward writer; compresses by file ending. close() reports errors; the destructor only tries.
class ByteWriter {
 public:
  virtual ~ByteWriter() = default;
  virtual void write(std::string_view bytes) = 0;
  virtual void flush() = 0;  // hands all bytes so far to the operating system
  virtual void close() = 0;
};
std::unique_ptr<ByteWriter> open_writer(const std::string& path);  // "-" is standard output

}  // namespace orrery::host
