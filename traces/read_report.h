// What reading a trace file found, for people and for JSON: every command that reads a trace says
// the same of it.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/base/json.h"
#include "traces/trace.h"

namespace orrery::traces {

// {format, timestamp_unit, start, rows, good_rows, bad_rows, bad_rows_by_kind, oddities}; the last
// two are lists of {kind, count, first_line, example}.
Json to_json(const ReadReport& report);

// Empty, or why a mean rate of so many requests over the span is rather a wrong time unit.
std::string implausible_rate(std::int64_t requests, Duration span);

}  // namespace orrery::traces
