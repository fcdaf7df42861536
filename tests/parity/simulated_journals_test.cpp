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

// With running hashes that agree with what is written.
void write(const std::filesystem::path& path, const std::vector<JournalRecord>& records) {
  host::JournalFileWriter file(path.string());
  JournalWriter journal;
  journal.set_sink(file.sink());
  for (const JournalRecord& record : records) journal.append(record.kind, record.words);
  file.flush();
}

void flip(const std::filesystem::path& path, std::int64_t byte) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(byte);
  const int was = file.get();
  file.seekp(byte);
  file.put(static_cast<char>(was ^ 0x10));
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

// A record changed by someone who also mends the running hashes of the file: the reader takes it,
// and the verifier refuses exactly that record.
TEST(SimulatedJournals, a_changed_record_is_refused_and_named) {
  const auto mended = std::filesystem::path(testing::TempDir()) / "mended.journal";
  int changed = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    RandomStream r = RandomStream(seed).fork("damage");
    for (const auto& path : journals_of(seed)) {
      auto records = read(path);
      for (int i = 0; i < 3; ++i) {
        const std::size_t at = r.next_below(records.size());
        const std::size_t word = r.next_below(records[at].words.size());
        const std::uint64_t bit = std::uint64_t{1} << r.next_below(64);
        records[at].words[word] ^= bit;
        write(mended, records);
        const policy::VerifyResult result = verify(read(mended));
        EXPECT_FALSE(result.ok) << "seed " << seed << " " << path << " record " << at;
        EXPECT_EQ(result.bad_record, at)
            << "seed " << seed << " " << path << " word " << word << ": " << result.detail;
        EXPECT_FALSE(result.detail.empty());
        records[at].words[word] ^= bit;
        ++changed;
      }
    }
  }
  EXPECT_GE(changed, 60);
}

TEST(SimulatedJournals, a_changed_byte_on_disk_is_refused_with_its_record) {
  const auto paths = journals_of(3);
  for (const auto& path : paths) {
    const auto records = read(path);
    RandomStream r = RandomStream(7).fork(path.filename().string());
    for (int i = 0; i < 5; ++i) {
      const std::size_t at = r.next_below(records.size());
      std::int64_t offset = 8;  // the magic; then kind, count, words and hash of each record
      for (std::size_t k = 0; k < at; ++k)
        offset += 16 + 8 * static_cast<std::int64_t>(records[k].words.size());
      const std::int64_t byte =
          offset + 8 + pick(r, 0, 8 * static_cast<std::int64_t>(records[at].words.size()) + 7);
      flip(path, byte);
      try {
        read(path);
        ADD_FAILURE() << path << ": byte " << byte << " was changed and nobody saw it";
      } catch (const InputError& e) {
        EXPECT_EQ(e.place().field, "record " + std::to_string(at)) << e.what();
      }
      flip(path, byte);
    }
    EXPECT_EQ(read(path), records) << "flipped back";
  }
}

}  // namespace
}  // namespace orrery::sim
