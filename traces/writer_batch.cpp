// OpenAI batch files: JSON lines of {custom_id, method, url, body}. A trace has lengths, not text,
// so the prompts are filler of about the right length, equal where blocks are equal.
#include <algorithm>
#include <array>
#include <utility>

#include "runtime/base/hash.h"
#include "traces/writers.h"

namespace orrery::traces {
namespace {

// Common words; in the usual tokenizers each is one token with the space before it.
constexpr std::array<const char*, 64> kWords = {
    "the",  "of",    "and",   "to",   "in",   "is",   "it",   "that",  "was",   "for",   "on",
    "are",  "with",  "as",    "at",   "be",   "this", "have", "from",  "or",    "one",   "had",
    "by",   "not",   "but",   "what", "all",  "were", "when", "we",    "there", "can",   "an",
    "your", "which", "their", "said", "if",   "do",   "will", "each",  "about", "how",   "up",
    "out",  "them",  "then",  "she",  "many", "some", "so",   "these", "would", "other", "into",
    "has",  "more",  "her",   "two",  "like", "him",  "see",  "time",  "could"};

void append_words(std::string& out, std::uint64_t seed, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!out.empty()) out += ' ';
    out += kWords[hash_combine(seed, static_cast<std::uint64_t>(i)) % kWords.size()];
  }
}

class BatchWriter : public TraceWriter {
 public:
  explicit BatchWriter(std::unique_ptr<host::ByteWriter> out) : TraceWriter(std::move(out)) {}
  void write(const TraceRequest& r) override {
    if (!r.ok) return lose("whole rows of failed requests (not written)");
    const bool embedding = r.kind == "embedding", completion = r.kind == "completion";
    if (!embedding && !completion && !r.kind.empty() && r.kind != "chat")
      return lose("whole rows of kind " + r.kind + " (no such batch endpoint)");
    ++rows_;
    for (const std::string_view f :
         fields_lost(r, kHashIds | kId | kKind | kModel | kMaxTokens | kOutput | kHistory))
      lose(f);
    if (r.max_tokens && *r.max_tokens != r.output_tokens)
      lose("max_tokens (the length is written)");
    if (r.model.empty()) lose("model (not in the trace: \"model\" is written)");
    line_ = "{\"custom_id\": ";
    append_json_string(line_, r.id.empty() ? "row-" + std::to_string(r.row) : r.id);
    line_ += ", \"method\": \"POST\", \"url\": \"/v1/";
    line_ += embedding ? "embeddings" : completion ? "completions" : "chat/completions";
    line_ += "\", \"body\": {\"model\": ";
    append_json_string(line_, r.model.empty() ? "model" : r.model);
    if (!embedding) line_ += ", \"max_tokens\": " + std::to_string(r.output_tokens);
    line_ += embedding    ? ", \"input\": \""
             : completion ? ", \"prompt\": \""
                          : ", \"messages\": [{\"role\": \"user\", \"content\": \"";
    line_ += filler_text(r);
    line_ += embedding || completion ? "\"}}\n" : "\"}]}}\n";
    put(line_);
  }

 private:
  std::string line_;
};

}  // namespace

std::string filler_text(const TraceRequest& r) {
  std::string out;
  std::int64_t left = r.input_tokens;
  for (std::size_t i = 0; i < r.hash_ids.size() && left > 0; ++i) {
    const std::int64_t n = std::min(left, r.block_tokens);
    append_words(out, r.hash_ids[i], n);
    left -= n;
  }
  // What no block id covers is this request's alone.
  append_words(out, ~static_cast<std::uint64_t>(r.row), left);
  return out;
}

std::unique_ptr<TraceWriter> make_batch_writer(std::unique_ptr<host::ByteWriter> out,
                                               const WriteOptions&) {
  return std::make_unique<BatchWriter>(std::move(out));
}

}  // namespace orrery::traces
