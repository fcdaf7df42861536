#include "runtime/engine/model.h"

#include <cmath>

#include "runtime/base/rng.h"
#include "runtime/engine/checkpoint.h"
#include "runtime/engine/embedded.h"

namespace orrery::engine {

std::int64_t ModelShape::parameters() const {
  const std::int64_t layer =
      2 * width + 2 * width * q_width() + 2 * width * kv_width() + 3 * width * feed_forward;
  return (tied_head ? 1 : 2) * vocabulary * width + layers * layer + width;
}

ModelCard load_card(const std::string& name) {
  return name == kEmbeddedName ? embedded_card() : load_checkpoint_card(name);
}

std::shared_ptr<const Weights> load_weights(const ModelCard& card) {
  if (card.source == kEmbeddedName) return make_random_weights(card.shape, kEmbeddedSeed);
  return load_checkpoint_weights(card);
}

namespace {

// Uniform with standard deviation gain / sqrt(fan_in); two values a draw.
std::vector<float> random_matrix(RandomStream stream, std::int64_t out, std::int64_t in,
                                 double gain) {
  std::vector<float> values(static_cast<std::size_t>(out * in));
  const double bound = gain * std::sqrt(3.0 / static_cast<double>(in));
  const double scale = bound * 0x1.0p-31;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    bits = i % 2 == 0 ? stream.next_u64() : bits >> 32;
    values[i] = static_cast<float>(
        static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(bits))) * scale);
  }
  return values;
}

}  // namespace

std::shared_ptr<const Weights> make_random_weights(const ModelShape& s, std::uint64_t seed) {
  // Gains: embeddings of unit size per value, blocks that add about as much as they find, so that
  // the next token depends on the whole context; logits with a standard deviation of about 3, so
  // that greedy has clear winners and temperature 1 has some dozens of likely tokens.
  constexpr double kBlockGain = 1.4, kHeadGain = 3.0;
  const RandomStream root(seed);
  auto weights = std::make_shared<Weights>();
  weights->shape = s;
  weights->embedding = random_matrix(root.fork("embedding"), s.vocabulary, s.width,
                                     std::sqrt(static_cast<double>(s.width)));
  const std::vector<float> ones(static_cast<std::size_t>(s.width), 1.0F);
  for (std::int64_t l = 0; l < s.layers; ++l) {
    const auto matrix = [&](const char* name, std::int64_t out, std::int64_t in) {
      return random_matrix(root.fork(name, static_cast<std::uint64_t>(l)), out, in, kBlockGain);
    };
    LayerWeights w;
    w.attention_norm = w.feed_forward_norm = ones;
    w.wq = matrix("wq", s.q_width(), s.width);
    w.wk = matrix("wk", s.kv_width(), s.width);
    w.wv = matrix("wv", s.kv_width(), s.width);
    w.wo = matrix("wo", s.width, s.q_width());
    w.gate = matrix("gate", s.feed_forward, s.width);
    w.up = matrix("up", s.feed_forward, s.width);
    w.down = matrix("down", s.width, s.feed_forward);
    weights->layers.push_back(std::move(w));
  }
  weights->final_norm = ones;
  if (!s.tied_head)
    weights->head = random_matrix(root.fork("head"), s.vocabulary, s.width, kHeadGain);
  return weights;
}

std::string render_chat(ChatTemplate how, const std::vector<ChatMessage>& messages) {
  std::string text;
  for (const ChatMessage& m : messages) {
    if (how == ChatTemplate::kRoles)
      text += m.role + ": " + m.content + "\n";
    else
      text += (text.empty() ? "" : "\n") + m.content;
  }
  return how == ChatTemplate::kRoles ? text + "assistant:" : text;
}

}  // namespace orrery::engine
