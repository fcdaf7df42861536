// DeltaTurns: rows that hold only a turn's new tokens, made whole. Turn k's prompt is turn k-1's
// prompt and answer and the new tokens; what repeats is stated as history_tokens and, unless the
// trace has its own hash_ids, as ids of whole blocks, so that a prefix cache finds it.
// Owns two numbers a session for as long as the trace is read.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>

#include "traces/trace.h"

namespace orrery::traces {

class DeltaTurns {
 public:
  static constexpr std::int64_t kBlockTokens = 16;  // vLLM's default, and ours
  void apply(TraceRequest& request);                // in order of arrival

 private:
  struct Session {
    std::int64_t tokens = 0;  // of the conversation so far, the last answer included
    std::int64_t turns = 0;
  };
  std::unordered_map<std::string, Session> sessions_;
};

}  // namespace orrery::traces
