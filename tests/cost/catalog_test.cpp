// The catalogue files are whole, and bad entries are refused at their field.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/policy/cost/model_matrices.h"
#include "runtime/policy/cost/step_model.h"
#include "tests/cost/shipped.h"

namespace orrery::cost {
namespace {

JsonView parsed(const std::string& text) {
  return JsonView(JsonDocument::parse(text, "test.json"));
}

// What the InputError says that `action` throws; "" when it does not throw one.
template <class Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const InputError& e) {
    return e.what();
  }
  return {};
}

constexpr const char* kModel =
    R"({"id": "m", "attention": "gqa", "layers": 2, "hidden": 64, "heads": 8,
  "kv_heads": 4, "head_dim": 8, "intermediate": 172, "vocabulary": 512, "max_context_tokens": 512,
  "weight_type": "bf16")";

TEST(Catalog, every_instance_has_a_known_gpu_and_every_price_is_positive_or_unknown) {
  std::set<std::string> families;
  for (const InstanceType& i : shipped().instances) {
    families.insert(i.id.substr(0, i.id.find('.')));
    if (i.gpu.empty()) {
      EXPECT_EQ(i.id, "cpu-local");
      EXPECT_FALSE(i.on_demand_usd_per_hour.has_value());
      continue;
    }
    const GpuSpec here = shipped().gpu_of(i);
    EXPECT_GT(here.memory_bytes, 0) << i.id;
    for (const auto& price :
         {i.on_demand_usd_per_hour, i.spot_usd_per_hour, i.capacity_block_usd_per_hour}) {
      EXPECT_GT(price.value_or(1), 0) << i.id;
    }
    EXPECT_EQ(i.on_demand_usd_per_hour.has_value(), !i.price_date.empty()) << i.id;
    EXPECT_FALSE(i.source.empty()) << i.id;
  }
  for (const char* family : {"g4dn", "g5", "g6", "g6f", "g6e", "g7", "g7e", "p4d", "p4de", "p5",
                             "p5e", "p5en", "p6-b200", "p6-b300", "cpu-local"}) {
    EXPECT_TRUE(families.contains(family)) << family;
  }
}

TEST(Catalog, every_instance_gpu_has_a_default_profile_with_its_source) {
  for (const InstanceType& i : shipped().instances) {
    if (i.gpu.empty()) continue;
    const EngineProfile& p = shipped().default_profile_for(i.gpu);
    EXPECT_EQ(p.gpu, i.gpu);
    EXPECT_FALSE(p.source.empty());
    EXPECT_FALSE(p.date.empty());
    EXPECT_EQ(p.kind, "derived");
  }
}

// The count is the check on every width of a shape. The looser bounds are for what the list of
// matrices leaves out, as each entry's note says.
TEST(Catalog, counted_parameters_equal_the_published_total) {
  int checked = 0;
  for (const ModelSpec& m : shipped().models) {
    if (m.attention == "compressed-sparse") continue;
    ASSERT_GT(m.parameters, 0) << m.id;
    const bool approximate = m.note.find("approximate") != std::string::npos;
    EXPECT_NEAR(count_parameters(m) / m.parameters, 1, approximate ? 0.03 : 0.002) << m.id;
    ++checked;
  }
  EXPECT_GE(checked, 70);
}

TEST(Catalog, every_modelled_shape_has_a_step_time) {
  const GpuSpec& gpu = shipped().gpu("B200");
  const EngineProfile& profile = shipped().default_profile_for("B200");
  for (const ModelSpec& m : shipped().models) {
    if (m.attention == "compressed-sparse") {
      EXPECT_THROW(make_roofline_model(m, gpu, {1}, profile), Unsupported) << m.id;
      continue;
    }
    StepShape s;
    s.tokens = s.sequences = s.sampled = s.decode_sequences = 8;
    s.decode_context = 8 * 100;
    const StepTime t = make_roofline_model(m, gpu, {1}, profile)->time(s);
    EXPECT_GT(repetition_ps(t, s, 0), 0) << m.id;
  }
}

TEST(Catalog, names_are_found_in_any_case_and_by_hub_name) {
  EXPECT_EQ(shipped().model("Llama-3.1-8B").id, "llama-3.1-8b");
  EXPECT_EQ(shipped().model("meta-llama/Llama-3.1-8B").id, "llama-3.1-8b");
  EXPECT_EQ(shipped().model("meta-llama/Llama-3.1-8B-Instruct").id, "llama-3.1-8b");
  EXPECT_EQ(shipped().model("Qwen/Qwen3-30B-A3B-Thinking-2507").id, "qwen3-30b-a3b");
  EXPECT_EQ(shipped().gpu("h100-sxm").id, "H100-SXM");
  // Other weights are another model until they are asked for.
  EXPECT_THROW(shipped().model("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8"), InputError);
}

