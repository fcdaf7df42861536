// Layout of a .bin checkpoint, all little-endian: seven int32 (width, feed-forward width, layers,
// heads, KV heads, vocabulary, context; a negative vocabulary: the head has its own matrix), then
// float32 tensors, each for all layers before the next: embedding, attention norm, wq, wk, wv, wo,
// feed-forward norm, gate (w1), down (w2), up (w3), final norm, RoPE cosines and sines (not used
// here), and the head if it is not tied. RoPE rotates neighbouring pairs.
//
// Layout of its vocabulary: int32 longest piece in bytes, then for each id float32 score, int32
// length, bytes.
#include "runtime/engine/checkpoint.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/host/files.h"

namespace orrery::engine {
namespace {

namespace fs = std::filesystem;
static_assert(std::endian::native == std::endian::little, "checkpoints are read as they lie");

struct Files {
  std::string weights, vocabulary;
};

// Sorted names of the folder's files. Throws InputError when it is no readable folder.
std::vector<std::string> names_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  if (!fs::is_directory(folder, error))
    throw InputError({folder, 0, "model"}, fs::exists(folder, error) ? "a file" : "nothing there",
                     "\"embedded\" or a folder with a checkpoint");
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  if (error) throw InputError({folder, 0, "model"}, error.message(), "a readable folder");
  std::sort(names.begin(), names.end());
  return names;
}

Files find_files(const std::string& folder) {
  std::vector<std::string> weights, vocabularies;
  for (const std::string& name : names_in(folder)) {
    if (name.ends_with(".safetensors"))
      throw Unsupported(folder + "/" + name +
                        ": safetensors checkpoints need a reader of their header, of config.json "
                        "and of tokenizer.json, which this build does not have; it reads Llama "
                        ".bin checkpoints with a tok*.bin vocabulary");
    if (name.ends_with(".gguf"))
      throw Unsupported(folder + "/" + name +
                        ": GGUF checkpoints need a reader and dequantisers "
                        "that this build does not have");
    if (!name.ends_with(".bin")) continue;
    (name.starts_with("tok") ? vocabularies : weights).push_back(folder + "/" + name);
  }
  const auto one = [&](const std::vector<std::string>& found, const char* what) {
    if (found.size() == 1) return found[0];
    throw InputError({folder, 0, "model"}, std::to_string(found.size()) + " such files",
                     std::string("exactly one ") + what);
  };
  return {one(weights, "*.bin with weights"), one(vocabularies, "tok*.bin with a vocabulary")};
}

// A cursor over a file's bytes that never reads past the end.
class Cursor {
 public:
  Cursor(std::string_view bytes, std::string file) : bytes_(bytes), file_(std::move(file)) {}
  template <class T>
  T take(const char* what) {
    T value;
    const std::string_view raw = take_bytes(sizeof(T), what);
    std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }
  std::vector<float> floats(std::int64_t count, const char* what) {
    std::vector<float> values(static_cast<std::size_t>(count));
    const std::string_view raw = take_bytes(values.size() * sizeof(float), what);
    std::memcpy(values.data(), raw.data(), raw.size());
    for (const float v : values)
      if (!std::isfinite(v)) fail(what, "a value that is not finite", "finite numbers");
    return values;
  }
  std::string_view take_bytes(std::size_t count, const char* what) {
    if (count > bytes_.size() - at_)
      fail(what, "end of file after " + std::to_string(bytes_.size()) + " bytes",
           std::to_string(count - (bytes_.size() - at_)) + " bytes more");
    return bytes_.substr(std::exchange(at_, at_ + count), count);
  }
  std::size_t left() const { return bytes_.size() - at_; }
  [[noreturn]] void fail(const char* what, std::string found, std::string expected) const {
    throw InputError({file_, 0, what}, std::move(found), std::move(expected));
  }

