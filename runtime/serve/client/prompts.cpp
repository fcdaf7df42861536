#include <algorithm>

#include "runtime/base/hash.h"
#include "runtime/serve/client/replay.h"

namespace orrery::serve {

std::int32_t PromptMaker::token(std::uint64_t content, std::int64_t at) const {
  const std::uint64_t word =
      hash_combine(hash_combine(seed_, content), static_cast<std::uint64_t>(at));
  return static_cast<std::int32_t>(5 + word % 250);
}

std::vector<std::int32_t> PromptMaker::prompt_of(const traces::TraceRequest& request) {
  if (!request.hash_ids.empty() && request.block_tokens > 0) return of_hash_ids(request);
  return of_session(request);
}

std::vector<std::int32_t> PromptMaker::of_hash_ids(const traces::TraceRequest& request) const {
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(request.input_tokens));
  const std::int64_t block = request.block_tokens;
  const std::uint64_t own = hash_combine(0x726f77, static_cast<std::uint64_t>(request.row));
  for (std::int64_t at = 0; at < request.input_tokens; ++at) {
    const std::int64_t number = at / block;
    if (number >= static_cast<std::int64_t>(request.hash_ids.size())) {
      ids.push_back(token(own, at));  // beyond what the trace names
      continue;
    }
    const std::int64_t length = std::min(block, request.input_tokens - number * block);
    const std::uint64_t content = hash_combine(request.hash_ids[static_cast<std::size_t>(number)],
                                               static_cast<std::uint64_t>(length));
    ids.push_back(token(content, at % block));
  }
  return ids;
}

std::vector<std::int32_t> PromptMaker::of_session(const traces::TraceRequest& request) {
  const auto turn = static_cast<std::uint64_t>(request.row);
  Session alone;
  Session& session = request.session.empty() ? alone : sessions_[request.session];
  std::vector<Span>& spans = session.spans;
  if (spans.empty() || request.history_tokens == 0) {
    spans.assign(1, {0, turn});
  } else if (request.history_tokens < session.tokens) {  // part of the earlier turns was dropped
    while (!spans.empty() && spans.back().first >= request.history_tokens) spans.pop_back();
    spans.push_back({request.history_tokens, turn});
  }
  session.tokens = request.input_tokens + request.output_tokens;
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(request.input_tokens));
  std::size_t span = 0;
  for (std::int64_t at = 0; at < request.input_tokens; ++at) {
    while (span + 1 < spans.size() && spans[span + 1].first <= at) ++span;
    ids.push_back(token(hash_combine(0x726f77, spans[span].turn), at));
  }
  return ids;
}

}  // namespace orrery::serve
