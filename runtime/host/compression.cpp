#include "runtime/host/compression.h"

#include <utility>
#include <vector>

#include <zlib.h>
#include <zstd.h>

#include "runtime/base/check.h"

namespace orrery::host {
namespace {

constexpr std::size_t kChunk = 256 * 1024;  // large enough that a call costs nothing a byte

InputError corrupt(const std::string& path, const std::string& format, const char* why) {
  return InputError({path, 0, ""}, "corrupt " + format + " data (" + why + ")",
                    "a whole " + format + " file");
}

InputError cut_short(const std::string& path, const std::string& format) {
  return InputError({path, 0, ""}, format + " data that ends too early",
                    "a whole " + format + " file");
}

class GzipReader : public ByteReader {
 public:
  GzipReader(std::unique_ptr<ByteReader> raw, std::string path)
      : raw_(std::move(raw)), path_(std::move(path)), out_(kChunk) {
    constexpr int kGzipFormat = 15 + 16;  // largest window; gzip header
    ORRERY_CHECK(inflateInit2(&z_, kGzipFormat) == Z_OK);
  }
  ~GzipReader() override { inflateEnd(&z_); }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  std::string_view next_chunk() override {
    z_.next_out = reinterpret_cast<Bytef*>(out_.data());
    z_.avail_out = static_cast<uInt>(out_.size());
    while (z_.avail_out > 0 && refill()) {
      if (between_members_) {
        inflateReset(&z_);
        between_members_ = false;
      }
      const int code = inflate(&z_, Z_NO_FLUSH);
      if (code == Z_STREAM_END)
        between_members_ = true;
      else if (code != Z_OK && code != Z_BUF_ERROR)
        throw corrupt(path_, "gzip", z_.msg != nullptr ? z_.msg : "no reason given");
    }
    return {out_.data(), out_.size() - z_.avail_out};
  }

 private:
  // False at the end of the file.
  bool refill() {
    if (z_.avail_in > 0) return true;
    const std::string_view chunk = raw_->next_chunk();
    if (chunk.empty()) {
      if (!between_members_) throw cut_short(path_, "gzip");
      return false;
    }
    z_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(chunk.data()));
    z_.avail_in = static_cast<uInt>(chunk.size());
    return true;
  }

  std::unique_ptr<ByteReader> raw_;
  std::string path_;
  std::vector<char> out_;
  z_stream z_{};
  bool between_members_ = false;
};

class ZstdReader : public ByteReader {
 public:
  ZstdReader(std::unique_ptr<ByteReader> raw, std::string path)
      : raw_(std::move(raw)), path_(std::move(path)), out_(kChunk), z_(ZSTD_createDStream()) {
    ORRERY_CHECK(z_ != nullptr);
  }
  ~ZstdReader() override { ZSTD_freeDStream(z_); }
  ZstdReader(const ZstdReader&) = delete;
  ZstdReader& operator=(const ZstdReader&) = delete;

  std::string_view next_chunk() override {
    ZSTD_outBuffer out{out_.data(), out_.size(), 0};
    while (out.pos < out.size) {
      // A full output buffer may leave more inside the decoder: ask before reading on.
      if (in_.pos == in_.size && !pending_output_ && !refill()) break;
      const std::size_t before = out.pos;
      const std::size_t code = ZSTD_decompressStream(z_, &out, &in_);
      if (ZSTD_isError(code) != 0) throw corrupt(path_, "zstd", ZSTD_getErrorName(code));
      inside_frame_ = code != 0;
      pending_output_ = inside_frame_ && out.pos == out.size && out.pos > before;
    }
    return {out_.data(), out.pos};
  }

 private:
  bool refill() {
    const std::string_view chunk = raw_->next_chunk();
    if (chunk.empty()) {
      if (inside_frame_) throw cut_short(path_, "zstd");
      return false;
    }
    in_ = {chunk.data(), chunk.size(), 0};
    return true;
  }

