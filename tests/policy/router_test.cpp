// Cases of the router, from the field and from its header.
#include "runtime/policy/router/router.h"

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/base/hash.h"
#include "tests/laws/instance_driver.h"

namespace orrery::policy::test {
namespace {

RouterSettings policy(const char* name) {
  RouterSettings s;
  s.policy = name;
  return s;
}
RouteRequest request(std::uint64_t id, std::int64_t prompt,
                     std::span<const BlockHash> hashes = {}) {
  RouteRequest r;
  r.id = {id};
  r.prompt_tokens = Tokens(prompt);
  r.max_tokens = Tokens(10);
  r.block_hashes = hashes;
  return r;
}
Router with(RouterSettings settings, std::uint32_t instances) {
  Router router(settings);
  for (std::uint32_t i = 1; i <= instances; ++i)
    router.add_instance({{i}, {}, Tokens(100'000)}, Time(0));
  return router;
}
std::uint32_t placed(Router& router, const RouteRequest& r) {
  const RouteResult result = router.route(r, Time(0));
  return result.instance ? result.instance->value : 0;
}

TEST(RouterCases, a_prefix_matches_from_its_start_only) {
  Router router = with(policy("prefix_aware"), 2);
  constexpr std::int64_t kBlocks = 8, kTokens = kBlocks * 16;
  // Contents of blocks: A and B; a hash includes its parent.
  const auto text = [](std::initializer_list<std::uint64_t> parts) {
    std::vector<BlockHash> hashes;
    BlockHash parent{};
    for (const std::uint64_t part : parts)
      for (std::uint64_t i = 0; i < kBlocks; ++i)
        hashes.push_back(parent = chain_hash(parent, part * 100 + i));
    return hashes;
  };
  const auto a = text({1}), b = text({2}), ba = text({2, 1});
  EXPECT_EQ(placed(router, request(1, kTokens, a)), 1U);
  EXPECT_EQ(placed(router, request(2, kTokens, b)), 2U);
  const RouteResult r = router.route(request(3, 2 * kTokens, ba), Time(0));
  EXPECT_EQ(r.instance, InstanceId{2});
  EXPECT_EQ(r.matched, Tokens(kTokens));
  EXPECT_NE(ba[kBlocks], a[0]);
  // The first two blocks' contents exchanged: every hash of the chain is another.
  std::vector<BlockHash> swapped;
  for (const std::uint64_t i : {1, 0, 2, 3, 4, 5, 6, 7})
    swapped.push_back(chain_hash(swapped.empty() ? BlockHash{} : swapped.back(), 100 + i));
  EXPECT_EQ(router.route(request(4, kTokens, swapped), Time(0)).matched, Tokens(0));
}

TEST(RouterCases, a_popular_prefix_does_not_collapse_onto_one_instance) {
  Router router = with(policy("prefix_aware"), 4);
  const auto hashes = chain(1600, 16, 1, 1600, 0);
  std::map<std::uint32_t, int> count;
  for (std::uint64_t id = 1; id <= 400; ++id) ++count[placed(router, request(id, 1616, hashes))];
  ASSERT_EQ(count.size(), 4U);
  for (const auto& [instance, n] : count) EXPECT_NEAR(n, 100, 5) << "instance " << instance;
  // With little load it goes where the prefix is.
  for (std::uint64_t id = 1; id <= 400; ++id) router.release({id}, Time(0));
  Router calm = with(policy("prefix_aware"), 4);
  const std::uint32_t first = placed(calm, request(1, 1616, hashes));
  calm.release({1}, Time(0));
  for (std::uint64_t id = 2; id < 20; ++id) {
    EXPECT_EQ(placed(calm, request(id, 1616, hashes)), first);
    calm.release({id}, Time(0));
  }
}

TEST(RouterCases, round_robin_goes_around_in_the_order_of_ids_whoever_comes_and_goes) {
  Router router = with(policy("round_robin"), 3);
  std::uint64_t id = 0;
  const auto next = [&] { return placed(router, request(++id, 10)); };
  EXPECT_EQ(next(), 1U);
  EXPECT_EQ(next(), 2U);
  router.drain_instance({3}, Time(0));
  EXPECT_EQ(next(), 1U);
  router.add_instance({{7}, {}, Tokens(100)}, Time(0));
  EXPECT_EQ(next(), 2U);
  EXPECT_EQ(next(), 7U);
  EXPECT_EQ(next(), 1U);
  EXPECT_EQ(next(), 2U);
  EXPECT_EQ(placed(router, request(++id, 500)), 1U);  // too long for 7
}

TEST(RouterCases, least_load_counts_its_own_placements_at_once) {
  Router router = with(policy("least_load"), 2);
  EXPECT_EQ(placed(router, request(1, 1000)), 1U);
  EXPECT_EQ(placed(router, request(2, 10)), 2U);
  EXPECT_EQ(placed(router, request(3, 10)), 2U);  // as many requests, fewer tokens
  router.release({1}, Time(0));
  router.release({1}, Time(0));  // once is enough
  EXPECT_EQ(router.ledger({1}).requests, 0);
  EXPECT_EQ(placed(router, request(4, 10)), 1U);
  EXPECT_EQ(router.ledger({2}).tokens, Tokens(20));
}

TEST(RouterCases, answers_name_their_reason) {
  Router router(policy("least_load"));
  EXPECT_EQ(router.route(request(1, 10), Time(0)).reason, RejectReason::kNoInstance);
  router.add_instance({{1}, {}, Tokens(50)}, Time(0));
  EXPECT_EQ(router.route(request(1, 41), Time(0)).reason, RejectReason::kNeverFits);
  EXPECT_EQ(router.route(request(1, 0), Time(0)).reason, RejectReason::kEmptyPrompt);
  EXPECT_TRUE(router.route(request(1, 40), Time(0)).instance.has_value());
  EXPECT_EQ(router.route(request(1, 40), Time(0)).reason, RejectReason::kDuplicateId);
  RouteRequest other = request(2, 10);
  other.model = {9};
  EXPECT_EQ(router.route(other, Time(0)).reason, RejectReason::kNoInstance);
  router.drain_instance({1}, Time(0));
  EXPECT_EQ(router.route(request(3, 10), Time(0)).reason, RejectReason::kNoInstance);
  router.remove_instance({1}, Time(0));
  EXPECT_EQ(router.ledger({1}).requests, 0);
  router.add_instance({{1}, {}, Tokens(50)}, Time(0));
  EXPECT_TRUE(router.route(request(1, 40), Time(0)).instance.has_value());  // its guard was closed
  router.check_invariants();
}

TEST(RouterCases, settings_that_cannot_work_name_their_field) {
  const auto field_of = [](RouterSettings s) {
    try {
      const Router router(s);
    } catch (const InputError& e) {
      return e.place().field;
    }
    return std::string();
  };
  EXPECT_EQ(field_of(policy("least_load")), "");
  EXPECT_EQ(field_of(policy("fastest")), "policy");
  EXPECT_EQ(field_of(policy("scored")), "scorers");
  RouterSettings s = policy("scored");
  s.scorers = {{"prefix", 1}, {"luck", 1}};
  EXPECT_EQ(field_of(s), "scorers[1].name");
  s.scorers = {{"prefix", -1}};
  EXPECT_EQ(field_of(s), "scorers[0].weight");
  s = policy("least_load"), s.scorers = {{"prefix", 1}};
  EXPECT_EQ(field_of(s), "scorers");
  s = policy("prefix_aware"), s.directory_blocks_per_instance = 0;
  EXPECT_EQ(field_of(s), "directory_blocks_per_instance");
}

}  // namespace
}  // namespace orrery::policy::test
