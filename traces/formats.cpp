#include <cctype>

#include "runtime/base/errors.h"
#include "traces/flat_json.h"
#include "traces/row_parser.h"
#include "traces/scan.h"

namespace orrery::traces {
namespace {

constexpr std::int64_t kMostTokens = 100'000'000;
constexpr std::size_t kExampleChars = 80;

std::string shorten(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kExampleChars)) {
    const auto u = static_cast<unsigned char>(c);
    out += u >= 0x20 && u < 0x7f ? c : '?';
  }
  return text.size() > kExampleChars ? out + "..." : out;
}

std::string describe(std::string_view line) {
  if (line.empty()) return "an empty file";
  for (const char c : line.substr(0, 200)) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 && u != '\t' && u != '\r') return "binary data";
  }
  FlatJson json;
  if (json.scan(line)) {
    std::string keys;
    for (const JsonField& f : json.fields())
      keys += (keys.empty() ? "\"" : ", \"") + std::string(f.key) + "\"";
    return "JSON lines with the keys " + (keys.empty() ? "(none)" : shorten(keys));
  }
  return "a first line \"" + shorten(line) + "\"";
}

std::string known_formats() {
  std::string out = "a trace in one of the known formats:";
  for (const Format& f : formats()) out += std::string("\n  ") + f.name + ": " + f.looks_like;
  return out;
}

}  // namespace

void ProblemList::add(std::string_view kind, std::int64_t line, std::string_view example,
                      std::int64_t count) {
  for (RowProblem& p : list_) {
    if (p.kind == kind) {
      p.count += count;
      return;
    }
  }
  list_.push_back({std::string(kind), count, line, shorten(example)});
}

// One line a format, in the order they are tried. To add an importer: write a RowParser in a file
// of its own, declare its two functions in row_parser.h and add it here.
const std::vector<Format>& formats() {
  static const std::vector<Format> list = {
      {"orrery", "JSON lines with \"arrival_s\", \"input_tokens\", \"output_tokens\"",
       detect_orrery, make_orrery},
      {"mooncake",
       "JSON lines with \"timestamp\", \"input_length\", \"output_length\", \"hash_ids\"",
       detect_mooncake, make_mooncake},
      {"azure", "CSV with the columns TIMESTAMP,ContextTokens,GeneratedTokens", detect_azure,
       make_azure},
      {"burstgpt",
       "CSV with the columns Timestamp,[Session ID,Elapsed time,]Model,Request tokens,Response "
       "tokens,Total tokens,Log Type",
       detect_burstgpt, make_burstgpt},
  };
  return list;
}

const Format& detect_format(const Probe& probe, const ReadOptions& options) {
  if (options.format != "auto") {
    std::string names;
    for (const Format& f : formats()) {
      if (options.format == f.name) return f;
      names += std::string(", ") + f.name;
    }
    throw InputError({"--format", 0, ""}, options.format, "auto" + names);
  }
  for (const Format& f : formats())
    if (f.detect(probe)) return f;
  throw InputError({std::string(probe.file), probe.line.empty() ? 0L : 1L, ""},
                   describe(probe.line), known_formats());
}

const char* read_count(std::string_view text, std::int64_t& value) {
  if (text.empty()) return "empty field";
  bool exact = true;
  if (!scan_int(text, value) && (!scan_scaled(text, 0, value, exact) || !exact))
    return "not a whole number";
  if (value < 0) return "negative count";
  if (value > kMostTokens) return "implausible count (over 10^8)";
  return nullptr;
}

TimeUnit time_unit(const ReadOptions& options, const char* when_auto) {
  const std::string name = options.time_unit == "auto" ? when_auto : options.time_unit;
  if (name == "s") return {9, "seconds"};
  if (name == "ms") return {6, "milliseconds"};
  if (name == "us") return {3, "microseconds"};
  if (name == "ns") return {0, "nanoseconds"};
  throw InputError({"--time-unit", 0, ""}, name, "auto, s, ms, us or ns");
}

const char* check_request(TraceRequest& r) {
  const bool generates = r.kind.empty() || r.kind == "chat" || r.kind == "completion";
  if (r.output_tokens == 0 && generates) r.ok = false;
  if (r.input_tokens == 0 && r.ok) return "no input tokens";
  if (!r.hash_ids.empty()) {
    if (r.block_tokens <= 0) return "hash_ids without block_tokens";
    const std::int64_t blocks = (r.input_tokens + r.block_tokens - 1) / r.block_tokens;
    if (static_cast<std::int64_t>(r.hash_ids.size()) > blocks)
      return "more hash_ids than the prompt has blocks";
  } else {
    r.block_tokens = 0;
  }
  return nullptr;
}

void TraceRequest::clear() {
  row = 0, arrival = Duration(), input_tokens = output_tokens = 0, max_tokens.reset();
  hash_ids.clear(), block_tokens = 0, history_tokens = 0;
  for (std::string* s :
       {&id, &model, &session, &tenant, &app, &adapter, &modality, &kind, &task, &after})
    s->clear();
  think.reset(), priority = 0, deadline.reset(), ok = true;
}

}  // namespace orrery::traces
