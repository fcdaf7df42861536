// Hashes of KV blocks from token ids. Gateway and worker use the same functions and the same salt,
// so that the gateway's prefix directory and the worker's cache mean the same blocks.
// h_i = chain(h_{i-1}, ids of block i), h_{-1} = salt: a block's hash covers all before it.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/units.h"
#include "runtime/engine/token.h"

namespace orrery::engine {

inline constexpr std::uint64_t kDefaultHashSalt = 0x0bb1'7e5a'17ed'0001ULL;

BlockHash hash_block_ids(BlockHash parent, std::span<const TokenId> ids);
using BlockHashFunction = BlockHash (*)(BlockHash parent, std::span<const TokenId> ids);
// Of the full blocks of `ids`: ids.size() / block_tokens of them.
std::vector<BlockHash> prompt_block_hashes(std::span<const TokenId> ids, std::int64_t block_tokens,
                                           std::uint64_t salt = kDefaultHashSalt,
                                           BlockHashFunction hash = hash_block_ids);

}  // namespace orrery::engine
