// The Azure 2023 conversation trace through a fleet: everything is accounted for.
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "sim/workload.h"
#include "tests/sim/toys.h"

namespace orrery::sim {
namespace {

std::string azure_file() {
  const char* shared = std::getenv("ORRERY_SHARED");
  const std::string root = shared != nullptr ? shared : ORRERY_SOURCE_ROOT "/../shared";
  return root + "/data/traces/azure2023/AzureLLMInferenceTrace_conv.csv";
}

TEST(Azure, every_request_is_accounted_for_and_tokens_are_conserved) {
  const std::string path = azure_file();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path << " (set ORRERY_SHARED)";
  const auto trace = traces::open_trace(path);
  traces::TraceRequest request;
  std::int64_t rows = 0, input = 0, output = 0;
  while (trace->next(request)) {
    if (!request.ok) continue;
    ++rows, input += request.input_tokens, output += request.output_tokens;
  }
  ASSERT_EQ(rows, 19'366);

  PoolSpec pool = toy_pool(std::make_shared<ToyModel>(8 * kMs, 30'000'000, 40'000), 30'000, 4);
  RunOptions macro, single;
  single.macro_steps = false;
  const Summary s = simulate({{pool}, {}}, trace_workload(path), {}, macro);
  EXPECT_EQ(s.submitted, rows);
  EXPECT_EQ(s.completed, rows);
  EXPECT_EQ(s.input_tokens, input);
  EXPECT_EQ(s.output_tokens, output);
  EXPECT_EQ(s.itl.ns.count(), output - rows);
  EXPECT_FALSE(s.saturated) << s.saturated_why;
  const Summary slow = simulate({{pool}, {}}, trace_workload(path), {}, single);
  EXPECT_EQ(s.journal_hash, slow.journal_hash);
  EXPECT_EQ(comparable(s), comparable(slow));
  std::printf("macro %.0f requests/s, single steps %.0f requests/s\n",
              static_cast<double>(rows) / s.wall_s, static_cast<double>(rows) / slow.wall_s);
}

}  // namespace
}  // namespace orrery::sim
