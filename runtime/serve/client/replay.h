// Replay: an open-loop client. It sends each request of a trace at its time, whether or not the
// answers before it have come, over as many connections as that takes, and measures what a client
// sees. Works with any server that streams /v1/completions as OpenAI's does.
//
// Prompts are made of token ids (or of words, where a server refuses ids) from the row's hash_ids:
// equal ids give equal tokens, so prefixes are shared as in the trace; rows without them share
// nothing. Answers have exactly output_tokens tokens where the server knows ignore_eos.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
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

// Token ids of a prompt, each in 5 .. 254 so that any vocabulary holds them.
std::vector<std::int32_t> prompt_of(const traces::TraceRequest& request, std::uint64_t seed);

}  // namespace orrery::serve
