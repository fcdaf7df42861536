// Azure LLM inference traces of 2023 and 2024 (github.com/Azure/AzurePublicDataset): CSV with
// TIMESTAMP,ContextTokens,GeneratedTokens. Timestamps are wall-clock times in steps of 100 ns,
// without zone; copies with numbers instead (seconds) are read too.
#include <algorithm>

#include "runtime/base/errors.h"
#include "traces/csv.h"
#include "traces/row_parser.h"
#include "traces/scan.h"

namespace orrery::traces {
namespace {

struct Columns {
  int time = 0, input = 1, output = 2, count = 3;
  bool header = false;
};

// A first line without header: a wall-clock time and two counts.
bool is_azure_row(std::string_view line) {
  CsvRow row;
  WallTime time;
  std::int64_t n = 0;
  return row.split(line) && row.fields().size() == 3 && scan_wall_time(row.fields()[0], time) &&
         read_count(row.fields()[1], n) == nullptr && read_count(row.fields()[2], n) == nullptr;
}

bool find_columns(std::string_view line, Columns& columns) {
  const std::vector<std::string> names = header_names(line);
  columns = {column_of(names, "timestamp"), column_of(names, "contexttokens"),
             column_of(names, "generatedtokens"), static_cast<int>(names.size()), true};
  return columns.time >= 0 && columns.input >= 0 && columns.output >= 0;
}

class AzureParser : public RowParser {
 public:
  AzureParser(const Columns& columns, const ReadOptions& options)
      : columns_(columns),
        unit_(time_unit(options, "s")),
        plain_(columns.time == 0 && columns.input == 1 && columns.output == 2 &&
               columns.count == 3),
        expect_header_(columns.header) {}

  Verdict parse(std::string_view line, std::int64_t number, TraceRequest& request,
                std::int64_t& timestamp) override {
    if (expect_header_) return expect_header_ = false, note_header(line, number);
    std::string_view time, input, output;
    if (!split_plain(line, time, input, output)) {
      if (!row_.split(line)) return bad("quote that does not close", number, line);
      const auto& f = row_.fields();
      if (f.size() != static_cast<std::size_t>(columns_.count))
        return bad("wrong number of fields", number, line);
      time = f[static_cast<std::size_t>(columns_.time)];
      input = f[static_cast<std::size_t>(columns_.input)];
      output = f[static_cast<std::size_t>(columns_.output)];
    }
    if (const char* p = read_time(time, number, timestamp)) return bad(p, number, line);
    if (const char* p = read_count(input, request.input_tokens)) return bad(p, number, line);
    if (const char* p = read_count(output, request.output_tokens)) return bad(p, number, line);
    if (const char* p = check_request(request)) return bad(p, number, line);
    return Verdict::kGood;
  }

  std::string timestamp_unit() const override {
    if (kind_ == Kind::kNumbers) return unit_.name;
    std::string out = "date and time";
    if (digits_ > 0) out += ", " + std::to_string(digits_) + " fractional digits";
    out += digits_ == 7 ? " (steps of 100 ns)" : "";
    return out + (zone_ ? ", with zone" : ", no zone given (taken as UTC)");
  }
  bool wall_clock() const override { return kind_ == Kind::kWall; }

 private:
  enum class Kind : std::uint8_t { kUnknown, kWall, kNumbers };

  Verdict note_header(std::string_view line, std::int64_t number) {
    if (columns_.count > 3) odd("columns that are not read", number, line);
    return Verdict::kSkip;
  }
  // Exactly three fields in the usual order, no quotes, no spaces at the ends.
  bool split_plain(std::string_view line, std::string_view& time, std::string_view& input,
                   std::string_view& output) const {
    if (!plain_ || slow_only_) return false;
    const std::size_t a = line.find(',');
    if (a == std::string_view::npos) return false;
    const std::size_t b = line.find(',', a + 1);
    if (b == std::string_view::npos || line.find(',', b + 1) != std::string_view::npos)
      return false;
    time = line.substr(0, a), input = line.substr(a + 1, b - a - 1), output = line.substr(b + 1);
    for (const std::string_view f : {time, input, output})
      if (f.empty() || f.front() < '0' || f.front() > '9' || f.back() == ' ' || f.back() == '\t')
        return false;
    return true;
  }
  const char* read_time(std::string_view text, std::int64_t number, std::int64_t& timestamp) {
    if (text.empty()) return "empty field";
    WallTime wall;
    if (scan_wall_time(text, wall)) {
      if (kind_ == Kind::kNumbers) return "timestamp of another kind than the rows before";
      if (kind_ == Kind::kWall && wall.has_zone != zone_)
        odd("zone given in some rows only (others taken as UTC)", number, text);
      if (!wall.exact) odd("timestamp finer than 1 ns (cut)", number, text);
      if (kind_ == Kind::kUnknown) zone_ = wall.has_zone;
      kind_ = Kind::kWall, digits_ = std::max(digits_, wall.digits), timestamp = wall.ns;
      return nullptr;
    }
    bool exact = true;
    if (!scan_scaled(text, unit_.power, timestamp, exact)) return "timestamp not understood";
    if (kind_ == Kind::kWall) return "timestamp of another kind than the rows before";
    if (!exact) odd("timestamp finer than 1 ns (rounded)", number, text);
    kind_ = Kind::kNumbers;
    return nullptr;
  }

  const Columns columns_;
  const TimeUnit unit_;
  const bool plain_;
  bool expect_header_;
  Kind kind_ = Kind::kUnknown;
  int digits_ = 0;
  bool zone_ = false;
  CsvRow row_;
};

}  // namespace

bool detect_azure(const Probe& probe) {
  Columns columns;
  return find_columns(probe.line, columns) || is_azure_row(probe.line);
}

std::unique_ptr<RowParser> make_azure(const Probe& probe, const ReadOptions& options) {
  Columns columns;
  if (find_columns(probe.line, columns)) return std::make_unique<AzureParser>(columns, options);
  if (is_azure_row(probe.line)) return std::make_unique<AzureParser>(Columns{}, options);
  throw InputError({std::string(probe.file), 1, "header"}, std::string(probe.line.substr(0, 80)),
                   "TIMESTAMP,ContextTokens,GeneratedTokens");
}

}  // namespace orrery::traces
