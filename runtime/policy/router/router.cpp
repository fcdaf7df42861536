#include "runtime/policy/router/router.h"

#include <algorithm>
#include <string>

#include "runtime/base/check.h"
#include "runtime/base/errors.h"
#include "runtime/policy/journal.h"
#include "runtime/policy/journal_words.h"
#include "runtime/policy/record.h"
#include "runtime/policy/router/policies.h"
#include "runtime/policy/table_names.h"

namespace orrery::policy {
namespace {

[[noreturn]] void refuse(const std::string& field, const std::string& found,
                         const std::string& expected) {
  throw InputError({"router settings", 0, field}, found, expected);
}

}  // namespace

struct Router::Impl {
  explicit Impl(const RouterSettings& s);

  struct Guard {
    std::uint32_t replica = 0;
    Tokens prompt;
  };

  Words& begin();  // of the next record
  void append(RecordKind kind) { append_sealed(journal, static_cast<std::uint32_t>(kind), words); }
  RouteResult place(const RouteRequest& request);
  std::span<const BlockHash> full_blocks(const RouteRequest& request, Tokens block_tokens) const;

  RouterSettings settings;
  const NamedPolicy* policy = nullptr;
  std::vector<WeightedScorer> scorers;
  bool reads_prefixes = false;
  Replicas replicas;
  FlatMap<Guard> guards;  // by request id
  std::vector<Candidate> candidates;
  bool header_written = false;
  JournalWriter journal;
  Words words;
};

Router::Impl::Impl(const RouterSettings& s) : settings(s), policy(find_router_policy(s.policy)) {
  if (policy == nullptr)
    refuse("policy", "\"" + s.policy + "\"", one_of_names(registered_router_policies()));
  const bool scored = policy->name == "scored";
  if (scored == s.scorers.empty())
    refuse("scorers", std::to_string(s.scorers.size()) + " scorers",
           scored ? "at least one for policy \"scored\"" : "none unless the policy is \"scored\"");
  reads_prefixes = policy->reads_prefixes;
  for (std::size_t i = 0; i < s.scorers.size(); ++i) {
    const std::string field = "scorers[" + std::to_string(i) + "]";
    const NamedScorer* scorer = find_scorer(s.scorers[i].name);
    if (scorer == nullptr)
      refuse(field + ".name", "\"" + s.scorers[i].name + "\"", one_of_names(registered_scorers()));
    if (s.scorers[i].weight < 0 || s.scorers[i].weight > 1'000'000)
      refuse(field + ".weight", std::to_string(s.scorers[i].weight), "0 to 1000000");
    scorers.push_back({scorer, s.scorers[i].weight});
    reads_prefixes = reads_prefixes || scorer->reads_prefixes;
  }
  if (s.directory_blocks_per_instance < 1 || s.directory_blocks_per_instance > (1 << 24))
    refuse("directory_blocks_per_instance", std::to_string(s.directory_blocks_per_instance),
           "1 to 16777216");
}

// The header comes with the first input, so that a sink set before that sees it.
Words& Router::Impl::begin() {
  if (!header_written) {
    header_written = true;
    words.clear();
    append_header(words, settings);
    append(RecordKind::kRouterHeader);
  }
  words.clear();
  return words;
}

// Leading hashes that stand for full blocks of the prompt: no partial tail, none after a missing.
std::span<const BlockHash> Router::Impl::full_blocks(const RouteRequest& request,
                                                     Tokens block_tokens) const {
  const auto full = static_cast<std::size_t>(request.prompt_tokens / block_tokens);
  const auto chain = request.block_hashes.first(std::min(request.block_hashes.size(), full));
  const auto missing =
      std::find_if(chain.begin(), chain.end(), [](BlockHash h) { return h.value == 0; });
  return chain.first(static_cast<std::size_t>(missing - chain.begin()));
}

RouteResult Router::Impl::place(const RouteRequest& request) {
  RouteResult result;
  Replicas::Model* model = replicas.model_of(request.model);
  if (request.prompt_tokens.value() <= 0) {
    result.reason = RejectReason::kEmptyPrompt;
  } else if (guards.find(request.id.value) != nullptr) {
    result.reason = RejectReason::kDuplicateId;
  } else if (model == nullptr || model->ready.empty()) {
    result.reason = RejectReason::kNoInstance;
  }
  if (result.reason != RejectReason::kNone) return result;

  const bool huge = request.max_tokens.value() > INT64_MAX - request.prompt_tokens.value();
  const Tokens needed = huge ? Tokens(INT64_MAX) : request.prompt_tokens + request.max_tokens;
  std::span<const BlockHash> hashes;
  if (reads_prefixes) hashes = full_blocks(request, Tokens(1));
  Choice choice{replicas, *model, needed, request.prompt_tokens, hashes, scorers, candidates};
  const std::uint32_t index = policy->pick(choice);
  if (index == Replicas::kNone) {
    result.reason = RejectReason::kNeverFits;
    return result;
  }
  Replica& replica = replicas[index];
  result.instance = replica.info.id;
  if (reads_prefixes) {
    result.matched = Tokens(choice.matched_tokens(index));
    replica.directory.learn(full_blocks(request, replica.info.block_tokens));
  }
  replicas.open(index, request.prompt_tokens);
  guards.insert(request.id.value, {index, request.prompt_tokens});
  return result;
}

Router::Router(const RouterSettings& settings) : impl_(std::make_unique<Impl>(settings)) {}
Router::~Router() = default;
Router::Router(Router&&) noexcept = default;
Router& Router::operator=(Router&&) noexcept = default;

void Router::add_instance(const RouterInstance& instance, Time now) {
  ORRERY_CHECK(instance.block_tokens.value() >= 1);
  Words& words = impl_->begin();
  words.insert(words.end(),
               {instance.id.value, static_cast<std::uint64_t>(now.ns()), instance.model.value,
                static_cast<std::uint64_t>(instance.max_request_tokens.value()),
                static_cast<std::uint64_t>(instance.block_tokens.value())});
  impl_->append(RecordKind::kInstanceAdded);
  impl_->replicas.add(instance, impl_->settings.directory_blocks_per_instance);
}

void Router::drain_instance(InstanceId id, Time now) {
  Words& words = impl_->begin();
  words.insert(words.end(), {id.value, static_cast<std::uint64_t>(now.ns())});
  impl_->append(RecordKind::kInstanceDraining);
  const std::uint32_t index = impl_->replicas.index_of(id);
  if (index != Replicas::kNone) impl_->replicas.drain(index);
}

void Router::remove_instance(InstanceId id, Time now) {
  Words& words = impl_->begin();
  words.insert(words.end(), {id.value, static_cast<std::uint64_t>(now.ns())});
  impl_->append(RecordKind::kInstanceRemoved);
  const std::uint32_t index = impl_->replicas.index_of(id);
  if (index == Replicas::kNone) return;
  std::vector<std::uint64_t> closed;
  impl_->guards.for_each([&](std::uint64_t request, const Impl::Guard& guard) {
    if (guard.replica == index) closed.push_back(request);
  });
  for (const std::uint64_t request : closed) impl_->guards.erase(request);
  impl_->replicas.remove(index);
}

RouteResult Router::route(const RouteRequest& request, Time now) {
  const RouteResult result = impl_->place(request);
  append_route(impl_->begin(), request, impl_->reads_prefixes, now, result);
  impl_->append(RecordKind::kRoute);
  return result;
}

void Router::release(RequestId id, Time now) {
  const Impl::Guard* found = impl_->guards.find(id.value);
  Words& words = impl_->begin();
  words.insert(words.end(),
               {id.value, static_cast<std::uint64_t>(now.ns()), found != nullptr ? 1U : 0U});
  impl_->append(RecordKind::kRelease);
  if (found == nullptr) return;
  impl_->replicas.close(found->replica, found->prompt);
  impl_->guards.erase(id.value);
}

LedgerEntry Router::ledger(InstanceId id) const {
  const std::uint32_t index = impl_->replicas.index_of(id);
  return index == Replicas::kNone ? LedgerEntry{} : impl_->replicas[index].live;
}

std::size_t Router::directory_blocks() const {
  std::size_t sum = 0;
  for (std::uint32_t i = 0; i < impl_->replicas.size(); ++i)
    sum += impl_->replicas[i].directory.size();
  return sum;
}

JournalWriter& Router::journal() { return impl_->journal; }

void Router::check_invariants() const {
  impl_->replicas.check_invariants();
  std::vector<LedgerEntry> sums(impl_->replicas.size());
  impl_->guards.for_each([&](std::uint64_t, const Impl::Guard& guard) {
    ++sums[guard.replica].requests;
    sums[guard.replica].tokens += guard.prompt;
  });
  for (std::uint32_t i = 0; i < sums.size(); ++i) {
    const LedgerEntry& live = impl_->replicas[i].live;
    ORRERY_CHECK(live.requests == sums[i].requests && live.tokens == sums[i].tokens);
  }
}

}  // namespace orrery::policy
