// JSON as people write it: comments allowed, and every value remembers the line it came from, so
// that an error names file, line and field. nlohmann::json parses; this adds places and readers.
// Checking against a JSON Schema is in runtime/host/json_schema.h: its library is not pure.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"

namespace orrery {

using Json = nlohmann::ordered_json;  // keeps the order of keys: same bytes out as written

class JsonView;

// One parsed text. Values are addressed by JSON pointer ("/fleet/0/replicas").
class JsonDocument {
 public:
  // Parses `text`; `name` is the file name for messages. Throws InputError with the line: not
  // JSON, a key given twice in one object, nesting deeper than kMaxDepth.
  static std::shared_ptr<const JsonDocument> parse(std::string_view text, std::string name);
  static constexpr std::size_t kMaxDepth = 200;  // what recursion over a document may rely on
  const Json& root() const { return root_; }
  const std::string& name() const { return name_; }
  // Of the value there, or of its nearest ancestor that is there; walks the tree, so for messages.
  long line_of(const std::string& pointer) const;

 private:
  Json root_;
  std::string name_;
  // Line of each value in the order of the text: 4 bytes a value, searched only for a message.
  std::vector<std::int32_t> lines_;
};

// A cursor into a document. Getters throw InputError naming file, line and field.
class JsonView {
 public:
  explicit JsonView(std::shared_ptr<const JsonDocument> document);
  bool has(std::string_view key) const;
  JsonView at(std::string_view key) const;                   // key must be there
  JsonView at(std::size_t index) const;                      // of an array
  std::optional<JsonView> find(std::string_view key) const;  // absent or null: nullopt
  std::size_t size() const { return value_->size(); }
  std::vector<JsonView> items() const;                            // of an array
  std::vector<std::pair<std::string, JsonView>> members() const;  // of an object, in file order

  bool is_string() const { return value_->is_string(); }
  bool is_number() const { return value_->is_number(); }
  bool is_object() const { return value_->is_object(); }
  bool is_array() const { return value_->is_array(); }
  bool is_null() const { return value_->is_null(); }
  std::string as_string() const;
  double as_number() const;
  std::int64_t as_int() const;  // a whole number (3 or 3.0, not 3.5)
  bool as_bool() const;
  // The member or the default where it is absent or null.
  std::string get(std::string_view key, const char* fallback) const;
  std::string get(std::string_view key, const std::string& fallback) const;
  double get(std::string_view key, double fallback) const;
  std::int64_t get(std::string_view key, std::int64_t fallback) const;
  int get(std::string_view key, int fallback) const;
  bool get(std::string_view key, bool fallback) const;

  // Only these keys may stand here; another is an error that suggests the nearest of them.
  void allow_only(std::initializer_list<std::string_view> keys) const;
  // Throws InputError at this value's place. `found` defaults to the value itself.
  [[noreturn]] void fail(const std::string& expected, std::optional<std::string> found = {}) const;
  InputError::Place place() const;
  const Json& json() const { return *value_; }
  const std::string& pointer() const { return pointer_; }

 private:
  JsonView(std::shared_ptr<const JsonDocument> document, std::string pointer, const Json* value);
  JsonView child(std::string_view token, const Json* value) const;
  std::shared_ptr<const JsonDocument> document_;
  std::string pointer_;
  const Json* value_;
};

// "/fleet/0/replicas" as people say it: "fleet[0].replicas".
std::string field_name(const std::string& pointer);

// The candidate with the smallest edit distance to `word`, when it is near enough to be meant.
std::optional<std::string> did_you_mean(std::string_view word,
                                        const std::vector<std::string>& candidates);

}  // namespace orrery
