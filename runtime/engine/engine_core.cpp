#include "runtime/engine/engine_core.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/errors.h"

namespace orrery::engine {
namespace {

using policy::FinishReason;

void check_fits(const policy::InstanceSettings& s, const ExecutorInfo& info) {
  const auto same = [](const char* field, std::int64_t found, std::int64_t expected) {
    if (found != expected)
      throw InputError({"engine settings", 0, field}, std::to_string(found),
                       std::to_string(expected) + ", as the executor has");
  };
  const auto at_most = [](const char* field, std::int64_t found, std::int64_t most) {
    if (found > most)
      throw InputError({"engine settings", 0, field}, std::to_string(found),
                       "at most " + std::to_string(most) + ", as the executor and model allow");
  };
  same("block_tokens", s.block_tokens.value(), info.block_tokens);
  at_most("kv_blocks", s.kv_blocks.value(), info.kv_blocks);
  at_most("max_batched_tokens", s.max_batched_tokens.value(), info.max_batched_tokens);
  at_most("max_context_tokens", s.max_context.value(), info.max_context);
}

}  // namespace

EngineCore::EngineCore(const policy::InstanceSettings& settings, std::unique_ptr<Executor> executor,
                       EngineOptions options)
    : instance_(settings), executor_(std::move(executor)), options_(std::move(options)) {
  check_fits(settings, executor_->info());
  pool_ids_.resize(
      static_cast<std::size_t>(settings.kv_blocks.value() * settings.block_tokens.value()));
}

EngineCore::~EngineCore() = default;

policy::SubmitResult EngineCore::submit(EngineRequest request, Time now) {
  check_sampling(request.sampling, "request");
  for (const TokenId id : request.prompt)
    if (id < 0 || id >= executor_->info().vocabulary)
      throw InputError({"request", 0, "prompt"}, "token id " + std::to_string(id),
                       "ids from 0 to " + std::to_string(executor_->info().vocabulary - 1));
  if (request.max_tokens < 1)
    throw InputError({"request", 0, "max_tokens"}, std::to_string(request.max_tokens),
                     "a number >= 1");
  policy::Request r;
  r.id = request.id, r.arrival = now;
  r.prompt_tokens = Tokens(static_cast<std::int64_t>(request.prompt.size()));
  r.max_tokens = Tokens(request.max_tokens);
  if (request.share_prefix && settings().prefix_cache)
    r.block_hashes = prompt_block_hashes(request.prompt, settings().block_tokens.value(),
                                         options_.hash_salt, options_.hash);
  r.model = request.model, r.session = request.session, r.tenant = request.tenant;
  r.priority = request.priority;
  const policy::SubmitResult result = instance_.submit(r, now);
  if (!result.accepted()) return result;
  Live live;
  live.ids = request.prompt;
  live.request = std::move(request);
  live_.emplace(r.id, std::move(live));
  return result;
}

bool EngineCore::cancel(RequestId id, Time now) {
  if (!instance_.cancel(id, now)) return false;
  end(id, FinishReason::kCancelled);
  return true;
}

// Tells of the end in an event of its own and forgets the request.
void EngineCore::end(RequestId id, policy::FinishReason reason) {
  const auto found = live_.find(id);
  ORRERY_CHECK(found != live_.end());
  EngineEvent event = event_of(found->second);
  event.finished = true, event.reason = reason;
  events_.push_back(event);
  live_.erase(found);
}

EngineEvent EngineCore::event_of(const Live& live) const {
  EngineEvent event;
  event.id = live.request.id;
  event.prompt_tokens = static_cast<std::int64_t>(live.request.prompt.size());
  event.cached_tokens = live.cached;
  event.generated_tokens = live.generated();
  return event;
}

Progress EngineCore::advance(Time now) {
  if (!in_flight_) return start(now) ? Progress::kStarted : Progress::kIdle;
  const StepOutput* output = executor_->poll();
  if (output == nullptr) return Progress::kInFlight;
  complete(*output, now);
  return Progress::kCompleted;
}

bool EngineCore::start(Time now) {
  const std::optional<policy::Step> step = instance_.next_step(now);
  if (!step) return false;
  step_id_ = step->id, shape_ = step->shape;
  items_.assign(step->items.begin(), step->items.end());
  std::vector<RequestId> foreign;  // whose prefix hit is not their own prefix
  for (const policy::Admission& a : step->admitted) {
    Live& live = live_.at(a.id);
    if (!a.resumed) live.cached = a.cached.value();
    const auto item = std::find_if(items_.begin(), items_.end(),
                                   [&](const policy::StepItem& i) { return i.id == a.id; });
    ORRERY_CHECK(item != items_.end());
    if (options_.verify_prefix_hits &&
        !hit_is_own_prefix(live, instance_.block_table(item->slot), a.cached.value()))
      foreign.push_back(a.id);
  }
  std::vector<WorkItem> work(items_.size());
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const policy::StepItem& item = items_[i];
    const Live& live = live_.at(item.id);
    const std::span<const BlockId> table = instance_.block_table(item.slot);
    ORRERY_CHECK(item.first + item.count <= static_cast<std::int64_t>(live.ids.size()));
    work[i].first = item.first;
    work[i].tokens = std::span(live.ids).subspan(static_cast<std::size_t>(item.first),
                                                 static_cast<std::size_t>(item.count));
    work[i].blocks = table;
    work[i].samples = item.samples;
    work[i].sampling = live.request.sampling;
    remember_ids(live, table, item.first, item.count);
  }
  StepWork out;
  out.id = step_id_, out.items = work;
  executor_->submit(out);
  in_flight_ = true, ++steps_;
  for (const RequestId id : foreign) {
    instance_.cancel(id, now);
    end(id, FinishReason::kError);
  }
  return true;
}

