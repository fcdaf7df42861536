#include "runtime/host/journal_file.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace orrery::host {
namespace {

namespace fs = std::filesystem;

class JournalFile : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (fs::temp_directory_path() / ("orrery_journal_" + std::to_string(::getpid()))).string();
  }
  void TearDown() override { fs::remove(path_); }

  std::vector<JournalRecord> write_sample() {
    RandomStream random(9);
    std::vector<JournalRecord> records;
    JournalFileWriter file(path_);
    JournalWriter writer;
    writer.set_sink(file.sink());
    for (int i = 0; i < 200; ++i) {
      JournalRecord record{static_cast<std::uint32_t>(random.next_below(9)), {}};
      const std::uint64_t words = random.next_below(5);
      for (std::uint64_t w = 0; w < words; ++w) record.words.push_back(random.next_u64());
      writer.append(record.kind, record.words);
      records.push_back(record);
    }
    hash_ = writer.hash();
    return records;
  }
  std::string bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  // Reads all; the field of the refusal ("record 7"), or "" when nothing was refused.
  std::string refused_record() const {
    try {
      JournalFileReader reader(path_);
      while (reader.next()) {
      }
    } catch (const InputError& e) {
      return e.place().field;
    }
    return "";
  }
  std::string path_;
  std::uint64_t hash_ = 0;
};

TEST_F(JournalFile, records_come_back_with_their_hash) {
  const std::vector<JournalRecord> records = write_sample();
  JournalFileReader reader(path_);
  std::vector<JournalRecord> again;
  while (auto record = reader.next()) {
    EXPECT_EQ(reader.record_number(), again.size());
    again.push_back(std::move(*record));
  }
  EXPECT_EQ(again, records);
  EXPECT_EQ(reader.hash(), hash_);
}

TEST_F(JournalFile, one_altered_byte_is_refused_and_its_record_named) {
  const std::vector<JournalRecord> records = write_sample();
  const std::string whole = bytes();
  std::vector<std::size_t> record_at;  // of each byte after the magic
  for (std::size_t r = 0; r < records.size(); ++r)
    record_at.insert(record_at.end(), 16 + 8 * records[r].words.size(), r);
  ASSERT_EQ(record_at.size() + 8, whole.size());
  RandomStream random = RandomStream(10).fork("bytes");
  for (int round = 0; round < 300; ++round) {
    const auto at = static_cast<std::size_t>(8 + random.next_below(whole.size() - 8));
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ static_cast<char>(1 << random.next_below(8)));
    put(altered);
    EXPECT_EQ(refused_record(), "record " + std::to_string(record_at[at - 8]))
        << "seed 10, byte " << at;
  }
}

TEST_F(JournalFile, a_journal_cut_inside_a_record_is_refused) {
  const std::vector<JournalRecord> records = write_sample();
  const std::string whole = bytes();
  put(whole.substr(0, whole.size() - 1));
  EXPECT_EQ(refused_record(), "record " + std::to_string(records.size() - 1));
  put(whole.substr(0, 8 + 3));
  EXPECT_EQ(refused_record(), "record 0");
  put("ORRJRNL1");
  EXPECT_EQ(refused_record(), "");  // empty, but a journal
  put("something else");
  EXPECT_THROW(JournalFileReader reader(path_), InputError);
}

TEST_F(JournalFile, what_was_flushed_can_be_read_while_writing_goes_on) {
  JournalFileWriter file(path_);
  JournalWriter writer;
  writer.set_sink(file.sink());
  const std::uint64_t word = 5;
  writer.append(1, {&word, 1});
  file.flush();
  JournalFileReader reader(path_);
  EXPECT_TRUE(reader.next().has_value());
  EXPECT_FALSE(reader.next().has_value());
}

}  // namespace
}  // namespace orrery::host
