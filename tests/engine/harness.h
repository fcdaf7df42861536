// What the engine's tests share: the checkpoint's place, small random models, and a driver that
// feeds an executor directly (no scheduler), with scattered block tables.
#pragma once
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/rng.h"
#include "runtime/engine/cpu/cpu_executor.h"
#include "runtime/engine/model.h"

namespace orrery::engine::test {

inline std::string shared_dir() {
  const char* set = std::getenv("ORRERY_SHARED");
  return set != nullptr && *set != '\0' ? set : ORRERY_SOURCE_ROOT "/../shared";
}
inline std::string checkpoint_folder() { return shared_dir() + "/models/stories260K"; }

// Sizes that are no multiples of the lanes, groups of 1 to 3 heads, both pairings, both heads.
inline ModelShape random_shape(RandomStream& random) {
  const auto below = [&](std::uint64_t n) {
    return static_cast<std::int64_t>(random.next_below(n));
  };
  ModelShape s;
  s.kv_heads = 1 + below(3);
  s.heads = s.kv_heads * (1 + below(3));
  s.head_dim = 2 * (1 + below(11));
  s.width = 5 + below(60);
  s.layers = 1 + below(3);
  s.feed_forward = 3 + below(90);
  s.vocabulary = 20 + below(70);
  s.max_context = 100;
  s.pairing = below(2) == 0 ? RopePairing::kNeighbours : RopePairing::kHalves;
  s.tied_head = below(2) == 0;
  return s;
}

inline std::vector<TokenId> random_ids(RandomStream& random, std::int64_t vocabulary,
                                       std::int64_t count) {
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<TokenId>(random.next_below(static_cast<std::uint64_t>(vocabulary))));
  return ids;
}

// A sequence under test: ids known, tokens computed, and its scattered blocks.
struct Sequence {
  std::vector<TokenId> ids;
  std::int64_t computed = 0;
  std::vector<BlockId> blocks;
};

// Hands out blocks in random order and runs steps.
class Driver {
 public:
  Driver(std::shared_ptr<const Weights> weights, CpuExecutorSettings settings, std::uint64_t seed)
      : settings_(settings), executor_(make_cpu_executor(std::move(weights), settings)) {
    RandomStream random(seed);
    for (std::int64_t i = 0; i < settings.kv_blocks; ++i)
      free_.push_back(BlockId{static_cast<std::uint32_t>(i)});
    for (std::size_t i = free_.size(); i > 1; --i)
      std::swap(free_[i - 1], free_[random.next_below(i)]);
  }
  struct Part {
    Sequence* sequence;
    std::int64_t count;
    bool samples;
  };
  struct Result {
    std::vector<TokenId> tokens;
    std::vector<std::vector<float>> logits;  // of each sampling part
  };
  Result step(const std::vector<Part>& parts, const SamplingParams& sampling = {}) {
    std::vector<WorkItem> items;
    for (const Part& p : parts) {
      Sequence& s = *p.sequence;
      while (static_cast<std::int64_t>(s.blocks.size()) * settings_.block_tokens <
             s.computed + p.count)
        s.blocks.push_back(free_.back()), free_.pop_back();
      WorkItem item;
      item.first = s.computed;
      item.tokens = std::span(s.ids).subspan(static_cast<std::size_t>(s.computed),
                                             static_cast<std::size_t>(p.count));
      item.blocks = s.blocks;
      item.samples = p.samples;
      item.sampling = sampling;
      items.push_back(item);
      s.computed += p.count;
    }
    StepWork work;
    work.id = ++steps_, work.items = items, work.want_logits = true;
    executor_->submit(work);
    const StepOutput* out = executor_->poll();
    Result result;
    result.tokens.assign(out->tokens.begin(), out->tokens.end());
    const auto vocabulary = static_cast<std::size_t>(executor_->info().vocabulary);
    for (std::size_t at = 0; at < out->logits.size(); at += vocabulary)
      result.logits.emplace_back(
          out->logits.begin() + static_cast<std::ptrdiff_t>(at),
          out->logits.begin() + static_cast<std::ptrdiff_t>(at + vocabulary));
    return result;
  }
  // Computes the rest of a sequence in chunks; logits after the last id.
  std::vector<float> run(Sequence& s, std::int64_t chunk) {
    std::vector<float> last;
    while (s.computed < static_cast<std::int64_t>(s.ids.size())) {
      const std::int64_t count =
          std::min(chunk, static_cast<std::int64_t>(s.ids.size()) - s.computed);
      const bool end = s.computed + count == static_cast<std::int64_t>(s.ids.size());
      Result r = step({{&s, count, end}});
      if (end) last = r.logits.at(0);
    }
    return last;
  }
  void release(Sequence& s) {
    free_.insert(free_.end(), s.blocks.begin(), s.blocks.end());
    s.blocks.clear(), s.computed = 0;
  }
  Executor& executor() { return *executor_; }

 private:
  CpuExecutorSettings settings_;
  std::unique_ptr<Executor> executor_;
  std::vector<BlockId> free_;
  std::uint64_t steps_ = 0;
};

}  // namespace orrery::engine::test
