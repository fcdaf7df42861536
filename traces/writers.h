// Exporters that live in files of their own, for the table in writer.cpp.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "traces/writer.h"

namespace orrery::traces {

std::unique_ptr<TraceWriter> make_mooncake_writer(std::unique_ptr<host::ByteWriter> out,
                                                  const WriteOptions& options);
std::unique_ptr<TraceWriter> make_batch_writer(std::unique_ptr<host::ByteWriter> out,
                                               const WriteOptions& options);
void append_ids(std::string& out, const std::vector<std::uint64_t>& ids);  // "[1, 2, 3]"

}  // namespace orrery::traces
