// The weight matrices of a model as one GPU of a replica holds them: what the roofline multiplies
// with and what the memory plan stores. One list for both, so that they cannot disagree.
// Law: with tp = 1 the elements sum to the parameters counted from the shape.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/policy/cost/catalog.h"
#include "runtime/policy/cost/step_model.h"

namespace orrery::cost {

// What a matrix is multiplied with.
enum class Rows : std::uint8_t {
  kTokens,   // every token of the step
  kSampled,  // only tokens that sample (the output head)
  kExperts,  // tokens x experts per token, over the experts they touch
  kLatent,  // MLA: cached latents of prefills (expanded), queries and outputs of decodes (absorbed)
  kLookup,  // the embedding table: rows are read, not multiplied
};

// Matrices of one kind, all layers together, as one GPU holds them.
struct MatrixGroup {
  std::string name;
  Rows rows = Rows::kTokens;
  std::string precision;
  double elements = 0;    // on this GPU
  double parameters = 0;  // in the model: copies on several GPUs count once
  double row_values = 0;  // activations read and written per row, all layers
  double layers = 0;      // how many layers have it
};

std::vector<MatrixGroup> matrices_of(const ModelSpec& model, const Parallelism& parallelism);

// Layers with a KV cache that no window limits.
std::int64_t full_attention_layers(const ModelSpec& model);
// KV heads that one GPU holds: divided by tp, one copy each where tp exceeds them.
std::int64_t kv_heads_per_gpu(std::int64_t kv_heads, int tp);

// Parameters counted from the shape (norms included, biases not).
double count_parameters(const ModelSpec& model);

// Throws Unsupported for a kind of attention that is known by name only.
void require_modelled_attention(const ModelSpec& model);

}  // namespace orrery::cost