 private:
  std::string_view bytes_;
  std::string file_;
  std::size_t at_ = 0;
};

ModelShape read_shape(Cursor& in) {
  const auto positive = [&](const char* what, std::int32_t most) {
    const auto v = in.take<std::int32_t>(what);
    if (v <= 0 || v > most)
      in.fail(what, std::to_string(v), "a number from 1 to " + std::to_string(most));
    return static_cast<std::int64_t>(v);
  };
  ModelShape s;
  s.width = positive("dim", 1 << 16);
  s.feed_forward = positive("hidden_dim", 1 << 18);
  s.layers = positive("n_layers", 1 << 10);
  s.heads = positive("n_heads", 1 << 10);
  s.kv_heads = positive("n_kv_heads", static_cast<std::int32_t>(s.heads));
  const auto vocabulary = in.take<std::int32_t>("vocab_size");
  s.tied_head = vocabulary > 0;
  s.vocabulary = std::abs(static_cast<std::int64_t>(vocabulary));
  if (s.vocabulary <= kFirstPiece || s.vocabulary > (1 << 20))
    in.fail("vocab_size", std::to_string(vocabulary), "260 to 1048576 entries, or that negated");
  s.max_context = positive("seq_len", 1 << 20);
  if (s.width % s.heads != 0 || s.width / s.heads % 2 != 0 || s.heads % s.kv_heads != 0)
    in.fail("n_heads",
            std::to_string(s.heads) + " heads, " + std::to_string(s.kv_heads) +
                " KV heads, width " + std::to_string(s.width),
            "an even width / heads, and heads divisible by KV heads");
  s.head_dim = s.width / s.heads;
  return s;
}

// The first bytes of a file that may be large; fewer where it is shorter.
std::string read_start(const std::string& path, std::size_t count) {
  std::string bytes;
  const auto reader = host::open_reader(path);
  while (bytes.size() < count) {
    const std::string_view chunk = reader->next_chunk();
    if (chunk.empty()) break;
    bytes += chunk.substr(0, count - bytes.size());
  }
  return bytes;
}

// Tensor of all layers, handed to each layer's member.
void read_layers(Cursor& in, Weights& w, std::vector<float> LayerWeights::*member,
                 std::int64_t floats, const char* what) {
  for (LayerWeights& layer : w.layers) layer.*member = in.floats(floats, what);
}

Tokenizer read_vocabulary(const std::string& path, std::int64_t entries) {
  const std::string bytes = host::read_file(path);
  Cursor in(bytes, path);
  const auto longest = in.take<std::int32_t>("longest piece");
  if (longest <= 0 || longest > 4096)
    in.fail("longest piece", std::to_string(longest), "1 to 4096 bytes");
  std::vector<std::string> pieces;
  std::vector<float> scores;
  for (std::int64_t id = 0; id < entries; ++id) {
    const std::string what = "entry " + std::to_string(id);
    const auto score = in.take<float>(what.c_str());
    const auto length = in.take<std::int32_t>(what.c_str());
    if (length < 0 || length > 4096)
      in.fail(what.c_str(), std::to_string(length) + " bytes", "0 to 4096 bytes");
    const std::string_view text = in.take_bytes(static_cast<std::size_t>(length), what.c_str());
    if (id < kFirstPiece) continue;  // special ids and single bytes are the same in every file
    pieces.emplace_back(text);
    scores.push_back(score);
  }
  if (in.left() > 0)
    in.fail("end", std::to_string(in.left()) + " bytes more",
            "the end after " + std::to_string(entries) + " entries, as many as the weights have");
  return Tokenizer(Tokenizer::Method::kMergeByScore, std::move(pieces), std::move(scores));
}

}  // namespace

ModelCard load_checkpoint_card(const std::string& folder) {
  const Files files = find_files(folder);
  ModelCard card;
  const std::string header = read_start(files.weights, 7 * sizeof(std::int32_t));
  Cursor in(header, files.weights);
  card.shape = read_shape(in);
  card.tokenizer =
      std::make_shared<Tokenizer>(read_vocabulary(files.vocabulary, card.shape.vocabulary));
  fs::path path(folder);
  if (!path.has_filename()) path = path.parent_path();  // "stories/" means "stories"
  card.id = fs::absolute(path).filename().string();
  card.source = folder;
  // Models of this family end a text with BOS, which starts the next one, or with EOS.
  card.end_ids = {kBos, kEos};
  card.chat = ChatTemplate::kPlain;
  return card;
}

std::shared_ptr<const Weights> load_checkpoint_weights(const ModelCard& card) {
  const Files files = find_files(card.source);
  const std::string bytes = host::read_file(files.weights);
  Cursor in(bytes, files.weights);
  auto w = std::make_shared<Weights>();
  const ModelShape s = w->shape = read_shape(in);
  if (s != card.shape) in.fail("header", "another shape than before", "a file that stays as it is");
  w->layers.resize(static_cast<std::size_t>(s.layers));
  w->embedding = in.floats(s.vocabulary * s.width, "embedding");
  read_layers(in, *w, &LayerWeights::attention_norm, s.width, "attention norm");
  read_layers(in, *w, &LayerWeights::wq, s.q_width() * s.width, "wq");
  read_layers(in, *w, &LayerWeights::wk, s.kv_width() * s.width, "wk");
  read_layers(in, *w, &LayerWeights::wv, s.kv_width() * s.width, "wv");
  read_layers(in, *w, &LayerWeights::wo, s.width * s.q_width(), "wo");
  read_layers(in, *w, &LayerWeights::feed_forward_norm, s.width, "feed-forward norm");
  read_layers(in, *w, &LayerWeights::gate, s.feed_forward * s.width, "w1");
  read_layers(in, *w, &LayerWeights::down, s.width * s.feed_forward, "w2");
  read_layers(in, *w, &LayerWeights::up, s.feed_forward * s.width, "w3");
  w->final_norm = in.floats(s.width, "final norm");
  in.take_bytes(static_cast<std::size_t>(s.max_context * s.head_dim) * sizeof(float),
                "RoPE tables");
  if (!s.tied_head) w->head = in.floats(s.vocabulary * s.width, "head");
  if (in.left() > 0)
    in.fail("end", std::to_string(in.left()) + " bytes more", "the end of the file");
  return w;
}

}  // namespace orrery::engine
