#include "traces/delta_turns.h"

#include "runtime/base/hash.h"

namespace orrery::traces {
namespace {
// Block ids of other files count from 0; these have bit 52 set, and stay exact in a double.
constexpr std::uint64_t kIdSpace = std::uint64_t{1} << 52;
std::uint64_t session_id(std::uint64_t h) { return kIdSpace | (mix64(h) & (kIdSpace - 1)); }
}  // namespace

void DeltaTurns::apply(TraceRequest& r) {
  if (r.session.empty()) return;
  Session& session = sessions_[r.session];
  r.history_tokens = session.tokens;
  r.input_tokens += session.tokens;
  const bool own_ids = !r.hash_ids.empty();
  if (!own_ids) {
    const std::uint64_t h = hash_bytes(r.session);
    r.block_tokens = kBlockTokens;
    const auto full = static_cast<std::uint64_t>(r.input_tokens / kBlockTokens);
    for (std::uint64_t i = 0; i < full; ++i) r.hash_ids.push_back(session_id(hash_combine(h, i)));
    if (r.input_tokens % kBlockTokens != 0)  // a tail's id is its turn's alone
      r.hash_ids.push_back(session_id(hash_combine(~h, static_cast<std::uint64_t>(session.turns))));
  }
  session.tokens = r.input_tokens + r.output_tokens;
  ++session.turns;
}

}  // namespace orrery::traces
