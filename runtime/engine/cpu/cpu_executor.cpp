#include "runtime/engine/cpu/cpu_executor.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "runtime/base/check.h"
#include "runtime/base/errors.h"
#include "runtime/base/portable_math.h"
#include "runtime/engine/cpu/kernels.h"

namespace orrery::engine {

using cpu::AttentionRow;
using cpu::Kernels;
using cpu::PackedMatrix;
using cpu::padded;
using i64 = std::int64_t;

bool cpu_has(CpuLevel level) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (level == CpuLevel::kAvx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  if (level == CpuLevel::kAvx2) return __builtin_cpu_supports("avx2");
  return true;
#else
  return level == CpuLevel::kBaseline || level == CpuLevel::kBest;
#endif
}

namespace {

const Kernels& kernels_of(CpuLevel level) {
  if (!cpu_has(level))
    throw Unsupported(std::string("this machine has no ") +
                      (level == CpuLevel::kAvx512 ? "AVX-512" : "AVX2"));
#if defined(__x86_64__)
  const bool best = level == CpuLevel::kBest;
  if (level == CpuLevel::kAvx512 || (best && cpu_has(CpuLevel::kAvx512)))
    return cpu::kernels_avx512();
  if (level == CpuLevel::kAvx2 || (best && cpu_has(CpuLevel::kAvx2))) return cpu::kernels_avx2();
#endif
  return cpu::kernels_baseline();
}

struct FreeAligned {
  std::align_val_t alignment{1};
  void operator()(float* p) const { ::operator delete[](p, alignment); }
};

// A zeroed float buffer that starts on a cache line; a large one on a huge page where the system
// has them, since weights and KV are read through once a step and would miss the TLB every 4 KiB.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(i64 floats) {
    const std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
    const bool huge = bytes >= kHugePage;
    const std::align_val_t alignment{huge ? kHugePage : kCacheLine};
    data_ = {static_cast<float*>(::operator new[](bytes, alignment)), FreeAligned{alignment}};
#if defined(__linux__)
    if (huge) ::madvise(data_.get(), bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // a hint
#endif
    std::fill_n(data_.get(), floats, 0.0F);
  }
  float* get() { return data_.get(); }
  const float* get() const { return data_.get(); }

 private:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20, kCacheLine = 64;
  std::unique_ptr<float[], FreeAligned> data_;
};

struct Matrix {
  Buffer buffer;
  PackedMatrix packed;
};

Matrix pack(std::span<const float> rows, i64 out, i64 in) {
  ORRERY_CHECK(static_cast<i64>(rows.size()) == out * in);
  Matrix m{Buffer(padded(out) * in), {}};
  float* to = m.buffer.get();
  for (i64 panel = 0; panel < out; panel += cpu::kLanes) {
    const i64 lanes = std::min(cpu::kLanes, out - panel);
    const float* from = rows.data() + panel * in;
    for (i64 i = 0; i < in; ++i, to += cpu::kLanes)
      for (i64 lane = 0; lane < lanes; ++lane) to[lane] = from[lane * in + i];
  }
  m.packed = {m.buffer.get(), out, in};
  return m;
}

struct Layer {
  std::vector<float> attention_norm, feed_forward_norm;
  Matrix wq, wk, wv, wo, gate, up, down;
  Buffer k_pool, v_pool;
};

// Angles of RoPE for one head: cos and sin of position * base^(-2i/head_dim), by portable math.
struct RopeTable {
  i64 half = 0;
  std::vector<float> cosine, sine;  // [max_context, half]
};

RopeTable make_rope(const ModelShape& shape) {
  RopeTable table;
  table.half = shape.head_dim / 2;
  constexpr double kTwoPi = 6.283185307179586476925;
  for (i64 position = 0; position < shape.max_context; ++position)
    for (i64 i = 0; i < table.half; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(shape.head_dim);
      const double turns =
          static_cast<double>(position) * portable_pow(shape.rope_base, exponent) / kTwoPi;
      const double sine_turns = turns - std::floor(turns);
      const double cosine_turns = sine_turns + 0.25 >= 1 ? sine_turns - 0.75 : sine_turns + 0.25;
      table.sine.push_back(static_cast<float>(portable_sin_2pi(sine_turns)));
      table.cosine.push_back(static_cast<float>(portable_sin_2pi(cosine_turns)));
    }
  return table;
}

void rotate(const RopeTable& table, RopePairing pairing, i64 position, float* x, i64 heads) {
  const float* cosine = table.cosine.data() + position * table.half;
  const float* sine = table.sine.data() + position * table.half;
  const i64 first = pairing == RopePairing::kNeighbours ? 2 : 1;
  const i64 apart = pairing == RopePairing::kNeighbours ? 1 : table.half;
  for (i64 h = 0; h < heads; ++h, x += 2 * table.half)
    for (i64 i = 0; i < table.half; ++i) {
      float& a = x[i * first];
      float& b = x[i * first + apart];
      const float a0 = a, b0 = b;
      a = a0 * cosine[i] - b0 * sine[i];
      b = a0 * sine[i] + b0 * cosine[i];
    }
}

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(std::shared_ptr<const Weights> weights, const CpuExecutorSettings& settings);
  const ExecutorInfo& info() const override { return info_; }
  void submit(const StepWork& work) override;
  const StepOutput* poll() override { return std::exchange(done_, false) ? &output_ : nullptr; }
  void wait() override {}

