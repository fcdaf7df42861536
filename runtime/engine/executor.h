// Executor: what computes a step. It owns the weights, the KV pool and every staging buffer; no
// pointer into them leaves it, so that a GPU fits behind the same five calls.
//
// Asynchronous: submit() copies what it needs (token ids, block tables, sampling parameters) and
// may return before the work is done; poll() says when it is. One step is out at a time.
//
// Laws (tests/engine): logits of a row are bitwise equal alone and in any batch, however the
// prompt was cut into chunks, after preemption and after a prefix hit. A block is read only up to
// the positions the item's table covers, so a block's old content never shows.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/units.h"
#include "runtime/engine/sampling.h"
#include "runtime/engine/token.h"

namespace orrery::engine {

// One request's part of a step: computes positions first .. first+tokens.size()-1.
struct WorkItem {
  std::int64_t first = 0;
  std::span<const TokenId> tokens;  // the ids at those positions, >= 1
  std::span<const BlockId> blocks;  // block table in position order, covers first+tokens.size()
  bool samples = false;             // draw the token that follows the last position
  SamplingParams sampling;
};

struct StepWork {
  std::uint64_t id = 0;
  std::span<const WorkItem> items;
  bool want_logits = false;  // for tests and logprobs: logits of the sampling items come back too
};

// Valid until the next submit().
struct StepOutput {
  std::uint64_t id = 0;
  std::span<const TokenId> tokens;  // one for each sampling item, in item order
  std::span<const float> logits;    // [sampling items, vocabulary], when wanted
};

struct ExecutorInfo {
  std::string name;  // "cpu (avx2)"
  std::int64_t vocabulary = 0;
  std::int64_t block_tokens = 0, kv_blocks = 0;
  std::int64_t max_batched_tokens = 0, max_context = 0;
  std::int64_t weight_bytes = 0, kv_bytes = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorInfo& info() const = 0;
  // Starts a step. The last one must have been polled to its end.
  virtual void submit(const StepWork& work) = 0;
  // The step's result, once; nullptr while it is not done (or nothing is out).
  virtual const StepOutput* poll() = 0;
  // Sleeps until poll() would not be in vain. Returns at once where submit() computes in place.
  virtual void wait() = 0;
};

}  // namespace orrery::engine
