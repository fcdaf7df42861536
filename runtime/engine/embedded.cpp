#include "runtime/engine/embedded.h"

#include <iterator>

namespace orrery::engine {
namespace {

// The learned part of the vocabulary: frequent English words with their leading space, and endings.
// Everything else is written in single bytes.
constexpr const char* kPieces[] = {
    " the",     " of",     " and",       " to",       " in",     " is",        " that",
    " it",      " was",    " for",       " on",       " are",    " as",        " with",
    " his",     " they",   " at",        " be",       " this",   " from",      " have",
    " or",      " by",     " one",       " had",      " not",    " but",       " what",
    " all",     " were",   " when",      " we",       " there",  " can",       " an",
    " your",    " which",  " their",     " said",     " if",     " do",        " will",
    " each",    " about",  " how",       " up",       " out",    " them",      " then",
    " she",     " many",   " some",      " so",       " these",  " would",     " other",
    " into",    " has",    " more",      " her",      " two",    " like",      " him",
    " see",     " time",   " could",     " no",       " make",   " than",      " first",
    " been",    " its",    " who",       " now",      " people", " my",        " made",
    " over",    " did",    " down",      " only",     " way",    " find",      " use",
    " may",     " water",  " long",      " little",   " very",   " after",     " words",
    " called",  " just",   " where",     " most",     " know",   " get",       " through",
    " back",    " much",   " before",    " go",       " good",   " new",       " write",
    " our",     " used",   " me",        " man",      " too",    " any",       " day",
    " same",    " right",  " look",      " think",    " also",   " around",    " another",
    " came",    " come",   " work",      " three",    " must",   " because",   " does",
    " part",    " even",   " place",     " well",     " such",   " here",      " take",
    " why",     " things", " help",      " put",      " years",  " different", " away",
    " again",   " off",    " went",      " old",      " number", " great",     " tell",
    " men",     " say",    " small",     " every",    " found",  " still",     " between",
    " name",    " should", " home",      " big",      " give",   " air",       " line",
    " set",     " own",    " under",     " read",     " last",   " never",     " us",
    " left",    " end",    " along",     " while",    " might",  " next",      " sound",
    " below",   " saw",    " something", " thought",  " both",   " few",       " those",
    " always",  " looked", " show",      " large",    " often",  " together",  " asked",
    " house",   " world",  " going",     " want",     " school", " important", " until",
    " form",    " food",   " keep",      " children", " feet",   " land",      " side",
    " without", " boy",    " once",      " animals",  " life",   " enough",    " took",
    " four",    " head",   " above",     " kind",     " began",  " almost",    " live",
    " page",    " got",    " earth",     " need",     " far",    " hand",      " high",
    " year",    " mother", " light",     " country",  " father", " let",       " night",
    " picture", " being",  " study",     " second",   " soon",   " story",     " since",
    " white",   "ing",     "ed",         "er",        "ly",      "s",          "es",
    "tion",     "ment",    "ness",       "'s",        "n't",     "est",        "al",
    "en"};
static_assert(std::size(kPieces) == 512 - kFirstPiece);

}  // namespace

// 13.4 million weights, 54 MB: more than a core's own caches hold, so that a decode step is bound
// by reading them and a batch shares that cost, as on a GPU; one to three milliseconds a step.
ModelShape embedded_shape() {
  ModelShape s;
  s.width = 384, s.layers = 8, s.heads = 12, s.kv_heads = 4, s.head_dim = 32;
  s.feed_forward = 1024, s.vocabulary = 512, s.max_context = 1024;
  s.pairing = RopePairing::kHalves;
  return s;
}

ModelCard embedded_card() {
  ModelCard card;
  card.id = "orrery-embedded";
  card.source = kEmbeddedName;
  card.note =
      "weights made from a fixed seed, not trained: its text is random words. It is here to "
      "exercise serving with a real forward pass.";
  card.shape = embedded_shape();
  card.tokenizer = std::make_shared<Tokenizer>(
      Tokenizer::Method::kLongestMatch,
      std::vector<std::string>(std::begin(kPieces), std::end(kPieces)), std::vector<float>());
  card.end_ids = {kEos};
  // Of the single bytes only printable ASCII may come out, so that its text is readable.
  for (TokenId id = 0; id < kFirstPiece; ++id) {
    const TokenId byte = id - kFirstByte;
    const bool printable = byte == '\n' || (byte >= ' ' && byte <= '~');
    if (id != kEos && !printable) card.never_sampled.push_back(id);
  }
  card.chat = ChatTemplate::kRoles;
  return card;
}

}  // namespace orrery::engine
