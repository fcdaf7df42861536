// The published checkpoint must generate what it is known to generate. Skipped where its files are
// not at hand.
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/base/json.h"
#include "runtime/host/files.h"
#include "tests/engine/harness.h"

namespace orrery::engine::test {
namespace {

namespace fs = std::filesystem;

class Checkpoint : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(checkpoint_folder() + "/expected.json"))
      GTEST_SKIP() << "no " << checkpoint_folder() << "; set ORRERY_SHARED";
    std::ifstream in(checkpoint_folder() + "/expected.json");
    expected_ = Json::parse(in);
    card_ = load_card(checkpoint_folder());
  }
  Json expected_;
  ModelCard card_;
};

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "orrery-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string bytes_of_ints(const std::vector<std::int32_t>& values) {
  std::string bytes(values.size() * 4, '\0');
  std::copy_n(reinterpret_cast<const char*>(values.data()), bytes.size(), bytes.data());
  return bytes;
}

}  // namespace

TEST_F(Checkpoint, tokenizer_gives_the_known_ids) {
  for (const Json& c : expected_["tokenizer"]) {
    const auto text = c["text"].get<std::string>();
    EXPECT_EQ(card_.tokenizer->encode(text), c["ids"].get<std::vector<TokenId>>()) << text;
    EXPECT_EQ(card_.tokenizer->decode(card_.tokenizer->encode(text)), text);
  }
}

TEST_F(Checkpoint, tokens_logits_and_text_equal_the_known_ones) {
  CpuExecutorSettings settings;
  settings.kv_blocks = 40;
  Driver driver(load_weights(card_), settings, 1);
  ASSERT_GE(expected_["cases"].size(), 3U);
  for (const Json& c : expected_["cases"]) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const auto want = c["generated_ids"].get<std::vector<TokenId>>();
    Sequence s{c["prompt_ids"].get<std::vector<TokenId>>(), 0, {}};
    EXPECT_EQ(card_.tokenizer->encode(c["prompt"].get<std::string>()), s.ids);
    std::vector<TokenId> generated;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const auto known = static_cast<std::int64_t>(s.ids.size());
      const auto result = driver.step({{&s, known - s.computed, true}});
      generated.push_back(result.tokens.at(0));
      s.ids.push_back(result.tokens[0]);
      if (!c.contains("first_steps") || i >= c["first_steps"].size()) continue;
      const Json& step = c["first_steps"][i];
      EXPECT_EQ(step["position"].get<std::int64_t>(), known - 1);
      for (const Json& top : step["top5"])
        EXPECT_NEAR(static_cast<double>(result.logits[0][top[0].get<std::size_t>()]),
                    top[1].get<double>(), 2e-3);
    }
    EXPECT_EQ(generated, want);
    if (!s.ids.empty() && s.ids.back() == kBos) s.ids.pop_back();
    EXPECT_EQ(card_.tokenizer->decode(s.ids), c["text"].get<std::string>());
    driver.release(s);
  }
}

TEST_F(Checkpoint, damaged_files_are_refused_with_file_and_field) {
  const std::string weights = host::read_file(checkpoint_folder() + "/stories260K.bin");
  const std::string vocabulary = host::read_file(checkpoint_folder() + "/tok512.bin");
  const auto refused = [&](const std::string& w, const std::string& v) {
    const TemporaryFolder folder;
    folder.write("a.bin", w), folder.write("tok.bin", v);
    try {
      load_weights(load_card(folder.path()));
    } catch (const InputError& e) {
      return e.place().file.substr(folder.path().size() + 1) + " " + e.place().field;
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused(weights, vocabulary), "accepted");
  EXPECT_EQ(refused(weights.substr(0, 20), vocabulary), "a.bin vocab_size");
  EXPECT_EQ(refused(weights.substr(0, 500000), vocabulary), "a.bin w1");
  EXPECT_EQ(refused(weights + "x", vocabulary), "a.bin end");
  EXPECT_EQ(refused(bytes_of_ints({-64}) + weights.substr(4), vocabulary), "a.bin dim");
  EXPECT_EQ(refused(weights, vocabulary.substr(0, 3000)), "tok.bin entry 214");
  EXPECT_EQ(refused(weights, vocabulary + "x"), "tok.bin end");
}

TEST(ModelFolder, what_is_no_checkpoint_is_refused_and_what_comes_later_is_named) {
  const TemporaryFolder folder;
  EXPECT_THROW(load_card(folder.path() + "/missing"), InputError);
  EXPECT_THROW(load_card(folder.path()), InputError);
  folder.write("model.safetensors", "");
  try {
    load_card(folder.path());
    FAIL();
  } catch (const Unsupported& e) {
    EXPECT_NE(std::string(e.what()).find("safetensors"), std::string::npos);
  }
}

}  // namespace orrery::engine::test
