#include "traces/flat_json.h"

#include <nlohmann/json.hpp>

namespace orrery::traces {
namespace {

// Cursor of the fast scanner. Every method returns false where the text is not of the plain form;
// the caller then gives up, so no case needs to be told apart here.
struct Cursor {
  const char* p;
  const char* end;

  void skip_space() {
    while (p != end && (*p == ' ' || *p == '\t')) ++p;
  }
  bool take(char c) {
    skip_space();
    if (p == end || *p != c) return false;
    ++p;
    return true;
  }
  bool word(std::string_view w) {
    if (static_cast<std::size_t>(end - p) < w.size() || std::string_view(p, w.size()) != w)
      return false;
    p += w.size();
    return true;
  }
  // After the opening quote, up to and with the closing one.
  bool string(std::string_view& text) {
    const char* start = p;
    for (; p != end; ++p) {
      const auto c = static_cast<unsigned char>(*p);
      if (c == '"') {
        text = std::string_view(start, static_cast<std::size_t>(p - start));
        ++p;
        return true;
      }
      if (c < 0x20 || c == '\\' || c >= 0x7f) return false;
    }
    return false;
  }
  std::size_t digits() {
    const char* start = p;
    while (p != end && *p >= '0' && *p <= '9') ++p;
    return static_cast<std::size_t>(p - start);
  }
  bool number(std::string_view& text) {
    const char* start = p;
    if (p != end && *p == '-') ++p;
    const char* first = p;
    const std::size_t whole = digits();
    if (whole == 0 || (whole > 1 && *first == '0')) return false;
    if (p != end && *p == '.') {
      ++p;
      if (digits() == 0) return false;
    }
    if (p != end && (*p == 'e' || *p == 'E')) return false;
    text = std::string_view(start, static_cast<std::size_t>(p - start));
    return text.size() <= 40;
  }
  // After the opening bracket: unsigned integers below 10^19 up to and with the closing one.
  bool ids(std::vector<std::uint64_t>& out) {
    if (take(']')) return true;
    while (true) {
      skip_space();
      const char* start = p;
      const std::size_t n = digits();
      if (n == 0 || n > 19 || (n > 1 && *start == '0')) return false;
      std::uint64_t v = 0;
      for (const char* d = start; d != p; ++d) v = v * 10 + static_cast<std::uint64_t>(*d - '0');
      out.push_back(v);
      if (take(',')) continue;
      return take(']');
    }
  }
};

}  // namespace

bool FlatJson::scan_fast(std::string_view line) {
  fields_.clear(), ids_.clear();
  Cursor c{line.data(), line.data() + line.size()};
  if (!c.take('{')) return false;
  if (!c.take('}')) {
    do {
      JsonField& field = fields_.emplace_back();
      if (!c.take('"') || !c.string(field.key) || !c.take(':')) return false;
      c.skip_space();
      if (c.p == c.end) return false;
      switch (*c.p) {
        case '"':
          ++c.p, field.kind = JsonKind::kString;
          if (!c.string(field.text)) return false;
          break;
        case '[':
          ++c.p, field.kind = JsonKind::kIds, field.first = ids_.size();
          if (!c.ids(ids_)) return false;
          field.count = ids_.size() - field.first;
          break;
        case 't':
          field.kind = JsonKind::kTrue;
          if (!c.word("true")) return false;
          break;
        case 'f':
          field.kind = JsonKind::kFalse;
          if (!c.word("false")) return false;
          break;
        case 'n':
          field.kind = JsonKind::kNull;
          if (!c.word("null")) return false;
          break;
        default:
          field.kind = JsonKind::kNumber;
          if (!c.number(field.text)) return false;
      }
    } while (c.take(','));
    if (!c.take('}')) return false;
  }
  c.skip_space();
  return c.p == c.end;
}

// Collects what nlohmann::json's event parser sees at depth 1.
class SlowHandler {
 public:
  using Exception = nlohmann::json::exception;
  explicit SlowHandler(FlatJson& out) : out_(out) {}
  bool root_is_object() const { return root_is_object_; }

  bool null() { return scalar(JsonKind::kNull, {}); }
  bool boolean(bool v) { return scalar(v ? JsonKind::kTrue : JsonKind::kFalse, {}); }
  bool number_integer(std::int64_t v) { return scalar(JsonKind::kNumber, std::to_string(v)); }
  bool number_unsigned(std::uint64_t v) {
    if (depth_ == 2 && in_ids_) {
      out_.ids_.push_back(v);
      return true;
    }
    return scalar(JsonKind::kNumber, std::to_string(v));
  }
  bool number_float(double, const std::string& raw) { return scalar(JsonKind::kNumber, raw); }
  bool string(std::string& v) { return scalar(JsonKind::kString, v); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(std::size_t) {
    if (depth_ == 0) root_is_object_ = true;
    return open(false);
  }
  bool start_array(std::size_t) { return open(true); }
  bool end_object() { return --depth_, true; }
  bool end_array() {
    --depth_;
    if (depth_ == 1 && in_ids_) out_.fields_.back().count = out_.ids_.size() - first_;
    if (depth_ == 1) in_ids_ = false;
    return true;
  }
  bool key(std::string& k) {
    if (depth_ == 1) key_ = k;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Exception&) { return false; }

 private:
  void field(JsonKind kind, std::string text) {
    out_.storage_.push_back(key_);
    out_.storage_.push_back(std::move(text));
    out_.fields_.emplace_back().kind = kind;
  }
  bool scalar(JsonKind kind, std::string text) {
    if (depth_ == 1) field(kind, std::move(text));
    if (depth_ == 2 && in_ids_) spoil();
    return true;
  }
  bool open(bool array) {
    if (depth_ == 1) {
      field(array ? JsonKind::kIds : JsonKind::kOther, {});
      in_ids_ = array;
      first_ = out_.fields_.back().first = out_.ids_.size();
    } else if (depth_ == 2 && in_ids_) {
      spoil();
    }
    ++depth_;
    return true;
  }
  void spoil() {  // the array holds something that is no id
    in_ids_ = false;
    out_.ids_.resize(first_);
    out_.fields_.back().kind = JsonKind::kOther;
    out_.fields_.back().first = 0;
  }
  FlatJson& out_;
  std::string key_;
  std::size_t first_ = 0;
  int depth_ = 0;
  bool in_ids_ = false, root_is_object_ = false;
};

bool FlatJson::scan_slow(std::string_view line) {
  fields_.clear(), ids_.clear(), storage_.clear();
  SlowHandler handler(*this);
  const bool good = nlohmann::json::sax_parse(line, &handler);
  if (!good || !handler.root_is_object()) return fields_.clear(), false;
  for (std::size_t i = 0; i < fields_.size(); ++i)
    fields_[i].key = storage_[2 * i], fields_[i].text = storage_[2 * i + 1];
  return true;
}

const JsonField* FlatJson::find(std::string_view key) const {
  for (auto it = fields_.rbegin(); it != fields_.rend(); ++it)
    if (it->key == key) return &*it;
  return nullptr;
}

}  // namespace orrery::traces
