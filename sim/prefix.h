// PrefixHashes: block-hash chains of simulated prompts and answers. The engine hashes token ids;
// the twin has none, and takes a block's content to be
//   * what the trace's hash_ids say: our block of `block_tokens` inside a trace block is named by
//     (hash id, offset, length of that trace block), so a partial tail never matches a full block;
//   * else, where a row says how much of its prompt is the session's earlier turns
//     (history_tokens): (session, turn that wrote it, position);
//   * else nothing: the request shares no block;
//   * where the workload gives prefix_hit_rate (only for a trace that tells none of the above):
//   that
//     share of each prompt, in whole blocks, is the start of one prefix that all have in common.
//     Which part is found is the cache's doing: the first to come finds nothing.
// No rate is ever assumed by itself.
// The salt comes from the seed, so hashes of different runs do not meet.
#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/units.h"
#include "sim/workload.h"

namespace orrery::sim {

class PrefixHashes {
 public:
  explicit PrefixHashes(std::uint64_t seed, std::optional<double> common_share = {});

  // Chain over the full blocks of the row's prompt; empty when nothing of it can be shared.
  // Rows of a session are asked in the order in which they are sent.
  std::vector<BlockHash> prompt_chain(const Row& row, Tokens block_tokens);
  // The chain of a later turn, without noting that it was sent (rows with hash_ids only).
  std::vector<BlockHash> chain_of_hash_ids(const Row& row, Tokens block_tokens) const;
  // The turn that wrote the latest blocks of the row's session; 0: none. Noted when the row is
  // sent: a later turn may come before this one's answer is complete.
  std::uint64_t latest_turn(const Row& row) const;
  // Block `index` that the answer to `row` fills, in a session without hash_ids. `turn`: what
  // latest_turn() was when the row was sent.
  BlockHash answer_block(const Row& row, std::uint64_t turn, std::int64_t index,
                         BlockHash parent) const;

 private:
  // From `first_block` on, blocks were written by turn `turn`.
  struct Span {
    std::int64_t first_block;
    std::uint64_t turn;
  };
  struct Session {
    std::vector<Span> spans;
    std::int64_t tokens = 0;  // prompt and answer of the latest turn, as the trace has them
  };
  std::vector<BlockHash> common_chain(const Row& row, Tokens block_tokens) const;
  std::uint64_t content(const Row& row, std::uint64_t turn, std::int64_t block) const;

  std::uint64_t salt_;
  std::optional<double> common_share_;
  std::unordered_map<std::uint32_t, Session> sessions_;
};

}  // namespace orrery::sim
