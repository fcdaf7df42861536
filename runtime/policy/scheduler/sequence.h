// Sequence: what an instance keeps of one request while it lives, in a slot that is reused.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/base/units.h"
#include "runtime/policy/request.h"

namespace orrery::policy {

enum class SequenceState : std::uint8_t {
  kFree,     // the slot holds no request
  kWaiting,  // owns no block
  kRunning,  // owns its table
  kFenced,   // cancelled in flight: the step that is out still owns the table
};

// What every step touches comes first, on a cache line of its own.
struct alignas(64) Sequence {
  SequenceState state = SequenceState::kFree;
  bool in_step = false;     // it has an item in the step composed last
  bool resumed = false;     // it was preempted before
  bool chain_open = false;  // the hasher may be asked for the next block after `hashes`
  std::int32_t priority = 0;
  std::int64_t known = 0;      // prompt + generated
  std::int64_t computed = 0;   // KV in the cache; computed < known while it lives
  std::int64_t room = 0;       // tokens that its table holds
  std::int64_t limit = 0;      // prompt + max_tokens: known may grow up to here
  std::int64_t published = 0;  // leading blocks that need no publication any more
  std::int64_t reached = 0;    // most ever computed: below it a token is computed again
  std::int64_t promised = 0;   // blocks of its admitted tokens that are not allocated yet

  RequestId id;
  Time arrival;
  std::int64_t prompt = 0;
  std::int64_t rank = 0;          // order of submission: 1, 2, …; a preempted one gets 0, -1, …
  std::vector<BlockHash> hashes;  // of the leading full blocks, as far as known
  std::vector<BlockId> table;     // blocks in position order
};

}  // namespace orrery::policy
