// Cases from the field, and the sentences of instance.h, on one Instance.
#include <gtest/gtest.h>

#include "runtime/base/errors.h"
#include "tests/laws/instance_driver.h"

namespace orrery::policy::test {
namespace {

InstanceSettings small(std::int64_t blocks, std::int64_t block_tokens = 16) {
  InstanceSettings s;
  s.kv_blocks = Blocks(blocks);
  s.block_tokens = Tokens(block_tokens);
  return s;
}

Request request(std::uint64_t id, std::int64_t prompt, std::int64_t max_tokens,
                std::vector<BlockHash> hashes = {}) {
  Request r;
  r.id = {id};
  r.prompt_tokens = Tokens(prompt);
  r.max_tokens = Tokens(max_tokens);
  r.block_hashes = std::move(hashes);
  return r;
}

// Runs until nothing is left; requests end by their max_tokens. Returns the steps taken.
std::vector<std::vector<StepItem>> run_out(Instance& instance, BlockHasher* hasher = nullptr) {
  std::vector<std::vector<StepItem>> steps;
  while (const std::optional<Step> step = instance.next_step(Time(0))) {
    steps.push_back({step->items.begin(), step->items.end()});
    instance.complete(step->id, 1, {}, hasher, Time(0));
    instance.check_invariants();
  }
  return steps;
}

TEST(FieldCases, a_prompt_above_the_pool_is_refused_at_once_and_blocks_nobody) {
  InstanceSettings s = small(64);
  s.max_context = Tokens(2048);
  Instance instance(s);
  const SubmitResult big = instance.submit(request(1, 1020, 100), Time(0));
  EXPECT_EQ(big.reason, RejectReason::kNeverFits);
  EXPECT_EQ(big.needed, Tokens(1120));
  EXPECT_EQ(big.available, Tokens(1024));
  for (std::uint64_t id = 2; id <= 6; ++id)
    EXPECT_TRUE(instance.submit(request(id, 20, 5), Time(0)).accepted());
  run_out(instance);
  EXPECT_FALSE(instance.has_work());
  // No block is reserved: a request may fill the pool to its last token, and not one more.
  EXPECT_EQ(instance.submit(request(7, 1024, 1), Time(0)).reason, RejectReason::kNeverFits);
  EXPECT_TRUE(instance.submit(request(8, 1023, 1), Time(0)).accepted());
  EXPECT_TRUE(instance.submit(request(9, 1, 1023), Time(0)).accepted());
  run_out(instance);
  EXPECT_FALSE(instance.has_work());
  EXPECT_EQ(instance.load().blocks_free, Blocks(64));
}

TEST(FieldCases, a_limit_so_large_that_a_sum_would_overflow_never_fits) {
  Instance instance(small(64));
  const SubmitResult r = instance.submit(request(1, 10, INT64_MAX), Time(0));
  EXPECT_EQ(r.reason, RejectReason::kNeverFits);
  EXPECT_EQ(r.needed, Tokens(INT64_MAX));
}

TEST(FieldCases, a_session_that_outgrows_the_pool_is_refused_at_the_turn_that_does_not_fit) {
  Instance instance(small(466));
  for (std::int64_t turn = 1; turn <= 6; ++turn) {
    const std::int64_t prompt = turn * 934 + (turn - 1) * 1448;
    const SubmitResult r =
        instance.submit(request(static_cast<std::uint64_t>(turn), prompt, 1448), Time(0));
    EXPECT_EQ(r.accepted(), turn < 4) << "turn " << turn;
    if (turn == 4) {
      EXPECT_EQ(r.needed, Tokens(9528));
      EXPECT_EQ(r.available, Tokens(7456));
    }
    run_out(instance);
  }
  Instance other(small(50));
  EXPECT_EQ(other.submit(request(1, 912, 1), Time(0)).reason, RejectReason::kNeverFits);
}

TEST(FieldCases, prefix_hits_do_not_depend_on_the_chunk_size) {
  for (const std::int64_t budget : {100, 64, 17, 1000}) {
    InstanceSettings s = small(1000);
    s.max_batched_tokens = Tokens(budget);
    Instance instance(s);
    const auto hit = [&](std::uint64_t id, std::vector<BlockHash> hashes) {
      const std::int64_t before = instance.load().prefix_hit_tokens;
      instance.submit(request(id, 200, 4, std::move(hashes)), Time(0));
      run_out(instance);
      return instance.load().prefix_hit_tokens - before;
    };
    const auto first = chain(200, 16, 1, 200, 0);
    EXPECT_EQ(hit(1, first), 0);
    EXPECT_EQ(hit(2, first), 192) << "budget " << budget;
    // Equal in tokens 100 to 199 only: another beginning gives other hashes all along.
    auto other = chain(200, 16, 1, 0, 2);
    for (std::size_t i = 7; i < other.size(); ++i) EXPECT_NE(other[i], first[i]);
    EXPECT_EQ(hit(3, std::move(other)), 0);
  }
}

TEST(FieldCases, a_partial_tail_never_matches_a_full_block) {
  InstanceSettings s = small(100, 512);
  Instance instance(s);
  const std::vector<BlockHash> both = chain(1024, 512, 1, 1024, 0);
  instance.submit(request(1, 1024, 8, both), Time(0));
  run_out(instance);
  instance.submit(request(2, 694, 8, both), Time(0));  // claims the second block for its tail
  run_out(instance);
  EXPECT_EQ(instance.load().prefix_hit_tokens, 512);
}

TEST(FieldCases, a_waiter_that_does_not_fit_waits_and_evicts_nobody) {
  InstanceSettings s = small(250);  // 4000 tokens
  s.long_prefill_cap = Tokens(512);
  Instance instance(s);
  for (std::uint64_t id = 1; id <= 3; ++id) instance.submit(request(id, 1000, 40), Time(0));
  std::map<std::uint64_t, int> ended, admitted;
  for (int step_number = 1;; ++step_number) {
    const std::optional<Step> step = instance.next_step(Time(0));
    if (!step) break;
    for (const Admission& a : step->admitted) admitted[a.id.value] = step_number;
    EXPECT_TRUE(step->preempted.empty());
    for (const Finished& f : instance.complete(step->id, 1, {}, nullptr, Time(0)))
      ended[f.id.value] = step_number;
    if (step_number != 5) continue;
    instance.submit(request(4, 3000, 10), Time(0));
    instance.submit(request(5, 200, 10), Time(0));
  }
  // 3000 tokens need 188 blocks; 250 minus 65 for each that runs leaves less until all three ended.
  EXPECT_GT(admitted.at(4), std::max({ended.at(1), ended.at(2), ended.at(3)}));
  EXPECT_GE(admitted.at(5), admitted.at(4));  // the stated policy: nobody overtakes the front
  EXPECT_EQ(instance.load().preemptions, 0);
  EXPECT_EQ(ended.size(), 5U);
}

TEST(Admission, prompts_that_fit_only_one_by_one_are_not_admitted_together) {
  // Two prompts of 60 blocks, 100 blocks, chunks of 16 tokens: the second would find its first
  // chunk free, and would be preempted once both have grown.
  InstanceSettings s = small(100);
  s.max_batched_tokens = Tokens(32);
  s.long_prefill_cap = Tokens(16);
  Instance instance(s);
  instance.submit(request(1, 960, 16), Time(0));
  instance.submit(request(2, 960, 16), Time(0));
  for (const auto& items : run_out(instance)) EXPECT_EQ(items.size(), 1U);
  EXPECT_EQ(instance.load().preemptions, 0);
}

TEST(Admission, a_front_that_waits_for_memory_shares_the_blocks_that_a_prompt_has_just_filled) {
  InstanceSettings s = small(100);
  s.max_batched_tokens = Tokens(320);
  Instance instance(s);
  const auto hashes = chain(960, 16, 1, 960, 0);
  instance.submit(request(1, 960, 100, hashes), Time(0));
  instance.submit(request(2, 960, 100, hashes), Time(0));
  std::int64_t cached = -1, step_number = 0, at = 0;
  while (const std::optional<Step> step = instance.next_step(Time(0))) {
    ++step_number;
    for (const Admission& a : step->admitted)
      if (a.id.value == 2) cached = a.cached.value(), at = step_number;
    instance.complete(step->id, 1, {}, nullptr, Time(0));
  }
  // Not at step 104, when request 1 ends, but as soon as enough of its prompt is findable.
  EXPECT_GT(cached, 300);
  EXPECT_LE(at, 4);
}

TEST(Admission, a_full_hit_still_computes_one_token) {
  Instance instance(small(100));
  const auto hashes = chain(64, 16, 1, 64, 0);
  instance.submit(request(1, 64, 2, hashes), Time(0));
  run_out(instance);
  instance.submit(request(2, 64, 2, hashes), Time(0));
  const auto steps = run_out(instance);
  EXPECT_EQ(steps[0][0].first, 48);  // the whole last block is computed again
  EXPECT_EQ(steps[0][0].count, 16);
}

TEST(Admission, without_chunks_a_prompt_waits_for_a_step_that_holds_all_of_it) {
  InstanceSettings s = small(1000);
  s.chunked_prefill = false;
  s.max_batched_tokens = Tokens(100);
  Instance instance(s);
  EXPECT_EQ(instance.submit(request(1, 101, 1), Time(0)).reason, RejectReason::kNeverFits);
  for (std::uint64_t id = 1; id <= 3; ++id)
    EXPECT_TRUE(instance.submit(request(id, 60, 3), Time(0)).accepted());
  const auto steps = run_out(instance);
  for (const auto& items : steps)
    for (const StepItem& item : items) EXPECT_TRUE(item.count == 60 || item.count == 1);
  EXPECT_EQ(steps[0].size(), 1U);
  EXPECT_EQ(steps[1].size(), 2U);  // one decodes, and the next 60 fit beside it
}

TEST(Preemption, the_newest_loses_its_blocks_and_goes_to_the_front) {
  InstanceSettings s = small(6, 4);
  Instance instance(s);
  instance.submit(request(1, 8, 12), Time(0));
  instance.submit(request(2, 8, 12), Time(0));
  instance.submit(request(3, 4, 2), Time(0));
  std::vector<std::uint64_t> preempted, admitted;
  while (const std::optional<Step> step = instance.next_step(Time(0))) {
    for (const RequestId id : step->preempted) preempted.push_back(id.value);
    for (const Admission& a : step->admitted) admitted.push_back(a.id.value);
    instance.complete(step->id, 1, {}, nullptr, Time(0));
    instance.check_invariants();
  }
  // 1, 2 and 3 fill 5 of 6 blocks at once; growing, 3 and then 2 give way, and return before 3.
  ASSERT_FALSE(preempted.empty());
  EXPECT_EQ(preempted.front(), admitted[2]);
  EXPECT_EQ(instance.load().preemptions, static_cast<std::int64_t>(preempted.size()));
  EXPECT_GT(instance.load().recomputed_tokens, 0);
}

TEST(Cancel, in_flight_its_blocks_return_when_the_step_completes) {
  Instance instance(small(10));
  instance.submit(request(1, 20, 10), Time(0));
  instance.submit(request(2, 20, 10), Time(0));
  const std::optional<Step> step = instance.next_step(Time(0));
  ASSERT_EQ(step->items.size(), 2U);
  const std::uint64_t id = step->id;
  EXPECT_TRUE(instance.cancel({1}, Time(0)));
  EXPECT_FALSE(instance.cancel({1}, Time(0)));
  instance.check_invariants();
  EXPECT_EQ(instance.load().blocks_free, Blocks(6));  // the device may still write them
  EXPECT_TRUE(instance.submit(request(1, 20, 10), Time(0)).accepted());  // its id is free at once
  const StepFinish late{0, FinishReason::kStop};
  EXPECT_TRUE(instance.complete(id, 1, {&late, 1}, nullptr, Time(0)).empty());
  EXPECT_EQ(instance.load().blocks_free, Blocks(8));
  instance.check_invariants();
  EXPECT_TRUE(instance.cancel({2}, Time(0)));  // between steps: at once
  EXPECT_EQ(instance.load().blocks_free, Blocks(10));
  EXPECT_FALSE(instance.cancel({3}, Time(0)));
}

TEST(Answers, name_their_reason) {
  InstanceSettings s = small(10);
  s.max_waiting = 2;
  Instance instance(s);
  EXPECT_EQ(instance.submit(request(1, 0, 1), Time(0)).reason, RejectReason::kEmptyPrompt);
  EXPECT_TRUE(instance.submit(request(1, 5, 1), Time(0)).accepted());
  EXPECT_EQ(instance.submit(request(1, 5, 1), Time(0)).reason, RejectReason::kDuplicateId);
  EXPECT_TRUE(instance.submit(request(2, 5, 1), Time(0)).accepted());
  EXPECT_EQ(instance.submit(request(3, 5, 1), Time(0)).reason, RejectReason::kQueueFull);
  instance.drain(Time(0));
  EXPECT_TRUE(instance.draining());
  EXPECT_FALSE(instance.drained());
  EXPECT_EQ(instance.submit(request(3, 5, 1), Time(0)).reason, RejectReason::kDraining);
  run_out(instance);
  EXPECT_TRUE(instance.drained());
}

TEST(Horizon, ends_at_the_nearest_limit_and_where_blocks_run_out) {
  Instance plenty(small(1000));
  plenty.submit(request(1, 20, 50), Time(0));
  plenty.submit(request(2, 20, 30), Time(0));
  std::optional<Step> step = plenty.next_step(Time(0));
  EXPECT_EQ(step->horizon, 1);  // prompts
  plenty.complete(step->id, 1, {}, nullptr, Time(0));
  step = plenty.next_step(Time(0));
  EXPECT_EQ(step->horizon, 29);
  EXPECT_EQ(plenty.horizon(), 29);
  const auto ended = plenty.complete(step->id, 29, {}, nullptr, Time(0));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].id, RequestId{2});
  EXPECT_EQ(ended[0].reason, FinishReason::kLength);
  EXPECT_EQ(ended[0].generated, Tokens(30));

