// Laws of the router over every registered policy, against a naive oracle, under random arrivals,
// releases, and instances that come, drain and go.
#include <algorithm>
#include <list>
#include <map>

#include <gtest/gtest.h>

#include "runtime/base/hash.h"
#include "runtime/base/rng.h"
#include "runtime/policy/journal.h"
#include "runtime/policy/router/policies.h"

namespace orrery::policy::test {
namespace {

constexpr std::int64_t kBlock = 16, kDirectory = 12;

// Keeps everything in plain lists and chooses by looking at all instances.
class NaiveRouter {
 public:
  struct Node {
    RouterInstance info;
    bool draining = false;
    std::list<std::uint64_t> directory;  // most recently used first
  };
  struct Live {
    std::uint32_t instance;
    std::int64_t prompt;
  };
  explicit NaiveRouter(const RouterSettings& s) : s_(s) {}

  std::map<std::uint32_t, Node> nodes;
  std::map<std::uint64_t, Live> live;

  std::tuple<std::int64_t, std::int64_t, std::uint32_t> load(std::uint32_t id) const {
    std::int64_t requests = 0, tokens = 0;
    for (const auto& [r, l] : live)
      if (l.instance == id) ++requests, tokens += l.prompt;
    return {requests, tokens, id};
  }
  bool reads() const {
    bool reads = s_.policy == "prefix_aware";
    for (const ScorerSetting& x : s_.scorers) reads = reads || x.name == "prefix";
    return reads;
  }
  std::int64_t matched(const Node& n, const RouteRequest& r) const {
    std::int64_t blocks = 0;
    const std::int64_t most = std::min<std::int64_t>(
        static_cast<std::int64_t>(r.block_hashes.size()), (r.prompt_tokens.value() - 1) / kBlock);
    const auto known = [&](std::uint64_t hash) {
      return std::find(n.directory.begin(), n.directory.end(), hash) != n.directory.end();
    };
    while (blocks < most && known(r.block_hashes[static_cast<std::size_t>(blocks)].value)) ++blocks;
    return reads() ? blocks * kBlock : 0;
  }
  // 0: none.
  std::uint32_t choose(const RouteRequest& r) {
    std::vector<std::uint32_t> fit;
    for (const auto& [id, n] : nodes)
      if (!n.draining && n.info.model == r.model &&
          r.prompt_tokens + r.max_tokens <= n.info.max_request_tokens)
        fit.push_back(id);
    if (fit.empty()) return 0;
    if (s_.policy == "round_robin") {
      const std::uint32_t after = last_[r.model.value];
      for (const std::uint32_t id : fit)
        if (id > after) return last_[r.model.value] = id;
      return last_[r.model.value] = fit[0];
    }
    const auto better = [&](std::uint32_t a, std::uint32_t b) {
      return std::tuple(cost(a, r, fit), load(a)) < std::tuple(cost(b, r, fit), load(b));
    };
    return *std::min_element(fit.begin(), fit.end(), better);
  }
  void learn(std::uint32_t id, const RouteRequest& r) {
    if (!reads()) return;
    auto& list = nodes.at(id).directory;
    const auto n = std::min<std::size_t>(r.block_hashes.size(), kDirectory);
    for (std::size_t i = n; i-- > 0;) {
      list.remove(r.block_hashes[i].value);
      list.push_front(r.block_hashes[i].value);
      if (list.size() > kDirectory) list.pop_back();
    }
  }

 private:
  std::int64_t cost(std::uint32_t id, const RouteRequest& r,
                    const std::vector<std::uint32_t>& fit) const {
    const auto [requests, tokens, same] = load(id);
    const std::int64_t hit = matched(nodes.at(id), r);
    if (s_.policy == "least_load") return 0;
    if (s_.policy == "prefix_aware") return tokens + r.prompt_tokens.value() - hit;
    std::int64_t score = 0, least_r = INT64_MAX, most_r = 0, least_t = INT64_MAX, most_t = 0;
    for (const std::uint32_t f : fit) {
      const auto [fr, ft, fid] = load(f);
      least_r = std::min(least_r, fr), most_r = std::max(most_r, fr);
      least_t = std::min(least_t, ft), most_t = std::max(most_t, ft);
    }
    for (const ScorerSetting& x : s_.scorers) {
      if (x.name == "prefix") score += x.weight * (1024 * hit / r.prompt_tokens.value());
      if (x.name == "load_requests")
        score +=
            x.weight * (most_r == least_r ? 1024 : 1024 * (most_r - requests) / (most_r - least_r));
      if (x.name == "load_tokens")
        score +=
            x.weight * (most_t == least_t ? 1024 : 1024 * (most_t - tokens) / (most_t - least_t));
    }
    return -score;
  }