 private:
  struct Row {
    i64 position = 0;
    std::uint32_t block = 0;          // where its K and V go
    const std::uint32_t* table = {};  // its request's block table, in tables_
  };
  void check(const StepWork& work) const;
  void gather(const StepWork& work);
  void attention_block(Layer& layer, i64 rows);
  void feed_forward_block(const Layer& layer, i64 rows);
  void write_kv(Layer& layer, const Row& row, const float* k, const float* v);
  void sample(const StepWork& work);
  void multiply(const Matrix& m, const Buffer& x, i64 x_stride, i64 rows, Buffer& y) {
    kernels_.matmul(m.packed, x.get(), x_stride, rows, y.get(), padded(m.packed.out));
  }

  const Kernels& kernels_;
  ModelShape shape_;
  CpuExecutorSettings settings_;
  ExecutorInfo info_;
  RopeTable rope_;
  std::vector<float> embedding_, final_norm_;
  std::vector<Layer> layers_;
  Matrix head_;
  // Staging of one step; strides are padded widths.
  i64 stride_ = 0, scores_stride_ = 0;
  Buffer x_, normed_, q_, k_, v_, attended_, projected_, gate_, up_, scores_, sums_, logits_;
  std::vector<Row> rows_;
  std::vector<std::uint32_t> tables_;
  std::vector<i64> sampled_rows_;
  std::vector<TokenId> tokens_;
  std::vector<float> dense_logits_;
  StepOutput output_;
  bool done_ = false;
};

CpuExecutor::CpuExecutor(std::shared_ptr<const Weights> weights,
                         const CpuExecutorSettings& settings)
    : kernels_(kernels_of(settings.level)),
      shape_(weights->shape),
      settings_(settings),
      rope_(make_rope(shape_)),
      embedding_(weights->embedding),
      final_norm_(weights->final_norm) {
  ORRERY_CHECK(settings.block_tokens > 0 && settings.kv_blocks > 0);
  ORRERY_CHECK(settings.max_batched_tokens > 0 && shape_.head_dim % 2 == 0);
  const i64 width = shape_.width, kv = shape_.kv_width(), ff = shape_.feed_forward;
  const i64 k_floats = shape_.kv_width() * padded(settings.block_tokens) * settings.kv_blocks;
  const i64 v_floats =
      shape_.kv_heads * padded(shape_.head_dim) * settings.block_tokens * settings.kv_blocks;
  for (const LayerWeights& w : weights->layers)
    layers_.push_back({w.attention_norm, w.feed_forward_norm, pack(w.wq, shape_.q_width(), width),
                       pack(w.wk, kv, width), pack(w.wv, kv, width),
                       pack(w.wo, width, shape_.q_width()), pack(w.gate, ff, width),
                       pack(w.up, ff, width), pack(w.down, width, ff), Buffer(k_floats),
                       Buffer(v_floats)});
  head_ = pack(shape_.tied_head ? weights->embedding : weights->head, shape_.vocabulary, width);
  const i64 rows = settings.max_batched_tokens;
  stride_ = padded(width);
  x_ = Buffer(rows * stride_), normed_ = Buffer(rows * stride_);
  q_ = Buffer(rows * padded(shape_.q_width())), attended_ = Buffer(rows * padded(shape_.q_width()));
  k_ = Buffer(rows * padded(kv)), v_ = Buffer(rows * padded(kv));
  projected_ = Buffer(rows * stride_);
  gate_ = Buffer(rows * padded(ff)), up_ = Buffer(rows * padded(ff));
  scores_stride_ = padded(shape_.max_context) + 2 * cpu::kLanes;
  scores_ = Buffer(shape_.heads * scores_stride_);
  sums_ = Buffer(shape_.heads * padded(shape_.head_dim));
  logits_ = Buffer(rows * padded(shape_.vocabulary));
  info_.name = std::string("cpu (") + kernels_.name + ")";
  info_.vocabulary = shape_.vocabulary, info_.max_context = shape_.max_context;
  info_.block_tokens = settings.block_tokens, info_.kv_blocks = settings.kv_blocks;
  info_.max_batched_tokens = rows;
  info_.weight_bytes = shape_.parameters() * static_cast<i64>(sizeof(float));
  info_.kv_bytes = (k_floats + v_floats) * shape_.layers * static_cast<i64>(sizeof(float));
}

