#include "runtime/serve/metrics/metrics.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace orrery::serve {
namespace {

// The bounds that vLLM uses for the same families (seconds), so that panels and alerts fit.
constexpr std::array kFirstToken{.001, .005, .01, .02, .04, .06, .08, .1,  .25,  .5,   .75,
                                 1.,   2.5,  5.,  7.5, 10., 20., 40., 80., 160., 640., 2560.};
constexpr std::array kInterToken{.01, .025, .05, .075, .1,  .15, .2,  .3,  .4, .5,
                                 .75, 1.,   2.5, 5.,   7.5, 10., 20., 40., 80.};
constexpr std::array kWhole{.3,  .5,  .8,  1.,  1.5,  2.,   2.5,  5.,   10.,   15.,  20.,
                            30., 40., 50., 60., 120., 240., 480., 960., 1920., 7680.};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

void head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  out.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ");
  out.append(name).append(" ").append(type).append("\n");
}
void line(std::string& out, std::string_view name, std::string_view labels, double value) {
  out.append(name);
  if (!labels.empty()) out.append("{").append(labels).append("}");
  out.append(" ").append(number(value)).append("\n");
}

}  // namespace

std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

void Histogram::observe(double value, std::uint64_t times) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<std::size_t>(at)] += times;
  count_ += times;
  sum_ += value * static_cast<double>(times);
}

void Histogram::render(std::string& out, std::string_view name, std::string_view labels) const {
  const std::string comma = labels.empty() ? "" : std::string(labels) + ",";
  const std::string bucket = std::string(name) + "_bucket";
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    const std::string bound = i < bounds_.size() ? number(bounds_[i]) : "+Inf";
    line(out, bucket, comma + "le=\"" + bound + "\"", static_cast<double>(below));
  }
  line(out, std::string(name) + "_sum", labels, sum_);
  line(out, std::string(name) + "_count", labels, static_cast<double>(count_));
}

ModelMetrics::ModelMetrics()
    : time_to_first_token(kFirstToken), inter_token_latency(kInterToken), e2e_latency(kWhole) {}

ModelMetrics& Metrics::model(const std::string& name) { return models_[name]; }

void Metrics::count_http(std::string_view handler, std::string_view method, int status) {
  ++http_["handler=\"" + label_value(handler) + "\",method=\"" + label_value(method) +
          "\",status=\"" + std::to_string(status) + "\""];
}

