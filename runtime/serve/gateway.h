// Gateway: answers the HTTP API with the workers it is given. It tokenizes, asks the policy
// library's Router where each request goes, streams the worker's tokens back as text, and keeps
// the router's journal. One thread: everything here runs on the io_context's.
//
// Laws: each placement has one submit at its worker and one release here; a client that goes away
// has its request cancelled; a worker that dies ends its requests with an error and frees its
// ledger; a draining gateway finishes what it has and takes nothing new.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/model.h"
#include "runtime/host/journal_file.h"
#include "runtime/policy/router/router.h"
#include "runtime/serve/control/worker_client.h"
#include "runtime/serve/http/openai.h"
#include "runtime/serve/http/server.h"
#include "runtime/serve/metrics/metrics.h"

namespace orrery::serve {

struct ServedModel {
  ModelId id;
  engine::ModelCard card;
  std::int64_t block_tokens = 16;  // of its workers' KV cache: prompt hashes are made with it
};

struct GatewayOptions {
  policy::RouterSettings router;
  std::string journal_path;           // of the router's journal; empty: none
  std::int64_t max_in_flight = 1024;  // more are refused with 429
  // Where a request gives no max_tokens it gets this many, or what fits beside its prompt.
  std::int64_t default_max_tokens = 256;
  bool vllm_metrics = false;  // /metrics under the names of vLLM as well
};

class Gateway {
 public:
  explicit Gateway(GatewayOptions options);
  ~Gateway();

  // Models come with the plan; a model without workers answers 503.
  void set_model(const ServedModel& model);

  // A ready worker. `name` is its slot ("main-0") for metrics and logs.
  void add_worker(InstanceId id, const std::string& name, ModelId model,
                  std::shared_ptr<WorkerClient> client, const WorkerStatus& status);
  void drain_worker(InstanceId id);   // no new placements
  void remove_worker(InstanceId id);  // gone; its placements are released
  void set_report(InstanceId id, const WorkerStatus& status, std::int64_t restarts);
  std::int64_t in_flight(InstanceId id) const;  // placements that live

  void show_vllm_metrics(bool show) { options_.vllm_metrics = show; }
  void begin_drain();  // 503 from now on
  std::size_t in_flight() const { return in_flight_; }
  net::awaitable<void> handle(HttpExchange& exchange);
  void set_connection_count(std::function<std::size_t()> count) {
    connection_count_ = std::move(count);
  }
  void flush_journal();

 private:
  struct Worker {
    std::string name;
    ModelId model;
    std::shared_ptr<WorkerClient> client;
    WorkerStatus status;
    Time reported;
    std::int64_t restarts = 0, in_flight = 0;
    bool draining = false;
  };
  struct Live;  // one request being answered
  class Placement;

  net::awaitable<HttpResponse> route_get(const HttpRequest& request);
  net::awaitable<void> generate(HttpExchange& exchange, bool chat);
  net::awaitable<void> relay(HttpExchange& exchange, Live& live);
  net::awaitable<void> relay_stream(HttpExchange& exchange, Live& live);
  net::awaitable<void> relay_whole(HttpExchange& exchange, Live& live);
  void prepare(Live& live) const;
  void place(Live& live);
  bool take(Live& live, GenerationEvent& event, std::string& text);
  void finish(Live& live);
  const ServedModel& find_model(const std::string& name) const;
  std::int64_t most_tokens(ModelId model) const;
  std::string models_json(const ServedModel* only) const;
  std::string metrics_text() const;

  GatewayOptions options_;
  policy::Router router_;
  std::unique_ptr<host::JournalFileWriter> journal_;
  std::map<ModelId, ServedModel> models_;
  std::map<InstanceId, Worker> workers_;
  Metrics metrics_;
  std::function<std::size_t()> connection_count_;
  std::uint64_t next_request_ = 1, id_salt_ = 0;
  std::size_t in_flight_ = 0;
  bool draining_ = false;
  Time started_;
  std::int64_t created_ = 0;
};

}  // namespace orrery::serve