void EngineCore::complete(const StepOutput& output, Time now) {
  ORRERY_CHECK(output.id == step_id_);
  in_flight_ = false;
  std::vector<policy::StepFinish> finishes;
  std::vector<EngineEvent> events;
  std::size_t sampled = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (!items_[i].samples) continue;
    const TokenId token = output.tokens[sampled++];
    const auto found = live_.find(items_[i].id);
    if (found == live_.end()) continue;  // cancelled while the step was out
    Live& live = found->second;
    live.ids.push_back(token);
    EngineEvent event = event_of(live);
    if (ends(live, token)) {
      finishes.push_back({static_cast<std::uint32_t>(i), FinishReason::kStop});
    } else {
      event.has_token = true, event.token = token;
      event.index = live.generated() - 1;
    }
    events.push_back(event);
  }
  for (const policy::Finished& f : instance_.complete(step_id_, 1, finishes, this, now)) {
    const auto event = std::find_if(events.begin(), events.end(),
                                    [&](const EngineEvent& e) { return e.id == f.id; });
    ORRERY_CHECK(event != events.end());
    event->finished = true, event->reason = f.reason;
    live_.erase(f.id);
  }
  events_.insert(events_.end(), events.begin(), events.end());
}

BlockHash EngineCore::hash_block(RequestId id, std::uint32_t, std::int64_t index,
                                 BlockHash parent) {
  const Live& live = live_.at(id);
  if (!live.request.share_prefix) return BlockHash{0};
  const auto block = static_cast<std::size_t>(settings().block_tokens.value());
  const std::size_t from = static_cast<std::size_t>(index) * block;
  ORRERY_CHECK(from + block <= live.ids.size());
  return options_.hash(index == 0 ? BlockHash{options_.hash_salt} : parent,
                       std::span(live.ids).subspan(from, block));
}

bool EngineCore::hit_is_own_prefix(const Live& live, std::span<const BlockId> table,
                                   std::int64_t cached) const {
  const std::int64_t block = settings().block_tokens.value();
  for (std::int64_t i = 0; i < cached; ++i) {
    const std::int64_t at = table[static_cast<std::size_t>(i / block)].value * block + i % block;
    if (pool_ids_[static_cast<std::size_t>(at)] != live.ids[static_cast<std::size_t>(i)])
      return false;
  }
  return true;
}

void EngineCore::remember_ids(const Live& live, std::span<const BlockId> table, std::int64_t first,
                              std::int64_t count) {
  const std::int64_t block = settings().block_tokens.value();
  for (std::int64_t i = first; i < first + count; ++i) {
    const std::int64_t at = table[static_cast<std::size_t>(i / block)].value * block + i % block;
    pool_ids_[static_cast<std::size_t>(at)] = live.ids[static_cast<std::size_t>(i)];
  }
}

bool EngineCore::ends(const Live& live, TokenId token) const {
  if (live.request.ignore_end) return false;
  return std::find(options_.end_ids.begin(), options_.end_ids.end(), token) !=
         options_.end_ids.end();
}

std::vector<EngineEvent> EngineCore::take_events() { return std::exchange(events_, {}); }

}  // namespace orrery::engine
