#include "traces/writer.h"

#include <array>
#include <tuple>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/json.h"
#include "traces/scan.h"
#include "traces/writers.h"

namespace orrery::traces {
namespace {

constexpr std::size_t kBuffer = 1 << 16;

void append_text(std::string& out, std::string_view key, const std::string& value) {
  if (value.empty()) return;
  out += ", \"", out += key, out += "\": ";
  append_json_string(out, value);
}

void append_count(std::string& out, std::string_view key, std::int64_t value) {
  out += ", \"", out += key, out += "\": ", out += std::to_string(value);
}

// All fields; optional ones only where given.
class OrreryWriter : public TraceWriter {
 public:
  OrreryWriter(std::unique_ptr<host::ByteWriter> out, const WriteOptions& options)
      : TraceWriter(std::move(out)) {
    line_ = R"({"schema": "orrery.trace.v1", "turns": "full")";
    append_text(line_, "start", options.start);
    put(line_ += "}\n");
  }
  void write(const TraceRequest& r) override {
    ++rows_;
    line_ = "{\"arrival_s\": ";
    append_seconds(line_, r.arrival.value());
    append_count(line_, "input_tokens", r.input_tokens);
    append_count(line_, "output_tokens", r.output_tokens);
    if (r.max_tokens) append_count(line_, "max_tokens", *r.max_tokens);
    append_text(line_, "model", r.model);
    append_text(line_, "tenant", r.tenant);
    append_text(line_, "app", r.app);
    append_text(line_, "kind", r.kind);
    append_text(line_, "modality", r.modality);
    append_text(line_, "adapter", r.adapter);
    if (r.priority != 0) append_count(line_, "priority", r.priority);
    append_text(line_, "session", r.session);
    append_text(line_, "id", r.id);
    append_text(line_, "after", r.after);
    if (r.think) line_ += ", \"think_s\": ", append_seconds(line_, r.think->value());
    if (r.deadline) line_ += ", \"deadline_s\": ", append_seconds(line_, r.deadline->value());
    append_text(line_, "task", r.task);
    if (r.history_tokens != 0) append_count(line_, "history_tokens", r.history_tokens);
    if (!r.hash_ids.empty()) {
      append_count(line_, "block_tokens", r.block_tokens);
      line_ += ", \"hash_ids\": ", append_ids(line_, r.hash_ids);
    }
    if (!r.ok) line_ += ", \"ok\": false";
    put(line_ += "}\n");
  }

 private:
  std::string line_;
};

class AzureWriter : public TraceWriter {
 public:
  AzureWriter(std::unique_ptr<host::ByteWriter> out, const WriteOptions& options)
      : TraceWriter(std::move(out)) {
    WallTime start;
    known_start_ = scan_wall_time(options.start, start);
    if (known_start_) start_ = start.ns;
    put("TIMESTAMP,ContextTokens,GeneratedTokens\n");
  }
  void write(const TraceRequest& r) override {
    ++rows_;
    for (const std::string_view f : fields_lost(r, kArrival | kOutput)) lose(f);
    if (!known_start_) lose("the date (not in the trace: 1970-01-01 is written)");
    if ((start_ + r.arrival.value()) % 100 != 0) lose("arrival_s below 100 ns");
    put(format_wall_time(start_ + r.arrival.value(), 7) + "," + std::to_string(r.input_tokens) +
        "," + std::to_string(r.output_tokens) + "\n");
  }

