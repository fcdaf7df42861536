// The embedded model: a small Llama-family transformer whose weights are made from a fixed seed in
// memory, so that a clone serves real forward passes with no download. Its text is noise made of
// English word pieces, and says so wherever models are listed.
#pragma once
#include "runtime/engine/model.h"

namespace orrery::engine {

inline constexpr const char* kEmbeddedName = "embedded";
inline constexpr std::uint64_t kEmbeddedSeed = 0x6f7272657279ULL;

ModelCard embedded_card();

}  // namespace orrery::engine
