// Random settings of an instance, small enough that loads strain every bound.
#pragma once
#include <string>

#include "runtime/base/rng.h"
#include "runtime/policy/instance.h"

namespace orrery::policy::test {

inline InstanceSettings random_settings(std::uint64_t seed, const std::string& order,
                                        const std::string& victim) {
  RandomStream r = RandomStream(seed).fork("settings");
  InstanceSettings s;
  constexpr std::int64_t kBlocks[] = {1, 3, 4, 16};
  s.block_tokens = Tokens(kBlocks[r.next_below(4)]);
  s.kv_blocks = Blocks(static_cast<std::int64_t>(8 + r.next_below(40)));
  s.max_batched_tokens = Tokens(static_cast<std::int64_t>(4 + r.next_below(60)));
  s.max_running = static_cast<std::int64_t>(1 + r.next_below(10));
  s.chunked_prefill = r.next_below(4) != 0;
  s.long_prefill_cap =
      Tokens(s.chunked_prefill ? static_cast<std::int64_t>(r.next_below(2) * 7) : 0);
  s.prefix_cache = r.next_below(5) != 0;
  s.max_waiting = static_cast<std::int64_t>(r.next_below(2) * 6);
  s.watermark_per_mille = static_cast<std::int64_t>(r.next_below(3) * 60);
  s.order = order;
  s.victim = victim;
  return s;
}

}  // namespace orrery::policy::test
