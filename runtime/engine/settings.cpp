#include "runtime/engine/settings.h"

#include <algorithm>

namespace orrery::engine {

policy::InstanceSettings default_embedded_settings() {
  policy::InstanceSettings s;
  s.block_tokens = Tokens(16);
  // 8192 tokens, 50 MB: eight requests of full length, so that memory binds before the batch does.
  s.kv_blocks = Blocks(512);
  // A full prefill chunk takes some tens of milliseconds: a decode beside it waits that long.
  s.max_batched_tokens = Tokens(256);
  s.max_running = 16;
  s.max_context = Tokens(1024);
  return s;
}

policy::InstanceSettings default_settings(const ModelShape& shape) {
  policy::InstanceSettings s = default_embedded_settings();
  s.max_context = std::min(s.max_context, Tokens(shape.max_context));
  return s;
}

}  // namespace orrery::engine
