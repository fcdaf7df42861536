#include "runtime/host/files.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/host/compression.h"

namespace orrery::host {
namespace {

constexpr std::size_t kChunk = 256 * 1024;
constexpr std::size_t kWriteBuffer = 64 * 1024;

std::string reason(int code) { return std::generic_category().message(code); }

// A file descriptor that is closed once. Does not own standard input and output.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  int close() {  // 0, or errno
    const int fd = std::exchange(fd_, -1);
    return fd > STDERR_FILENO && ::close(fd) != 0 ? errno : 0;
  }

 private:
  int fd_;
};

class PlainReader : public ByteReader {
 public:
  PlainReader(int fd, std::string path) : fd_(fd), path_(std::move(path)), buffer_(kChunk) {}
  std::string_view next_chunk() override {
    if (peeked_ > 0) return {buffer_.data(), std::exchange(peeked_, 0)};
    return {buffer_.data(), fill(0)};
  }
  // The first bytes, which next_chunk() delivers again. A pipe may give them one by one.
  std::string_view peek(std::size_t least) {
    while (peeked_ < least) {
      const std::size_t got = fill(peeked_);
      if (got == 0) break;
      peeked_ += got;
    }
    return {buffer_.data(), peeked_};
  }

 private:
  std::size_t fill(std::size_t from) {
    while (true) {
      const ssize_t got = ::read(fd_.get(), buffer_.data() + from, buffer_.size() - from);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) throw InputError({path_, 0, ""}, reason(errno), "a readable file");
    }
  }

  Descriptor fd_;
  std::string path_;
  std::vector<char> buffer_;
  std::size_t peeked_ = 0;
};

class PlainWriter : public ByteWriter {
 public:
  PlainWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {
    buffer_.reserve(kWriteBuffer);
  }
  ~PlainWriter() override {
    try {
      close();
    } catch (const InputError&) {  // close() is the way to hear of it
    }
  }
  PlainWriter(const PlainWriter&) = delete;
  PlainWriter& operator=(const PlainWriter&) = delete;

  void write(std::string_view bytes) override {
    if (buffer_.size() + bytes.size() > kWriteBuffer) flush();
    if (bytes.size() >= kWriteBuffer)
      put(bytes);
    else
      buffer_ += bytes;
  }
  void flush() override {
    const std::string bytes = std::exchange(buffer_, {});
    put(bytes);
  }
  void close() override {
    if (closed_) return;
    closed_ = true;
    flush();
    if (const int code = fd_.close(); code != 0) throw failed(code);
  }

 private:
  InputError failed(int code) const {
    return InputError({path_, 0, ""}, reason(code), "a place that can be written");
  }
  void put(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(fd_.get(), bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      // Who reads our standard output (head, less) may leave early: that is no error.
      if (done < 0 && errno == EPIPE && fd_.get() == STDOUT_FILENO) return;
      if (done < 0) throw failed(errno);
      bytes.remove_prefix(static_cast<std::size_t>(done));
    }
  }

  Descriptor fd_;
  std::string path_;
  std::string buffer_;
  bool closed_ = false;
};

int open_for_reading(const std::string& path) {
  if (path == "-") return STDIN_FILENO;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    throw InputError({path, 0, ""}, errno == ENOENT ? "no such file" : reason(errno),
                     "a readable file");
  }
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    ::close(fd);
    throw InputError({path, 0, ""}, "a folder", "a file");
  }
  return fd;
}

std::unique_ptr<ByteWriter> open_plain_writer(const std::string& path) {
  if (path == "-") return std::make_unique<PlainWriter>(STDOUT_FILENO, "standard output");
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) throw InputError({path, 0, ""}, reason(errno), "a place that can be written");
  return std::make_unique<PlainWriter>(fd, path);
}

std::unique_ptr<ByteWriter> compressing(std::unique_ptr<ByteWriter> raw, Compression compression) {
  if (compression == Compression::kGzip) return gzip(std::move(raw));
  if (compression == Compression::kZstd) return zstd(std::move(raw));
  return raw;
}

}  // namespace

std::unique_ptr<ByteReader> open_reader(const std::string& path) {
  auto plain = std::make_unique<PlainReader>(open_for_reading(path), path);
  const Compression compression = detect_compression(plain->peek(4));
  if (compression == Compression::kGzip) return gunzip(std::move(plain), path);
  if (compression == Compression::kZstd) return unzstd(std::move(plain), path);
  return plain;
}

std::string read_file(const std::string& path) {
  const auto reader = open_reader(path);
  std::string text;
  for (std::string_view chunk = reader->next_chunk(); !chunk.empty(); chunk = reader->next_chunk())
    text += chunk;
  return text;
}

std::shared_ptr<const JsonDocument> read_json(const std::string& path) {
  return JsonDocument::parse(read_file(path), path);
}

std::unique_ptr<ByteWriter> open_writer(const std::string& path) {
  return compressing(open_plain_writer(path), compression_by_ending(path));
}

void write_file(const std::string& path, std::string_view text) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  // Through a symbolic link the file it names is replaced, not the link.
  const fs::path resolved =
      fs::is_symlink(path, ignored) ? fs::canonical(path, ignored) : fs::path(path);
  const std::string target = resolved.empty() ? path : resolved.string();
  const auto kind = fs::status(target, ignored).type();
  if (target == "-" || (kind != fs::file_type::not_found && kind != fs::file_type::regular)) {
    const auto writer = open_writer(target);
    writer->write(text);
    writer->close();
    return;
  }
  const std::string temporary = target + ".tmp." + std::to_string(::getpid());
  try {
    const auto writer = compressing(open_plain_writer(temporary), compression_by_ending(target));
    writer->write(text);
    writer->close();
  } catch (const InputError& e) {
    fs::remove(temporary, ignored);
    throw InputError({path, 0, ""}, e.found(), e.expected());
  }
  std::error_code code;
  fs::rename(temporary, target, code);
  if (code) {
    fs::remove(temporary, ignored);
    throw InputError({path, 0, ""}, code.message(), "a place that can be written");
  }
}

bool LineReader::next_across_chunks(std::string_view& line) {
  carry_.clear();
  while (true) {
    carry_ += chunk_;
    chunk_ = bytes_->next_chunk();
    if (chunk_.empty()) {
      if (carry_.empty()) return false;
      missing_final_newline_ = true;
      break;
    }
    const auto length = chunk_.find('\n');
    if (length == std::string_view::npos) continue;
    carry_ += chunk_.substr(0, length);
    chunk_.remove_prefix(length + 1);
    break;
  }
  line = without_cr(carry_);
  ++number_;
  return true;
}

}  // namespace orrery::host
