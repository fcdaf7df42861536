// Mooncake's JSON lines. Its blocks hold 512 tokens: ids of smaller or larger blocks are regrouped
// by their chain, so that two prompts share a block of 512 exactly when they share all of it.
#include <unordered_map>
#include <utility>

#include "runtime/base/hash.h"
#include "traces/writers.h"

namespace orrery::traces {
namespace {

constexpr std::int64_t kBlock = 512;

class MooncakeWriter : public TraceWriter {
 public:
  explicit MooncakeWriter(std::unique_ptr<host::ByteWriter> out) : TraceWriter(std::move(out)) {}
  void write(const TraceRequest& r) override {
    ++rows_;
    for (const std::string_view f : fields_lost(r, kArrival | kOutput | kHashIds)) lose(f);
    if (r.arrival.value() % 1'000'000 != 0) lose("arrival_s below 1 ms");
    line_ = "{\"timestamp\": " + std::to_string(r.arrival.value() / 1'000'000);
    line_ += ", \"input_length\": " + std::to_string(r.input_tokens);
    line_ += ", \"output_length\": " + std::to_string(r.output_tokens);
    line_ += ", \"hash_ids\": ";
    append_ids(line_, regrouped(r));
    put(line_ += "}\n");
  }

 private:
  const std::vector<std::uint64_t>& regrouped(const TraceRequest& r) {
    if (r.hash_ids.empty() || r.block_tokens == kBlock) return r.hash_ids;
    ids_.clear();
    if (kBlock % r.block_tokens != 0 && r.block_tokens % kBlock != 0) {
      lose("hash_ids (blocks of " + std::to_string(r.block_tokens) + " do not fit those of 512)");
      return ids_;
    }
    const std::int64_t known = static_cast<std::int64_t>(r.full_blocks()) * r.block_tokens;
    std::uint64_t chain = static_cast<std::uint64_t>(r.block_tokens);
    std::int64_t hashed = 0;  // tokens of the blocks in `chain`
    for (std::int64_t end = kBlock; end <= known; end += kBlock) {
      for (; hashed < end; hashed += r.block_tokens)
        chain = hash_combine(chain, r.hash_ids[static_cast<std::size_t>(hashed / r.block_tokens)]);
      const auto part = static_cast<std::uint64_t>((end / kBlock) * kBlock % r.block_tokens);
      const auto [it, fresh] = names_.emplace(hash_combine(chain, part), next_);
      if (fresh) ++next_;
      ids_.push_back(it->second);
    }
    const auto blocks = static_cast<std::size_t>((r.input_tokens + kBlock - 1) / kBlock);
    const auto all =
        static_cast<std::size_t>((r.input_tokens + r.block_tokens - 1) / r.block_tokens);
    if (r.hash_ids.size() == all)  // the rest cannot be shared: ids that nothing else has
      while (ids_.size() < blocks) ids_.push_back(next_++);
    return ids_;
  }

  std::string line_;
  std::vector<std::uint64_t> ids_;
  std::unordered_map<std::uint64_t, std::uint64_t> names_;  // chain of a block -> its id
  std::uint64_t next_ = 0;
};

}  // namespace

std::unique_ptr<TraceWriter> make_mooncake_writer(std::unique_ptr<host::ByteWriter> out,
                                                  const WriteOptions&) {
  return std::make_unique<MooncakeWriter>(std::move(out));
}

}  // namespace orrery::traces
