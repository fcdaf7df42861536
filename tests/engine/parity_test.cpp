// A journal written by live code, with a real forward pass behind it, makes every decision again.
#include <gtest/gtest.h>

#include "runtime/policy/journal.h"
#include "tests/engine/live_run.h"

namespace orrery::engine::test {
namespace {

policy::VerifyResult verify(const std::vector<JournalRecord>& records) {
  std::size_t at = 0;
  return policy::verify_journal([&]() -> std::optional<JournalRecord> {
    if (at == records.size()) return std::nullopt;
    return records[at++];
  });
}

}  // namespace

TEST(Parity, journals_of_ten_live_runs_verify_and_an_altered_record_is_named) {
  for (std::uint64_t seed = 100; seed < 110; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    EngineOptions options;
    options.end_ids = {2, 17, 40};
    const LiveRun run = live_run(seed, options);
    ASSERT_GT(run.journal.size(), 50U);
    const policy::VerifyResult good = verify(run.journal);
    ASSERT_TRUE(good.ok) << "record " << good.bad_record << ": " << good.detail;
    EXPECT_EQ(good.records, run.journal.size());
    RandomStream random(seed);
    for (int i = 0; i < 5; ++i) {
      std::vector<JournalRecord> altered = run.journal;
      const std::uint64_t record = random.next_below(altered.size());
      auto& words = altered[record].words;
      words[random.next_below(words.size())] ^= std::uint64_t{1} << random.next_below(64);
      const policy::VerifyResult bad = verify(altered);
      EXPECT_FALSE(bad.ok);
      EXPECT_EQ(bad.bad_record, record) << bad.detail;
    }
  }
}

TEST(Parity, the_same_inputs_at_the_same_times_give_the_same_journal_and_tokens) {
  const LiveRun a = live_run(7, {}), b = live_run(7, {});
  EXPECT_EQ(a.journal, b.journal);
  for (const auto& [id, answer] : a.answers) EXPECT_EQ(answer.tokens, b.answers.at(id).tokens);
}

}  // namespace orrery::engine::test