TEST(Catalog, an_unknown_name_suggests_the_nearest) {
  EXPECT_NE(refusal([] { shipped().model("lama-3.1-8b"); }).find("llama-3.1-8b"),
            std::string::npos);
  EXPECT_NE(refusal([] { shipped().instance("g6.xlarg"); }).find("g6.xlarge"), std::string::npos);
  EXPECT_NE(refusal([] { shipped().gpu("H100-SMX"); }).find("H100-SXM"), std::string::npos);
}

TEST(Catalog, a_model_reads_back_what_was_written) {
  const ModelSpec m = read_model(parsed(std::string(kModel) + "}"));
  EXPECT_EQ(m.hidden, 64);
  EXPECT_EQ(m.head_dim, 8);
  EXPECT_EQ(m.experts, 0);
  EXPECT_FALSE(m.weight_bytes.has_value());
}

TEST(Catalog, bad_model_fields_are_named) {
  const auto with = [](const std::string& more) {
    return refusal([&] { read_model(parsed(std::string(kModel) + more + "}")); });
  };
  EXPECT_NE(with(R"(, "vocabulry": 3)").find("vocabulary"), std::string::npos);
  EXPECT_NE(with(R"(, "expert_weight_type": "fp7")").find("expert_weight_type"), std::string::npos);
  EXPECT_NE(with(R"(, "window_layers": 3, "window_tokens": 4)").find("window_layers"),
            std::string::npos);
  EXPECT_NE(with(R"(, "window_layers": 1)").find("window_tokens"), std::string::npos);
  EXPECT_NE(with(R"(, "moe": {"experts": 4, "experts_per_token": 5, "expert_intermediate": 8,
    "layers": 2})")
                .find("experts_per_token"),
            std::string::npos);
  EXPECT_NE(refusal([] { read_model(parsed(R"({"id": "m"})")); }).find("layers"),
            std::string::npos);
}

TEST(Catalog, bad_prices_counts_and_shares_are_named) {
  EXPECT_NE(refusal([] {
              read_instance_type(parsed(
                  R"({"id": "x", "gpu": "T4", "gpu_count": 1, "on_demand_usd_per_hour": -1})"));
            }).find("on_demand_usd_per_hour"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              read_instance_type(parsed(R"({"id": "x", "gpu": "T4", "gpu_count": 1.5})"));
            }).find("gpu_count"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              read_engine_profile(parsed(R"({"id": "x", "kind": "derived",
              "memory_efficiency": 1.2})"));
            }).find("memory_efficiency"),
            std::string::npos);
}

TEST(Catalog, a_null_price_stays_unknown) {
  const InstanceType t = read_instance_type(
      parsed(R"({"id": "x", "gpu": "T4", "gpu_count": 1, "on_demand_usd_per_hour": null})"));
  EXPECT_FALSE(t.on_demand_usd_per_hour.has_value());
  EXPECT_FALSE(shipped().instance("p5e.48xlarge").on_demand_usd_per_hour.has_value());
}

TEST(Catalog, a_share_of_a_gpu_has_that_share_of_everything) {
  const GpuSpec whole = shipped().gpu("L4");
  const GpuSpec eighth = shipped().gpu_of(shipped().instance("g6f.large"));
  EXPECT_EQ(eighth.memory_bytes, whole.memory_bytes / 8);
  EXPECT_DOUBLE_EQ(eighth.memory_bandwidth_bytes_per_s, whole.memory_bandwidth_bytes_per_s / 8);
  EXPECT_DOUBLE_EQ(eighth.dense_flops.at("bf16"), whole.dense_flops.at("bf16") / 8);
}

TEST(Catalog, an_instance_has_the_pcie_lanes_seen_there) {
  const GpuSpec l4 = shipped().gpu("L4");
  const GpuSpec here = shipped().gpu_of(shipped().instance("g6.12xlarge"));
  EXPECT_DOUBLE_EQ(*here.pcie_bytes_per_s, *l4.pcie_bytes_per_s / 2);  // 8 of 16 lanes
}

TEST(Catalog, a_measured_profile_survives_writing_and_reading) {
  MeasuredProfile p;
  p.id = "cpu-local";
  p.model = "embedded";
  p.machine = "test";
  p.fixed_ps = 1.5e9;
  p.per_token_ps = 2.25e6;
  p.per_decode_context_ps = 1234.5;
  p.kv_blocks = 64;
  p.max_batched_tokens = 512;
  p.max_running = 8;
  p.max_context = 512;
  p.median_error = 0.03;
  const MeasuredProfile q = read_measured_profile(parsed(to_json(p).dump()));
  EXPECT_EQ(to_json(q), to_json(p));
}

TEST(Catalog, weights_in_another_precision_forget_the_checkpoints_own_size_and_blocks) {
  const ModelSpec m = with_weight_type(shipped().model("gpt-oss-20b"), "fp8");
  EXPECT_EQ(m.weight_type, "fp8");
  EXPECT_TRUE(m.expert_weight_type.empty());
  EXPECT_FALSE(m.weight_bytes.has_value());
  EXPECT_EQ(m.quant_block, 0);
  EXPECT_NE(refusal([] { with_weight_type(shipped().model("gpt-oss-20b"), "fp9"); }), "");
}

}  // namespace
}  // namespace orrery::cost
