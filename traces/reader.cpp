// open_trace: lines -> rows -> order -> reports.
#include <cstdio>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/host/files.h"
#include "traces/delta_turns.h"
#include "traces/row_parser.h"
#include "traces/scan.h"
#include "traces/sort_window.h"
#include "traces/tick_watch.h"

namespace orrery::traces {
namespace {

// Bound of the block ids that the sort window holds: 32 MB.
constexpr std::size_t kMostBufferedIds = 4'000'000;

class Reader : public TraceFile {
 public:
  Reader(std::unique_ptr<host::ByteReader> bytes, const std::string& path,
         const ReadOptions& options)
      : path_(path), options_(options), lines_(std::move(bytes)) {
    if (options.turns != "auto" && options.turns != "full" && options.turns != "delta")
      throw InputError({"--turns", 0, ""}, options.turns, "auto, full or delta");
    if (options.sort_window < 1)
      throw InputError({"sort_window", 0, ""}, std::to_string(options.sort_window), ">= 1");
    std::string_view line;
    while (first_.empty() && lines_.next(line))
      if (!is_blank(line)) first_ = without_mark(line);
    const Probe probe{first_, path_};
    const Format& format = detect_format(probe, options_);
    parser_ = format.make(probe, options_);
    report_.format = format.name;
    have_first_ = !first_.empty();
    take(first_);
  }

  bool next(TraceRequest& request) override {
    while (!end_ && !window_full()) read_row();
    if (window_.size() == 0) return finish(), false;
    const SortWindow::Entry entry = window_.pop(request);
    std::int64_t timestamp = entry.timestamp;
    if (popped_ == 0) begin(timestamp);
    if (timestamp < last_) {  // older than what has been given out
      late_.add("row older than the sort window (placed at its edge)", 0, "");
      timestamp = last_;
    }
    last_ = timestamp;
    request.row = popped_++;
    request.arrival = Duration(timestamp - base_);
    if (ticks_.add(timestamp, request)) ++duplicates_;
    if (delta()) deltas_.apply(request);
    return true;
  }

  // Before the end: of what was read so far.
  const ReadReport& report() const override {
    if (!finished_) complete(report_);
    return report_;
  }

 private:
  void begin(std::int64_t timestamp) {
    base_ = parser_->from_first_row() ? timestamp : 0, last_ = timestamp;
    report_.start = parser_->wall_clock() ? format_wall_time(base_, 9, 'T') : parser_->start();
  }
  static std::string_view without_mark(std::string_view line) {
    return line.substr(0, 3) == "\xef\xbb\xbf" ? line.substr(3) : line;
  }
  static bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \t\r") == std::string_view::npos;
  }
  bool delta() const {
    return options_.turns == "delta" || (options_.turns == "auto" && parser_->delta_turns());
  }
  bool window_full() const {
    return static_cast<std::int64_t>(window_.size()) >= options_.sort_window ||
           (window_.size() > 0 && window_.hash_ids() >= kMostBufferedIds);
  }
  void read_row() {
    std::string_view line;
    if (!lines_.next(line)) {
      end_ = true;
    } else if (is_blank(line)) {
      late_.add("blank line", lines_.line_number(), "");
    } else {
      take(line);
    }
  }
  void take(std::string_view line) {
    if (!have_first_) return;
    const std::int64_t number = lines_.line_number();
    std::int64_t timestamp = 0;
    TraceRequest& request = window_.scratch();
    const RowParser::Verdict verdict = parser_->parse(line, number, request, timestamp);
    if (verdict == RowParser::Verdict::kSkip) return;
    ++report_.rows;
    if (verdict == RowParser::Verdict::kBad) {
      ++report_.bad;
      return;
    }
    if (report_.good++ == 0) newest_ = timestamp;
    if (!request.ok) ++report_.failed_requests;
    if (timestamp < newest_)
      late_.add("timestamp before the row above (put in order)", number, line);
    newest_ = timestamp;
    window_.push(timestamp);
  }

  // After the last row: the report, and the 1 % rule.
  void finish() {
    if (finished_) return;
    finished_ = true;
    complete(report_);
    if (report_.rows == 0)
      throw InputError({path_, static_cast<long>(lines_.line_number()), ""}, "no requests",
                       "at least one row in the " + report_.format + " format");
    if (report_.bad * 100 > report_.rows && (!options_.tolerate || report_.good == 0))
      throw too_many_bad();
  }
  void complete(ReadReport& report) const {
    report.timestamp_unit = parser_->timestamp_unit();
    report.problems = parser_->problems().list();
    report.oddities = oddities();
  }
  std::vector<RowProblem> oddities() const {
    ProblemList all;
    if (lines_.saw_crlf()) all.add("line ends are CRLF", 1, "");
    if (lines_.missing_final_newline())
      all.add("no newline at the end of the file", lines_.line_number(), "");
    for (const ProblemList* list : {&parser_->oddities(), &late_})
      for (const RowProblem& p : list->list()) all.add(p.kind, p.first_line, p.example, p.count);
    if (duplicates_ > 0) all.add("identical rows (kept)", 0, "", duplicates_);
    TickWatch ticks = ticks_;
    ticks.finish();
    if (ticks.in_ticks()) {
      std::string text = "timestamps come in ticks of ";
      char tick[32];
      std::snprintf(tick, sizeof tick, "%.3g", to_seconds(ticks.tick()));
      text += std::string(tick) + " s: up to " + std::to_string(ticks.most_at_once()) + " at once";
      all.add("ticks", 0, text, ticks.rows_sharing());
    } else if (ticks.rows_sharing() > 0) {
      all.add("rows that share a timestamp", 0,
              "up to " + std::to_string(ticks.most_at_once()) + " at once", ticks.rows_sharing());
    }
    if (delta()) all.add("turns made whole (rows held new tokens only)", 0, "", report_.good);
    return all.list();
  }
  InputError too_many_bad() const {
    std::string found = std::to_string(report_.bad) + " of " + std::to_string(report_.rows) +
                        " rows cannot be read:";
    long line = 0;
    for (const RowProblem& p : report_.problems) {
      if (line == 0) line = static_cast<long>(p.first_line);
      found += "\n  " + std::to_string(p.count) + " x " + p.kind + ", first in line " +
               std::to_string(p.first_line) + ": \"" + p.example + "\"";
    }
    return InputError({path_, line, ""}, found,
                      report_.good == 0 ? "a trace with readable rows"
                                        : "at most 1 % bad rows (--tolerate goes on without them)");
  }

  const std::string path_;
  const ReadOptions options_;
  host::LineReader lines_;
  std::string first_;
  std::unique_ptr<RowParser> parser_;
  SortWindow window_;
  TickWatch ticks_;
  DeltaTurns deltas_;
  ProblemList late_;
  mutable ReadReport report_;
  std::int64_t base_ = 0, last_ = 0, newest_ = 0, popped_ = 0, duplicates_ = 0;
  bool have_first_ = false, end_ = false, finished_ = false;
};

}  // namespace

std::unique_ptr<TraceFile> open_trace(const std::string& path, const ReadOptions& options) {
  return std::make_unique<Reader>(host::open_reader(path), path, options);
}

std::unique_ptr<TraceFile> open_trace(std::unique_ptr<host::ByteReader> bytes,
                                      const std::string& name, const ReadOptions& options) {
  return std::make_unique<Reader>(std::move(bytes), name, options);
}

}  // namespace orrery::traces
