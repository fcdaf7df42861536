// Our own format, orrery.trace.v1: JSON lines. The first line may be a header
// {"schema": "orrery.trace.v1", "turns": "full"|"delta", "block_tokens": 16, "start": ISO time};
// each other line is a request. Rows hold the whole prompt of a turn unless the header says delta.
#include "runtime/base/errors.h"
#include "traces/flat_json.h"
#include "traces/row_parser.h"
#include "traces/scan.h"

namespace orrery::traces {
namespace {

constexpr std::string_view kSchema = "orrery.trace.v1";

class OrreryParser : public RowParser {
 public:
  OrreryParser(const Probe& probe, const ReadOptions& options)
      : file_(probe.file), unit_(time_unit(options, "s")), block_tokens_(options.block_tokens) {}

  Verdict parse(std::string_view line, std::int64_t number, TraceRequest& request,
                std::int64_t& timestamp) override {
    if (!(slow_only_ ? json_.scan_slow(line) : json_.scan(line)))
      return bad("not a JSON object", number, line);
    if (!json_.fields().empty() && json_.fields().front().key == "schema") {
      if (seen_row_ || header_) return bad("a header among the rows", number, line);
      return read_header(number), Verdict::kSkip;
    }
    seen_row_ = true;
    std::int64_t block_tokens = block_tokens_;
    Seen seen;
    for (const JsonField& f : json_.fields())
      if (const char* p = read_field(f, number, request, timestamp, block_tokens, seen))
        return bad(p, number, line);
    if (!seen.time || !seen.input || !seen.output) return bad("missing key", number, line);
    request.block_tokens = block_tokens;
    if (const char* p = check_request(request)) return bad(p, number, line);
    return Verdict::kGood;
  }
  std::string timestamp_unit() const override {
    return wall_ ? "date and time" : std::string(unit_.name);
  }
  bool wall_clock() const override { return wall_; }
  bool from_first_row() const override { return wall_; }
  std::string start() const override { return start_; }
  bool delta_turns() const override { return delta_; }