  std::unique_ptr<ByteReader> raw_;
  std::string path_;
  std::vector<char> out_;
  ZSTD_DStream* z_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool inside_frame_ = false, pending_output_ = false;
};

class GzipWriter : public ByteWriter {
 public:
  explicit GzipWriter(std::unique_ptr<ByteWriter> raw) : raw_(std::move(raw)), out_(kChunk) {
    ORRERY_CHECK(deflateInit2(&z_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8,
                              Z_DEFAULT_STRATEGY) == Z_OK);
  }
  ~GzipWriter() override {
    try {
      close();
    } catch (const InputError&) {  // close() is the way to hear of it
    }
    deflateEnd(&z_);
  }
  GzipWriter(const GzipWriter&) = delete;
  GzipWriter& operator=(const GzipWriter&) = delete;

  void write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const std::string_view part = bytes.substr(0, kChunk);
      deflate_part(part, Z_NO_FLUSH);
      bytes.remove_prefix(part.size());
    }
  }
  void flush() override {
    deflate_part({}, Z_SYNC_FLUSH);
    raw_->flush();
  }
  void close() override {
    if (closed_) return;
    closed_ = true;
    deflate_part({}, Z_FINISH);
    raw_->close();
  }

 private:
  void deflate_part(std::string_view bytes, int mode) {
    z_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    z_.avail_in = static_cast<uInt>(bytes.size());
    do {
      z_.next_out = reinterpret_cast<Bytef*>(out_.data());
      z_.avail_out = static_cast<uInt>(out_.size());
      deflate(&z_, mode);
      raw_->write({out_.data(), out_.size() - z_.avail_out});
    } while (z_.avail_out == 0);
  }

  std::unique_ptr<ByteWriter> raw_;
  std::vector<char> out_;
  z_stream z_{};
  bool closed_ = false;
};

class ZstdWriter : public ByteWriter {
 public:
  explicit ZstdWriter(std::unique_ptr<ByteWriter> raw)
      : raw_(std::move(raw)), out_(kChunk), z_(ZSTD_createCStream()) {
    ORRERY_CHECK(z_ != nullptr);
  }
  ~ZstdWriter() override {
    try {
      close();
    } catch (const InputError&) {  // close() is the way to hear of it
    }
    ZSTD_freeCStream(z_);
  }
  ZstdWriter(const ZstdWriter&) = delete;
  ZstdWriter& operator=(const ZstdWriter&) = delete;

  void write(std::string_view bytes) override { run(bytes, ZSTD_e_continue); }
  void flush() override {
    run({}, ZSTD_e_flush);
    raw_->flush();
  }
  void close() override {
    if (closed_) return;
    closed_ = true;
    run({}, ZSTD_e_end);
    raw_->close();
  }

 private:
  void run(std::string_view bytes, ZSTD_EndDirective mode) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    std::size_t left = 0;
    do {
      ZSTD_outBuffer out{out_.data(), out_.size(), 0};
      left = ZSTD_compressStream2(z_, &out, &in, mode);
      ORRERY_CHECK(ZSTD_isError(left) == 0, ZSTD_getErrorName(left));
      raw_->write({out_.data(), out.pos});
    } while (in.pos < in.size || (mode != ZSTD_e_continue && left > 0));
  }

  std::unique_ptr<ByteWriter> raw_;
  std::vector<char> out_;
  ZSTD_CStream* z_;
  bool closed_ = false;
};

}  // namespace

Compression detect_compression(std::string_view first_bytes) {
  if (first_bytes.starts_with("\x1f\x8b")) return Compression::kGzip;
  if (first_bytes.starts_with("\x28\xb5\x2f\xfd")) return Compression::kZstd;
  return Compression::kNone;
}

Compression compression_by_ending(const std::string& file_name) {
  if (file_name.ends_with(".gz")) return Compression::kGzip;
  if (file_name.ends_with(".zst")) return Compression::kZstd;
  return Compression::kNone;
}

std::unique_ptr<ByteReader> gunzip(std::unique_ptr<ByteReader> raw, std::string path) {
  return std::make_unique<GzipReader>(std::move(raw), std::move(path));
}
std::unique_ptr<ByteReader> unzstd(std::unique_ptr<ByteReader> raw, std::string path) {
  return std::make_unique<ZstdReader>(std::move(raw), std::move(path));
}
std::unique_ptr<ByteWriter> gzip(std::unique_ptr<ByteWriter> raw) {
  return std::make_unique<GzipWriter>(std::move(raw));
}
std::unique_ptr<ByteWriter> zstd(std::unique_ptr<ByteWriter> raw) {
  return std::make_unique<ZstdWriter>(std::move(raw));
}

}  // namespace orrery::host