void CpuExecutor::check(const StepWork& work) const {
  i64 tokens = 0;
  for (const WorkItem& item : work.items) {
    const i64 count = static_cast<i64>(item.tokens.size());
    tokens += count;
    ORRERY_CHECK(count > 0 && item.first >= 0);
    ORRERY_CHECK(item.first + count <= shape_.max_context);
    ORRERY_CHECK(static_cast<i64>(item.blocks.size()) * settings_.block_tokens >=
                 item.first + count);
    for (const BlockId b : item.blocks) ORRERY_CHECK(static_cast<i64>(b.value) < info_.kv_blocks);
    for (const TokenId t : item.tokens) ORRERY_CHECK(t >= 0 && t < shape_.vocabulary);
  }
  ORRERY_CHECK(tokens > 0 && tokens <= settings_.max_batched_tokens);
}

// Rows, their tables and their embeddings. A row may be computed with the others of its item at
// once: K and V of all rows are written before any row attends.
void CpuExecutor::gather(const StepWork& work) {
  rows_.clear(), tables_.clear(), sampled_rows_.clear();
  std::size_t table_size = 0;
  for (const WorkItem& item : work.items) table_size += item.blocks.size();
  tables_.reserve(table_size);  // rows keep pointers into it
  for (const WorkItem& item : work.items) {
    const std::uint32_t* table = tables_.data() + tables_.size();
    for (const BlockId b : item.blocks) tables_.push_back(b.value);
    for (std::size_t t = 0; t < item.tokens.size(); ++t) {
      const i64 position = item.first + static_cast<i64>(t);
      std::copy_n(embedding_.data() + item.tokens[t] * shape_.width, shape_.width,
                  x_.get() + static_cast<i64>(rows_.size()) * stride_);
      rows_.push_back({position, table[position / settings_.block_tokens], table});
    }
    if (item.samples) sampled_rows_.push_back(static_cast<i64>(rows_.size()) - 1);
  }
}

void CpuExecutor::write_kv(Layer& layer, const Row& row, const float* k, const float* v) {
  const i64 in_block = row.position % settings_.block_tokens;
  const i64 k_stride = padded(settings_.block_tokens), v_stride = padded(shape_.head_dim);
  for (i64 g = 0; g < shape_.kv_heads; ++g) {
    const i64 head = static_cast<i64>(row.block) * shape_.kv_heads + g;
    float* k_to = layer.k_pool.get() + head * shape_.head_dim * k_stride + in_block;
    float* v_to = layer.v_pool.get() + (head * settings_.block_tokens + in_block) * v_stride;
    for (i64 d = 0; d < shape_.head_dim; ++d) {
      k_to[d * k_stride] = k[g * shape_.head_dim + d];
      v_to[d] = v[g * shape_.head_dim + d];
    }
  }
}

