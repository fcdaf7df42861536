// Rotary embedding and the KV write: every element of q and of both caches is checked, the ones
// that must not change included.
#include "kernels/reference.h"
#include "tests/kernels/support.h"

namespace orrery::kernels {
namespace {

struct RopeCase {
  Element element = Element::kFloat32;
  int q_heads = 4, rotary = 64;
  RopePairs pairs = RopePairs::kHalves;
  KvLayout kv{2, 16, 64, 8};
  std::vector<std::int32_t> sequences, positions;  // a token
  std::size_t shift = 0;                           // of q, in bytes
};

// Inputs of a case, drawn from a seed.
struct RopeData {
  std::vector<std::int32_t> table;
  std::vector<float> q, k, v, cache, angles;
  std::int64_t q_stride = 0, kv_stride = 0;

  RopeData(const RopeCase& c, RandomStream random) {
    const auto tokens = c.positions.size();
    const int dim = c.kv.head_dim, rows = 4;
    table.resize(static_cast<std::size_t>(rows * c.kv.max_blocks));
    for (std::size_t i = 0; i < table.size(); ++i) {
      table[i] = static_cast<std::int32_t>(i);
      std::swap(table[i], table[random.next_below(i + 1)]);
    }
    q_stride = static_cast<std::int64_t>(c.q_heads) * dim;
    kv_stride = static_cast<std::int64_t>(c.kv.kv_heads) * dim;
    q = noise(random, c.element, tokens * static_cast<std::size_t>(q_stride));
    k = noise(random, c.element, tokens * static_cast<std::size_t>(kv_stride));
    v = noise(random, c.element, tokens * static_cast<std::size_t>(kv_stride));
    cache = noise(random, c.element, reference::cache_index(c.kv, rows * c.kv.max_blocks, 0, 0));
    angles = reference::rope_table(c.kv.max_blocks * c.kv.block_size, c.rotary, 10000);
  }
};

struct RopeResult {
  Bytes q, k_cache, v_cache;
};

RopeResult run(const DecodeOps& ops, const LaunchOptions& options, const RopeCase& c,
               const RopeData& d) {
  const Guarded q(ops, encode(c.element, d.q), c.shift), k(ops, encode(c.element, d.k)),
      v(ops, encode(c.element, d.v)), k_cache(ops, encode(c.element, d.cache)),
      v_cache(ops, encode(c.element, d.cache)), angles(ops, bytes_of(d.angles)),
      positions(ops, bytes_of(c.positions)), sequences(ops, bytes_of(c.sequences)),
      table(ops, bytes_of(d.table));
  RopeArgs a;
  a.element = c.element;
  a.q = q.get(), a.k = k.get(), a.v = v.get();
  a.k_cache = k_cache.get(), a.v_cache = v_cache.get();
  a.cos_sin = angles.get<float>();
  a.positions = positions.get<std::int32_t>();
  a.sequences = c.sequences.empty() ? nullptr : sequences.get<std::int32_t>();
  a.block_table = table.get<std::int32_t>();
  a.tokens = static_cast<int>(c.positions.size());
  a.q_heads = c.q_heads, a.rotary_dim = c.rotary;
  a.q_stride = d.q_stride, a.kv_stride = d.kv_stride;
  a.pairs = c.pairs, a.kv = c.kv;
  expect_launched(ops.rope(a, options));
  return {q.read(), k_cache.read(), v_cache.read()};
}

// What q and the caches must hold, in double (exact where the kernel copies).
struct RopeWant {
  std::vector<double> q, k_cache, v_cache;
};
RopeWant expected(const RopeCase& c, const RopeData& d) {
  RopeWant w{
      {d.q.begin(), d.q.end()}, {d.cache.begin(), d.cache.end()}, {d.cache.begin(), d.cache.end()}};
  const auto dim = static_cast<std::size_t>(c.kv.head_dim);
  for (std::size_t t = 0; t < c.positions.size(); ++t) {
    const int position = c.positions[t];
    if (position < 0) continue;
    const auto rotary = static_cast<std::size_t>(c.rotary);
    const std::span<const float> angle(
        d.angles.data() + static_cast<std::size_t>(position) * rotary, rotary);
    for (std::size_t h = 0; h < static_cast<std::size_t>(c.q_heads); ++h) {
      const std::size_t at = t * static_cast<std::size_t>(d.q_stride) + h * dim;
      reference::rope<double>({d.q.data() + at, dim}, angle, c.pairs, {w.q.data() + at, dim});
    }
    const auto row = c.sequences.empty() ? static_cast<std::int32_t>(t) : c.sequences[t];
    const auto block =
        d.table[static_cast<std::size_t>(row * c.kv.max_blocks + position / c.kv.block_size)];
    for (int h = 0; h < c.kv.kv_heads; ++h) {
      const std::size_t from =
          t * static_cast<std::size_t>(d.kv_stride) + static_cast<std::size_t>(h) * dim;
      const std::size_t to = reference::cache_index(c.kv, block, h, position % c.kv.block_size);
      reference::rope<double>({d.k.data() + from, dim}, angle, c.pairs,
                              {w.k_cache.data() + to, dim});
      std::copy_n(d.v.begin() + static_cast<std::ptrdiff_t>(from), dim,
                  w.v_cache.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  return w;
}

std::vector<RopeCase> cases() {
  std::vector<RopeCase> all;
  for (const Element element : kElements) {
    RopeCase c;
    c.element = element;
    c.positions = {0, 127, 16, 15};
    all.push_back(c);  // decode: a token a sequence, the wide path
    c.sequences = {1, 1, 1, 3, 0};
    c.positions = {30, 31, 32, 5, -1};
    c.pairs = RopePairs::kAdjacent;
    all.push_back(c);  // a chunk of one sequence across a block border, and padding
    c.kv = {1, 32, 128, 4}, c.rotary = 64, c.q_heads = 8, c.pairs = RopePairs::kHalves;
    all.push_back(c);  // half of the head turns
    c.kv = {3, 16, 33, 4}, c.rotary = 32, c.q_heads = 3;
    all.push_back(c);  // odd head
    c.kv = {4, 8, 8, 8}, c.rotary = 8;
    all.push_back(c);
    c.rotary = 0;  // nothing turns
    all.push_back(c);
  }
  return all;
}

}  // namespace

class Rope : public OnEachSide {};

TEST_P(Rope, turns_q_and_writes_k_and_v_to_their_slots_and_nothing_else) {
  std::uint64_t seed = 20;
  for (const RopeCase& c : cases()) {
    const RopeData d(c, RandomStream(++seed));
    const RopeResult got = run(ops(), options(), c, d);
    const RopeWant want = expected(c, d);
    const auto compare = [&](const Bytes& bytes, const std::vector<double>& expect,
                             const char* what) {
      const auto values = decode(c.element, bytes);
      for (std::size_t i = 0; i < expect.size(); ++i)
        expect_near(c.element, values[i], expect[i], 2e-7, 1,
                    std::string(what) + " of case " + std::to_string(seed));
    };
    compare(got.q, want.q, "q");
    compare(got.k_cache, want.k_cache, "K");
    compare(got.v_cache, want.v_cache, "V");
    EXPECT_EQ(decode(c.element, got.v_cache),
              std::vector<float>(want.v_cache.begin(), want.v_cache.end()));
  }
}

TEST_P(Rope, unaligned_rows_give_the_same_bits) {
  for (RopeCase c : cases()) {
    const RopeData d(c, RandomStream(5));
    const RopeResult aligned = run(ops(), options(), c, d);
    c.shift = element_bytes(c.element);
    const RopeResult shifted = run(ops(), options(), c, d);
    EXPECT_EQ(aligned.q, shifted.q);
    EXPECT_EQ(aligned.k_cache, shifted.k_cache);
    EXPECT_EQ(aligned.v_cache, shifted.v_cache);
  }
}

TEST_P(Rope, a_wrong_block_table_is_seen) {
  const RopeCase c = cases()[0];
  RopeData d(c, RandomStream(6));
  const RopeResult right = run(ops(), options(), c, d);
  std::swap(d.table[0], d.table[1]);  // position 0 of sequence 0 goes elsewhere
  const RopeResult wrong = run(ops(), options(), c, d);
  EXPECT_EQ(right.q, wrong.q);
  EXPECT_NE(right.k_cache, wrong.k_cache);
  EXPECT_NE(right.v_cache, wrong.v_cache);
}

ORRERY_ON_EACH_SIDE(Rope);

}  // namespace orrery::kernels
