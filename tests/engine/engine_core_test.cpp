#include "runtime/engine/engine_core.h"

#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "runtime/base/hash.h"
#include "tests/engine/live_run.h"

namespace orrery::engine::test {
namespace {

EngineOptions options_with_ends() {
  EngineOptions options;
  options.end_ids = {2, 17, 40};  // often enough in a vocabulary of 96
  return options;
}

EngineRequest request_of(std::uint64_t id, std::vector<TokenId> prompt, std::int64_t max_tokens) {
  EngineRequest r;
  r.id = RequestId{id}, r.prompt = std::move(prompt), r.max_tokens = max_tokens;
  return r;
}

std::map<std::uint64_t, Answer> run_all(EngineCore& core, Time from) {
  std::map<std::uint64_t, Answer> answers;
  for (std::int64_t t = from.ns(); core.has_work(); ++t)
    core.advance(Time(t)), collect(core, answers);
  return answers;
}

}  // namespace

TEST(EngineCore, answers_are_those_given_alone_whatever_happens_around_them) {
  std::int64_t preemptions = 0, hits = 0, stops = 0, cancelled = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const LiveRun run = live_run(seed, options_with_ends());
    for (const auto& [id, request] : run.requests) {
      ASSERT_TRUE(run.answers.contains(id));
      const Answer& got = run.answers.at(id);
      const Answer want = answer_alone(request, options_with_ends());
      ASSERT_EQ(got.finishes, 1) << "request " << id;
      if (run.cancelled.contains(id)) {
        EXPECT_EQ(got.reason, policy::FinishReason::kCancelled);
        ASSERT_LE(got.tokens.size(), want.tokens.size());
        for (std::size_t i = 0; i < got.tokens.size(); ++i)
          ASSERT_EQ(got.tokens[i], want.tokens[i]);
      } else {
        EXPECT_EQ(got.reason, want.reason);
        ASSERT_EQ(got.tokens, want.tokens) << "request " << id;
        EXPECT_EQ(got.generated, want.generated);
      }
      stops += got.reason == policy::FinishReason::kStop;
    }
    EXPECT_EQ(run.load.blocks_free, run.load.blocks_total);
    preemptions += run.load.preemptions, hits += run.load.prefix_hit_tokens;
    cancelled += static_cast<std::int64_t>(run.cancelled.size());
  }
  // The runs must have met what they are for.
  EXPECT_GT(preemptions, 20);
  EXPECT_GT(hits, 1000);
  EXPECT_GT(stops, 50);
  EXPECT_GT(cancelled, 20);
}

TEST(EngineCore, end_tokens_stop_without_being_handed_out_unless_ignored) {
  RandomStream random(3);
  EngineRequest r = request_of(1, random_ids(random, 96, 10), 30);
  r.ignore_end = true;
  const Answer whole = answer_alone(r, {});
  ASSERT_EQ(whole.tokens.size(), 30U);
  EXPECT_EQ(whole.reason, policy::FinishReason::kLength);
  EngineOptions options;
  options.end_ids = {whole.tokens[7]};
  const auto first = std::find(whole.tokens.begin(), whole.tokens.end(), whole.tokens[7]);
  EXPECT_EQ(answer_alone(r, options).tokens, whole.tokens);  // ignored
  r.ignore_end = false;
  const Answer cut = answer_alone(r, options);
  EXPECT_EQ(cut.tokens, std::vector<TokenId>(whole.tokens.begin(), first));
  EXPECT_EQ(cut.reason, policy::FinishReason::kStop);
  EXPECT_EQ(cut.generated, static_cast<std::int64_t>(cut.tokens.size()) + 1);  // the end counts
}

