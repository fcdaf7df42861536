#include "runtime/host/journal_file.h"

#include <algorithm>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/hex.h"
#include "runtime/host/files.h"

namespace orrery::host {
namespace {

constexpr std::string_view kMagic = "ORRJRNL1";
// No decision has this many words; a larger count is an altered one, not a reason to allocate.
constexpr std::uint32_t kMostWords = 1U << 24;

template <class T>
void put(std::string& bytes, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

template <class T>
T get(std::string_view bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i));
  return value;
}

}  // namespace

struct JournalFileWriter::Impl {
  std::unique_ptr<ByteWriter> file;
  std::string bytes;
};

JournalFileWriter::JournalFileWriter(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->file = open_writer(path);
  impl_->file->write(kMagic);
}

JournalFileWriter::~JournalFileWriter() = default;

JournalWriter::Sink JournalFileWriter::sink() {
  return [impl = impl_.get()](std::uint32_t kind, std::span<const std::uint64_t> words,
                              std::uint64_t hash_after) {
    impl->bytes.clear();
    put(impl->bytes, kind);
    put(impl->bytes, static_cast<std::uint32_t>(words.size()));
    for (const std::uint64_t word : words) put(impl->bytes, word);
    put(impl->bytes, hash_after);
    impl->file->write(impl->bytes);
  };
}

void JournalFileWriter::flush() { impl_->file->flush(); }

struct JournalFileReader::Impl {
  std::string path;
  std::unique_ptr<ByteReader> file;
  std::string_view chunk;
  std::string bytes;
  JournalWriter running;  // takes the records again, for its hash

  InputError refusal(const std::string& found, const std::string& expected) const {
    return InputError({path, 0, "record " + std::to_string(running.count())}, found, expected);
  }

  // The next `size` bytes, fewer at the end of the file; valid until the next call.
  std::string_view take(std::size_t size) {
    if (chunk.empty()) chunk = file->next_chunk();
    if (chunk.size() >= size) {
      const std::string_view part = chunk.substr(0, size);
      chunk.remove_prefix(size);
      return part;
    }
    bytes.clear();
    while (bytes.size() < size) {
      if (chunk.empty()) chunk = file->next_chunk();
      if (chunk.empty()) break;
      const std::size_t part = std::min(size - bytes.size(), chunk.size());
      bytes += chunk.substr(0, part);
      chunk.remove_prefix(part);
    }
    return bytes;
  }

  std::string_view take_all(std::size_t size) {
    const std::string_view part = take(size);
    if (part.size() < size) throw refusal("a record cut short", "the whole record");
    return part;
  }
};

JournalFileReader::JournalFileReader(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->file = open_reader(path);
  if (impl_->take(kMagic.size()) != kMagic)
    throw InputError({path, 0, ""}, "another kind of file", "a journal (it starts with ORRJRNL1)");
}

JournalFileReader::~JournalFileReader() = default;

std::optional<JournalRecord> JournalFileReader::next() {
  const std::string_view head = impl_->take(8);
  if (head.empty()) return std::nullopt;
  if (head.size() < 8) throw impl_->refusal("a record cut short", "the whole record");
  JournalRecord record;
  record.kind = get<std::uint32_t>(head);
  const auto count = get<std::uint32_t>(head.substr(4));
  if (count > kMostWords)
    throw impl_->refusal(std::to_string(count) + " words", "a record as it was written");
  const std::string_view body = impl_->take_all(std::size_t{8} * count);
  record.words.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    record.words.push_back(get<std::uint64_t>(body.substr(8 * i)));
  const auto written = get<std::uint64_t>(impl_->take_all(8));
  JournalWriter after = impl_->running;
  after.append(record.kind, record.words);
  if (after.hash() != written) {
    throw impl_->refusal("running hash " + hex(written),
                         hex(after.hash()) + ": this record was altered");
  }
  impl_->running = after;
  return record;
}

std::uint64_t JournalFileReader::record_number() const {
  return impl_->running.count() > 0 ? impl_->running.count() - 1 : 0;
}

std::uint64_t JournalFileReader::hash() const { return impl_->running.hash(); }

}  // namespace orrery::host
