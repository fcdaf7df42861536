#include "traces/csv.h"

#include <cctype>

#include "traces/scan.h"

namespace orrery::traces {

bool CsvRow::split(std::string_view line) {
  fields_.clear(), unquoted_.clear(), quoted_ = false;
  unquoted_.reserve(line.size() / 2 + 1);  // at least two characters a quoted field: no move
  std::size_t at = 0;
  while (true) {
    while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) ++at;
    if (at < line.size() && line[at] == '"') {
      quoted_ = true;
      std::string text;
      bool closed = false;
      for (++at; at < line.size(); ++at) {
        if (line[at] != '"') {
          text += line[at];
        } else if (at + 1 < line.size() && line[at + 1] == '"') {
          text += line[at++];
        } else {
          closed = true, ++at;
          break;
        }
      }
      const std::size_t comma = line.find(',', at);
      const std::size_t stop = comma == std::string_view::npos ? line.size() : comma;
      if (!closed || !trim(line.substr(at, stop - at)).empty()) return false;
      unquoted_.push_back(std::move(text));
      fields_.push_back(trim(unquoted_.back()));
      if (comma == std::string_view::npos) return true;
      at = comma + 1;
      continue;
    }
    const std::size_t comma = line.find(',', at);
    const std::size_t stop = comma == std::string_view::npos ? line.size() : comma;
    fields_.push_back(trim(line.substr(at, stop - at)));
    if (comma == std::string_view::npos) return true;
    at = comma + 1;
  }
}

std::string header_name(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == ' ' || c == '_' || c == '"' || c == '\t' || u >= 0x80) continue;
    out += static_cast<char>(std::tolower(u));
  }
  return out;
}

std::vector<std::string> header_names(std::string_view line) {
  std::vector<std::string> names;
  CsvRow row;
  if (!row.split(line)) return names;
  for (const std::string_view f : row.fields()) names.push_back(header_name(f));
  return names;
}

int column_of(const std::vector<std::string>& names, std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<int>(i);
  return -1;
}

}  // namespace orrery::traces
