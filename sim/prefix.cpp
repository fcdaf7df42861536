#include "sim/prefix.h"

#include <algorithm>

#include "runtime/base/hash.h"
#include "runtime/base/rng.h"

namespace orrery::sim {

PrefixHashes::PrefixHashes(std::uint64_t seed, std::optional<double> common_share)
    : salt_(RandomStream(seed).fork("block salt").next_u64()), common_share_(common_share) {}

std::vector<BlockHash> PrefixHashes::common_chain(const Row& row, Tokens block_tokens) const {
  const auto tokens =
      static_cast<std::int64_t>(*common_share_ * static_cast<double>(row.input_tokens));
  std::vector<BlockHash> chain;
  BlockHash hash{salt_};
  for (std::int64_t block = 0; block < tokens / block_tokens.value(); ++block) {
    hash = chain_hash(hash, static_cast<std::uint64_t>(block));
    chain.push_back(hash);
  }
  return chain;
}

std::vector<BlockHash> PrefixHashes::chain_of_hash_ids(const Row& row, Tokens block_tokens) const {
  const std::int64_t size = block_tokens.value(), trace_size = row.hash_block_tokens;
  const auto named = static_cast<std::int64_t>(row.hash_ids.size()) * trace_size;
  const std::int64_t blocks = std::min(row.input_tokens, named) / size;
  std::vector<BlockHash> chain;
  chain.reserve(static_cast<std::size_t>(blocks));
  BlockHash hash{salt_};
  for (std::int64_t block = 0; block < blocks; ++block) {
    std::uint64_t content = 0;
    for (std::int64_t at = block * size, end = at + size; at < end;) {
      const std::int64_t piece = at / trace_size, offset = at % trace_size;
      const std::int64_t length = std::min(trace_size, row.input_tokens - piece * trace_size);
      const std::int64_t take = std::min(end - at, trace_size - offset);
      content = hash_combine(content, row.hash_ids[static_cast<std::size_t>(piece)]);
      content = hash_combine(
          content, static_cast<std::uint64_t>(offset) << 32 | static_cast<std::uint64_t>(length));
      at += take;
    }
    hash = chain_hash(hash, content);
    chain.push_back(hash);
  }
  return chain;
}

std::uint64_t PrefixHashes::content(const Row& row, std::uint64_t turn, std::int64_t block) const {
  std::uint64_t h = hash_combine(salt_, row.session);
  h = hash_combine(h, turn);
  return hash_combine(h, static_cast<std::uint64_t>(block));
}

std::vector<BlockHash> PrefixHashes::prompt_chain(const Row& row, Tokens block_tokens) {
  if (common_share_) return common_chain(row, block_tokens);
  if (!row.hash_ids.empty()) return chain_of_hash_ids(row, block_tokens);
  if (row.session == 0) return {};
  Session& session = sessions_[row.session];
  std::vector<Span>& spans = session.spans;
  if (spans.empty() || row.history_tokens == 0) {
    spans.assign(1, {0, row.id});
  } else if (row.history_tokens < session.tokens) {
    // Part of the earlier turns was dropped: only blocks wholly inside the history stay the same.
    // A session that only appends stays one span: the block at its end was not full before.
    const std::int64_t kept = row.history_tokens / block_tokens.value();
    while (!spans.empty() && spans.back().first_block >= kept) spans.pop_back();
    spans.push_back({kept, row.id});
  }
  session.tokens = row.input_tokens + row.output_tokens;
  const std::int64_t blocks = row.input_tokens / block_tokens.value();
  std::vector<BlockHash> chain;
  chain.reserve(static_cast<std::size_t>(blocks));
  BlockHash hash{salt_};
  std::size_t span = 0;
  for (std::int64_t block = 0; block < blocks; ++block) {
    while (span + 1 < spans.size() && spans[span + 1].first_block <= block) ++span;
    hash = chain_hash(hash, content(row, spans[span].turn, block));
    chain.push_back(hash);
  }
  return chain;
}

std::uint64_t PrefixHashes::latest_turn(const Row& row) const {
  const auto session = sessions_.find(row.session);
  return session == sessions_.end() ? 0 : session->second.spans.back().turn;
}

BlockHash PrefixHashes::answer_block(const Row& row, std::uint64_t turn, std::int64_t index,
                                     BlockHash parent) const {
  if (turn == 0 || (index > 0 && parent.value == 0)) return BlockHash{0};
  return chain_hash(index == 0 ? BlockHash{salt_} : parent, content(row, turn, index));
}

}  // namespace orrery::sim