  // 5 blocks of 4: prompts of 4 and 6 take 1 + 2. Tokens at 5 and 7 then take block 4; block 5
  // lasts for the one that crosses first, at 8 tokens (rep 2); the other crosses at 8 in
  // repetition 4.
  Instance tight(small(5, 4));
  tight.submit(request(1, 4, 16), Time(0));
  tight.submit(request(2, 6, 14), Time(0));
  step = tight.next_step(Time(0));
  tight.complete(step->id, 1, {}, nullptr, Time(0));
  step = tight.next_step(Time(0));
  EXPECT_EQ(tight.load().blocks_free, Blocks(1));
  EXPECT_EQ(step->horizon, 4);
}

TEST(Horizon, an_arrival_that_may_join_ends_the_repetitions) {
  Instance instance(small(1000));
  instance.submit(request(1, 20, 50), Time(0));
  instance.complete(instance.next_step(Time(0))->id, 1, {}, nullptr, Time(0));
  const std::uint64_t id = instance.next_step(Time(0))->id;
  EXPECT_EQ(instance.horizon(), 49);
  instance.submit(request(2, 20, 50), Time(0));
  EXPECT_EQ(instance.horizon(), 1);
  instance.complete(id, 1, {}, nullptr, Time(0));
  EXPECT_EQ(instance.next_step(Time(0))->items.size(), 2U);
}

