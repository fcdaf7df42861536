#include "runtime/host/files.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace orrery::host {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("orrery_files_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  std::string raw(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::string error_of(const std::string& file) {
    try {
      read_file(file);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }
  fs::path folder_;
};

// Longer than the buffers, and not all the same.
std::string long_text() {
  RandomStream random(1);
  std::string text;
  while (text.size() < 1'500'000) text += std::to_string(random.next_below(1'000'000'000)) + "\n";
  return text;
}

TEST_F(Files, what_was_written_is_read_whatever_the_compression) {
  for (const std::string& text : {std::string(), std::string("x"), long_text()}) {
    for (const char* name : {"a.txt", "a.gz", "a.zst"}) {
      write_file(path(name), text);
      EXPECT_EQ(read_file(path(name)), text) << name;
    }
  }
  EXPECT_LT(raw("a.gz").size(), raw("a.txt").size() / 2);
  EXPECT_LT(raw("a.zst").size(), raw("a.txt").size() / 2);
}

TEST_F(Files, compression_is_known_by_content_not_by_name) {
  write_file(path("a.gz"), "hello\n");
  fs::rename(path("a.gz"), path("renamed.jsonl"));
  EXPECT_EQ(read_file(path("renamed.jsonl")), "hello\n");
  put("plain.gz", "not compressed");
  EXPECT_EQ(read_file(path("plain.gz")), "not compressed");
}

TEST_F(Files, members_and_frames_in_a_row_are_one_stream) {
  for (const char* name : {"a.gz", "a.zst"}) {
    write_file(path(name), "first\n");
    const std::string first = raw(name);
    write_file(path(name), "second\n");
    put("both", first + raw(name));
    EXPECT_EQ(read_file(path("both")), "first\nsecond\n") << name;
  }
}

TEST_F(Files, compressed_files_cut_anywhere_are_refused) {
  for (const char* name : {"a.gz", "a.zst"}) {
    write_file(path(name), long_text());
    const std::string whole = raw(name);
    RandomStream random = RandomStream(2).fork(name);
    for (int round = 0; round < 20; ++round) {
      const auto keep = static_cast<std::size_t>(5 + random.next_below(whole.size() - 6));
      put("cut", whole.substr(0, keep));
      EXPECT_NE(error_of(path("cut")).find("ends too early"), std::string::npos)
          << name << " cut at " << keep;
    }
  }
}

TEST_F(Files, an_altered_gzip_byte_is_noticed) {
  write_file(path("a.gz"), long_text());
  const std::string whole = raw("a.gz");
  for (std::size_t at = 20; at < whole.size(); at += whole.size() / 10) {
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ 0x10);
    put("altered", altered);
    EXPECT_NE(error_of(path("altered")), "") << "byte " << at;
  }
}

TEST_F(Files, missing_files_and_folders_are_named) {
  EXPECT_EQ(error_of(path("nope")),
            path("nope") + ": found no such file, expected a readable file");
  EXPECT_EQ(error_of(folder_.string()), folder_.string() + ": found a folder, expected a file");
}

TEST_F(Files, writing_replaces_whole_or_not_at_all) {
  write_file(path("a"), "old");
  write_file(path("a"), "new");
  EXPECT_EQ(raw("a"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);  // no temporary file is left
  EXPECT_THROW(write_file(path("no/such/folder/a"), "x"), InputError);
  EXPECT_THROW(write_file(folder_.string(), "x"), InputError);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(Files, writing_keeps_links_and_devices) {
  write_file(path("target"), "old");
  fs::create_symlink(path("target"), path("link"));
  write_file(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(raw("target"), "new");
  write_file("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(Files, a_full_disk_is_an_error_when_closed) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const auto writer = open_writer("/dev/full");
  writer->write("x");
  EXPECT_THROW(writer->close(), InputError);
}

// The slow twin: split the whole text.
struct Split {
  std::vector<std::string> lines;
  bool crlf = false;
};
Split split_slowly(const std::string& text) {
  Split out;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back(), out.crlf = true;
    out.lines.push_back(line);
    at = end + 1;
  }
  return out;
}

// Delivers a text in chunks of the given sizes, over and over.
class ChunkedReader : public ByteReader {
 public:
  ChunkedReader(std::string text, RandomStream random) : text_(std::move(text)), random_(random) {}
  std::string_view next_chunk() override {
    const auto size = static_cast<std::size_t>(1 + random_.next_below(9));
    chunk_ = text_.substr(std::min(at_, text_.size()), size);
    at_ += size;
    return chunk_;
  }

 private:
  std::string text_, chunk_;
  std::size_t at_ = 0;
  RandomStream random_;
};

TEST_F(Files, lines_are_the_same_however_the_bytes_arrive) {
  RandomStream random = RandomStream(4).fork("lines");
  const std::string letters = "ab\n\r\n";
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    const std::uint64_t size = random.next_below(40);
    for (std::uint64_t i = 0; i < size; ++i)
      text += letters[static_cast<std::size_t>(random.next_below(letters.size()))];
    const Split expected = split_slowly(text);
    LineReader reader(std::make_unique<ChunkedReader>(
        text, RandomStream(4).fork("chunks", static_cast<std::uint64_t>(round))));
    std::vector<std::string> lines;
    for (std::string_view line; reader.next(line);) {
      lines.emplace_back(line);
      ASSERT_EQ(reader.line_number(), static_cast<std::int64_t>(lines.size()));
    }
    ASSERT_EQ(lines, expected.lines) << "seed 4, round " << round;
    ASSERT_EQ(reader.saw_crlf(), expected.crlf) << "seed 4, round " << round;
    ASSERT_EQ(reader.missing_final_newline(), !text.empty() && text.back() != '\n')
        << "seed 4, round " << round;
  }
}

TEST_F(Files, json_errors_name_the_file) {
  put("bad.json", "{\n\"a\": }\n");
  try {
    read_json(path("bad.json"));
    FAIL() << "a broken document was read";
  } catch (const InputError& e) {
    EXPECT_EQ(e.place().file, path("bad.json"));
    EXPECT_EQ(e.place().line, 2);
  }
}

}  // namespace
}  // namespace orrery::host
