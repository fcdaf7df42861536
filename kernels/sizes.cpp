// Workspace sizes: the same on every side.
#include "kernels/decode_ops.h"
#include "kernels/dispatch.h"

namespace orrery::kernels {

std::size_t paged_attention_workspace_bytes(const PagedAttentionArgs& a) {
  const int parts = ceil_div(a.max_context, kPartitionTokens);
  if (parts <= 1) return 0;
  return static_cast<std::size_t>(a.sequences) * static_cast<std::size_t>(a.q_heads) *
         static_cast<std::size_t>(parts) * static_cast<std::size_t>(a.kv.head_dim + 2) *
         sizeof(float);
}

std::size_t argmax_workspace_bytes(const ArgmaxArgs& a) {
  return static_cast<std::size_t>(a.rows) *
         static_cast<std::size_t>(ceil_div(a.vocabulary, kArgmaxChunk)) * 8;
}

}  // namespace orrery::kernels
