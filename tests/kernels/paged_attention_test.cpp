// Paged decode attention against the double reference. Every cache slot that no sequence owns is
// NaN, and so is what lies around each buffer: reading one wrong slot spoils a result.
#include "kernels/reference.h"
#include "tests/kernels/support.h"

namespace orrery::kernels {
namespace {

struct AttentionCase {
  Element element = Element::kFloat32;
  int group = 4;
  KvLayout kv{1, 16, 64, 0};  // max_blocks is filled in
  std::vector<std::int32_t> context;
  int slack = 0;  // max_context above the longest
};

struct AttentionData {
  AttentionCase c;
  int q_heads = 0, max_context = 0;
  std::vector<std::int32_t> table;
  std::vector<float> q, k, v;  // k and v: caches

  AttentionData(const AttentionCase& from, RandomStream random) : c(from) {
    const int longest = *std::max_element(c.context.begin(), c.context.end());
    const int rows = static_cast<int>(c.context.size());
    max_context = longest + c.slack;
    c.kv.max_blocks = ceil_div(longest, c.kv.block_size) + 2;
    q_heads = c.kv.kv_heads * c.group;
    const auto dim = static_cast<std::size_t>(c.kv.head_dim);
    q = noise(random, c.element, static_cast<std::size_t>(rows * q_heads) * dim, 3);
    const int blocks = rows * c.kv.max_blocks;  // the last is nobody's
    std::vector<std::int32_t> ids(static_cast<std::size_t>(blocks));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<std::int32_t>(i);
      std::swap(ids[i], ids[random.next_below(i + 1)]);
    }
    k.assign(reference::cache_index(c.kv, blocks, 0, 0), kNan);
    v = k;
    table.assign(ids.size(), ids.back());
    std::size_t next = 0;
    for (int r = 0; r < rows; ++r)
      for (int t = 0; t < c.context[static_cast<std::size_t>(r)]; ++t) {
        auto& block = table[static_cast<std::size_t>(r * c.kv.max_blocks + t / c.kv.block_size)];
        if (t % c.kv.block_size == 0) block = ids[next++];
        for (int h = 0; h < c.kv.kv_heads; ++h) {
          const std::size_t at = reference::cache_index(c.kv, block, h, t % c.kv.block_size);
          const auto key = noise(random, c.element, dim), value = noise(random, c.element, dim);
          std::copy(key.begin(), key.end(), k.begin() + static_cast<std::ptrdiff_t>(at));
          std::copy(value.begin(), value.end(), v.begin() + static_cast<std::ptrdiff_t>(at));
        }
      }
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(c.kv.head_dim)); }
  std::size_t row_elements() const {
    return static_cast<std::size_t>(q_heads) * static_cast<std::size_t>(c.kv.head_dim);
  }
};

// Sequences [first, first + count) of the data in one launch.
Bytes attend(const DecodeOps& ops, const LaunchOptions& options, const AttentionData& d,
             std::size_t first, std::size_t count, int max_context) {
  const auto part = [&](const auto& values, std::size_t width) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first * width);
    return std::decay_t<decltype(values)>(begin,
                                          begin + static_cast<std::ptrdiff_t>(count * width));
  };
  const std::size_t row = d.row_elements();
  const Guarded q(ops, encode(d.c.element, part(d.q, row))), k(ops, encode(d.c.element, d.k)),
      v(ops, encode(d.c.element, d.v)),
      table(ops, bytes_of(part(d.table, static_cast<std::size_t>(d.c.kv.max_blocks)))),
      context(ops, bytes_of(part(d.c.context, 1))),
      out(ops, Bytes(count * row * element_bytes(d.c.element), 0xff));
  PagedAttentionArgs a;
  a.element = d.c.element;
  a.q = q.get(), a.k_cache = k.get(), a.v_cache = v.get(), a.out = out.get();
  a.block_table = table.get<std::int32_t>(), a.context = context.get<std::int32_t>();
  a.sequences = static_cast<int>(count), a.q_heads = d.q_heads, a.max_context = max_context;
  a.scale = static_cast<float>(d.scale()), a.kv = d.c.kv;
  const Guarded workspace(ops, Bytes(paged_attention_workspace_bytes(a), 0xff));
  a.workspace = workspace.get();
  expect_launched(ops.paged_attention(a, options));
  workspace.read();
  return out.read();
}
Bytes attend(const DecodeOps& ops, const LaunchOptions& options, const AttentionData& d) {
  return attend(ops, options, d, 0, d.c.context.size(), d.max_context);
}