 private:
  struct Seen {
    bool time = false, input = false, output = false;
  };
  [[noreturn]] void fail(std::int64_t line, std::string_view key, std::string_view found,
                         const char* expected) const {
    throw InputError({file_, static_cast<long>(line), std::string(key)}, std::string(found),
                     expected);
  }
  void read_header(std::int64_t number) {
    header_ = true;
    for (const JsonField& f : json_.fields()) {
      if (f.key == "schema") {
        if (f.text != kSchema) fail(number, f.key, f.text, "orrery.trace.v1");
      } else if (f.key == "turns") {
        if (f.text != "full" && f.text != "delta") fail(number, f.key, f.text, "full or delta");
        delta_ = f.text == "delta";
      } else if (f.key == "block_tokens") {
        std::int64_t n = 0;
        if (read_count(f.text, n) != nullptr || n < 1) fail(number, f.key, f.text, "a count >= 1");
        if (block_tokens_ == 0) block_tokens_ = n;
      } else if (f.key == "start") {
        start_ = f.text;
      } else {
        odd("keys that are not read", number, f.key);
      }
    }
  }
  const char* read_field(const JsonField& f, std::int64_t number, TraceRequest& r,
                         std::int64_t& timestamp, std::int64_t& block_tokens, Seen& seen) {
    const std::string_view k = f.key;
    if (k == "arrival_s") return seen.time = true, read_time(f, number, timestamp);
    if (k == "input_tokens") return seen.input = true, count(f, r.input_tokens);
    if (k == "output_tokens") return seen.output = true, count(f, r.output_tokens);
    if (f.kind == JsonKind::kNull) return nullptr;  // an optional field that is not given
    if (k == "hash_ids") return ids(f, r.hash_ids);
    if (k == "block_tokens") return count(f, block_tokens);
    if (k == "history_tokens") return count(f, r.history_tokens);
    if (k == "max_tokens") return r.max_tokens.emplace(), count(f, *r.max_tokens);
    if (k == "think_s") return r.think.emplace(), duration(f, *r.think);
    if (k == "deadline_s") return r.deadline.emplace(), duration(f, *r.deadline);
    if (k == "priority") {
      std::int64_t n = 0;
      if (f.kind != JsonKind::kNumber || !scan_int(f.text, n) || n < INT32_MIN || n > INT32_MAX)
        return "priority is not a whole number";
      return r.priority = static_cast<std::int32_t>(n), nullptr;
    }
    if (k == "ok") {
      if (f.kind != JsonKind::kTrue && f.kind != JsonKind::kFalse) return "ok is not true or false";
      return r.ok = f.kind == JsonKind::kTrue, nullptr;
    }
    std::string* text = text_field(k, r);
    if (text == nullptr) return odd("keys that are not read", number, k), nullptr;
    if (f.kind != JsonKind::kString && f.kind != JsonKind::kNumber) return "not a text";
    return text->assign(f.text), nullptr;
  }
  static std::string* text_field(std::string_view k, TraceRequest& r) {
    if (k == "id") return &r.id;
    if (k == "model") return &r.model;
    if (k == "session") return &r.session;
    if (k == "tenant") return &r.tenant;
    if (k == "app") return &r.app;
    if (k == "adapter") return &r.adapter;
    if (k == "modality") return &r.modality;
    if (k == "kind") return &r.kind;
    if (k == "task") return &r.task;
    if (k == "after") return &r.after;
    return nullptr;
  }
  const char* read_time(const JsonField& f, std::int64_t number, std::int64_t& timestamp) {
    if (f.kind == JsonKind::kNull) return "empty field";
    bool exact = true, wall = false;
    WallTime time;
    if (f.kind == JsonKind::kString && scan_wall_time(f.text, time)) {
      timestamp = time.ns, exact = time.exact, wall = true;
    } else if (f.kind != JsonKind::kNumber || !scan_scaled(f.text, unit_.power, timestamp, exact)) {
      return "timestamp not understood";
    }
    if (time_seen_ && wall != wall_) return "timestamp of another kind than the rows before";
    if (!wall && timestamp < 0) return "negative timestamp";
    time_seen_ = true, wall_ = wall;
    if (!exact) odd("timestamp finer than 1 ns (rounded)", number, f.text);
    return nullptr;
  }
  static const char* count(const JsonField& f, std::int64_t& value) {
    if (f.kind == JsonKind::kNull) return "empty field";
    return f.kind == JsonKind::kNumber ? read_count(f.text, value) : "not a whole number";
  }
  static const char* duration(const JsonField& f, Duration& value) {
    std::int64_t ns = 0;
    bool exact = true;
    if (f.kind != JsonKind::kNumber || !scan_scaled(f.text, 9, ns, exact)) return "not a time";
    if (ns < 0) return "negative time";
    return value = Duration(ns), nullptr;
  }
  const char* ids(const JsonField& f, std::vector<std::uint64_t>& out) {
    if (f.kind != JsonKind::kIds) return "hash_ids is not an array of ids";
    const auto first = json_.ids().begin() + static_cast<std::ptrdiff_t>(f.first);
    out.assign(first, first + static_cast<std::ptrdiff_t>(f.count));
    return nullptr;
  }

  const std::string file_;
  const TimeUnit unit_;
  std::int64_t block_tokens_;
  std::string start_;
  bool header_ = false, seen_row_ = false, delta_ = false, wall_ = false, time_seen_ = false;
  FlatJson json_;
};

}  // namespace

bool detect_orrery(const Probe& probe) {
  FlatJson json;
  if (!json.scan(probe.line)) return false;
  const JsonField* schema = json.find("schema");
  if (schema != nullptr) return schema->text.substr(0, 13) == "orrery.trace.";
  return json.find("arrival_s") != nullptr && json.find("input_tokens") != nullptr;
}

std::unique_ptr<RowParser> make_orrery(const Probe& probe, const ReadOptions& options) {
  return std::make_unique<OrreryParser>(probe, options);
}

}  // namespace orrery::traces