TEST(Horizon, an_arrival_behind_a_full_batch_does_not) {
  InstanceSettings s = small(1000);
  s.max_running = 1;
  Instance instance(s);
  instance.submit(request(1, 20, 50), Time(0));
  instance.complete(instance.next_step(Time(0))->id, 1, {}, nullptr, Time(0));
  instance.next_step(Time(0));
  instance.submit(request(2, 20, 50), Time(0));
  EXPECT_EQ(instance.horizon(), 49);
}

TEST(Sharing, a_request_that_fails_publishes_nothing_of_its_last_step) {
  Instance instance(small(100));
  const auto hashes = chain(64, 16, 1, 64, 0);
  instance.submit(request(1, 64, 2, hashes), Time(0));
  const StepFinish error{0, FinishReason::kError};
  const auto ended =
      instance.complete(instance.next_step(Time(0))->id, 1, {&error, 1}, nullptr, Time(0));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].generated, Tokens(0));
  instance.submit(request(2, 64, 2, hashes), Time(0));
  run_out(instance);
  EXPECT_EQ(instance.load().prefix_hit_tokens, 0);
}

TEST(Sharing, the_next_turn_finds_what_the_answer_before_it_filled) {
  InstanceSettings s = small(100);
  Instance instance(s);
  SessionHasher hasher;
  hasher.content[1] = 5;
  instance.submit(request(1, 40, 40), Time(0));  // 80 tokens known, 79 computed: 4 full blocks
  // A prompt without hashes shares nothing, and its answer neither.
  run_out(instance, &hasher);
  EXPECT_EQ(hasher.asked, 0);
  const auto prompt = chain(40, 16, 5, 40, 0);
  instance.submit(request(1, 40, 40, prompt), Time(0));
  run_out(instance, &hasher);
  EXPECT_EQ(hasher.asked, 2);  // blocks 2 and 3
  std::vector<BlockHash> next = prompt;
  for (std::int64_t i = 2; i < 6; ++i) next.push_back(hasher.hash_block({1}, 0, i, next.back()));
  instance.submit(request(2, 100, 4, next), Time(0));
  run_out(instance, &hasher);
  EXPECT_EQ(instance.load().prefix_hit_tokens, 64);
}

