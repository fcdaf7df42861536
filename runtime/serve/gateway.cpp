#include "runtime/serve/gateway.h"

#include <algorithm>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/hash.h"
#include "runtime/base/hex.h"
#include "runtime/engine/block_hashes.h"
#include "runtime/host/process.h"
#include "runtime/serve/gateway_live.h"

namespace orrery::serve {
namespace {

struct RouteEntry {
  std::string_view path, method;
};
constexpr RouteEntry kRoutes[] = {
    {"/v1/chat/completions", "POST"},
    {"/v1/completions", "POST"},
    {"/v1/models", "GET"},
    {"/health", "GET"},
    {"/health/ready", "GET"},
    {"/version", "GET"},
    {"/metrics", "GET"},
};
constexpr std::string_view kModelPrefix = "/v1/models/";

}  // namespace

// The guard of one placement: the router's ledger entry and our own count, closed once.
class Gateway::Placement {
 public:
  Placement(Gateway& gateway, RequestId request, InstanceId instance)
      : gateway_(gateway), request_(request), instance_(instance) {
    ++gateway_.workers_.at(instance).in_flight;
  }
  ~Placement() {
    gateway_.router_.release(request_, host::monotonic_now());
    const auto worker = gateway_.workers_.find(instance_);
    if (worker != gateway_.workers_.end()) --worker->second.in_flight;
  }
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