 private:
  bool known_start_ = false;
  std::int64_t start_ = 0;
};

class BurstGptWriter : public TraceWriter {
 public:
  explicit BurstGptWriter(std::unique_ptr<host::ByteWriter> out) : TraceWriter(std::move(out)) {}
  void write(const TraceRequest& r) override {
    if (rows_++ == 0) {  // the form with sessions when the first request has one
      sessions_ = !r.session.empty();
      put(sessions_ ? "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,"
                      "Total tokens,Log Type\n"
                    : "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n");
    }
    const bool log_kept = r.kind == "chat" || (r.kind.empty() && r.app == "api");
    for (const std::string_view f :
         fields_lost(r, kArrival | kOutput | kModel | (sessions_ ? kSession : 0u) |
                            (log_kept ? kKind : 0u) | (log_kept && r.app == "api" ? kApp : 0u)))
      lose(f);
    if (r.arrival.value() % 1'000'000'000 != 0) lose("arrival_s below 1 s");
    line_ = std::to_string(r.arrival.value() / 1'000'000'000) + ",";
    if (sessions_) line_ += quoted(r.session) + ",,";
    line_ += quoted(r.model) + "," + std::to_string(r.input_tokens) + "," +
             std::to_string(r.output_tokens) + "," +
             std::to_string(r.input_tokens + r.output_tokens) + "," +
             (r.kind == "chat" ? "Conversation log" : "API log") + "\n";
    put(line_);
  }

 private:
  static std::string quoted(const std::string& text) {
    if (text.find_first_of(",\"\n") == std::string::npos) return text;
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"') out += '"';
      out += c;
    }
    return out + "\"";
  }
  bool sessions_ = false;
  std::string line_;
};

struct Entry {
  const char* name;
  std::unique_ptr<TraceWriter> (*make)(std::unique_ptr<host::ByteWriter>, const WriteOptions&);
};

template <class Writer>
std::unique_ptr<TraceWriter> with_options(std::unique_ptr<host::ByteWriter> out,
                                          const WriteOptions& options) {
  return std::make_unique<Writer>(std::move(out), options);
}

const std::vector<Entry>& table() {
  static const std::vector<Entry> list = {
      {"orrery", with_options<OrreryWriter>},
      {"mooncake", make_mooncake_writer},
      {"azure", with_options<AzureWriter>},
      {"burstgpt",
       [](std::unique_ptr<host::ByteWriter> out,
          const WriteOptions&) -> std::unique_ptr<TraceWriter> {
         return std::make_unique<BurstGptWriter>(std::move(out));
       }},
      {"openai-batch", make_batch_writer},
  };
  return list;
}

}  // namespace

void append_ids(std::string& out, const std::vector<std::uint64_t>& ids) {
  out += '[';
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(ids[i]);
  }
  out += ']';
}

void append_json_string(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u >= 0x7f || c == '"' || c == '\\') {  // bytes that are not UTF-8 are replaced
      out += Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
      return;
    }
  }
  out += '"', out += text, out += '"';
}

void TraceWriter::lose(std::string_view what) {
  for (Loss& l : losses_) {
    if (l.what == what) {
      ++l.rows;
      return;
    }
  }
  losses_.push_back({std::string(what), 1});
}

void TraceWriter::put(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() < kBuffer) return;
  out_->write(buffer_);
  buffer_.clear();
}

void TraceWriter::close() {
  out_->write(buffer_);
  buffer_.clear();
  out_->close();
}

std::vector<std::string_view> fields_lost(const TraceRequest& r, unsigned kept) {
  const bool generates = r.kind.empty() || r.kind == "chat" || r.kind == "completion";
  const std::array<std::tuple<Field, const char*, bool>, 19> fields = {{
      {kArrival, "arrival_s", true},
      {kOutput, "output_tokens", true},
      {kHashIds, "hash_ids", !r.hash_ids.empty()},
      {kHistory, "history_tokens", r.history_tokens != 0},
      {kModel, "model", !r.model.empty()},
      {kTenant, "tenant", !r.tenant.empty()},
      {kApp, "app", !r.app.empty()},
      {kKind, "kind", !r.kind.empty()},
      {kModality, "modality", !r.modality.empty()},
      {kAdapter, "adapter", !r.adapter.empty()},
      {kPriority, "priority", r.priority != 0},
      {kSession, "session", !r.session.empty()},
      {kId, "id", !r.id.empty()},
      {kAfter, "after", !r.after.empty()},
      {kThink, "think_s", r.think.has_value()},
      {kDeadline, "deadline_s", r.deadline.has_value()},
      {kMaxTokens, "max_tokens", r.max_tokens.has_value()},
      {kTask, "task", !r.task.empty()},
      // Other formats say "failed" by an output of 0.
      {kOk, "ok", r.ok ? r.output_tokens == 0 && !generates : r.output_tokens > 0},
  }};
  std::vector<std::string_view> lost;
  for (const auto& [field, name, present] : fields)
    if (present && (kept & field) == 0) lost.emplace_back(name);
  return lost;
}

std::unique_ptr<TraceWriter> make_writer(const std::string& format,
                                         std::unique_ptr<host::ByteWriter> out,
                                         const WriteOptions& options) {
  for (const Entry& e : table())
    if (format == e.name) return e.make(std::move(out), options);
  std::string names;
  for (const std::string& name : writer_formats()) names += (names.empty() ? "" : ", ") + name;
  throw InputError({"--to", 0, ""}, format, names);
}

std::vector<std::string> writer_formats() {
  std::vector<std::string> names;
  for (const Entry& e : table()) names.emplace_back(e.name);
  return names;
}

}  // namespace orrery::traces