void expect_reference(const AttentionData& d, const Bytes& bytes, const std::string& where) {
  const auto got = decode(d.c.element, bytes);
  const auto dim = static_cast<std::size_t>(d.c.kv.head_dim);
  const auto blocks = static_cast<std::size_t>(d.c.kv.max_blocks);
  std::vector<double> want(dim);
  for (std::size_t s = 0; s < d.c.context.size(); ++s)
    for (int h = 0; h < d.q_heads; ++h) {
      const std::size_t at = s * d.row_elements() + static_cast<std::size_t>(h) * dim;
      reference::paged_attention<double>({d.q.data() + at, dim}, d.k, d.v,
                                         {d.table.data() + s * blocks, blocks}, d.c.kv,
                                         h / d.c.group, d.c.context[s], d.scale(), want);
      for (std::size_t i = 0; i < dim; ++i)
        expect_near(
            d.c.element, got[at + i], want[i], 4e-6, 1,
            where + ", context " + std::to_string(d.c.context[s]) + ", head " + std::to_string(h));
    }
}

// Ragged batches over every path: both packed head sizes, the generic one, groups of one to several
// passes, block borders and part borders.
std::vector<AttentionCase> cases() {
  return {
      {Element::kBfloat16, 4, {1, 16, 128, 0}, {0, 1, 15, 16, 17, 512, 513}, 0},
      {Element::kFloat32, 8, {1, 32, 64, 0}, {1025, 31, 0, 33}, 600},
      {Element::kFloat16, 8, {1, 16, 128, 0}, {1024, 2, 100}, 0},
      {Element::kFloat16, 1, {3, 16, 64, 0}, {63, 1, 120}, 1500},
      {Element::kFloat32, 4, {1, 16, 128, 0}, {70, 5, 0}, 0},
      {Element::kBfloat16, 12, {1, 8, 64, 0}, {540, 9}, 0},
      {Element::kFloat32, 2, {2, 8, 8, 0}, {70, 0, 7, 8}, 0},
      {Element::kBfloat16, 6, {1, 16, 33, 0}, {515, 3}, 0},
      {Element::kFloat32, 3, {1, 1, 256, 0}, {19, 1}, 0},
      {Element::kFloat16, 1, {2, 1024, 1, 0}, {511, 40}, 0},
  };
}
std::string label(std::size_t i) { return "case " + std::to_string(i); }

}  // namespace

class PagedAttention : public OnEachSide {};

TEST_P(PagedAttention, equals_the_reference) {
  const auto all = cases();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const AttentionData d(all[i], RandomStream(40 + i));
    expect_reference(d, attend(ops(), options(), d), label(i));
  }
}

TEST_P(PagedAttention, random_shapes_equal_the_reference) {
  RandomStream random(77);
  for (std::size_t i = 0; i < 8; ++i) {
    AttentionCase c;
    c.element = kElements[random.next_below(3)];
    c.group = static_cast<int>(1 + random.next_below(9));
    const int dims[] = {64, 128, static_cast<int>(1 + random.next_below(80))};
    c.kv = {static_cast<int>(1 + random.next_below(2)), 1 << random.next_below(7),
            dims[random.next_below(3)], 0};
    for (std::uint64_t n = 1 + random.next_below(4); n > 0; --n)
      c.context.push_back(static_cast<std::int32_t>(random.next_below(90)));
    const AttentionData d(c, random.fork("data", i));
    expect_reference(d, attend(ops(), options(), d), "random " + label(i));
  }
}

