// Replay: an open-loop client. It sends each request of a trace at its time, whether or not the
// answers before it have come, over as many connections as that takes, and measures what a client
// sees. Works with any server that streams /v1/completions as OpenAI's does.
//
// Prompts are made of token ids (or of words, where a server refuses ids), so that they share what
// the trace says: see PromptMaker. Answers have exactly output_tokens tokens where the server knows
// ignore_eos.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/serve/client/load_report.h"
#include "traces/trace.h"

namespace orrery::serve {

struct Endpoint {
  std::string host, path;  // path without a trailing slash: "" or "/base"
  int port = 80;
};
// "http://HOST[:PORT][/BASE]"; a trailing /v1 is dropped. Throws InputError, or Unsupported
// (https).
Endpoint parse_url(const std::string& url);

struct ReplayOptions {
  std::string url, model;  // model empty: the first that the server lists
  double speed = 1;        // 2: twice as fast as the trace
  std::optional<std::int64_t> max_requests;
  double timeout_s = 600;  // of one request
  std::uint64_t seed = 1;
  std::optional<RequestLimits> limits;              // of a good request; none: no goodput
  std::function<bool()> stop;                       // polled; true: send no more, cut off
  std::function<void(const LoadReport&)> progress;  // now and then
};

struct ReplayResult {
  LoadReport report;
  std::string model;
  bool token_prompts = true;  // false: the server refused ids, words were sent
  bool stopped = false;
};

// Throws InputError when the server cannot be reached at all or has no model.
ReplayResult replay(traces::RequestSource& trace, const ReplayOptions& options);

// PromptMaker: token ids of prompts, each in 5 .. 254 so that any vocabulary holds them. They share
// prefixes as the twin counts them:
//   * blocks with equal hash_ids (and length, for a partial tail) have equal tokens;
//   * without hash_ids, the first history_tokens of a session's turn are those of the turn before
//     it, position by position, and what is beyond them is new. Where an answer of the turn before
//     stands inside that history, its tokens are made up here too: a server that keeps the KV of
//     its own answers finds the earlier prompt, not them;
//   * another row shares nothing.
// Owns a few numbers a session. Rows of a session come in the order in which they are sent.
class PromptMaker {
 public:
  explicit PromptMaker(std::uint64_t seed) : seed_(seed) {}
  std::vector<std::int32_t> prompt_of(const traces::TraceRequest& request);

 private:
  // From `first` on, tokens were written by turn `turn`.
  struct Span {
    std::int64_t first;
    std::uint64_t turn;
  };
  struct Session {
    std::vector<Span> spans;
    std::int64_t tokens = 0;  // prompt and answer of the latest turn
  };
  std::vector<std::int32_t> of_hash_ids(const traces::TraceRequest& request) const;
  std::vector<std::int32_t> of_session(const traces::TraceRequest& request);
  std::int32_t token(std::uint64_t content, std::int64_t at) const;

  std::uint64_t seed_;
  std::unordered_map<std::string, Session> sessions_;
};

}  // namespace orrery::serve
