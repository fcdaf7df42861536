#include "tools/orrery/cli_support.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <unistd.h>

#include "runtime/host/process.h"

namespace orrery::cli {
namespace {

// printf into a string: locale-independent because nothing ever calls setlocale.
template <class... Args>
std::string print(const char* format, Args... args) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), format, args...);
  return text.data();
}

bool colours() {
  static const bool on = [] {
    const char* term = std::getenv("TERM");    // NOLINT(concurrency-mt-unsafe): nothing sets it
    const char* no = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe)
    return ::isatty(STDOUT_FILENO) == 1 && (no == nullptr || no[0] == '\0') && term != nullptr &&
           std::string_view(term) != "dumb";
  }();
  return on;
}

// Places on the screen: UTF-8 continuation bytes and colour codes take none.
std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && text[i] != 'm') ++i;
      continue;
    }
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) ++width;
  }
  return width;
}

int decimals_for(double x) {  // three significant digits
  const double size = std::abs(x);
  if (size >= 100) return 0;
  if (size >= 10) return 1;
  if (size >= 1) return 2;
  return 3;
}

}  // namespace

void print_line(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

void print_json(const Json& document) {
  print_line(document.dump(2, ' ', false, Json::error_handler_t::replace));
}

std::string styled(Style style, std::string_view text) {
  if (!colours() || text.empty()) return std::string(text);
  const char* code = "1";
  switch (style) {
    case Style::kBold:
      code = "1";
      break;
    case Style::kDim:
      code = "2";
      break;
    case Style::kGood:
      code = "32";
      break;
    case Style::kBad:
      code = "31";
      break;
    case Style::kWarn:
      code = "33";
      break;
  }
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::string format_count(std::int64_t n) {
  std::string digits = std::to_string(n);
  const std::size_t first = n < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string format_number(double x) {
  if (std::isnan(x)) return "-";
  const char* letter = "";
  for (const char* next : {"k", "M", "G", "T"}) {
    // 999.5 would round to 1000: it is 1.00k.
    if (std::abs(x) < (letter[0] == '\0' ? 9999.5 : 999.5)) break;
    x /= 1000, letter = next;
  }
  if (letter[0] == '\0' && x == std::floor(x)) return print("%.0f", x);
  return print("%.*f", decimals_for(x), x) + letter;
}

std::string format_ms(double ms) {
  if (std::isnan(ms)) return "-";
  if (std::abs(ms) >= 999.5) return print("%.*f s", decimals_for(ms / 1000), ms / 1000);
  return print("%.*f ms", decimals_for(ms), ms);
}

std::string format_span(double seconds) {
  if (std::isnan(seconds)) return "-";
  if (seconds < 59.95) return print("%.*f s", seconds < 9.995 ? 2 : 1, seconds);
  const auto s = static_cast<std::int64_t>(std::llround(seconds));
  const auto pair = [](std::int64_t a, const char* unit_a, std::int64_t b, const char* unit_b) {
    return print("%lld %s %02lld %s", static_cast<long long>(a), unit_a, static_cast<long long>(b),
                 unit_b);
  };
  if (s < 3600) return pair(s / 60, "min", s % 60, "s");
  if (s < 86400) return pair(s / 3600, "h", s % 3600 / 60, "min");
  return pair(s / 86400, "d", s % 86400 / 3600, "h");
}

std::string format_bytes(double bytes) {
  if (std::isnan(bytes)) return "-";
  const char* unit = "B";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB", "PiB"}) {
    if (std::abs(bytes) < 1023.5) break;
    bytes /= 1024, unit = next;
  }
  if (unit[0] == 'B') return print("%.0f B", bytes);
  return print("%.*f %s", decimals_for(bytes), bytes, unit);
}

std::string format_usd(double usd) {
  if (std::isnan(usd)) return "unknown";
  if (usd == 0) return "$0";
  if (std::abs(usd) < 0.01) return print("$%.2g", usd);
  if (std::abs(usd) < 1000) return print("$%.2f", usd);
  return "$" + format_count(std::llround(usd));
}

std::string format_percent(double fraction) {
  if (std::isnan(fraction)) return "-";
  return print("%.1f %%", 100 * fraction);
}

std::string format_json_number(const Json& v, std::string (*format)(double)) {
  return v.is_number() ? format(v.get<double>()) : "-";
}

void Table::add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string Table::text(int indent) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(width_of(column.title));
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], width_of(row[i]));
  const auto line = [&](const auto& cell_at, std::size_t cells) {
    std::string out(static_cast<std::size_t>(indent), ' ');
    for (std::size_t i = 0; i < cells; ++i) {
      const std::string& cell = cell_at(i);
      const std::string padding(widths[i] - width_of(cell), ' ');
      if (i > 0) out += "  ";
      out += columns_[i].align == Align::kRight ? padding + cell : cell + padding;
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    return out + "\n";
  };
  std::string out;
  const bool titled = std::any_of(columns_.begin(), columns_.end(),
                                  [](const Column& column) { return !column.title.empty(); });
  if (titled) {
    std::vector<std::string> titles;
    for (const Column& column : columns_) titles.push_back(styled(Style::kBold, column.title));
    out += line([&](std::size_t i) -> const std::string& { return titles[i]; }, titles.size());
  }
  for (const auto& row : rows_)
    out += line([&](std::size_t i) -> const std::string& { return row[i]; },
                std::min(row.size(), columns_.size()));
  return out;
}

void Table::print(int indent) const { std::fputs(text(indent).c_str(), stdout); }

void print_facts(const std::vector<std::pair<std::string, std::string>>& facts, int indent) {
  Table table({{"", Table::Align::kLeft}, {"", Table::Align::kLeft}});
  for (const auto& [name, value] : facts) table.add({name, value});
  table.print(indent);
}

Progress::Progress(const Globals& globals, std::string what, std::int64_t total, std::string unit)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      total_(total),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(host::monotonic_now()),
      last_(start_) {
  shown_ = globals.progress == "always" || (globals.progress != "never" && terminal_);
}

Progress::~Progress() {
  if (drawn_ && terminal_) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(std::int64_t done) {
  if (!shown_) return;
  const Time now = host::monotonic_now();
  // On a terminal the line is redrawn; in a log each is a new line, hence fewer.
  const Duration pause = terminal_ ? milliseconds(200) : seconds(2);
  if (now - start_ < seconds(1) || (drawn_ && now - last_ < pause)) return;
  last_ = now;
  draw(done, to_seconds(now - start_));
}

void Progress::draw(std::int64_t done, double elapsed_s) {
  drawn_ = true;
  const double rate = static_cast<double>(done) / elapsed_s;
  std::string line = what_ + ": " + format_count(done);
  if (total_ > 0) line += " of " + format_count(total_);
  line += " " + unit_ + ", " + format_number(rate) + "/s";
  if (total_ > done && rate > 0)
    line += ", " + format_span(static_cast<double>(total_ - done) / rate) + " left";
  if (terminal_)
    std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
  else
    std::fprintf(stderr, "%s\n", line.c_str());
  std::fflush(stderr);
}

}  // namespace orrery::cli
