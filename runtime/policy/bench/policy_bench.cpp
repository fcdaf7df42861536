// What the brain costs, beside its naive twins. Figures are printed, never asserted.
#include <vector>

#include <benchmark/benchmark.h>

#include "runtime/base/rng.h"
#include "runtime/policy/bench/naive_instance.h"
#include "runtime/policy/bench/naive_pool.h"
#include "runtime/policy/instance.h"
#include "runtime/policy/kv/block_pool.h"
#include "runtime/policy/router/router.h"

namespace orrery::policy {
namespace {

InstanceSettings settings_for(std::int64_t running) {
  InstanceSettings s;
  s.kv_blocks = Blocks(running * 80);
  s.max_running = running;
  s.max_batched_tokens = Tokens(8192);
  return s;
}
Request request(std::uint64_t id, std::int64_t prompt = 256, std::int64_t max_tokens = 1000) {
  Request r;
  r.id = {id};
  r.prompt_tokens = Tokens(prompt);
  r.max_tokens = Tokens(max_tokens);
  return r;
}

// An instance in which `running` requests decode.
Instance decoding(std::int64_t running) {
  Instance instance(settings_for(running));
  for (std::int64_t i = 1; i <= running; ++i)
    instance.submit(request(static_cast<std::uint64_t>(i)), Time(0));
  while (true) {
    const auto step = instance.next_step(Time(0));
    const bool decode = step->shape.decode_sequences == running;
    instance.complete(step->id, 1, {}, nullptr, Time(0));
    if (decode) return instance;
  }
}

// One decode step: next_step and complete. items: per sequence in the batch.
void decode_step(benchmark::State& state) {
  Instance instance = decoding(state.range(0));
  std::int64_t left = 700;
  for (auto _ : state) {
    if (left-- == 0) {
      state.PauseTiming();
      instance = decoding(state.range(0)), left = 700;
      state.ResumeTiming();
    }
    const auto step = instance.next_step(Time(0));
    benchmark::DoNotOptimize(instance.complete(step->id, 1, {}, nullptr, Time(0)));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(decode_step)->Arg(256)->Arg(1024);

// 64 repetitions at once; items: sequence repetitions, so the ratio to decode_step is per token.
void decode_macro_step(benchmark::State& state) {
  Instance instance = decoding(state.range(0));
  std::int64_t left = 10;
  for (auto _ : state) {
    if (left-- == 0) {
      state.PauseTiming();
      instance = decoding(state.range(0)), left = 10;
      state.ResumeTiming();
    }
    const auto step = instance.next_step(Time(0));
    benchmark::DoNotOptimize(instance.complete(step->id, 64, {}, nullptr, Time(0)));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0) * 64);
}
BENCHMARK(decode_macro_step)->Arg(256)->Arg(1024);

void decode_step_naive(benchmark::State& state) {
  NaiveInstance instance(settings_for(state.range(0)));
  for (std::int64_t i = 1; i <= state.range(0); ++i)
    instance.submit(request(static_cast<std::uint64_t>(i), 16));
  for (int i = 0; i < 8; ++i) instance.next_step(), instance.complete({}, nullptr);
  for (auto _ : state) {
    benchmark::DoNotOptimize(instance.next_step());
    instance.complete({}, nullptr);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(decode_step_naive)->Arg(256)->Arg(1024)->Iterations(100);

// A request's life beside 64 that decode: it arrives while a macro-step is out, as in the
// simulator, is computed, decodes and ends. items: requests.
void request_life(benchmark::State& state) {
  InstanceSettings s = settings_for(256);
  s.prefix_cache = state.range(0) != 0;
  Instance instance(s);
  std::uint64_t id = 0;
  RandomStream r(1);
  std::int64_t live = 0;
  std::vector<BlockHash> hashes(16);
  for (auto _ : state) {
    Request next = request(++id, 256 + static_cast<std::int64_t>(r.next_below(256)),
                           100 + static_cast<std::int64_t>(r.next_below(200)));
    if (s.prefix_cache) {
      BlockHash parent{};
      for (BlockHash& h : hashes) h = parent = chain_hash(parent, r.next_below(4) + 1);
      next.block_hashes = hashes;
    }
    auto step = instance.next_step(Time(0));
    instance.submit(next, Time(0)), ++live;
    while (step) {
      const std::int64_t n = std::min<std::int64_t>(instance.horizon(), live < 64 ? 4 : 1000);
      live -=
          static_cast<std::int64_t>(instance.complete(step->id, n, {}, nullptr, Time(0)).size());
      if (live < 65) break;
      step = instance.next_step(Time(0));
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(request_life)->Arg(0)->Arg(1);

// Tables of 64 blocks taken, published and released in a pool of 8192. items: blocks.
template <class Pool>
void pool_cycle(benchmark::State& state, Pool& pool, const auto& allocate) {
  std::vector<BlockId> table;
  std::uint64_t hash = 0;
  for (auto _ : state) {
    table.clear();
    for (int i = 0; i < 64; ++i) table.push_back(allocate(pool));
    for (int i = 0; i < 60; ++i) pool.publish(table[static_cast<std::size_t>(i)], {++hash});
    pool.release(table);
  }
  state.SetItemsProcessed(state.iterations() * 64);
}
void block_pool(benchmark::State& state) {
  BlockPool pool(Blocks(8192));
  pool_cycle(state, pool, [](BlockPool& p) { return p.allocate().block; });
}
BENCHMARK(block_pool);
void block_pool_naive(benchmark::State& state) {
  NaivePool pool(Blocks(8192));
  pool_cycle(state, pool, [](NaivePool& p) { return p.allocate().first; });
}
BENCHMARK(block_pool_naive);

// route() and, for as many, release(); 32 live requests an instance. items: requests.
void route(benchmark::State& state, const char* policy) {
  RouterSettings s;
  s.policy = policy;
  Router router(s);
  const auto n = static_cast<std::uint64_t>(state.range(0));
  for (std::uint32_t i = 1; i <= n; ++i) router.add_instance({{i}, {}, Tokens(1 << 20)}, Time(0));
  RandomStream r(1);
  std::vector<BlockHash> hashes(16);
  std::uint64_t id = 0;
  for (auto _ : state) {
    RouteRequest request;
    request.id = {++id};
    request.prompt_tokens = Tokens(256 + static_cast<std::int64_t>(r.next_below(512)));
    request.max_tokens = Tokens(100);
    BlockHash parent{r.next_below(64)};
    for (BlockHash& h : hashes) h = parent = chain_hash(parent, 1);
    request.block_hashes = hashes;
    benchmark::DoNotOptimize(router.route(request, Time(0)));
    if (id > 32 * n) router.release({id - 32 * n}, Time(0));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(route, round_robin, "round_robin")->Arg(200)->Arg(1000);
BENCHMARK_CAPTURE(route, least_load, "least_load")->Arg(200)->Arg(1000);
BENCHMARK_CAPTURE(route, prefix_aware, "prefix_aware")->Arg(200)->Arg(1000);

// least_load by looking at all instances, as the twin of the heap.
void route_by_scan(benchmark::State& state) {
  std::vector<LedgerEntry> ledger(static_cast<std::size_t>(state.range(0)));
  RandomStream r(1);
  for (auto _ : state) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < ledger.size(); ++i)
      if (std::pair(ledger[i].requests, ledger[i].tokens) <
          std::pair(ledger[best].requests, ledger[best].tokens))
        best = i;
    ++ledger[best].requests;
    ledger[best].tokens += Tokens(256 + static_cast<std::int64_t>(r.next_below(512)));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(route_by_scan)->Arg(200)->Arg(1000);

}  // namespace
}  // namespace orrery::policy

BENCHMARK_MAIN();
