#include "runtime/serve/metrics/metrics.h"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace orrery::serve {
namespace {

double value_of(const std::string& text, const std::string& series) {
  const std::size_t at = text.find("\n" + series + " ");
  EXPECT_NE(at, std::string::npos) << series;
  return at == std::string::npos ? -1 : std::stod(text.substr(at + series.size() + 2));
}

TEST(Histogram, buckets_are_cumulative_and_the_last_equals_the_count) {
  static constexpr std::array kBounds{0.1, 1.0};
  Histogram histogram(kBounds);
  histogram.observe(0.1);  // a bound belongs to its bucket
  histogram.observe(0.5, 3);
  histogram.observe(9);
  std::string text = "\n";
  histogram.render(text, "h", "a=\"b\"");
  EXPECT_EQ(value_of(text, "h_bucket{a=\"b\",le=\"0.1\"}"), 1);
  EXPECT_EQ(value_of(text, "h_bucket{a=\"b\",le=\"1\"}"), 4);
  EXPECT_EQ(value_of(text, "h_bucket{a=\"b\",le=\"+Inf\"}"), 5);
  EXPECT_EQ(value_of(text, "h_count{a=\"b\"}"), 5);
  EXPECT_NEAR(value_of(text, "h_sum{a=\"b\"}"), 10.6, 1e-6);
}

TEST(Metrics, families_that_mean_the_same_have_both_names_where_asked) {
  Metrics metrics;
  metrics.model("m").generation_tokens = 5;
  metrics.model("m").time_to_first_token.observe(0.02);
  metrics.count_http("/v1/completions", "POST", 200);
  WorkerGauge worker;
  worker.worker = "main-0", worker.model = "m";
  worker.running = 3, worker.blocks_total = 10, worker.blocks_free = 4, worker.block_tokens = 16;
  const std::string text = "\n" + metrics.render(std::vector{worker}, 2, 1, 5, true);
  const std::string labels = "{model_name=\"m\",engine=\"main-0\"}";
  for (const char* prefix : {"orrery_", "vllm:"}) {
    EXPECT_EQ(value_of(text, prefix + ("num_requests_running" + labels)), 3);
    EXPECT_NEAR(value_of(text, prefix + ("kv_cache_usage_perc" + labels)), 0.6, 1e-9);
    EXPECT_EQ(value_of(text, prefix + std::string("generation_tokens_total{model_name=\"m\"}")), 5);
    EXPECT_EQ(
        value_of(text, prefix + std::string("time_to_first_token_seconds_count{model_name=\"m\"}")),
        1);
  }
  EXPECT_EQ(
      value_of(text,
               "http_requests_total{handler=\"/v1/completions\",method=\"POST\",status=\"200\"}"),
      1);

  const std::string ours = "\n" + metrics.render(std::vector{worker}, 2, 1, 5, false);
  EXPECT_EQ(ours.find("vllm:"), std::string::npos);
  EXPECT_EQ(value_of(ours, "orrery_num_requests_running" + labels), 3);
  EXPECT_EQ(value_of(ours, "orrery_generation_tokens_total{model_name=\"m\"}"), 5);
}

TEST(Metrics, label_values_are_escaped) { EXPECT_EQ(label_value("a\"b\\c\nd"), "a\\\"b\\\\c\\nd"); }

}  // namespace
}  // namespace orrery::serve
