// BurstGPT (github.com/HPMLL/BurstGPT): CSV with Timestamp (seconds), Model, Request tokens,
// Response tokens, Total tokens, Log Type; the later release has Session ID and Elapsed time too.
// A row without response tokens is a failed call.
#include "runtime/base/errors.h"
#include "traces/csv.h"
#include "traces/row_parser.h"
#include "traces/scan.h"

namespace orrery::traces {
namespace {

struct Columns {
  int time = -1, session = -1, elapsed = -1, model = -1, input = -1, output = -1, total = -1,
      log = -1;
  int count = 0;
};

bool find_columns(std::string_view line, Columns& c) {
  const std::vector<std::string> names = header_names(line);
  c = {column_of(names, "timestamp"),     column_of(names, "sessionid"),
       column_of(names, "elapsedtime"),   column_of(names, "model"),
       column_of(names, "requesttokens"), column_of(names, "responsetokens"),
       column_of(names, "totaltokens"),   column_of(names, "logtype"),
       static_cast<int>(names.size())};
  return c.time >= 0 && c.input >= 0 && c.output >= 0;
}

class BurstGptParser : public RowParser {
 public:
  BurstGptParser(const Columns& columns, const ReadOptions& options)
      : columns_(columns), unit_(time_unit(options, "s")) {}

  Verdict parse(std::string_view line, std::int64_t number, TraceRequest& request,
                std::int64_t& timestamp) override {
    if (expect_header_) return expect_header_ = false, note_header(line, number);
    if (!split(line)) return bad("quote that does not close", number, line);
    if (row_size_ != static_cast<std::size_t>(columns_.count))
      return bad("wrong number of fields", number, line);
    bool exact = true;
    const std::string_view time = field(columns_.time);
    if (time.empty()) return bad("empty field", number, line);
    if (!scan_scaled(time, unit_.power, timestamp, exact))
      return bad("timestamp not understood", number, line);
    if (timestamp < 0) return bad("negative timestamp", number, line);
    if (!exact) odd("timestamp finer than 1 ns (rounded)", number, time);
    if (const char* p = read_count(field(columns_.input), request.input_tokens))
      return bad(p, number, line);
    if (const char* p = read_count(field(columns_.output), request.output_tokens))
      return bad(p, number, line);
    read_rest(line, number, request);
    if (const char* p = check_request(request)) return bad(p, number, line);
    return Verdict::kGood;
  }
  std::string timestamp_unit() const override { return unit_.name; }

 private:
  static constexpr std::size_t kMostColumns = 16;

  Verdict note_header(std::string_view line, std::int64_t number) {
    if (columns_.elapsed >= 0) odd("columns that are not read", number, "Elapsed time");
    const int known = 3 + (columns_.session >= 0) + (columns_.elapsed >= 0) +
                      (columns_.model >= 0) + (columns_.total >= 0) + (columns_.log >= 0);
    if (columns_.count > known) odd("columns that are not known", number, line);
    return Verdict::kSkip;
  }
  std::string_view field(int column) const {
    return column < 0 ? std::string_view() : fields_[static_cast<std::size_t>(column)];
  }
  bool split(std::string_view line) {
    if (!slow_only_ && line.find('"') == std::string_view::npos && split_plain(line)) return true;
    if (!row_.split(line)) return false;
    row_size_ = row_.fields().size();
    for (std::size_t i = 0; i < std::min(row_size_, kMostColumns); ++i)
      fields_[i] = row_.fields()[i];
    return true;
  }
  bool split_plain(std::string_view line) {
    for (row_size_ = 0; row_size_ < kMostColumns;) {
      const std::size_t comma = line.find(',');
      fields_[row_size_++] = trim(line.substr(0, comma));
      if (comma == std::string_view::npos) return true;
      line.remove_prefix(comma + 1);
    }
    return false;
  }
  void read_rest(std::string_view line, std::int64_t number, TraceRequest& request) {
    request.model = field(columns_.model);
    request.session = field(columns_.session);
    const std::string_view log = field(columns_.log);
    if (log == "Conversation log") request.kind = "chat";
    if (log == "API log") request.app = "api";
    const std::string_view total = field(columns_.total);
    std::int64_t sum = 0;
    if (columns_.total >= 0 &&
        (read_count(total, sum) != nullptr || sum != request.input_tokens + request.output_tokens))
      odd("total is not the sum of request and response tokens (not used)", number, line);
  }

  const Columns columns_;
  const TimeUnit unit_;
  bool expect_header_ = true;
  CsvRow row_;
  std::array<std::string_view, kMostColumns> fields_;
  std::size_t row_size_ = 0;
};

}  // namespace

bool detect_burstgpt(const Probe& probe) {
  Columns columns;
  return find_columns(probe.line, columns) && columns.count <= 16;
}

std::unique_ptr<RowParser> make_burstgpt(const Probe& probe, const ReadOptions& options) {
  Columns columns;
  if (find_columns(probe.line, columns) && columns.count <= 16)
    return std::make_unique<BurstGptParser>(columns, options);
  throw InputError({std::string(probe.file), 1, "header"}, std::string(probe.line.substr(0, 80)),
                   "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type");
}

}  // namespace orrery::traces
