// Laws of the Instance, over every registered order and victim and over random settings and loads.
#include <gtest/gtest.h>

#include "runtime/policy/journal.h"
#include "runtime/policy/record.h"
#include "runtime/policy/scheduler/orders.h"
#include "runtime/policy/scheduler/victims.h"
#include "tests/laws/instance_driver.h"
#include "tests/laws/random_settings.h"

namespace orrery::policy::test {
namespace {

constexpr std::uint64_t kSeeds = 40;

struct Case {
  std::string order, victim;
};
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const NamedOrder& o : registered_orders())
    for (const NamedVictim& v : registered_victims())
      cases.push_back({std::string(o.name), std::string(v.name)});
  return cases;
}

class InstanceLaws : public testing::TestWithParam<Case> {
 protected:
  // Runs f(settings, load, seed) for many seeds and says which failed.
  template <class F>
  void for_seeds(F&& f) {
    for (std::uint64_t seed = 1; seed <= kSeeds && !HasFailure(); ++seed) {
      SCOPED_TRACE("order " + GetParam().order + ", victim " + GetParam().victim + ", seed " +
                   std::to_string(seed));
      const InstanceSettings s = random_settings(seed, GetParam().order, GetParam().victim);
      const std::int64_t pool = s.block_tokens.value() * s.kv_blocks.value();
      f(s, random_load(seed, s, 40, std::min<std::int64_t>(1 + pool * 2 / 3, 90)), seed);
    }
  }
};

TEST_P(InstanceLaws, every_accepted_request_ends_exactly_once_and_all_blocks_come_back) {
  std::int64_t preemptions = 0, rejected = 0, cancelled = 0, hits = 0;
  for_seeds([&](const InstanceSettings& s, const std::vector<Arrival>& load, std::uint64_t) {
    // A request computes at most limit tokens between two preemptions; generous, but finite.
    DriveOptions options;
    options.most_repetitions = 200'000;
    const Outcome out = Driver(s, load, options).run();
    for (const Arrival& a : load) {
      const std::uint64_t id = a.request.id.value;
      const auto ended = out.ended.find(id);
      const std::size_t times = ended == out.ended.end() ? 0 : ended->second.size();
      const auto cancel = out.cancelled.find(id);
      const bool gone = cancel != out.cancelled.end() && cancel->second;
      if (!out.answers.at(id).accepted()) {
        ++rejected;
        ASSERT_FALSE(gone);
        ASSERT_EQ(times, 0U);
        continue;
      }
      cancelled += gone;
      ASSERT_EQ(times, gone ? 0U : 1U) << "request " << id;
      if (gone) continue;
      const Finished& f = ended->second[0];
      const std::int64_t most = a.request.max_tokens.value();
      // A failed repetition gives no token.
      const bool stopped = a.output <= most;
      const FinishReason reason = !stopped  ? FinishReason::kLength
                                  : a.fails ? FinishReason::kError
                                            : FinishReason::kStop;
      ASSERT_EQ(f.reason, reason) << "request " << id;
      ASSERT_EQ(f.generated.value(), std::min(most, a.output) - (reason == FinishReason::kError));
    }
    ASSERT_EQ(out.load.blocks_free, out.load.blocks_total);
    ASSERT_EQ(out.load.running + out.load.waiting, 0);
    preemptions += out.load.preemptions;
    hits += out.load.prefix_hit_tokens;
  });
  // The loads reach what they are meant to strain.
  EXPECT_GT(preemptions, 50);
  EXPECT_GT(rejected, 20);
  EXPECT_GT(cancelled, 50);
  EXPECT_GT(hits, 100);
}