void CpuExecutor::attention_block(Layer& layer, i64 rows) {
  const i64 q_stride = padded(shape_.q_width()), kv_stride = padded(shape_.kv_width());
  for (i64 r = 0; r < rows; ++r)
    kernels_.rms_norm(x_.get() + r * stride_, layer.attention_norm.data(), shape_.width,
                      shape_.norm_epsilon, normed_.get() + r * stride_);
  multiply(layer.wq, normed_, stride_, rows, q_);
  multiply(layer.wk, normed_, stride_, rows, k_);
  multiply(layer.wv, normed_, stride_, rows, v_);
  for (i64 r = 0; r < rows; ++r) {
    const Row& row = rows_[static_cast<std::size_t>(r)];
    float* k = k_.get() + r * kv_stride;
    rotate(rope_, shape_.pairing, row.position, q_.get() + r * q_stride, shape_.heads);
    rotate(rope_, shape_.pairing, row.position, k, shape_.kv_heads);
    write_kv(layer, row, k, v_.get() + r * kv_stride);
  }
  const float scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim));
  for (i64 r = 0; r < rows; ++r) {
    const Row& row = rows_[static_cast<std::size_t>(r)];
    kernels_.attention({q_.get() + r * q_stride, attended_.get() + r * q_stride, layer.k_pool.get(),
                        layer.v_pool.get(), row.table, row.position + 1, shape_.heads,
                        shape_.kv_heads, shape_.head_dim, settings_.block_tokens, scale,
                        scores_.get(), scores_stride_, sums_.get()});
  }
  multiply(layer.wo, attended_, q_stride, rows, projected_);
  kernels_.add(x_.get(), projected_.get(), rows * stride_);
}

void CpuExecutor::feed_forward_block(const Layer& layer, i64 rows) {
  const i64 ff_stride = padded(shape_.feed_forward);
  for (i64 r = 0; r < rows; ++r)
    kernels_.rms_norm(x_.get() + r * stride_, layer.feed_forward_norm.data(), shape_.width,
                      shape_.norm_epsilon, normed_.get() + r * stride_);
  multiply(layer.gate, normed_, stride_, rows, gate_);
  multiply(layer.up, normed_, stride_, rows, up_);
  kernels_.swiglu(gate_.get(), up_.get(), rows * ff_stride, gate_.get());
  multiply(layer.down, gate_, ff_stride, rows, projected_);
  kernels_.add(x_.get(), projected_.get(), rows * stride_);
}

void CpuExecutor::sample(const StepWork& work) {
  const i64 count = static_cast<i64>(sampled_rows_.size());
  const i64 vocabulary = shape_.vocabulary, logit_stride = padded(vocabulary);
  for (i64 s = 0; s < count; ++s)
    kernels_.rms_norm(x_.get() + sampled_rows_[static_cast<std::size_t>(s)] * stride_,
                      final_norm_.data(), shape_.width, shape_.norm_epsilon,
                      normed_.get() + s * stride_);
  if (count > 0) multiply(head_, normed_, stride_, count, logits_);
  tokens_.clear(), dense_logits_.clear();
  const float* row = logits_.get();
  for (const WorkItem& item : work.items) {
    if (!item.samples) continue;
    const std::span<const float> logits(row, static_cast<std::size_t>(vocabulary));
    const i64 position = item.first + static_cast<i64>(item.tokens.size());
    tokens_.push_back(sample_token(logits, item.sampling, position, settings_.never_sampled));
    if (work.want_logits) dense_logits_.insert(dense_logits_.end(), logits.begin(), logits.end());
    row += logit_stride;
  }
}

void CpuExecutor::submit(const StepWork& work) {
  ORRERY_CHECK(!done_, "submit() before the last step was polled");
  check(work);
  gather(work);
  const i64 rows = static_cast<i64>(rows_.size());
  for (Layer& layer : layers_) {
    attention_block(layer, rows);
    feed_forward_block(layer, rows);
  }
  sample(work);
  output_ = {work.id, tokens_, dense_logits_};
  done_ = true;
}

}  // namespace

std::unique_ptr<Executor> make_cpu_executor(std::shared_ptr<const Weights> weights,
                                            const CpuExecutorSettings& settings) {
  return std::make_unique<CpuExecutor>(std::move(weights), settings);
}

}  // namespace orrery::engine