// Seeded requests beside seeded, unseeded and no neighbours.
TEST(EngineCore, a_seeded_request_answers_the_same_whoever_its_neighbours_are) {
  RandomStream random(4);
  const std::vector<TokenId> prompt = random_ids(random, 96, 20);
  const auto request = [&](std::uint64_t id, double temperature, std::uint64_t seed) {
    EngineRequest r = request_of(id, prompt, 25);
    r.sampling.temperature = temperature, r.sampling.seed = seed;
    return r;
  };
  const Answer alone = answer_alone(request(1, 0.8, 42), {});
  for (const std::uint64_t neighbour : {0, 7, 42}) {
    const policy::InstanceSettings settings = live_settings(40, 64);
    EngineCore core(settings, live_executor(settings), {});
    core.submit(request(1, 0.8, 42), Time(0));
    core.submit(request(2, 0.8, neighbour), Time(0));
    core.submit(request(3, 0, 0), Time(0));
    const auto answers = run_all(core, Time(1));
    EXPECT_EQ(answers.at(1).tokens, alone.tokens);
    EXPECT_EQ(answers.at(2).tokens == alone.tokens, neighbour == 42);
  }
}

TEST(EngineCore, a_second_turn_finds_prompt_and_answer_of_the_first_in_the_cache) {
  RandomStream random(5);
  const policy::InstanceSettings settings = live_settings(40, 64);
  EngineCore core(settings, live_executor(settings), {});
  const std::vector<TokenId> prompt = random_ids(random, 96, 29);
  core.submit(request_of(1, prompt, 30), Time(0));
  const Answer first = run_all(core, Time(1)).at(1);
  std::vector<TokenId> second = prompt;
  second.insert(second.end(), first.tokens.begin(), first.tokens.end());
  second.push_back(5);
  core.submit(request_of(2, second, 5), Time(1000));
  const Answer got = run_all(core, Time(1001)).at(2);
  EXPECT_EQ(got.cached, 56);  // 58 computed (the last token never is): 7 full blocks of 8
  EXPECT_EQ(got.tokens, answer_alone(request_of(2, second, 5), {}).tokens);
}

TEST(EngineCore, a_hit_on_a_foreign_prefix_ends_with_an_error_instead_of_its_content) {
  EngineOptions options;
  options.hash = [](BlockHash parent, std::span<const TokenId>) { return chain_hash(parent, 7); };
  const policy::InstanceSettings settings = live_settings(40, 64);
  EngineCore core(settings, live_executor(settings), options);
  RandomStream random(6);
  const std::vector<TokenId> prompt = random_ids(random, 96, 30);
  core.submit(request_of(1, prompt, 4), Time(0));
  EXPECT_EQ(run_all(core, Time(1)).at(1).reason, policy::FinishReason::kLength);
  core.submit(request_of(2, random_ids(random, 96, 30), 4), Time(100));
  const Answer foreign = run_all(core, Time(101)).at(2);
  EXPECT_EQ(foreign.reason, policy::FinishReason::kError);
  EXPECT_EQ(foreign.finishes, 1);
  EXPECT_TRUE(foreign.tokens.empty());
  core.submit(request_of(3, prompt, 4), Time(200));  // its own prefix is still good
  EXPECT_EQ(run_all(core, Time(201)).at(3).reason, policy::FinishReason::kLength);
  core.check_invariants();
  EXPECT_EQ(core.load().blocks_free, core.load().blocks_total);
}

TEST(EngineCore, what_cannot_be_computed_is_refused_at_the_door) {
  const policy::InstanceSettings settings = live_settings(40, 64);
  EngineCore core(settings, live_executor(settings), {});
  EXPECT_THROW(core.submit(request_of(1, {1, 96}, 4), Time(0)), InputError);
  EXPECT_THROW(core.submit(request_of(1, {1, -1}, 4), Time(0)), InputError);
  EXPECT_THROW(core.submit(request_of(1, {1}, 0), Time(0)), InputError);
  EXPECT_EQ(core.submit(request_of(1, {}, 4), Time(0)).reason, policy::RejectReason::kEmptyPrompt);
  const auto result = core.submit(request_of(1, std::vector<TokenId>(200, 3), 100), Time(0));
  EXPECT_EQ(result.reason, policy::RejectReason::kNeverFits);
  EXPECT_FALSE(core.has_work());
  EXPECT_FALSE(core.cancel(RequestId{1}, Time(0)));
  policy::InstanceSettings wide = live_settings(40, 64);
  wide.max_context = Tokens(257);
  EXPECT_THROW(EngineCore(wide, live_executor(settings), {}), InputError);
}

}  // namespace orrery::engine::test