TEST_P(InstanceLaws, macro_steps_equal_single_steps_record_by_record) {
  std::int64_t single_calls = 0, macro_calls = 0;
  for_seeds([&](const InstanceSettings& s, const std::vector<Arrival>& load, std::uint64_t seed) {
    const Outcome single = Driver(s, load, {}).run();
    for (const std::uint64_t group : {std::uint64_t{0}, seed}) {
      DriveOptions options;
      options.macro = true;
      options.group_seed = group;
      const Outcome macro = Driver(s, load, options).run();
      ASSERT_EQ(single.records.size(), macro.records.size());
      for (std::size_t i = 0; i < single.records.size(); ++i)
        ASSERT_EQ(single.records[i], macro.records[i]) << "record " << i;
      ASSERT_EQ(single.hash, macro.hash);
      ASSERT_EQ(single.repetitions, macro.repetitions);
      ASSERT_EQ(single.load.prefix_hit_tokens, macro.load.prefix_hit_tokens);
      ASSERT_EQ(single.load.recomputed_tokens, macro.load.recomputed_tokens);
      single_calls += single.calls, macro_calls += macro.calls;
    }
  });
  EXPECT_LT(macro_calls, single_calls);
}

std::function<std::optional<JournalRecord>()> reader(const std::vector<JournalRecord>& records) {
  return [&records, at = std::size_t{0}]() mutable -> std::optional<JournalRecord> {
    if (at == records.size()) return std::nullopt;
    return records[at++];
  };
}

TEST_P(InstanceLaws, a_journal_replays_and_an_altered_record_is_named) {
  for_seeds([&](const InstanceSettings& s, const std::vector<Arrival>& load, std::uint64_t seed) {
    DriveOptions options;
    options.macro = seed % 2 == 0;
    const Outcome out = Driver(s, load, options).run();
    const VerifyResult good = verify_journal(reader(out.records));
    ASSERT_TRUE(good.ok) << good.bad_record << ": " << good.detail;
    ASSERT_EQ(good.hash, out.hash);
    ASSERT_EQ(good.records, out.records.size());
    RandomStream r(seed);
    for (int i = 0; i < 20; ++i) {
      std::vector<JournalRecord> altered = out.records;
      const auto record = static_cast<std::size_t>(r.next_below(altered.size()));
      auto& words = altered[record].words;
      words[r.next_below(words.size())] ^= UINT64_C(1) << r.next_below(64);
      const VerifyResult bad = verify_journal(reader(altered));
      ASSERT_FALSE(bad.ok);
      ASSERT_EQ(bad.bad_record, record) << bad.detail;
    }
  });
}

// Alters a word and seals the record anew, as one would who wants to hide it.
JournalRecord forged(JournalRecord record, std::size_t word, std::uint64_t flip) {
  record.words[word] ^= flip;
  record.words.pop_back();
  record.words.push_back(seal_of(record.kind, record.words));
  return record;
}

TEST_P(InstanceLaws, a_decision_altered_and_sealed_anew_is_named_all_the_same) {
  for_seeds([&](const InstanceSettings& s, const std::vector<Arrival>& load, std::uint64_t seed) {
    if (seed > 10) return;
    const Outcome out = Driver(s, load, {}).run();
    RandomStream r(seed);
    for (int i = 0; i < 20; ++i) {
      std::vector<JournalRecord> altered = out.records;
      const auto record = static_cast<std::size_t>(r.next_below(altered.size()));
      if (altered[record].kind != static_cast<std::uint32_t>(RecordKind::kRun)) continue;
      const std::size_t word = r.next_below(2) == 0 ? 1 : 4;  // repetitions or digest
      altered[record] = forged(altered[record], word, UINT64_C(1) << r.next_below(8));
      const VerifyResult bad = verify_journal(reader(altered));
      ASSERT_FALSE(bad.ok);
      ASSERT_EQ(bad.bad_record, record) << bad.detail;
    }
  });
}

