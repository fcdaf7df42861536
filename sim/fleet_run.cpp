#include "sim/fleet_run.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/errors.h"
#include "runtime/host/files.h"

namespace orrery::sim {
namespace {

constexpr std::int64_t kPollEvents = 4096;  // a poll costs about 50 ns, an event about 500
constexpr std::uint64_t kAloneSample = 8;   // one request in so many is timed alone

std::size_t count_replicas(const FleetSpec& fleet) {
  std::size_t count = 0;
  for (const PoolSpec& pool : fleet.pools) {
    if (pool.replicas < 1)
      throw InputError({"fleet", 0, pool.name + ".replicas"}, std::to_string(pool.replicas),
                       "at least 1");
    if (!pool.step_model)
      throw InputError({"fleet", 0, pool.name}, "no step model", "a profile for its GPU");
    count += static_cast<std::size_t>(pool.replicas);
  }
  if (count == 0) throw InputError({"fleet", 0, ""}, "no pools", "at least one pool");
  return count;
}

// How long the answer takes on an idle replica, nearly: the prompt in one step, then each token
// at the mean context.
Duration alone(const cost::StepModel& model, std::int64_t prompt, std::int64_t answer) {
  cost::StepShape prefill;
  prefill.tokens = prefill.prefill_tokens = prefill.prefill_context = prompt;
  prefill.sequences = prefill.sampled = 1;
  prefill.prefill_pairs = prompt * (prompt + 1) / 2;
  cost::StepShape decode;
  decode.tokens = decode.sequences = decode.sampled = decode.decode_sequences = 1;
  decode.decode_context = prompt + answer / 2 + 1;
  const std::int64_t ps = cost::repetition_ps(model.time(prefill), prefill, 0) +
                          cost::repetition_ps(model.time(decode), decode, 0) * (answer - 1);
  return Duration(ps / 1000);
}

}  // namespace

FleetRun::FleetRun(const FleetSpec& fleet, const WorkloadSpec& workload, const Slo& slo,
                   const RunOptions& options)
    : fleet_(fleet),
      workload_spec_(workload),
      options_(options),
      workload_(workload),
      recorder_(fleet, slo),
      prefix_(options.seed, workload.prefix_hit_rate),
      router_(fleet.router),
      events_queue_(count_replicas(fleet)) {
  build_replicas();
  if (!options_.journal_dir.empty()) open_journals();
  std::uint32_t index = 0;
  for (Replica& replica : replicas_) {
    const std::string& model = fleet_.pools[pool_of_[index]].model;
    const auto id = std::find(model_names_.begin(), model_names_.end(), model);
    router_.add_instance(
        {InstanceId{index}, ModelId{static_cast<std::uint32_t>(id - model_names_.begin())},
         replica.instance().max_request_tokens()},
        Time(0));
    ++index;
  }
  if (options_.give_up_when_slo_impossible != nullptr) count_whole_workload();
}

void FleetRun::build_replicas() {
  context_.live = &live_;
  context_.prefix =
      workload_.has_sessions() && !workload_spec_.prefix_hit_rate ? &prefix_ : nullptr;
  context_.macro_steps = options_.macro_steps;
  context_.on_token = options_.on_token;
  TokenGaps empty;
  empty.limits_ns = recorder_.itl_limits_ns();
  empty.over.resize(empty.limits_ns.size());
  gaps_.assign(fleet_.pools.size(), empty);
  replicas_.reserve(count_replicas(fleet_));
  for (std::uint32_t p = 0; p < fleet_.pools.size(); ++p) {
    const PoolSpec& pool = fleet_.pools[p];
    for (int i = 0; i < pool.replicas; ++i) {
      replicas_.emplace_back(pool, context_, gaps_[p]);
      pool_of_.push_back(p);
    }
    auto model = static_cast<std::size_t>(
        std::find(model_names_.begin(), model_names_.end(), pool.model) - model_names_.begin());
    if (model == model_names_.size()) model_names_.push_back(pool.model), capacity_.emplace_back();
    const policy::Instance& instance = replicas_.back().instance();
    capacity_[model].push_back(
        {instance.max_request_tokens(), pool.settings.kv_blocks, pool.settings.block_tokens});
    if (pool.settings.block_tokens != capacity_[model].front().block_tokens)
      throw InputError({"fleet", 0, pool.name + ".settings.block_tokens"},
                       std::to_string(pool.settings.block_tokens.value()),
                       "the same in all pools that serve " + pool.model);
  }
  for (auto& pools : capacity_)
    std::stable_sort(pools.begin(), pools.end(),
                     [](const Capacity& a, const Capacity& b) { return a.tokens < b.tokens; });
}

void FleetRun::open_journals() {
  const auto attach = [&](JournalWriter& journal, const std::string& name) {
    journal_files_.push_back(
        std::make_unique<host::JournalFileWriter>(options_.journal_dir + "/" + name + ".journal"));
    journal.set_sink(journal_files_.back()->sink());
  };
  attach(router_.journal(), "router");
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    attach(replicas_[i].instance().journal(), "instance-" + std::to_string(i));
}

// Requests and gaps that the whole workload brings: what an SLO is lost against.
void FleetRun::count_whole_workload() {
  WorkloadSpec all = workload_spec_;
  all.mode = LoadMode::kOpen, all.concurrency = 0;
  Workload rows(all);
  while (rows.next_time() != Time::never()) {
    const Row row = rows.pop();
    ++whole_requests_;
    whole_gaps_ += row.output_tokens - 1;
  }
}

void FleetRun::run() {
  std::int64_t polled = 0;
  for (;;) {
    const Time arrival = workload_.next_time(), event = events_queue_.next_time();
    if (arrival == Time::never() && event == Time::never()) break;
    ++events_;
    now_ = std::min(arrival, event);
    if (arrival <= event) {
      arrive(arrival);
    } else {
      const Event next = events_queue_.top();
      events_queue_.pop();
      if (next.kind == EventKind::kCompletion) {
        complete(next.replica, next.time);
      } else {
        replicas_[next.replica].wake(next.time);
      }
      start(next.replica);
    }
    if (events_ - polled < kPollEvents) continue;
    polled = events_;
    if (options_.progress) options_.progress(to_seconds(now_), recorder_.total().completed);
    if (give_up()) break;
  }
  finish();
}

bool FleetRun::give_up() {
  stopped_early_ = options_.stop && options_.stop();
  if (options_.give_up_when_slo_impossible != nullptr)
    slo_impossible_ = recorder_.impossible(whole_requests_, whole_gaps_, gaps_over());
  return stopped_early_ || slo_impossible_;
}

void FleetRun::start(std::uint32_t index) {
  Replica& replica = replicas_[index];
  if (replica.start_step()) events_queue_.set(index, replica.step_end(), EventKind::kCompletion);
}

std::uint32_t FleetRun::model_of(const Row& row) const {
  // A fleet with one model serves whatever names the trace has: they are production's.
  if (model_names_.size() == 1 || row.model == 0) return 0;
  while (model_by_name_.size() < workload_.models().size()) {
    const std::string& name =
        workload_.models().name(static_cast<std::uint32_t>(model_by_name_.size()));
    model_by_name_.push_back(static_cast<std::uint32_t>(
        std::find(model_names_.begin(), model_names_.end(), name) - model_names_.begin()));
  }
  return model_by_name_[row.model];  // model_names_.size() when no pool serves it
}

// The limit that a gateway would set, never the trace's own length: what the request says, else the
// default, else as much as fits. "Fits" is the smallest pool that takes the prompt at all, so that
// every pool that could serve it may.
std::int64_t FleetRun::max_tokens_of(const Row& row, std::uint32_t model) const {
  if (row.max_tokens > 0) return row.max_tokens;
  std::int64_t room = 1;
  if (model < capacity_.size()) {
    for (const Capacity& pool : capacity_[model]) {
      room = std::max<std::int64_t>(1, pool.tokens.value() - row.input_tokens);
      if (pool.tokens.value() > row.input_tokens) break;
    }
  }
  const std::int64_t preset = workload_spec_.default_max_tokens.value();
  return preset > 0 ? std::min(preset, room) : room;
}

void FleetRun::arrive(Time now) {
  Row row = workload_.pop();
  const std::uint32_t model = model_of(row);
  recorder_.submitted(row, model);
  backlog_.arrived(now);
  const RequestId id{row.id};
  Live& live = live_.at(live_.add(std::move(row)));
  live.max_tokens = max_tokens_of(live.row, model);

  policy::Request request;
  request.id = id, request.arrival = now;
  request.prompt_tokens = Tokens(live.row.input_tokens);
  request.max_tokens = Tokens(live.max_tokens);
  request.model = ModelId{model};
  request.session = SessionId{live.row.session}, request.tenant = TenantId{live.row.tenant};
  request.priority = live.row.priority;
  if (model < capacity_.size()) {
    const Tokens block = capacity_[model].front().block_tokens;
    request.block_hashes = prefix_.prompt_chain(live.row, block);
    if (live.row.session != 0) live.turn = prefix_.latest_turn(live.row);
    const Row* next = live.row.hash_ids.empty() ? nullptr : workload_.next_turn(live.row);
    if (next != nullptr) live.next_chain = prefix_.chain_of_hash_ids(*next, block);
  }
  const policy::RouteResult route =
      router_.route({id, request.model, request.prompt_tokens, request.max_tokens,
                     request.block_hashes, request.session, request.tenant, request.priority},
                    now);
  if (!route.instance) {
    policy::SubmitResult sizes;
    sizes.needed = request.prompt_tokens + request.max_tokens;
    if (model < capacity_.size()) sizes.available = capacity_[model].back().tokens;
    return refuse(live, model, route.reason, sizes, now);
  }
  const std::uint32_t index = route.instance->value;
  Replica& replica = replicas_[index];
  const policy::SubmitResult result = replica.submit(request, now);
  if (replica.busy()) {
    events_queue_.set(index, replica.step_end(), EventKind::kCompletion);
  } else if (result.accepted()) {
    events_queue_.set(index, now, EventKind::kKick);
  }
  if (result.accepted()) return;
  router_.release(id, now);
  refuse(live, model, result.reason, result, now);
}

void FleetRun::refuse(Live& live, std::uint32_t model, policy::RejectReason reason,
                      const policy::SubmitResult& sizes, Time now) {
  const std::string_view why = policy::name_of(reason);
  Refusals& refusals = refusals_[std::string(why)];
  if (refusals.count++ == 0) {
    refusals.first_id = live.row.id;
    if (reason == policy::RejectReason::kNeverFits)
      refusals.needed = sizes.needed, refusals.available = sizes.available;
  }
  recorder_.rejected(live.row, model);
  backlog_.ended(now);
  tell(live, model, "rejected", why, nullptr, -1, now);
  cancel_turns(live.row, model, now);
  live_.remove(RequestId{live.row.id});
}

// The turns after one that was not answered are never sent.
void FleetRun::cancel_turns(const Row& row, std::uint32_t model, Time now) {
  for (const Row* turn : workload_.on_end(row, now, false)) {
    recorder_.submitted(*turn, model);
    recorder_.cancelled(*turn, model);
    Refusals& refusals = refusals_["the turn before it was not answered"];
    if (refusals.count++ == 0) refusals.first_id = turn->id;
    if (!options_.on_request) continue;
    Live never_sent;
    never_sent.row = *turn;
    tell(never_sent, model, "cancelled", "the turn before it was not answered", nullptr, -1, now);
  }
}

void FleetRun::complete(std::uint32_t index, Time now) {
  Replica& replica = replicas_[index];
  const std::size_t limits = recorder_.itl_limits_ns().size();
  std::vector<std::int64_t> late(limits);
  for (const policy::Finished& finished : replica.finish_step()) {
    const Replica::Slot& slot = replica.slot(finished.slot);
    ORRERY_CHECK(slot.generated == finished.generated.value() && slot.generated == slot.target,
                 "the driver and the scheduler count tokens differently");
    Live& live = live_.of(finished.id);
    for (std::size_t i = 0; i < limits; ++i) late[i] = replica.late_gaps(finished.slot, i);
    const Answer answer{live.scheduled, Time(slot.first_ns), now, slot.generated, late,
                        live.cached,    live.preemptions};
    const std::uint32_t model = model_of(live.row);
    recorder_.completed(live.row, model, pool_of_[index], answer);
    backlog_.ended(now);
    backlog_.scheduled(live.row.arrival, live.scheduled - live.row.arrival);
    if (live.row.id % kAloneSample == 0 || live.row.id <= kAloneSample)
      backlog_.add_alone(
          alone(*fleet_.pools[pool_of_[index]].step_model, live.row.input_tokens, slot.generated));
    tell(live, model, "completed", policy::name_of(finished.reason), &answer, index, now);
    router_.release(finished.id, now);
    workload_.on_end(live.row, now, true);
    live_.remove(finished.id);
  }
}

void FleetRun::tell(const Live& live, std::uint32_t model, std::string_view status,
                    std::string_view reason, const Answer* answer, std::int64_t instance,
                    Time end) const {
  if (!options_.on_request) return;
  RequestOutcome outcome;
  const Row& row = live.row;
  outcome.id = row.id, outcome.status = status, outcome.reason = reason;
  outcome.model = model < model_names_.size()
                      ? model_names_[model]
                      : std::string_view(workload_.models().name(row.model));
  outcome.tenant = workload_.tenants().name(row.tenant);
  outcome.app = workload_.apps().name(row.app);
  outcome.instance = instance;
  if (instance >= 0) outcome.pool = fleet_.pools[pool_of_[static_cast<std::size_t>(instance)]].name;
  outcome.arrival = row.arrival, outcome.scheduled = live.scheduled, outcome.end = end;
  outcome.input_tokens = row.input_tokens, outcome.cached_tokens = live.cached;
  outcome.preemptions = live.preemptions;
  if (answer != nullptr)
    outcome.first_token = answer->first_token, outcome.output_tokens = answer->tokens;
  options_.on_request(outcome);
}

void FleetRun::finish() {
  live_.for_each([&](const Live& live) {
    tell(live, model_of(live.row), "unfinished", "the run ended before it", nullptr, -1,
         Time::never());
  });
  std::uint64_t hash = router_.journal().hash();
  for (Replica& replica : replicas_) {
    replica.close(now_);
    replica.instance().flush_journal();
    hash = hash_combine(hash, replica.instance().journal().hash());
  }
  journal_hash_ = hash;
  for (auto& file : journal_files_) file->flush();
  if (!options_.journal_dir.empty()) write_manifest();
  recorder_.finish();
}

// Which journal is whose, as a live run's folder says it, so that one command verifies both.
void FleetRun::write_manifest() const {
  Json workers = Json::array();
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    workers.push_back({{"instance", i},
                       {"slot", fleet_.pools[pool_of_[i]].name},
                       {"journal", "instance-" + std::to_string(i) + ".journal"},
                       {"end", "clean"}});
  }
  const Json manifest = {{"gateway", {{"journal", "router.journal"}, {"end", "clean"}}},
                         {"workers", workers}};
  host::write_file(options_.journal_dir + "/fleet.json", manifest.dump(1) + "\n");
}

std::vector<std::int64_t> FleetRun::gaps_over() const {
  std::vector<std::int64_t> over(recorder_.itl_limits_ns().size());
  for (const TokenGaps& gaps : gaps_) {
    for (std::size_t i = 0; i < over.size(); ++i) over[i] += gaps.over[i];
  }
  return over;
}

std::int64_t FleetRun::gap_count() const {
  std::int64_t count = 0;
  for (const TokenGaps& gaps : gaps_) count += gaps.ns.count();
  return count;
}

}  // namespace orrery::sim
