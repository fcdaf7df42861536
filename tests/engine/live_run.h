// Random live runs: prompts that share prefixes, arrivals while steps are out, cancels at any
// moment, a pool small enough for preemptions. The clock is a counter.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/engine_core.h"
#include "tests/engine/harness.h"

namespace orrery::engine::test {

inline ModelShape live_shape() {
  ModelShape s;
  s.width = 40, s.layers = 2, s.heads = 4, s.kv_heads = 2, s.head_dim = 8;
  s.feed_forward = 64, s.vocabulary = 96, s.max_context = 256;
  return s;
}

inline std::shared_ptr<const Weights> live_weights() {
  static const std::shared_ptr<const Weights> weights = make_random_weights(live_shape(), 99);
  return weights;
}

inline policy::InstanceSettings live_settings(std::int64_t blocks, std::int64_t batched) {
  policy::InstanceSettings s;
  s.block_tokens = Tokens(8), s.kv_blocks = Blocks(blocks);
  s.max_batched_tokens = Tokens(batched), s.max_running = 6, s.max_context = Tokens(256);
  return s;
}

// As an asynchronous device: the result is there, but poll() says so only later.
class LateExecutor final : public Executor {
 public:
  LateExecutor(std::unique_ptr<Executor> inner, std::uint64_t seed)
      : inner_(std::move(inner)), random_(seed) {}
  const ExecutorInfo& info() const override { return inner_->info(); }
  void submit(const StepWork& work) override {
    inner_->submit(work);
    left_ = random_.next_below(4);
  }
  const StepOutput* poll() override { return left_ > 0 ? (--left_, nullptr) : inner_->poll(); }
  void wait() override { left_ = 0; }

 private:
  std::unique_ptr<Executor> inner_;
  RandomStream random_;
  std::uint64_t left_ = 0;
};

inline std::unique_ptr<Executor> live_executor(const policy::InstanceSettings& s) {
  CpuExecutorSettings settings;
  settings.block_tokens = s.block_tokens.value(), settings.kv_blocks = s.kv_blocks.value();
  settings.max_batched_tokens = s.max_batched_tokens.value();
  return make_cpu_executor(live_weights(), settings);
}

struct Answer {
  std::vector<TokenId> tokens;
  int finishes = 0;
  policy::FinishReason reason = policy::FinishReason::kError;
  std::int64_t cached = 0, generated = 0;
};

inline void collect(EngineCore& core, std::map<std::uint64_t, Answer>& answers) {
  for (const EngineEvent& e : core.take_events()) {
    Answer& a = answers[e.id.value];
    if (e.has_token) a.tokens.push_back(e.token);
    if (e.finished) ++a.finishes, a.reason = e.reason;
    a.cached = e.cached_tokens, a.generated = e.generated_tokens;
  }
}

// What this request answers with the whole machine to itself.
inline Answer answer_alone(const EngineRequest& request, const EngineOptions& options) {
  const policy::InstanceSettings settings = live_settings(32, 64);
  EngineCore core(settings, live_executor(settings), options);
  std::map<std::uint64_t, Answer> answers;
  core.submit(request, Time(0));
  for (std::int64_t t = 1; core.has_work(); ++t) core.advance(Time(t)), collect(core, answers);
  return answers[request.id.value];
}

struct LiveRun {
  std::map<std::uint64_t, EngineRequest> requests;  // accepted
  std::map<std::uint64_t, bool> cancelled;
  std::map<std::uint64_t, Answer> answers;
  std::vector<JournalRecord> journal;
  policy::InstanceLoad load;
};

inline EngineRequest random_request(RandomStream& random, std::uint64_t id) {
  EngineRequest r;
  r.id = RequestId{id};
  // One of three system prompts, cut anywhere, then something of its own.
  RandomStream system = RandomStream(1234).fork("system", random.next_below(3));
  const std::vector<TokenId> shared = random_ids(system, 96, 60);
  r.prompt.assign(shared.begin(),
                  shared.begin() + static_cast<std::ptrdiff_t>(random.next_below(61)));
  const std::vector<TokenId> own =
      random_ids(random, 96, 1 + static_cast<std::int64_t>(random.next_below(30)));
  r.prompt.insert(r.prompt.end(), own.begin(), own.end());
  r.max_tokens = 1 + static_cast<std::int64_t>(random.next_below(40));
  r.ignore_end = random.next_below(4) == 0;
  r.share_prefix = random.next_below(8) != 0;
  if (random.next_below(3) != 0) {
    r.sampling.temperature = 0.9, r.sampling.seed = random.next_u64();
    if (random.next_below(2) == 0) r.sampling.top_k = 20;
    if (random.next_below(2) == 0) r.sampling.top_p = 0.9;
  }
  return r;
}

inline LiveRun live_run(std::uint64_t seed, const EngineOptions& options, int requests = 40) {
  RandomStream random(seed);
  const policy::InstanceSettings settings =
      live_settings(20 + static_cast<std::int64_t>(random.next_below(20)),
                    16 + static_cast<std::int64_t>(random.next_below(60)));
  EngineCore core(settings, std::make_unique<LateExecutor>(live_executor(settings), seed), options);
  LiveRun run;
  core.journal().set_sink(
      [&](std::uint32_t kind, std::span<const std::uint64_t> words, std::uint64_t) {
        run.journal.push_back({kind, {words.begin(), words.end()}});
      });
  std::uint64_t next = 1;
  for (std::int64_t t = 1; next <= static_cast<std::uint64_t>(requests) || core.has_work(); ++t) {
    if (next <= static_cast<std::uint64_t>(requests) && random.next_below(5) == 0) {
      EngineRequest r = random_request(random, next++);
      if (core.submit(r, Time(t)).accepted()) run.requests.emplace(r.id.value, std::move(r));
    }
    if (random.next_below(60) == 0 && next > 1) {
      const std::uint64_t id = 1 + random.next_below(next - 1);
      if (core.cancel(RequestId{id}, Time(t))) run.cancelled[id] = true;
    }
    core.advance(Time(t));
    collect(core, run.answers);
    if (t % 16 == 0) core.check_invariants();
  }
  core.check_invariants();
  core.flush_journal();
  run.load = core.load();
  return run;
}

}  // namespace orrery::engine::test