TEST_P(InstanceLaws, no_forged_journal_breaks_the_verification) {
  for_seeds([&](const InstanceSettings& s, const std::vector<Arrival>& load, std::uint64_t seed) {
    if (seed > 10) return;
    const Outcome out = Driver(s, load, {}).run();
    RandomStream r(seed);
    for (int i = 0; i < 60; ++i) {
      std::vector<JournalRecord> altered = out.records;
      for (std::uint64_t n = r.next_below(3) + 1; n > 0; --n) {
        const auto record = static_cast<std::size_t>(1 + r.next_below(altered.size() - 1));
        const auto word = static_cast<std::size_t>(r.next_below(altered[record].words.size()));
        altered[record] = forged(altered[record], word, UINT64_C(1) << r.next_below(64));
        if (r.next_below(4) == 0) altered.erase(altered.begin() + static_cast<long>(record));
        if (r.next_below(8) == 0) altered.resize(record);
        if (altered.size() < 2) break;
      }
      verify_journal(reader(altered));  // an answer, whichever: no stop, no endless loop
    }
  });
}

TEST_P(InstanceLaws, a_journal_cut_into_parts_at_any_moment_replays) {
  for_seeds([&](const InstanceSettings& s, const std::vector<Arrival>& load, std::uint64_t seed) {
    if (seed > 15) return;
    DriveOptions options;
    options.macro = seed % 2 == 0;
    options.flush_one_in = 5;
    const Outcome out = Driver(s, load, options).run();
    const VerifyResult good = verify_journal(reader(out.records));
    ASSERT_TRUE(good.ok) << good.bad_record << ": " << good.detail;
    ASSERT_EQ(good.hash, out.hash);
  });
}

// What a killed process leaves: any number of whole records.
TEST_P(InstanceLaws, every_prefix_of_a_journal_verifies_as_one_that_was_cut) {
  for_seeds([&](const InstanceSettings& s, const std::vector<Arrival>& load, std::uint64_t seed) {
    if (seed > 10) return;
    const Outcome out = Driver(s, load, {}).run();
    RandomStream r(seed);
    for (int i = 0; i < 20; ++i) {
      std::vector<JournalRecord> prefix = out.records;
      prefix.resize(1 + r.next_below(prefix.size()));
      const VerifyResult cut = verify_journal(reader(prefix), JournalEnd::kLost);
      ASSERT_TRUE(cut.ok) << "seed " << seed << ", " << prefix.size()
                          << " records: " << cut.bad_record << ": " << cut.detail;
      // All but the last are still compared.
      const auto record = static_cast<std::size_t>(r.next_below(prefix.size()));
      if (record + 1 == prefix.size() ||
          prefix[record].kind != static_cast<std::uint32_t>(RecordKind::kRun))
        continue;
      prefix[record] = forged(prefix[record], 4, 1);
      const VerifyResult bad = verify_journal(reader(prefix), JournalEnd::kLost);
      ASSERT_FALSE(bad.ok);
      ASSERT_EQ(bad.bad_record, record) << bad.detail;
    }
  });
}

TEST_P(InstanceLaws, an_output_length_changes_no_decision_before_it_is_reached) {
  std::size_t compared = 0;
  for_seeds([&](const InstanceSettings& s, std::vector<Arrival> load, std::uint64_t seed) {
    for (Arrival& a : load) a.fails = false;
    DriveOptions options;
    options.keep_decisions = true;
    options.check = false;
    const Outcome before = Driver(s, load, options).run();
    // A request that stopped by itself now goes on: all decisions up to that token are the same.
    RandomStream r(seed);
    Arrival& changed = load[r.next_below(load.size())];
    const std::uint64_t id = changed.request.id.value;
    if (!before.ended.contains(id) || before.ended.at(id)[0].reason != FinishReason::kStop) return;
    changed.output += 5;
    const Outcome after = Driver(s, load, options).run();
    const auto until = static_cast<std::size_t>(before.ended_at.at(id));
    ASSERT_GE(after.decisions.size(), until);
    for (std::size_t i = 0; i < until; ++i)
      ASSERT_EQ(before.decisions[i], after.decisions[i]) << "repetition " << i;
    compared += until;
  });
  EXPECT_GT(compared, 100U);
}

INSTANTIATE_TEST_SUITE_P(every, InstanceLaws, testing::ValuesIn(all_cases()),
                         [](const auto& p) { return p.param.order + "_" + p.param.victim; });

}  // namespace
}  // namespace orrery::policy::test
