// RMSNorm, SwiGLU and greedy sampling against the double reference.
#include "kernels/reference.h"
#include "tests/kernels/support.h"

namespace orrery::kernels {

class RowOps : public OnEachSide {
 protected:
  struct Norm {
    Element element = Element::kFloat32;
    int rows = 1, dim = 1;
    std::int64_t stride = 1;
    std::size_t shift = 0;
  };
  // The rows' bytes after the kernel, gaps between them included.
  Bytes rms_norm(const Norm& n, const std::vector<float>& x, const std::vector<float>& weight) {
    const Guarded in(ops(), encode(n.element, x), n.shift), w(ops(), encode(n.element, weight));
    const Guarded out(ops(), Bytes(x.size() * element_bytes(n.element), 0x3c), n.shift);
    RmsNormArgs a{n.element, in.get(), w.get(),  out.get(), n.rows,
                  n.dim,     n.stride, n.stride, 1e-5f};
    expect_launched(ops().rms_norm(a, options()));
    return out.read();
  }
};

TEST_P(RowOps, rms_norm_equals_the_reference) {
  RandomStream random(11);
  for (const Element element : kElements)
    for (const int dim : {1, 7, 8, 64, 100, 288, 4096, 4099}) {
      const int rows = dim > 4000 ? 2 : 5;
      const std::int64_t stride = dim % 2 == 0 ? dim : dim + 3;
      const auto size = static_cast<std::size_t>(rows * stride);
      const auto x = noise(random, element, size, 3), w = noise(random, element, stride, 2);
      const Norm n{element, rows, dim, stride, 0};
      const auto got = decode(element, rms_norm(n, x, w));
      std::vector<double> want(static_cast<std::size_t>(dim));
      const std::vector<float> weight(w.begin(), w.begin() + dim);
      for (int r = 0; r < rows; ++r) {
        const std::span<const float> row(x.data() + r * stride, want.size());
        reference::rms_norm<double>(row, weight, 1e-5, want);
        for (std::size_t i = 0; i < want.size(); ++i)
          expect_near(element, got[static_cast<std::size_t>(r * stride) + i], want[i], 1e-6,
                      std::fabs(want[i]), "dim " + std::to_string(dim));
        for (std::int64_t i = dim; i < stride; ++i)  // the gap keeps its bytes
          EXPECT_EQ(encode(element, {got[static_cast<std::size_t>(r * stride + i)]})[0], 0x3c);
      }
    }
}

TEST_P(RowOps, a_normalised_row_has_the_same_bits_alone_in_a_batch_and_at_any_address) {
  RandomStream random(12);
  for (const Element element : kElements)
    for (const int dim : {64, 1000, 2048}) {
      const auto x = noise(random, element, static_cast<std::size_t>(4 * dim));
      const auto w = noise(random, element, static_cast<std::size_t>(dim));
      const Bytes together = rms_norm({element, 4, dim, dim, 0}, x, w);
      EXPECT_EQ(rms_norm({element, 4, dim, dim, element_bytes(element)}, x, w), together);
      for (int r = 0; r < 4; ++r) {
        const std::vector<float> row(x.begin() + r * dim, x.begin() + (r + 1) * dim);
        const Bytes alone = rms_norm({element, 1, dim, dim, 0}, row, w);
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                               together.begin() + r * static_cast<std::ptrdiff_t>(alone.size())));
      }
    }
}

TEST_P(RowOps, swiglu_equals_the_reference) {
  RandomStream random(13);
  for (const Element element : kElements)
    for (const int dim : {1, 8, 63, 172, 1024, 1500}) {
      const int rows = 3;
      const std::size_t width = 2 * static_cast<std::size_t>(dim);
      auto in = noise(random, element, rows * width, 8);
      in[0] = -200.0f;  // exp overflows: the limit is 0
      in[width] = 200.0f;
      const Guarded from(ops(), encode(element, in));
      const Guarded to(ops(), Bytes(rows * width / 2 * element_bytes(element), 0xff));
      expect_launched(ops().swiglu({element, from.get(), to.get(), rows, dim}, options()));
      const auto got = decode(element, to.read());
      std::vector<double> want(static_cast<std::size_t>(dim));
      for (std::size_t r = 0; r < rows; ++r) {
        reference::swiglu<double>({in.data() + r * width, width}, want);
        for (std::size_t i = 0; i < want.size(); ++i)
          expect_near(element, got[r * want.size() + i], want[i], 2e-6, std::fabs(want[i]) + 1e-30,
                      "dim " + std::to_string(dim));
      }
    }
}

