// Gzip and zstd as streams of bytes in bounded memory, recognised by their first bytes.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "runtime/host/files.h"

namespace orrery::host {

enum class Compression { kNone, kGzip, kZstd };

Compression detect_compression(std::string_view first_bytes);     // of a file
Compression compression_by_ending(const std::string& file_name);  // ".gz", ".zst"

// Decompress what `raw` delivers; several members or frames in a row are one stream.
// InputError with `path` when the data is corrupt or ends too early.
std::unique_ptr<ByteReader> gunzip(std::unique_ptr<ByteReader> raw, std::string path);
std::unique_ptr<ByteReader> unzstd(std::unique_ptr<ByteReader> raw, std::string path);

// Compress into `raw`; close() finishes the stream and closes `raw`.
std::unique_ptr<ByteWriter> gzip(std::unique_ptr<ByteWriter> raw);
std::unique_ptr<ByteWriter> zstd(std::unique_ptr<ByteWriter> raw);

}  // namespace orrery::host
