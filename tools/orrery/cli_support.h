// What every command's output is made of: tables, numbers as people read them, colour on a
// terminal only, progress on stderr. Text goes to stdout by std::printf or these functions; with
// --json a command calls print_json once and prints nothing else there.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/json.h"
#include "runtime/base/units.h"
#include "tools/orrery/command.h"

namespace orrery::cli {

// One document, indented by two, a newline at the end. NaN and infinity become null.
void print_json(const Json& document);
void print_line(std::string_view text = {});

// Colours are for terminals: plain text comes back when stdout is none, or NO_COLOR is set.
enum class Style { kBold, kDim, kGood, kBad, kWarn };
std::string styled(Style style, std::string_view text);

// "12,345", "-1,000"
std::string format_count(std::int64_t n);
// Three significant digits, thousands by letter: "0.042", "12.3", "950", "12.5k", "3.1M".
std::string format_number(double x);
// "0.420 ms", "12.3 ms", "1.25 s"; "-" for NaN.
std::string format_ms(double ms);
// "0.80 s", "45.0 s", "12 min 05 s", "3 h 20 min", "2 d 04 h".
std::string format_span(double seconds);
std::string format_bytes(double bytes);        // "512 B", "1.50 GiB"
std::string format_usd(double usd);            // "$1.23", "$0.00042"; "unknown" for NaN
std::string format_percent(double fraction);   // 0.931 -> "93.1 %"
std::string format_json_number(const Json& v,  // a number that may be null or absent: "-"
                               std::string (*format)(double) = format_number);

// Columns aligned by what stands in them: texts left, numbers right. Rows may be shorter.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells);  // cells may be styled
  // One row a line, two spaces between columns, indented by `indent`.
  std::string text(int indent = 0) const;
  void print(int indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "name: value" lines with the values aligned.
void print_facts(const std::vector<std::pair<std::string, std::string>>& facts, int indent = 0);

// Long work on stderr: done, rate and time left. Silent for the first second, when stderr is no
// terminal (unless --progress=always) and after --progress=never.
class Progress {
 public:
  // total 0: unknown, then no time left is shown.
  Progress(const Globals& globals, std::string what, std::int64_t total, std::string unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(std::int64_t done);  // cheap: draws at most five times a second

 private:
  void draw(std::int64_t done, double elapsed_s);
  std::string what_, unit_;
  std::int64_t total_;
  bool shown_, terminal_, drawn_ = false;
  Time start_, last_;
};

}  // namespace orrery::cli
