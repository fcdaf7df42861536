#include "tools/orrery/trace_output.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "runtime/base/errors.h"

namespace orrery::cli {
namespace fs = std::filesystem;

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path_, ignored);
  // Pipes and devices are written to as they are.
  const bool plain = !fs::exists(status) || fs::is_regular_file(status);
  if (path_ == "-" || !plain) return;
  const fs::path p(path_);
  partial_ = (p.parent_path() / (".partial-" + p.filename().string())).string();
}

OutputFile::~OutputFile() {
  std::error_code ignored;
  if (!partial_.empty()) fs::remove(partial_, ignored);
}

std::unique_ptr<host::ByteWriter> OutputFile::open() {
  try {
    return host::open_writer(partial_.empty() ? path_ : partial_);
  } catch (const InputError& e) {
    throw InputError({path_, 0, ""}, e.found(), e.expected());
  }
}

void OutputFile::keep() {
  if (partial_.empty()) return;
  std::error_code error;
  fs::rename(partial_, path_, error);
  if (error) throw InputError({path_, 0, ""}, error.message(), "a file that can be written");
  partial_.clear();
}

}  // namespace orrery::cli
