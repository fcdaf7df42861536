// Router: chooses an instance for each request. Driven from outside, pure, journalled.
// It counts its own in-flight work at once (the ledger): a placement opens a guard, release()
// closes it once. It never waits for a report to act on the count.
//
// Policies (each over the instances of the model that are ready and large enough):
//   round_robin   the next in the order of ids
//   least_load    fewest live requests, then fewest live prompt tokens, then lowest id; O(log n)
//   prefix_aware  least work: prompt tokens expected not to be cached there + live prompt tokens
//                 there, then as least_load. A popular prefix draws requests only until the queue
//                 that it causes outweighs what it saves, so it spreads under load by itself.
//   scored        largest sum of weight * score (0..1024) over `scorers`, then as least_load
// The prefix directory is approximate: it learns from own placements what an instance will have
// cached, the least recently used go first beyond its bound. Policies that do not read it do not
// fill it; then `matched` is 0.
//
// Laws: the ledger equals the sum of live placements; never routes to a draining, removed or
// wrong-model instance; the prefix directory's memory is bounded; equal inputs give equal journals.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/journal.h"
#include "runtime/base/units.h"
#include "runtime/policy/request.h"

namespace orrery::policy {

struct ScorerSetting {
  std::string name;         // registered scorer: "load_requests", "load_tokens", "prefix"
  std::int64_t weight = 1;  // scores are integers 0..1024 times weight
  bool operator==(const ScorerSetting&) const = default;
};

struct RouterSettings {
  // Shorthands "round_robin", "least_load", "prefix_aware", or "scored" with scorers below.
  std::string policy = "least_load";
  std::vector<ScorerSetting> scorers;
  std::int64_t directory_blocks_per_instance = 31250;  // bound of the prefix directory
  bool operator==(const RouterSettings&) const = default;
};

struct RouterInstance {
  InstanceId id;
  ModelId model;
  Tokens max_request_tokens;  // longer requests are not sent here
  Tokens block_tokens{16};    // what one block hash of a request covers there
};

struct RouteRequest {
  RequestId id;
  ModelId model;
  Tokens prompt_tokens, max_tokens;
  std::span<const BlockHash> block_hashes;  // chain of the prompt's full blocks, as in Request
  SessionId session;
  TenantId tenant;
  std::int32_t priority = 0;
};

struct RouteResult {
  std::optional<InstanceId> instance;         // set: placed there, and a ledger guard is open
  RejectReason reason = RejectReason::kNone;  // set when not placed
  Tokens matched;  // prompt tokens the directory expects to be cached there
};

struct LedgerEntry {
  std::int64_t requests = 0;
  Tokens tokens;  // prompt tokens of live placements
};

class Router {
 public:
  explicit Router(const RouterSettings& settings);  // throws InputError: unknown policy or scorer
  ~Router();
  Router(Router&&) noexcept;
  Router& operator=(Router&&) noexcept;

  void add_instance(const RouterInstance& instance, Time now);  // ready from now on
  void drain_instance(InstanceId id, Time now);                 // no new placements
  void remove_instance(InstanceId id, Time now);  // its guards are closed, its directory dropped
  RouteResult route(const RouteRequest& request, Time now);
  void release(RequestId id, Time now);  // unknown or released: no effect
  LedgerEntry ledger(InstanceId id) const;
  std::size_t directory_blocks() const;

  JournalWriter& journal();
  void check_invariants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace orrery::policy
