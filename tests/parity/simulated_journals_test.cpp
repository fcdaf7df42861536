// Parity, simulated side: fresh policy objects take every decision of a run again.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/host/journal_file.h"
#include "runtime/policy/journal.h"
#include "tests/sim/random_scenario.h"

namespace orrery::sim {
namespace {

std::vector<std::filesystem::path> journals_of(std::uint64_t seed) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("run" + std::to_string(seed));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const RandomScenario s = random_scenario(seed);
  RunOptions options;
  options.journal_dir = folder.string();
  simulate(s.fleet, s.workload, {}, options);
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".journal") paths.push_back(entry);
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<JournalRecord> read(const std::filesystem::path& path) {
  host::JournalFileReader reader(path.string());
  std::vector<JournalRecord> records;
  while (auto record = reader.next()) records.push_back(std::move(*record));
  return records;
}

policy::VerifyResult verify(const std::vector<JournalRecord>& records) {
  std::size_t at = 0;
  return policy::verify_journal([&]() -> std::optional<JournalRecord> {
    if (at == records.size()) return std::nullopt;
    return records[at++];
  });
}

TEST(SimulatedJournals, ten_runs_verify) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto paths = journals_of(seed);
    ASSERT_GE(paths.size(), 2U) << "the router's and each instance's";
    for (const auto& path : paths) {
      const auto records = read(path);
      const policy::VerifyResult result = verify(records);
      EXPECT_TRUE(result.ok) << "seed " << seed << " " << path << " record " << result.bad_record
                             << ": " << result.detail;
      EXPECT_EQ(result.records, records.size());
      host::JournalFileReader reader(path.string());
      while (reader.next()) {
      }
      EXPECT_EQ(result.hash, reader.hash());
    }
  }
}

// A record changed by someone who also mends the hashes behind it: only the decisions tell.
TEST(SimulatedJournals, a_changed_record_is_refused_and_named) {
  int refused = 0, changed = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    RandomStream r = RandomStream(seed).fork("damage");
    for (const auto& path : journals_of(seed)) {
      auto records = read(path);
      if (records.size() < 4) continue;
      const std::size_t at = 1 + r.next_below(records.size() - 1);
      if (records[at].words.empty()) continue;
      records[at].words[r.next_below(records[at].words.size())] ^= 1;
      ++changed;
      const policy::VerifyResult result = verify(records);
      // A changed input can be a consistent story about another input; nearly always it is not.
      if (!result.ok && result.bad_record >= at) ++refused;
      EXPECT_TRUE(result.ok || result.bad_record >= at) << "seed " << seed << " " << path;
      EXPECT_FALSE(result.detail.empty() && !result.ok);
    }
  }
  EXPECT_GT(changed, 10);
  EXPECT_GE(refused * 10, changed * 7);
}

TEST(SimulatedJournals, a_changed_byte_on_disk_is_refused_with_its_record) {
  const auto paths = journals_of(3);
  std::fstream file(paths.front(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-20, std::ios::end);
  file.put('\x55');
  file.close();
  EXPECT_THROW(read(paths.front()), InputError);
}

}  // namespace
}  // namespace orrery::sim