namespace {

// One family under both names: orrery_X and, where vLLM has it, vllm:X.
struct Family {
  const char* name;
  const char* type;
  const char* help;
  bool vllm;
  double (*worker)(const WorkerGauge&);
};

double usage(const WorkerGauge& w) {
  return w.blocks_total == 0
             ? 0
             : 1.0 - static_cast<double>(w.blocks_free) / static_cast<double>(w.blocks_total);
}

constexpr Family kWorkerFamilies[] = {
    {"num_requests_running", "gauge", "Requests in the running batch.", true,
     [](const WorkerGauge& w) { return static_cast<double>(w.running); }},
    {"num_requests_waiting", "gauge", "Requests waiting to be scheduled.", true,
     [](const WorkerGauge& w) { return static_cast<double>(w.waiting); }},
    {"kv_cache_usage_perc", "gauge", "Share of KV blocks in use, 0 to 1.", true, usage},
    {"prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.", true,
     [](const WorkerGauge& w) { return static_cast<double>(w.prefix_query_tokens); }},
    {"prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.", true,
     [](const WorkerGauge& w) { return static_cast<double>(w.prefix_hit_tokens); }},
    {"num_preemptions_total", "counter", "Requests preempted for want of KV blocks.", true,
     [](const WorkerGauge& w) { return static_cast<double>(w.preemptions); }},
    {"worker_ready", "gauge", "1 when the worker takes requests.", false,
     [](const WorkerGauge& w) { return w.ready ? 1.0 : 0.0; }},
    {"worker_restarts_total", "counter", "Times the worker was started again.", false,
     [](const WorkerGauge& w) { return static_cast<double>(w.restarts); }},
    {"worker_report_age_seconds", "gauge", "Age of the figures the worker reported.", false,
     [](const WorkerGauge& w) { return w.report_age_s; }},
    {"worker_steps_total", "counter", "Steps computed.", false,
     [](const WorkerGauge& w) { return static_cast<double>(w.steps); }},
    {"router_ledger_requests", "gauge", "Live placements by the router's own count.", false,
     [](const WorkerGauge& w) { return static_cast<double>(w.ledger_requests); }},
};

// vLLM's own: no family of ours says the same.
void render_cache_config(std::string& out, std::span<const WorkerGauge> workers) {
  head(out, "vllm:cache_config_info", "gauge", "Settings of the KV cache.");
  for (const WorkerGauge& w : workers) {
    line(out, "vllm:cache_config_info",
         "model_name=\"" + label_value(w.model) + "\",engine=\"" + label_value(w.worker) +
             "\",block_size=\"" + std::to_string(w.block_tokens) + "\",num_gpu_blocks=\"" +
             std::to_string(w.blocks_total) + "\"",
         1);
  }
}

void render_workers(std::string& out, std::span<const WorkerGauge> workers, bool vllm_names) {
  for (const Family& family : kWorkerFamilies) {
    for (const char* prefix : {"orrery_", "vllm:"}) {
      if (prefix[0] == 'v' && !(vllm_names && family.vllm)) continue;
      const std::string name = prefix + std::string(family.name);
      head(out, name, family.type, family.help);
      for (const WorkerGauge& w : workers) {
        line(out, name,
             "model_name=\"" + label_value(w.model) + "\",engine=\"" + label_value(w.worker) + "\"",
             family.worker(w));
      }
    }
  }
}

void render_model_counters(std::string& out, std::string_view prefix,
                           const std::map<std::string, ModelMetrics>& models) {
  const auto counter = [&](const char* family, const char* help, auto value) {
    const std::string name = std::string(prefix) + family;
    head(out, name, "counter", help);
    for (const auto& [model, m] : models) {
      line(out, name, "model_name=\"" + label_value(model) + "\"", static_cast<double>(value(m)));
    }
  };
  counter("prompt_tokens_total", "Prompt tokens of requests that started.",
          [](const ModelMetrics& m) { return m.prompt_tokens; });
  counter("prompt_tokens_cached_total", "Of them, found in a prefix cache.",
          [](const ModelMetrics& m) { return m.cached_tokens; });
  counter("generation_tokens_total", "Tokens generated.",
          [](const ModelMetrics& m) { return m.generation_tokens; });
  const std::string name = std::string(prefix) + "request_success_total";
  head(out, name, "counter", "Requests that ended, by reason.");
  for (const auto& [model, m] : models) {
    const std::pair<const char*, std::uint64_t> reasons[] = {{"stop", m.success_stop},
                                                             {"length", m.success_length},
                                                             {"abort", m.aborted},
                                                             {"error", m.failed}};
    for (const auto& [reason, count] : reasons) {
      line(out, name,
           "model_name=\"" + label_value(model) + "\",finished_reason=\"" + reason + "\"",
           static_cast<double>(count));
    }
  }
}

void render_model_histograms(std::string& out, std::string_view prefix,
                             const std::map<std::string, ModelMetrics>& models) {
  const auto histogram = [&](const char* family, const char* help, auto member) {
    const std::string name = std::string(prefix) + family;
    head(out, name, "histogram", help);
    for (const auto& [model, m] : models) {
      (m.*member).render(out, name, "model_name=\"" + label_value(model) + "\"");
    }
  };
  histogram("time_to_first_token_seconds",
            "From the request's arrival to its first token, at the gateway.",
            &ModelMetrics::time_to_first_token);
  histogram("inter_token_latency_seconds", "Between tokens of one answer, at the gateway.",
            &ModelMetrics::inter_token_latency);
  histogram("e2e_request_latency_seconds", "From the request's arrival to its last token.",
            &ModelMetrics::e2e_latency);
}

}  // namespace

std::string Metrics::render(std::span<const WorkerGauge> workers, std::size_t connections,
                            std::size_t in_flight, double uptime_s, bool vllm_names) const {
  std::string out;
  out.reserve(16 << 10);
  render_workers(out, workers, vllm_names);
  if (vllm_names) render_cache_config(out, workers);
  for (const char* prefix : {"orrery_", "vllm:"}) {
    if (prefix[0] == 'v' && !vllm_names) continue;
    render_model_counters(out, prefix, models_);
    render_model_histograms(out, prefix, models_);
  }
  head(out, "orrery_requests_rejected_total", "counter", "Requests refused before they started.");
  for (const auto& [model, m] : models_) {
    line(out, "orrery_requests_rejected_total", "model_name=\"" + label_value(model) + "\"",
         static_cast<double>(m.rejected));
  }
  head(out, "orrery_gateway_connections", "gauge", "Open client connections.");
  line(out, "orrery_gateway_connections", "", static_cast<double>(connections));
  head(out, "orrery_gateway_requests_in_flight", "gauge", "Requests being answered.");
  line(out, "orrery_gateway_requests_in_flight", "", static_cast<double>(in_flight));
  head(out, "orrery_gateway_uptime_seconds", "gauge", "Seconds since the gateway started.");
  line(out, "orrery_gateway_uptime_seconds", "", uptime_s);
  head(out, "http_requests_total", "counter", "Requests by route, method and status.");
  for (const auto& [labels, count] : http_) {
    line(out, "http_requests_total", labels, static_cast<double>(count));
  }
  return out;
}

}  // namespace orrery::serve