TEST_P(PagedAttention, a_sequence_has_the_same_bits_alone_and_in_any_batch) {
  const auto all = cases();
  for (const std::size_t i : {0u, 6u, 7u}) {
    const AttentionData d(all[i], RandomStream(60 + i));
    const Bytes together = attend(ops(), options(), d);
    const std::size_t row = d.row_elements() * element_bytes(d.c.element);
    for (std::size_t s = 0; s < d.c.context.size(); ++s) {
      // Alone, with a grid made for its own context or for a longer one.
      for (const int bound : {d.c.context[s], d.c.context[s] + 600})
        EXPECT_TRUE(std::ranges::equal(attend(ops(), options(), d, s, 1, bound),
                                       std::span(together).subspan(s * row, row)))
            << label(i) << ", sequence " << s << ", max_context " << bound;
    }
  }
}

TEST_P(PagedAttention, where_the_blocks_lie_changes_no_bits) {
  const AttentionData d(cases()[7], RandomStream(80));
  AttentionData moved = d;
  const auto blocks = static_cast<std::int32_t>(d.c.context.size()) * d.c.kv.max_blocks;
  const std::size_t size = reference::cache_index(d.c.kv, 1, 0, 0);
  for (auto& id : moved.table) id = blocks - 1 - id;
  for (std::int32_t b = 0; b < blocks; ++b)
    for (auto [from, to] : {std::pair(&d.k, &moved.k), std::pair(&d.v, &moved.v)})
      std::copy_n(from->begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(b) * size),
                  size,
                  to->begin() +
                      static_cast<std::ptrdiff_t>(static_cast<std::size_t>(blocks - 1 - b) * size));
  EXPECT_EQ(attend(ops(), options(), d), attend(ops(), options(), moved));
}

TEST_P(PagedAttention, a_wrong_block_table_changes_that_sequence_and_no_other) {
  AttentionCase c = cases()[0];
  c.context = {40, 560, 33};
  AttentionData d(c, RandomStream(81));
  const Bytes right = attend(ops(), options(), d);
  const auto blocks = static_cast<std::size_t>(d.c.kv.max_blocks);
  d.table[blocks + 33] = d.table[2 * blocks];  // positions 528 to 543 of sequence 1
  const Bytes wrong = attend(ops(), options(), d);
  const std::size_t row = d.row_elements() * element_bytes(c.element);
  for (std::size_t s = 0; s < 3; ++s)
    EXPECT_EQ(std::ranges::equal(std::span(right).subspan(s * row, row),
                                 std::span(wrong).subspan(s * row, row)),
              s != 1);
  // A block that is nobody's: its NaN must show.
  d.table[blocks + 33] = d.table[blocks - 1];
  const auto spoiled = decode(c.element, attend(ops(), options(), d));
  EXPECT_TRUE(std::isnan(spoiled[d.row_elements()]));
  EXPECT_FALSE(std::isnan(spoiled[0]));
}

TEST_P(PagedAttention, a_nan_anywhere_in_the_context_shows_whatever_lane_meets_it_first) {
  AttentionCase c{Element::kFloat32, 1, {1, 16, 64, 0}, {40}, 0};
  for (int t = 0; t < 40; ++t)
    for (const bool in_k : {true, false}) {
      AttentionData d(c, RandomStream(83));
      const auto block = d.table[static_cast<std::size_t>(t / 16)];
      (in_k ? d.k : d.v)[reference::cache_index(d.c.kv, block, 0, t % 16)] = kNan;
      EXPECT_TRUE(std::isnan(decode(c.element, attend(ops(), options(), d))[0]))
          << (in_k ? "K" : "V") << " at " << t;
    }
}

TEST_P(PagedAttention, huge_scores_do_not_overflow) {
  AttentionCase c = cases()[4];
  AttentionData d(c, RandomStream(82));
  for (float& x : d.q) x *= 1000;
  expect_reference(d, attend(ops(), options(), d), "scores of some hundreds");
}

ORRERY_ON_EACH_SIDE(PagedAttention);

TEST(PagedAttentionOrder, the_order_in_which_threads_run_changes_no_bits) {
  for (const std::size_t i : {3u, 7u}) {
    const AttentionData d(cases()[i], RandomStream(90 + i));
    const Bytes in_order = attend(simt_ops(), {nullptr, 0}, d);
    for (const unsigned seed : {1u, 2u})
      EXPECT_EQ(attend(simt_ops(), {nullptr, seed}, d), in_order);
  }
}

}  // namespace orrery::kernels
