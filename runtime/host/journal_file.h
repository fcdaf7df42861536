// Journal files: the format is stated in runtime/base/journal.h.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/journal.h"

namespace orrery::host {

// A sink that appends to `path` (truncated first). Keep the returned object alive while writing.
class JournalFileWriter {
 public:
  explicit JournalFileWriter(const std::string& path);
  ~JournalFileWriter();
  JournalWriter::Sink sink();
  void flush();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Reads records in order and checks the running hash after each. Throws InputError naming the
// file and the record (its number from 0) that is cut short or altered.
class JournalFileReader {
 public:
  explicit JournalFileReader(const std::string& path);
  ~JournalFileReader();
  std::optional<JournalRecord> next();
  std::uint64_t record_number() const;  // of the record last returned
  std::uint64_t hash() const;           // running hash after it

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace orrery::host