  RouterSettings s_;
  std::map<std::uint32_t, std::uint32_t> last_;
};

std::vector<RouterSettings> all_settings() {
  std::vector<RouterSettings> all;
  for (const NamedPolicy& p : registered_router_policies()) {
    RouterSettings s;
    s.policy = p.name;
    s.directory_blocks_per_instance = kDirectory;
    if (p.name != "scored") {
      all.push_back(s);
      continue;
    }
    std::int64_t weight = 1;
    RouterSettings every = s;
    for (const NamedScorer& scorer : registered_scorers()) {
      every.scorers.push_back({std::string(scorer.name), weight++});
      RouterSettings one = s;
      one.scorers = {{std::string(scorer.name), 1}};
      all.push_back(one);
    }
    all.push_back(every);
  }
  return all;
}

class RouterLaws : public testing::TestWithParam<RouterSettings> {};

struct Played {
  Router router;
  NaiveRouter naive;
  std::vector<JournalRecord> records;
  std::uint64_t hash = 0;
  std::int64_t placements = 0, matches = 0;
};

void step(Played& run, RandomStream& r, std::uint64_t& next_id) {
  const std::uint64_t what = r.next_below(20);
  const Time now(static_cast<std::int64_t>(next_id));
  const auto some = [&](const auto& map) {
    return std::next(map.begin(), static_cast<std::ptrdiff_t>(r.next_below(map.size())))->first;
  };
  if (what == 0) {
    const auto id = static_cast<std::uint32_t>(1 + r.next_below(12));
    if (run.naive.nodes.contains(id)) return;
    const RouterInstance info{{id},
                              {static_cast<std::uint32_t>(r.next_below(2))},
                              Tokens(r.next_below(3) == 0 ? 100 : 500)};
    run.router.add_instance(info, now);
    run.naive.nodes[id].info = info;
  } else if (what == 1 && !run.naive.nodes.empty()) {
    const std::uint32_t id = some(run.naive.nodes);
    run.router.drain_instance({id}, now);
    run.naive.nodes[id].draining = true;
  } else if (what == 2 && !run.naive.nodes.empty()) {
    const std::uint32_t id = some(run.naive.nodes);
    if (!run.naive.nodes[id].draining && r.next_below(2) == 0) return;
    run.router.remove_instance({id}, now);
    run.naive.nodes.erase(id);
    std::erase_if(run.naive.live, [&](const auto& l) { return l.second.instance == id; });
  } else if (what < 9 && !run.naive.live.empty()) {
    const std::uint64_t id = r.next_below(10) == 0 ? next_id + 5 : some(run.naive.live);
    run.router.release({id}, now);
    run.naive.live.erase(id);
  } else {
    RouteRequest request;
    request.id = {++next_id};
    request.model = {static_cast<std::uint32_t>(r.next_below(2))};
    request.prompt_tokens = Tokens(static_cast<std::int64_t>(1 + r.next_below(150)));
    request.max_tokens = Tokens(static_cast<std::int64_t>(1 + r.next_below(60)));
    std::vector<BlockHash> hashes;
    BlockHash parent{};
    const std::uint64_t text = 1 + r.next_below(4), same = r.next_below(8);
    for (std::int64_t i = 0; i < request.prompt_tokens.value() / kBlock; ++i) {
      const std::uint64_t content = static_cast<std::uint64_t>(i) < same ? text : next_id + 100;
      hashes.push_back(parent = chain_hash(parent, content));
    }
    request.block_hashes = hashes;
    const std::uint32_t expected = run.naive.choose(request);
    const std::int64_t matched =
        expected == 0 ? 0 : run.naive.matched(run.naive.nodes.at(expected), request);
    const RouteResult result = run.router.route(request, now);
    ASSERT_EQ(result.instance ? result.instance->value : 0, expected);
    ASSERT_EQ(result.matched.value(), matched);
    if (expected == 0) return;
    ++run.placements;
    run.matches += matched > 0;
    run.naive.learn(expected, request);
    run.naive.live[next_id] = {expected, request.prompt_tokens.value()};
  }
}

Played play(const RouterSettings& settings, std::uint64_t seed) {
  Played run{Router(settings), NaiveRouter(settings), {}, 0, 0, 0};
  run.router.journal().set_sink(
      [&run](std::uint32_t kind, std::span<const std::uint64_t> words, std::uint64_t) {
        run.records.push_back({kind, {words.begin(), words.end()}});
      });
  RandomStream r(seed);
  std::uint64_t next_id = 0;
  for (std::uint32_t id = 1; id <= 4; ++id) {
    const RouterInstance info{{id}, {id % 2}, Tokens(300)};
    run.router.add_instance(info, Time(0));
    run.naive.nodes[id].info = info;
  }
  for (int i = 0; i < 400 && !testing::Test::HasFatalFailure(); ++i) {
    step(run, r, next_id);
    run.router.check_invariants();
    std::size_t blocks = 0;
    for (const auto& [id, n] : run.naive.nodes) {
      const auto [requests, tokens, same] = run.naive.load(id);
      EXPECT_EQ(run.router.ledger({id}).requests, requests);
      EXPECT_EQ(run.router.ledger({id}).tokens.value(), tokens);
      blocks += n.directory.size();
    }
    EXPECT_EQ(run.router.directory_blocks(), blocks);
  }
  run.router.journal().set_sink({});
  run.hash = run.router.journal().hash();
  return run;
}

VerifyResult verify(const std::vector<JournalRecord>& records) {
  return verify_journal([&records, at = std::size_t{0}]() mutable -> std::optional<JournalRecord> {
    if (at == records.size()) return std::nullopt;
    return records[at++];
  });
}

TEST_P(RouterLaws, chooses_as_the_naive_router_does_and_its_ledger_is_the_sum_of_live_placements) {
  std::int64_t placements = 0, matches = 0;
  for (std::uint64_t seed = 1; seed <= 15 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Played run = play(GetParam(), seed);
    placements += run.placements, matches += run.matches;
  }
  EXPECT_GT(placements, 1000);
  EXPECT_TRUE(matches > 50 || !NaiveRouter(GetParam()).reads()) << matches;
}

TEST_P(RouterLaws, equal_inputs_give_equal_journals_and_a_journal_replays) {
  for (std::uint64_t seed = 1; seed <= 5 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Played run = play(GetParam(), seed);
    EXPECT_EQ(play(GetParam(), seed).records, run.records);
    const VerifyResult good = verify(run.records);
    ASSERT_TRUE(good.ok) << good.bad_record << ": " << good.detail;
    EXPECT_EQ(good.hash, run.hash);
    RandomStream r(seed);
    for (int i = 0; i < 30; ++i) {
      std::vector<JournalRecord> altered = run.records;
      const auto record = static_cast<std::size_t>(r.next_below(altered.size()));
      auto& words = altered[record].words;
      words[r.next_below(words.size())] ^= UINT64_C(1) << r.next_below(64);
      const VerifyResult bad = verify(altered);
      ASSERT_FALSE(bad.ok);
      ASSERT_EQ(bad.bad_record, record) << bad.detail;
    }
  }
}

std::string name_of(const testing::TestParamInfo<RouterSettings>& p) {
  std::string name = p.param.policy;
  for (const ScorerSetting& s : p.param.scorers) name += "_" + s.name;
  return name;
}
INSTANTIATE_TEST_SUITE_P(every, RouterLaws, testing::ValuesIn(all_settings()), name_of);

}  // namespace
}  // namespace orrery::policy::test