 private:
  Gateway& gateway_;
  RequestId request_;
  InstanceId instance_;
};

Gateway::Gateway(GatewayOptions options)
    : options_(std::move(options)),
      router_(options_.router),
      started_(host::monotonic_now()),
      created_(static_cast<std::int64_t>(host::wall_clock_seconds())) {
  id_salt_ = mix64(static_cast<std::uint64_t>(host::wall_clock_seconds() * 1e6));
  if (!options_.journal_path.empty()) {
    journal_ = std::make_unique<host::JournalFileWriter>(options_.journal_path);
    router_.journal().set_sink(journal_->sink());
  }
}

Gateway::~Gateway() {
  router_.journal().set_sink(nullptr);
  flush_journal();
}

void Gateway::flush_journal() {
  if (journal_) journal_->flush();
}

void Gateway::set_model(const ServedModel& model) {
  models_.insert_or_assign(model.id, model);
  metrics_.model(model.card.id);
}

void Gateway::add_worker(InstanceId id, const std::string& name, ModelId model,
                         std::shared_ptr<WorkerClient> client, const WorkerStatus& status) {
  const Time now = host::monotonic_now();
  Worker worker;
  worker.name = name, worker.model = model, worker.client = std::move(client);
  worker.status = status, worker.reported = now;
  workers_.insert_or_assign(id, std::move(worker));
  router_.add_instance({id, model, Tokens(status.max_request_tokens)}, now);
}
void Gateway::drain_worker(InstanceId id) {
  const auto worker = workers_.find(id);
  if (worker == workers_.end() || std::exchange(worker->second.draining, true)) return;
  router_.drain_instance(id, host::monotonic_now());
}
void Gateway::remove_worker(InstanceId id) {
  if (workers_.erase(id) > 0) router_.remove_instance(id, host::monotonic_now());
}
void Gateway::set_report(InstanceId id, const WorkerStatus& status, std::int64_t restarts) {
  const auto worker = workers_.find(id);
  if (worker == workers_.end()) return;
  worker->second.status = status;
  worker->second.reported = host::monotonic_now();
  worker->second.restarts = restarts;
}
std::int64_t Gateway::in_flight(InstanceId id) const {
  const auto worker = workers_.find(id);
  return worker == workers_.end() ? 0 : worker->second.in_flight;
}
void Gateway::begin_drain() { draining_ = true; }

const ServedModel& Gateway::find_model(const std::string& name) const {
  if (name.empty() && models_.size() == 1) return models_.begin()->second;
  for (const auto& entry : models_) {
    if (entry.second.card.id == name) return entry.second;
  }
  std::string served;
  for (const auto& entry : models_) {
    served += (served.empty() ? "" : ", ") + entry.second.card.id;
  }
  throw ApiError(404, "NotFoundError",
                 name.empty() ? "model is missing; served: " + served
                              : "the model \"" + name + "\" is not served here; served: " + served,
                 "model", "model_not_found");
}

std::int64_t Gateway::most_tokens(ModelId model) const {
  std::int64_t most = 0;
  for (const auto& entry : workers_) {
    if (entry.second.model == model && !entry.second.draining) {
      most = std::max(most, entry.second.status.max_request_tokens);
    }
  }
  return most;
}

std::string Gateway::models_json(const ServedModel* only) const {
  const auto one = [this](const ServedModel& model) {
    const std::int64_t most = most_tokens(model.id);
    return "{\"id\":" + json_quote(model.card.id) +
           ",\"object\":\"model\",\"created\":" + std::to_string(created_) +
           ",\"owned_by\":\"orrery\",\"root\":" + json_quote(model.card.id) +
           ",\"parent\":null,\"max_model_len\":" +
           std::to_string(most > 0 ? most : model.card.shape.max_context) +
           (model.card.note.empty() ? "" : ",\"note\":" + json_quote(model.card.note)) + "}";
  };
  if (only != nullptr) return one(*only);
  std::string list;
  for (const auto& entry : models_) list += (list.empty() ? "" : ",") + one(entry.second);
  return "{\"object\":\"list\",\"data\":[" + list + "]}";
}

std::string Gateway::metrics_text() const {
  const Time now = host::monotonic_now();
  std::vector<WorkerGauge> gauges;
  for (const auto& [id, worker] : workers_) {
    WorkerGauge gauge;
    gauge.worker = worker.name;
    const auto model = models_.find(worker.model);
    gauge.model = model == models_.end() ? "" : model->second.card.id;
    gauge.ready = !worker.draining;
    gauge.report_age_s = to_seconds(now - worker.reported);
    gauge.running = worker.status.running, gauge.waiting = worker.status.waiting;
    gauge.blocks_total = worker.status.blocks_total;
    gauge.blocks_free = worker.status.blocks_free;
    gauge.preemptions = worker.status.preemptions;
    gauge.prefix_query_tokens = worker.status.prefix_query_tokens;
    gauge.prefix_hit_tokens = worker.status.prefix_hit_tokens;
    gauge.steps = worker.status.steps, gauge.restarts = worker.restarts;
    gauge.block_tokens = worker.status.block_tokens;
    gauge.ledger_requests = router_.ledger(id).requests;
    gauges.push_back(std::move(gauge));
  }
  return metrics_.render(gauges, connection_count_ ? connection_count_() : 0, in_flight_,
                         to_seconds(now - started_), options_.vllm_metrics);
}

net::awaitable<HttpResponse> Gateway::route_get(const HttpRequest& request) {
  HttpResponse response;
  if (request.target == "/health") {
    response.content_type.clear();
    if (draining_) throw unavailable("draining");
  } else if (request.target == "/health/ready") {
    const bool ready = std::any_of(workers_.begin(), workers_.end(),
                                   [](const auto& entry) { return !entry.second.draining; });
    if (draining_ || !ready) throw unavailable(draining_ ? "draining" : "no worker is ready");
    response.body = "{\"status\":\"ready\"}";
  } else if (request.target == "/version") {
    response.body = "{\"version\":\"" ORRERY_VERSION "\"}";
  } else if (request.target == "/metrics") {
    // Figures as they are now, where the worker answers in time; else the last ones, with their
    // age.
    std::vector<std::pair<InstanceId, std::shared_ptr<WorkerClient>>> clients;
    for (const auto& [id, worker] : workers_) clients.emplace_back(id, worker.client);
    for (const auto& [id, client] : clients) {
      const auto status = co_await client->status(std::chrono::milliseconds(200));
      const auto worker = workers_.find(id);
      if (status && worker != workers_.end()) set_report(id, *status, worker->second.restarts);
    }
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = metrics_text();
  } else if (request.target == "/v1/models") {
    response.body = models_json(nullptr);
  } else {
    response.body = models_json(&find_model(request.target.substr(kModelPrefix.size())));
  }
  co_return response;
}

net::awaitable<void> Gateway::handle(HttpExchange& exchange) {
  const HttpRequest& request = exchange.request();
  const bool one_model = request.target.starts_with(kModelPrefix);
  const auto* route =
      one_model ? &kRoutes[2]
                : std::find_if(std::begin(kRoutes), std::end(kRoutes),
                               [&](const RouteEntry& r) { return r.path == request.target; });
  std::optional<HttpResponse> response;
  try {
    if (route == std::end(kRoutes)) {
      throw ApiError(404, "NotFoundError", "there is no " + request.target + " here");
    }
    const std::string method = request.method == "HEAD" ? "GET" : request.method;
    if (method != route->method) {
      throw ApiError(
          405, "invalid_request_error",
          request.target + " takes " + std::string(route->method) + ", not " + request.method);
    }
    if (method == "GET") {
      response = co_await route_get(request);
    } else {
      co_await generate(exchange, request.target == "/v1/chat/completions");
      co_return;
    }
  } catch (const ApiError& error) {
    response = error_response(error);
    if (error.status == 405) response->headers.emplace_back("Allow", std::string(route->method));
  }
  const std::string_view label = route == std::end(kRoutes) ? "other" : route->path;
  metrics_.count_http(label, request.method, response->status);
  co_await exchange.respond(std::move(*response));
}

// Text to ids, limits, defaults. Throws ApiError.
void Gateway::prepare(Live& live) const {
  const ServedModel& model = find_model(live.api.model);
  const engine::ModelCard& card = model.card;
  live.model = card.id;
  live.tokenizer = card.tokenizer;
  engine::EngineRequest& out = live.engine;
  out.model = model.id;
  if (!live.api.prompt_tokens.empty()) {
    out.prompt = std::move(live.api.prompt_tokens);
    for (const engine::TokenId id : out.prompt) {
      if (id >= card.shape.vocabulary) {
        throw ApiError(400, "invalid_request_error",
                       "prompt: token id " + std::to_string(id) +
                           " is not below the vocabulary's " +
                           std::to_string(card.shape.vocabulary),
                       "prompt");
      }
    }
  } else {
    out.prompt = card.tokenizer->encode(
        live.api.chat ? engine::render_chat(card.chat, live.api.messages) : live.api.prompt);
  }
  const std::int64_t most = most_tokens(model.id);
  if (most == 0) throw error_of_reject(policy::RejectReason::kNoInstance, 0, 0);
  const auto prompt_tokens = static_cast<std::int64_t>(out.prompt.size());
  const std::int64_t room = most - prompt_tokens;
  const std::int64_t wanted = live.api.max_tokens.value_or(1);
  if (wanted > room) {
    throw ApiError(400, "invalid_request_error",
                   "this model's maximum context length is " + std::to_string(most) +
                       " tokens; the request has " + std::to_string(prompt_tokens) +
                       " in the prompt and asks for " + std::to_string(wanted) + " more",
                   live.api.max_tokens ? "max_tokens" : (live.api.chat ? "messages" : "prompt"),
                   "context_length_exceeded");
  }
  out.max_tokens = live.api.max_tokens.value_or(std::min(options_.default_max_tokens, room));
  out.sampling = live.api.sampling;
  out.sampling.seed = live.api.seed.value_or(mix64(id_salt_ ^ out.id.value));
  out.ignore_end = live.api.ignore_eos;
  out.priority = live.api.priority;
  live.hashes = engine::prompt_block_hashes(out.prompt, model.block_tokens);
  live.usage.prompt_tokens = prompt_tokens;
}

void Gateway::place(Live& live) {
  policy::RouteRequest request;
  request.id = live.engine.id;
  request.model = live.engine.model;
  request.prompt_tokens = Tokens(live.usage.prompt_tokens);
  request.max_tokens = Tokens(live.engine.max_tokens);
  request.block_hashes = live.hashes;
  request.priority = live.engine.priority;
  const policy::RouteResult result = router_.route(request, host::monotonic_now());
  if (!result.instance) {
    throw error_of_reject(result.reason, live.usage.prompt_tokens + live.engine.max_tokens,
                          most_tokens(live.engine.model));
  }
  live.instance = *result.instance;
}

net::awaitable<void> Gateway::generate(HttpExchange& exchange, bool chat) {
  struct Count {
    explicit Count(std::size_t& value) : count(value) { ++count; }
    ~Count() { --count; }
    std::size_t& count;
  };
  Live live;
  live.received = exchange.request().received;
  try {
    if (draining_) throw unavailable("the server is draining");
    live.api = parse_generation_request(exchange.request().body, chat);
    live.engine.id = RequestId{next_request_++};
    prepare(live);
    if (static_cast<std::int64_t>(in_flight_) >= options_.max_in_flight) {
      throw error_of_reject(policy::RejectReason::kQueueFull, 0, 0);
    }
    place(live);
  } catch (const ApiError&) {
    const auto known = std::find_if(models_.begin(), models_.end(), [&](const auto& entry) {
      return entry.second.card.id == live.model;
    });
    if (known != models_.end()) ++metrics_.model(live.model).rejected;
    throw;
  }
  const Count counted(in_flight_);
  const Placement placement(*this, live.engine.id, live.instance);
  live.stream = workers_.at(live.instance).client->generate(live.engine);
  live.detokenizer.emplace(*live.tokenizer);
  live.filter.emplace(live.api.stop);
  live.writer.emplace(live.api,
                      (chat ? "chatcmpl-" : "cmpl-") + hex(mix64(id_salt_ + live.engine.id.value)),
                      static_cast<std::int64_t>(host::wall_clock_seconds()), live.model);
  exchange.on_disconnect([stream = live.stream] {
    stream->cancel();
    stream->wake();
  });
  co_await relay(exchange, live);
}

}  // namespace orrery::serve
