#include "runtime/base/json.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <unordered_set>

namespace orrery {
namespace {

// What the parser reads through: a pointer that publishes how far it has come.
class TrackedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedIterator(const char* at, const char** published) : at_(at), published_(published) {}
  const char& operator*() const { return *at_; }
  TrackedIterator& operator++() {
    *published_ = ++at_;
    return *this;
  }
  bool operator==(const TrackedIterator& o) const { return at_ == o.at_; }
  bool operator!=(const TrackedIterator& o) const { return at_ != o.at_; }

 private:
  const char* at_;
  const char** published_;
};

// "[json.exception…] parse error at line 1, column 2: syntax error while parsing value - X;
// expected Y" in two parts: X, Y.
std::pair<std::string, std::string> explain(std::string message) {
  for (const char* mark : {"] ", ": ", " - "}) {
    const auto at = message.find(mark);
    if (at != std::string::npos) message.erase(0, at + std::string_view(mark).size());
  }
  const auto cut = message.find("; expected ");
  if (cut == std::string::npos) return {message, "JSON"};
  return {message.substr(0, cut), message.substr(cut + std::string_view("; expected ").size())};
}

// Builds the tree and notes the line of each value (of its key, in an object).
class TreeBuilder {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  TreeBuilder(const std::string& name, const char* text, Json& root,
              std::vector<std::int32_t>& lines)
      : position(text), name_(name), counted_(text), root_(root), lines_(lines) {}

