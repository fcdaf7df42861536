// TokenId: index into a model's vocabulary. Kept apart from Tokens, which counts them.
#pragma once
#include <cstdint>

namespace orrery::engine {

using TokenId = std::int32_t;

}  // namespace orrery::engine
