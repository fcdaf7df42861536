// Mooncake's traces (github.com/kvcache-ai/Mooncake, FAST25-release): JSON lines with timestamp
// (milliseconds), input_length, output_length and hash_ids, one id per 512 tokens of the prompt.
// Equal leading ids are an equal prefix; a partial last block never matches anything.
#include "runtime/base/errors.h"
#include "traces/flat_json.h"
#include "traces/row_parser.h"
#include "traces/scan.h"

namespace orrery::traces {
namespace {

class MooncakeParser : public RowParser {
 public:
  explicit MooncakeParser(const ReadOptions& options)
      : unit_(time_unit(options, "ms")),
        block_tokens_(options.block_tokens > 0 ? options.block_tokens : 512) {}

  Verdict parse(std::string_view line, std::int64_t number, TraceRequest& request,
                std::int64_t& timestamp) override {
    if (!(slow_only_ ? json_.scan_slow(line) : json_.scan(line)))
      return bad("not a JSON object", number, line);
    bool have_time = false, have_input = false, have_output = false;
    for (const JsonField& f : json_.fields()) {
      const char* problem = nullptr;
      if (f.key == "timestamp") {
        problem = read_time(f, number, timestamp);
        have_time = true;
      } else if (f.key == "input_length") {
        problem = read_field(f, request.input_tokens);
        have_input = true;
      } else if (f.key == "output_length") {
        problem = read_field(f, request.output_tokens);
        have_output = true;
      } else if (f.key == "hash_ids") {
        if (f.kind == JsonKind::kIds) {
          const auto first = json_.ids().begin() + static_cast<std::ptrdiff_t>(f.first);
          request.hash_ids.assign(first, first + static_cast<std::ptrdiff_t>(f.count));
        } else if (f.kind != JsonKind::kNull) {
          problem = "hash_ids is not an array of ids";
        }
      } else {
        odd("keys that are not read", number, f.key);
      }
      if (problem != nullptr) return bad(problem, number, line);
    }
    if (!have_time || !have_input || !have_output) return bad("missing key", number, line);
    request.block_tokens = block_tokens_;
    if (const char* p = check_request(request)) return bad(p, number, line);
    return Verdict::kGood;
  }
  std::string timestamp_unit() const override { return unit_.name; }

 private:
  const char* read_time(const JsonField& f, std::int64_t number, std::int64_t& timestamp) {
    bool exact = true;
    if (f.kind == JsonKind::kNull) return "empty field";
    if (f.kind != JsonKind::kNumber || !scan_scaled(f.text, unit_.power, timestamp, exact))
      return "timestamp not understood";
    if (timestamp < 0) return "negative timestamp";
    if (!exact) odd("timestamp finer than 1 ns (rounded)", number, f.text);
    return nullptr;
  }
  static const char* read_field(const JsonField& f, std::int64_t& value) {
    if (f.kind == JsonKind::kNull) return "empty field";
    return f.kind == JsonKind::kNumber ? read_count(f.text, value) : "not a whole number";
  }

  const TimeUnit unit_;
  const std::int64_t block_tokens_;
  FlatJson json_;
};

}  // namespace

bool detect_mooncake(const Probe& probe) {
  FlatJson json;
  return json.scan(probe.line) && json.find("timestamp") != nullptr &&
         json.find("input_length") != nullptr && json.find("output_length") != nullptr;
}

std::unique_ptr<RowParser> make_mooncake(const Probe&, const ReadOptions& options) {
  return std::make_unique<MooncakeParser>(options);
}

}  // namespace orrery::traces
