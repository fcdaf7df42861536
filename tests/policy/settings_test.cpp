#include "runtime/policy/settings.h"

#include <gtest/gtest.h>

namespace orrery::policy {
namespace {

JsonView view(const std::string& text) { return JsonView(JsonDocument::parse(text, "s.json")); }

TEST(Settings, what_is_written_is_read_back) {
  InstanceSettings s;
  s.block_tokens = Tokens(32), s.kv_blocks = Blocks(77), s.max_batched_tokens = Tokens(99);
  s.max_running = 5, s.long_prefill_cap = Tokens(7), s.chunked_prefill = true;
  s.prefix_cache = false, s.max_context = Tokens(1234), s.max_waiting = 6;
  s.watermark_per_mille = 8, s.order = "priority", s.victim = "lowest_priority";
  EXPECT_EQ(read_instance_settings(view(to_json(s).dump())), s);
  RouterSettings r;
  r.policy = "scored", r.scorers = {{"prefix", 3}, {"load_tokens", 2}};
  r.directory_blocks_per_instance = 55;
  EXPECT_EQ(read_router_settings(view(to_json(r).dump())), r);
}

TEST(Settings, absent_keys_keep_the_base_and_unknown_ones_are_errors) {
  InstanceSettings base;
  base.kv_blocks = Blocks(77);
  const InstanceSettings s = read_instance_settings(view(R"({"max_running": 3})"), base);
  EXPECT_EQ(s.kv_blocks, Blocks(77));
  EXPECT_EQ(s.max_running, 3);
  EXPECT_THROW(read_instance_settings(view(R"({"max_runing": 3})")), InputError);
  EXPECT_THROW(read_instance_settings(view(R"({"max_running": 2.5})")), InputError);
  EXPECT_THROW(read_router_settings(view(R"({"scorers": [{"weight": 1}]})")), InputError);
}

}  // namespace
}  // namespace orrery::policy
