// One JSON object on one line, as a list of its top-level fields. Two scanners that must agree:
// a fast one for the plain case (no escapes, no nesting, no exponents, ASCII), and a slow one on
// nlohmann::json, which the fast one falls back to and is tested against.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::traces {

enum class JsonKind : std::uint8_t { kNumber, kString, kTrue, kFalse, kNull, kIds, kOther };

struct JsonField {
  std::string_view key;
  JsonKind kind = JsonKind::kOther;
  std::string_view text;             // of a number (as written) or a string (unescaped)
  std::size_t first = 0, count = 0;  // of kIds (an array of unsigned integers): a range of ids()
};

class FlatJson {
 public:
  // False: not one JSON object. Fields are in file order, valid until the next call and as long
  // as `line` is. Numbers are as written, or an equal spelling.
  bool scan(std::string_view line) { return scan_fast(line) || scan_slow(line); }
  bool scan_fast(std::string_view line);  // false: not plain, or not JSON
  bool scan_slow(std::string_view line);
  const std::vector<JsonField>& fields() const { return fields_; }
  const std::vector<std::uint64_t>& ids() const { return ids_; }
  const JsonField* find(std::string_view key) const;  // the last of that name

 private:
  friend class SlowHandler;
  std::vector<JsonField> fields_;
  std::vector<std::uint64_t> ids_;
  std::vector<std::string> storage_;  // slow path: key, text, key, text, …
};

}  // namespace orrery::traces
