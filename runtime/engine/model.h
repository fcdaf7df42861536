// A model as the engine knows it: its card (shape, tokenizer, how it ends, how a chat becomes a
// prompt) and its weights. The gateway reads cards only; workers load the weights too.
//
// Names: "embedded" (weights made from a seed at first use, in memory; its text is noise by
// design) or a folder with a checkpoint:
//   *.bin + tok*.bin   Llama layout as in stories260K (header of seven int32, float32 tensors)
//   *.safetensors      understood, not in this build: Unsupported says what it would need
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/engine/token.h"
#include "runtime/engine/tokenizer.h"

namespace orrery::engine {

enum class RopePairing : std::uint8_t {
  kNeighbours,  // rotates (2i, 2i+1)
  kHalves,      // rotates (i, i + head_dim/2): most published safetensors checkpoints
};

// Llama family: RMSNorm, RoPE, grouped-query attention, SwiGLU.
struct ModelShape {
  std::int64_t width = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t feed_forward = 0, vocabulary = 0, max_context = 0;
  float norm_epsilon = 1e-5F;
  double rope_base = 10000;
  RopePairing pairing = RopePairing::kNeighbours;
  bool tied_head = false;
  std::int64_t q_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  std::int64_t parameters() const;
  bool operator==(const ModelShape&) const = default;
};

// Matrices are [out, in], row-major: y[o] = sum_i m[o*in + i] * x[i].
struct LayerWeights {
  std::vector<float> attention_norm, wq, wk, wv, wo;
  std::vector<float> feed_forward_norm, gate, up, down;
};
struct Weights {
  ModelShape shape;
  std::vector<float> embedding;  // [vocabulary, width]
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;
  std::vector<float> head;  // [vocabulary, width]; empty when tied
};

enum class ChatTemplate : std::uint8_t {
  kRoles,  // "role: content\n" for each message, then "assistant:"
  kPlain,  // contents joined by newlines: for models that only continue a text
};

struct ModelCard {
  std::string id;      // as in /v1/models: "orrery-embedded", or the folder's last name
  std::string source;  // "embedded" or the folder
  std::string note;    // what a user should know of its text; may be empty
  ModelShape shape;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<TokenId> end_ids;        // generation stops after one of these (not part of the text)
  std::vector<TokenId> never_sampled;  // sorted
  ChatTemplate chat = ChatTemplate::kRoles;
};

// Reads the card only (a header and a vocabulary). Throws InputError (exit 2), Unsupported (3).
ModelCard load_card(const std::string& name);
std::shared_ptr<const Weights> load_weights(const ModelCard& card);

// The embedded model: fixed shape, weights from RandomStream(seed).
ModelShape embedded_shape();
std::shared_ptr<const Weights> make_random_weights(const ModelShape& shape, std::uint64_t seed);

struct ChatMessage {
  std::string role, content;
};
// Text of the prompt; encode() of it adds the BOS.
std::string render_chat(ChatTemplate how, const std::vector<ChatMessage>& messages);

}  // namespace orrery::engine