  bool null() { return put(Json(nullptr)) != nullptr; }
  bool boolean(bool v) { return put(Json(v)) != nullptr; }
  bool number_integer(number_integer_t v) { return put(Json(v)) != nullptr; }
  bool number_unsigned(number_unsigned_t v) { return put(Json(v)) != nullptr; }
  bool number_float(number_float_t v, const string_t&) { return put(Json(v)) != nullptr; }
  bool string(string_t& v) { return put(Json(std::move(v))) != nullptr; }
  bool binary(binary_t&) { return false; }  // JSON text has none
  bool start_object(std::size_t) { return open(put(Json::object())); }
  bool start_array(std::size_t) { return open(put(Json::array())); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(string_t& name) {
    Open& object = stack_.back();
    const auto& members = object.value->get_ref<const Json::object_t&>();
    if (is_duplicate(object, members, name)) {
      throw InputError({name_, line(), name}, "the key \"" + name + "\" twice in one object",
                       "each key once");
    }
    key_ = std::move(name);
    key_line_ = line();
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) {
    const auto [found, expected] = explain(e.what());
    throw InputError({name_, line(), ""}, found, expected);
  }

  const char* position;  // how far the parser has read

 private:
  struct Open {
    Json* value;
    std::unordered_set<std::string> keys;  // filled once the object is large
  };
  static constexpr std::size_t kLarge = 32;  // members up to which a linear search is quicker

  static bool is_duplicate(Open& object, const Json::object_t& members, const std::string& name) {
    if (members.size() < kLarge) {
      return std::any_of(members.begin(), members.end(),
                         [&](const auto& member) { return member.first == name; });
    }
    if (object.keys.empty())
      for (const auto& member : members) object.keys.insert(member.first);
    return !object.keys.insert(name).second;
  }

  // Line of the token just read. A number ends only at the character after it, hence the step back.
  std::int32_t line() {
    line_ += static_cast<std::int32_t>(std::count(counted_, position, '\n'));
    counted_ = position;
    return line_ - (position != start() && position[-1] == '\n' ? 1 : 0);
  }
  const char* start() const { return start_; }

  Json* put(Json&& value) {
    const std::int32_t here = line();
    if (stack_.empty()) {
      lines_.push_back(here);
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *stack_.back().value;
    if (parent.is_array()) {
      lines_.push_back(here);
      parent.get_ref<Json::array_t&>().push_back(std::move(value));
      return &parent.get_ref<Json::array_t&>().back();
    }
    lines_.push_back(key_line_);
    // Straight into the underlying vector: key() has looked for a duplicate already.
    auto& members = static_cast<Json::object_t::Container&>(parent.get_ref<Json::object_t&>());
    members.emplace_back(std::move(key_), std::move(value));
    return &members.back().second;
  }

  bool open(Json* value) {
    if (stack_.size() >= JsonDocument::kMaxDepth) {
      throw InputError({name_, line(), ""}, "nesting too deep",
                       "at most " + std::to_string(JsonDocument::kMaxDepth) + " levels");
    }
    stack_.push_back(Open{value, {}});
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  const std::string& name_;
  const char* counted_;
  const char* start_ = counted_;
  std::int32_t line_ = 1, key_line_ = 1;
  Json& root_;
  std::vector<std::int32_t>& lines_;
  std::vector<Open> stack_;
  std::string key_;
};

// Number of values in a subtree, itself included.
std::size_t count_values(const Json& value) {
  std::size_t n = 1;
  if (value.is_structured())
    for (const Json& child : value) n += count_values(child);
  return n;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::vector<std::string> split_pointer(const std::string& pointer) {
  std::vector<std::string> tokens;
  for (const char c : pointer) {
    if (c == '/')
      tokens.emplace_back();
    else if (!tokens.empty())
      tokens.back() += c;
  }
  for (std::string& token : tokens) {
    replace_all(token, "~1", "/");
    replace_all(token, "~0", "~");
  }
  return tokens;
}

std::string escape_token(std::string token) {
  replace_all(token, "~", "~0");
  replace_all(token, "/", "~1");
  return token;
}

// A value as a message shows it: short.
std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::size_t kMost = 60;
  if (text.size() > kMost) text = text.substr(0, kMost) + "…";
  return text;
}

}  // namespace

std::shared_ptr<const JsonDocument> JsonDocument::parse(std::string_view text, std::string name) {
  auto document = std::make_shared<JsonDocument>();
  document->name_ = std::move(name);
  TreeBuilder builder(document->name_, text.data(), document->root_, document->lines_);
  Json::sax_parse(TrackedIterator(text.data(), &builder.position),
                  TrackedIterator(text.data() + text.size(), &builder.position), &builder,
                  Json::input_format_t::json, /*strict=*/true, /*ignore_comments=*/true);
  return document;
}

long JsonDocument::line_of(const std::string& pointer) const {
  if (lines_.empty()) return 0;
  std::size_t index = 0;  // of `value` in lines_
  const Json* value = &root_;
  for (const std::string& token : split_pointer(pointer)) {
    if (!value->is_structured()) break;
    std::size_t at = index + 1, position = 0;
    const Json* found = nullptr;
    for (auto it = value->begin(); it != value->end() && found == nullptr; ++it, ++position) {
      if (value->is_object() ? it.key() == token : std::to_string(position) == token)
        found = &*it;
      else
        at += count_values(*it);
    }
    if (found == nullptr) break;
    value = found, index = at;
  }
  return lines_[index];
}

std::string field_name(const std::string& pointer) {
  std::string field;
  for (const std::string& token : split_pointer(pointer)) {
    const bool index = !token.empty() && std::all_of(token.begin(), token.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    if (index)
      field += "[" + token + "]";
    else
      field += (field.empty() ? "" : ".") + token;
  }
  return field;
}

JsonView::JsonView(std::shared_ptr<const JsonDocument> document)
    : document_(std::move(document)), value_(&document_->root()) {}

JsonView::JsonView(std::shared_ptr<const JsonDocument> document, std::string pointer,
                   const Json* value)
    : document_(std::move(document)), pointer_(std::move(pointer)), value_(value) {}

JsonView JsonView::child(std::string_view token, const Json* value) const {
  return {document_, pointer_ + "/" + escape_token(std::string(token)), value};
}

InputError::Place JsonView::place() const {
  return {document_->name(), document_->line_of(pointer_), field_name(pointer_)};
}

void JsonView::fail(const std::string& expected, std::optional<std::string> found) const {
  throw InputError(place(), found ? *found : shown(*value_), expected);
}

bool JsonView::has(std::string_view key) const {
  return value_->is_object() && value_->contains(std::string(key));
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
  if (!value_->is_object()) fail("an object");
  const auto it = value_->find(std::string(key));
  if (it == value_->end() || it->is_null()) return std::nullopt;
  return child(key, &*it);
}

JsonView JsonView::at(std::string_view key) const {
  if (!value_->is_object()) fail("an object");
  const auto it = value_->find(std::string(key));
  if (it == value_->end()) {
    InputError::Place here = place();
    here.field += (here.field.empty() ? "" : ".") + std::string(key);
    throw InputError(here, "nothing", "this key");
  }
  return child(key, &*it);
}

JsonView JsonView::at(std::size_t index) const {
  if (!value_->is_array()) fail("an array");
  if (index >= value_->size()) fail("at least " + std::to_string(index + 1) + " elements");
  return child(std::to_string(index), &(*value_)[index]);
}

std::vector<JsonView> JsonView::items() const {
  if (!value_->is_array()) fail("an array");
  std::vector<JsonView> list;
  list.reserve(value_->size());
  for (const Json& item : *value_) list.push_back(child(std::to_string(list.size()), &item));
  return list;
}

std::vector<std::pair<std::string, JsonView>> JsonView::members() const {
  if (!value_->is_object()) fail("an object");
  std::vector<std::pair<std::string, JsonView>> list;
  list.reserve(value_->size());
  for (auto it = value_->begin(); it != value_->end(); ++it)
    list.emplace_back(it.key(), child(it.key(), &*it));
  return list;
}

std::string JsonView::as_string() const {
  if (!value_->is_string()) fail("a text in quotes");
  return value_->get<std::string>();
}

double JsonView::as_number() const {
  if (!value_->is_number()) fail("a number");
  return value_->get<double>();
}

std::int64_t JsonView::as_int() const {
  if (value_->is_number_unsigned()) {
    const auto v = value_->get<std::uint64_t>();
    if (v > static_cast<std::uint64_t>(INT64_MAX)) fail("a whole number below 2^63");
    return static_cast<std::int64_t>(v);
  }
  if (value_->is_number_integer()) return value_->get<std::int64_t>();
  if (!value_->is_number_float()) fail("a whole number");
  const double v = value_->get<double>();
  // Up to 2^53 a double holds every whole number.
  if (v != std::floor(v) || std::abs(v) > 0x1p53) fail("a whole number");
  return static_cast<std::int64_t>(v);
}

bool JsonView::as_bool() const {
  if (!value_->is_boolean()) fail("true or false");
  return value_->get<bool>();
}

std::string JsonView::get(std::string_view key, const char* fallback) const {
  const auto member = find(key);
  return member ? member->as_string() : std::string(fallback);
}

std::string JsonView::get(std::string_view key, const std::string& fallback) const {
  return get(key, fallback.c_str());
}

double JsonView::get(std::string_view key, double fallback) const {
  const auto member = find(key);
  return member ? member->as_number() : fallback;
}

std::int64_t JsonView::get(std::string_view key, std::int64_t fallback) const {
  const auto member = find(key);
  return member ? member->as_int() : fallback;
}

int JsonView::get(std::string_view key, int fallback) const {
  const auto member = find(key);
  if (!member) return fallback;
  const std::int64_t v = member->as_int();
  if (v < INT32_MIN || v > INT32_MAX) member->fail("a whole number of 32 bits");
  return static_cast<int>(v);
}

bool JsonView::get(std::string_view key, bool fallback) const {
  const auto member = find(key);
  return member ? member->as_bool() : fallback;
}

void JsonView::allow_only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [name, member] : members()) {
    if (std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
    const std::vector<std::string> known(keys.begin(), keys.end());
    const auto nearest = did_you_mean(name, known);
    std::string expected;
    if (nearest) {
      expected = "\"" + *nearest + "\" (did you mean that?)";
    } else {
      for (const std::string& key : known) expected += (expected.empty() ? "one of " : ", ") + key;
      if (known.empty()) expected = "no keys here";
    }
    member.fail(expected, "unknown key \"" + name + "\"");
  }
}

namespace {

std::string folded(std::string_view word) {
  std::string out(word);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return out;
}

// Optimal string alignment: insertions, deletions, substitutions, swaps of neighbours.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string> did_you_mean(std::string_view word,
                                        const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongest = 100;  // nobody mistypes a word this long
  if (word.empty() || word.size() > kLongest) return std::nullopt;
  // A third of the letters may be wrong: "replcias" is replicas, "gpu" is not tpu.
  const std::size_t most = std::max<std::size_t>(1, word.size() / 3);
  std::optional<std::string> best;
  std::size_t best_distance = most + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(folded(word), folded(candidate));
    if (distance < best_distance && distance < candidate.size())
      best = candidate, best_distance = distance;
  }
  return best;
}

}  // namespace orrery
