// Comma-separated fields of one line: plain ones as they stand, quoted ones unquoted, space around
// both removed. For the traces that come as CSV.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::traces {

class CsvRow {
 public:
  // False: a quote that does not close. Fields are valid until the next call and while `line` is.
  bool split(std::string_view line);
  const std::vector<std::string_view>& fields() const { return fields_; }
  bool quoted() const { return quoted_; }

 private:
  std::vector<std::string_view> fields_;
  std::vector<std::string> unquoted_;  // of fields with doubled quotes
  bool quoted_ = false;
};

// Lower case without spaces, underscores, quotes and byte-order mark: how headers are compared.
std::string header_name(std::string_view text);
// Column names of a header line.
std::vector<std::string> header_names(std::string_view line);
// Place of a name, or -1.
int column_of(const std::vector<std::string>& names, std::string_view name);

}  // namespace orrery::traces
