#include "runtime/engine/block_hashes.h"

#include "runtime/base/hash.h"

namespace orrery::engine {

BlockHash hash_block_ids(BlockHash parent, std::span<const TokenId> ids) {
  std::uint64_t content = ids.size();
  for (const TokenId id : ids) content = hash_combine(content, static_cast<std::uint32_t>(id));
  return chain_hash(parent, content);
}

std::vector<BlockHash> prompt_block_hashes(std::span<const TokenId> ids, std::int64_t block_tokens,
                                           std::uint64_t salt, BlockHashFunction hash) {
  const auto block = static_cast<std::size_t>(block_tokens);
  std::vector<BlockHash> hashes;
  hashes.reserve(ids.size() / block);
  BlockHash parent{salt};
  for (std::size_t at = 0; at + block <= ids.size(); at += block)
    hashes.push_back(parent = hash(parent, ids.subspan(at, block)));
  return hashes;
}

}  // namespace orrery::engine