TEST(Settings, that_cannot_work_name_their_field) {
  const auto field_of = [](InstanceSettings s) {
    try {
      const Instance instance(s);
    } catch (const InputError& e) {
      return e.place().field;
    }
    return std::string();
  };
  EXPECT_EQ(field_of(small(10)), "");
  EXPECT_EQ(field_of(small(0)), "kv_blocks");
  EXPECT_EQ(field_of(small(10, 0)), "block_tokens");
  InstanceSettings s = small(10);
  s.order = "shortest_first";
  EXPECT_EQ(field_of(s), "order");
  s = small(10), s.victim = "none";
  EXPECT_EQ(field_of(s), "victim");
  s = small(10), s.chunked_prefill = false, s.long_prefill_cap = Tokens(5);
  EXPECT_EQ(field_of(s), "long_prefill_cap_tokens");
  s = small(10), s.max_running = 0;
  EXPECT_EQ(field_of(s), "max_running");
}

TEST(DriverErrors, stop) {
  Instance instance(small(10));
  instance.submit(request(1, 5, 5), Time(0));
  const std::optional<Step> step = instance.next_step(Time(0));
  EXPECT_DEATH(instance.next_step(Time(0)), "");
  EXPECT_DEATH(instance.complete(step->id + 1, 1, {}, nullptr, Time(0)), "");
  EXPECT_DEATH(instance.complete(step->id, 2, {}, nullptr, Time(0)), "");
  const StepFinish unknown{7, FinishReason::kStop};
  EXPECT_DEATH(instance.complete(step->id, 1, {&unknown, 1}, nullptr, Time(0)), "");
}

}  // namespace
}  // namespace orrery::policy::test