TEST_P(RowOps, argmax_is_the_lowest_id_among_the_greatest) {
  RandomStream random(14);
  for (const Element element : kElements)
    for (const int vocabulary :
         {1, 31, 512, kArgmaxChunk - 1, kArgmaxChunk, kArgmaxChunk + 1, 2 * kArgmaxChunk + 300}) {
      const int rows = 6;
      const std::int64_t stride = vocabulary + static_cast<int>(random.next_below(9));
      auto logits = noise(random, element, static_cast<std::size_t>(rows * stride));
      const auto at = [&](int r) -> float& {
        return logits[static_cast<std::size_t>(
            r * stride +
            static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(vocabulary))))];
      };
      for (int i = 0; i < 4; ++i) at(0) = 5.0f;  // ties
      for (int i = 0; i < 4; ++i) at(1) = kNan;  // never wins
      at(2) = INFINITY;
      const auto fill = [&](int r, float value) {
        std::fill_n(logits.begin() + static_cast<std::ptrdiff_t>(r * stride), stride, value);
      };
      fill(3, -INFINITY);
      fill(4, kNan);
      fill(5, 1.0f);
      at(5) = 2.0f;
      for (int r = 0; r < rows; ++r)  // what lies between the rows must not win
        for (std::int64_t i = vocabulary; i < stride; ++i)
          logits[static_cast<std::size_t>(r * stride + i)] = 100.0f;
      const Guarded in(ops(), encode(element, logits));
      const Guarded token(ops(), Bytes(rows * sizeof(std::int32_t), 0xff));
      ArgmaxArgs a{element, in.get(), token.get<std::int32_t>(), nullptr, rows, vocabulary, stride};
      const Guarded workspace(ops(), Bytes(argmax_workspace_bytes(a), 0xff));
      a.workspace = workspace.get();
      expect_launched(ops().argmax(a, options()));
      const Bytes bytes = token.read();
      workspace.read();
      for (int r = 0; r < rows; ++r) {
        std::int32_t got = -1;
        std::memcpy(&got, bytes.data() + r * sizeof got, sizeof got);
        EXPECT_EQ(got, reference::argmax(
                           {logits.data() + r * stride, static_cast<std::size_t>(vocabulary)}))
            << "vocabulary " << vocabulary << ", row " << r;
      }
    }
}

TEST_P(RowOps, no_rows_is_no_work) {
  expect_launched(
      ops().rms_norm({Element::kFloat32, nullptr, nullptr, nullptr, 0, 8, 8, 8, 1e-5f}, options()));
  expect_launched(ops().swiglu({Element::kFloat32, nullptr, nullptr, 0, 8}, options()));
  expect_launched(ops().argmax({Element::kFloat32, nullptr, nullptr, nullptr, 0, 8, 8}, options()));
}

ORRERY_ON_EACH_SIDE(RowOps);

TEST(Reference, float_agrees_with_double) {
  RandomStream random(15);
  const auto x = noise(random, Element::kFloat32, 512), w = noise(random, Element::kFloat32, 512);
  std::vector<float> narrow(512);
  std::vector<double> wide(512);
  reference::rms_norm<float>(x, w, 1e-5, narrow);
  reference::rms_norm<double>(x, w, 1e-5, wide);
  for (std::size_t i = 0; i < 512; ++i)
    EXPECT_NEAR(narrow[i], wide[i], 1e-5 * std::fabs(wide[i]) + 1e-12);
}

TEST(Reference, hand_worked_values) {
  std::vector<double> y(2);
  reference::rms_norm<double>(std::vector<float>{3, 4}, std::vector<float>{1, 2}, 0, y);
  EXPECT_DOUBLE_EQ(y[0], 3 / std::sqrt(12.5));
  EXPECT_DOUBLE_EQ(y[1], 8 / std::sqrt(12.5));
  reference::swiglu<double>(std::vector<float>{0, 1, 7, 2}, y);
  EXPECT_DOUBLE_EQ(y[0], 0);
  EXPECT_DOUBLE_EQ(y[1], 2 / (1 + std::exp(-1.0)));
  const std::vector<float> quarter{0, 1};  // cos, sin of a quarter turn
  reference::rope<double>(std::vector<float>{3, 4}, quarter, RopePairs::kHalves, y);
  EXPECT_DOUBLE_EQ(y[0], -4);
  EXPECT_DOUBLE_EQ(y[1], 3);
  // Scores 0 and log 3: weights 1/4 and 3/4, from blocks 1 and 0 of one slot each.
  const std::vector<float> k{static_cast<float>(std::log(3.0)), 0}, v{8, 4};
  const KvLayout kv{1, 1, 1, 2};
  std::vector<double> out(1);
  reference::paged_attention<double>(std::vector<float>{1}, k, v, std::vector<std::int32_t>{1, 0},
                                     kv, 0, 2, 1, out);
  EXPECT_NEAR(out[0], 7, 1e-6);
}

}  // namespace orrery::kernels
