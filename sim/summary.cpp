#include "sim/summary.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/hex.h"
#include "runtime/base/latency_json.h"
#include "runtime/host/process.h"
#include "traces/read_report.h"

namespace orrery::sim {
namespace {

double per(double a, double b) { return b > 0 ? a / b : 0; }
Json known(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json ratio_or_null(double a, double b) { return b > 0 ? Json(a / b) : Json(nullptr); }

Json quantiles_of(const QuantileSketch& values) {
  return {{"mean", values.mean()},        {"p50", values.quantile(0.50)},
          {"p90", values.quantile(0.90)}, {"p95", values.quantile(0.95)},
          {"p99", values.quantile(0.99)}, {"max", values.max()}};
}

// What is summed over the replicas of a pool (or of the fleet).
struct Machines {
  std::int64_t replicas = 0, iterations = 0, preemptions = 0, recomputed = 0;
  std::int64_t looked_up = 0, hit = 0;
  double gpus = 0, usd_per_hour = 0, busy_s = 0;
  double kv_used = 0;  // mean share of the KV blocks, summed over replicas
  QuantileSketch waiting, running;
  std::set<std::string> unpriced;

  void add(const Machines& other) {
    replicas += other.replicas, iterations += other.iterations;
    preemptions += other.preemptions, recomputed += other.recomputed;
    looked_up += other.looked_up, hit += other.hit;
    gpus += other.gpus, usd_per_hour += other.usd_per_hour;
    busy_s += other.busy_s, kv_used += other.kv_used;
    waiting.merge(other.waiting), running.merge(other.running);
    unpriced.insert(other.unpriced.begin(), other.unpriced.end());
  }

  void add(const Replica& replica, const PoolSpec& pool) {
    const policy::InstanceLoad load = replica.instance().load();
    ++replicas;
    iterations += replica.iterations();
    preemptions += load.preemptions, recomputed += load.recomputed_tokens;
    looked_up += load.prefix_query_tokens, hit += load.prefix_hit_tokens;
    gpus += pool.gpus_per_replica, usd_per_hour += pool.usd_per_hour_per_replica;
    if (!std::isfinite(pool.usd_per_hour_per_replica)) unpriced.insert(pool.instance_type);
    busy_s += static_cast<double>(replica.busy_time().value()) * 1e-12;
    kv_used +=
        per(replica.kv_blocks().values().mean(), static_cast<double>(load.blocks_total.value()));
    waiting.merge(replica.waiting().values());
    running.merge(replica.running().values());
  }
};

// Some of the requests, and the machines that served only them. Every row of figures, the whole
// run's too, has the same keys; what has no meaning in it is null.
struct Part {
  const Group& group;
  double span_s = 0;                    // NaN: not one stretch of time
  const QuantileSketch* itl = nullptr;  // null: gaps are pooled by pool only
  const Machines* machines = nullptr;   // null: it shares those of others
  bool counts_all = true;               // false: knows only who was answered (a pool)
};

Json requests_of(const Part& part) {
  const Group& g = part.group;
  if (!part.counts_all)
    return {{"submitted", nullptr}, {"completed", g.completed}, {"rejected", nullptr},
            {"failed", nullptr},    {"cancelled", nullptr},     {"unfinished", nullptr}};
  return {{"submitted", g.submitted},
          {"completed", g.completed},
          {"rejected", g.rejected},
          {"failed", 0},
          {"cancelled", g.cancelled},
          {"unfinished", g.submitted - g.completed - g.rejected - g.cancelled}};
}

void add_latencies(Json& json, const Part& part) {
  const Group& g = part.group;
  json["ttft_ms"] = g.ttft.to_json();
  json["itl_ms"] = LatencyMetric{part.itl != nullptr ? *part.itl : QuantileSketch{}}.to_json();
  if (part.itl == nullptr) json["itl_ms"]["count"] = nullptr;
  json["tpot_ms"] = g.tpot.to_json();
  json["e2e_ms"] = g.e2e.to_json();
  json["queue_ms"] = g.queue.to_json();
}

void add_rates(Json& json, const Part& part) {
  const Group& g = part.group;
  const auto rate = [&](double count, double span) {
    return std::isfinite(span) ? Json(per(count, span)) : Json(nullptr);
  };
  const auto output = static_cast<double>(g.output_tokens), good = static_cast<double>(g.good);
  const double gpus = part.machines != nullptr ? part.machines->gpus : 0;
  json["throughput"] = {
      {"requests_per_s", rate(static_cast<double>(g.completed), part.span_s)},
      {"input_tokens_per_s", rate(static_cast<double>(g.input_tokens), part.span_s)},
      {"output_tokens_per_s", rate(output, part.span_s)},
      {"output_tokens_per_s_per_gpu", gpus > 0 ? rate(output, part.span_s * gpus) : Json(nullptr)}};
  json["goodput"] = {
      {"requests_per_s", rate(good, part.span_s)},
      {"fraction",
       part.counts_all ? ratio_or_null(good, static_cast<double>(g.submitted)) : Json(nullptr)},
      // Good requests in the system at once, by Little's law over their time in it.
      {"concurrent_requests", rate(good * g.e2e.ns.mean() * 1e-9, part.span_s)}};
}

Json cost_of(const Part& part) {
  if (part.machines == nullptr)
    return {{"usd_per_hour", nullptr},
            {"usd_per_1k_tokens", nullptr},
            {"usd_per_million_output_tokens", nullptr},
            {"usd_per_request", nullptr},
            {"usd_per_successful_task", nullptr},
            {"output_tokens_per_usd", nullptr}};
  const Machines& m = *part.machines;
  const double usd = m.usd_per_hour * part.span_s / 3600;
  const auto output = static_cast<double>(part.group.output_tokens);
  const double tokens = output + static_cast<double>(part.group.input_tokens);
  const auto share = [&](double count) { return count > 0 ? known(usd / count) : Json(nullptr); };
  Json cost = {{"usd_per_hour", known(m.usd_per_hour)},
               {"usd_per_1k_tokens", share(tokens / 1e3)},
               {"usd_per_million_output_tokens", share(output / 1e6)},
               {"usd_per_request", share(static_cast<double>(part.group.completed))},
               {"usd_per_successful_task", nullptr},
               {"output_tokens_per_usd", usd > 0 ? known(output / usd) : Json(nullptr)}};
  if (!m.unpriced.empty()) cost["unpriced"] = m.unpriced;
  return cost;
}

// With machines of its own: prompt tokens looked up in their caches. Else of completed requests.
Json kv_of(const Part& part, const Workload& workload) {
  const Machines* m = part.machines;
  const Group& g = part.group;
  const auto hit = static_cast<double>(m != nullptr ? m->hit : g.cached_tokens);
  const auto of = static_cast<double>(m != nullptr ? m->looked_up : g.input_tokens);
  const std::optional<double> assumed = workload.prefix_hit_rate();
  // A trace without prefix data has no hit rate, not one of zero.
  const bool known_prefixes = workload.has_prefix_data() || assumed;
  const Json rate = known_prefixes ? ratio_or_null(hit, of) : Json(nullptr);
  Json kv = {{"hit_rate", rate},
             {"by_tier", {{"gpu", rate}}},
             {"preemptions", m != nullptr ? m->preemptions : g.preemptions},
             {"recomputed_tokens", m != nullptr ? Json(m->recomputed) : Json(nullptr)}};
  if (workload.has_prefix_data()) return kv;
  kv["assumed_hit_rate"] = assumed.value_or(0);
  kv["note"] = assumed ? "no prefix data in trace: the workload's prefix_hit_rate is assumed"
                       : "no prefix data in trace: nothing is shared";
  return kv;
}

void add_machines(Json& json, const Part& part) {
  if (part.machines == nullptr) {
    json["queue_depth"] = {{"prefill", nullptr}, {"decode", nullptr}};
    json["gpu"] = {
        {"busy_fraction", nullptr}, {"idle_fraction", nullptr}, {"memory_fraction", nullptr}};
    return;
  }
  const Machines& m = *part.machines;
  const double busy = per(m.busy_s, part.span_s * static_cast<double>(m.replicas));
  json["queue_depth"] = {{"prefill", quantiles_of(m.waiting)}, {"decode", quantiles_of(m.running)}};
  json["gpu"] = {{"busy_fraction", busy},
                 {"idle_fraction", 1 - busy},
                 {"memory_fraction", per(m.kv_used, static_cast<double>(m.replicas))}};
}

void add_figures(Json& json, const Part& part, const Workload& workload) {
  const Group& g = part.group;
  json["requests"] = requests_of(part);
  json["completed_fraction"] = part.counts_all ? ratio_or_null(static_cast<double>(g.completed),
                                                               static_cast<double>(g.submitted))
                                               : Json(nullptr);
  add_latencies(json, part);
  add_rates(json, part);
  json["kv"] = kv_of(part, workload);
  add_machines(json, part);
  json["cost"] = cost_of(part);
}

Json workload_of(const FleetRun& run, const WorkloadSpec& spec, double span_s) {
  const Workload& workload = run.workload();
  Json json;
  if (!spec.description.empty()) json["trace"] = spec.description;
  json["mode"] = spec.mode == LoadMode::kClosed     ? "closed"
                 : spec.mode == LoadMode::kSessions ? "sessions"
                                                    : "open";
  const bool open_loop = spec.mode == LoadMode::kOpen && spec.concurrency == 0;
  json["open_loop"] = open_loop;
  if (spec.concurrency > 0) json["concurrency"] = spec.concurrency;
  json["rate_scale"] = spec.rate_scale;
  const double span = to_seconds(workload.capped_span()) / spec.rate_scale;
  const auto submitted = static_cast<double>(run.recorder().total().submitted);
  if (spec.mode == LoadMode::kOpen) json["offered_requests_per_s"] = ratio_or_null(submitted, span);
  if (spec.mode == LoadMode::kOpen && !open_loop) {
    json["sent_requests_per_s"] = per(submitted, span_s);
    json["send_delay_ms"] = LatencyMetric{workload.send_delay()}.to_json();
    json["note"] = "not open loop: requests in flight are limited, so some are sent late";
  }
  if (spec.idle_gap_cap) json["idle_time_compressed_fraction"] = workload.idle_removed_share();
  if (const auto report = workload.read_report()) {
    json["trace_rows"] = traces::to_json(*report);
    json["trace_rows"]["read_to_end"] = workload.read_to_end();
  }
  json["warnings"] = workload.warnings();
  json["failed_in_trace_skipped"] = workload.trace_failures();
  if (!workload.skipped_kinds().empty()) json["kinds_skipped"] = workload.skipped_kinds();
  return json;
}

Json refusals_of(const FleetRun& run) {
  Json list = Json::array();
  for (const auto& [why, r] : run.refusals()) {
    Json entry = {{"reason", why}, {"count", r.count}, {"first_request", r.first_id}};
    if (r.needed.value() > 0)
      entry["needed_tokens"] = r.needed.value(), entry["available_tokens"] = r.available.value();
    list.push_back(entry);
  }
  return list;
}

Json groups_by_name(const FleetRun& run, const Breakdown& groups, const Names& names) {
  Json json = Json::object();
  for (std::size_t i = 0; i < groups.groups().size(); ++i) {
    const Group& g = groups.groups()[i];
    if (g.submitted == 0) continue;
    Json& entry = json[i < Breakdown::kMost ? names.name(static_cast<std::uint32_t>(i))
                                            : std::string("(all others)")];
    add_figures(entry, {g, to_seconds(run.end())}, run.workload());
  }
  return json;
}

Json groups_by_hour(const FleetRun& run) {
  Json json = Json::object();
  const auto& hours = run.recorder().by_hour().groups();
  const auto one = [&](std::size_t hour, const Group& g) {
    const bool apart = hour < Breakdown::kMost;
    const double left_s = to_seconds(run.end()) - 3600.0 * static_cast<double>(hour);
    Json& entry = json[apart ? std::to_string(hour) : std::string("(all later)")];
    add_figures(entry, {g, apart ? std::min(3600.0, left_s) : NAN}, run.workload());
  };
  if (hours.empty()) one(0, run.recorder().total());
  for (std::size_t hour = 0; hour < hours.size(); ++hour) {
    if (hours[hour].submitted > 0) one(hour, hours[hour]);
  }
  return json;
}

Json groups_by_model(const FleetRun& run, const std::vector<Machines>& machines) {
  Json json = Json::object();
  const auto& groups = run.recorder().by_model().groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].submitted == 0) continue;
    const bool served = i < run.models().size();
    QuantileSketch itl;
    Machines sum;
    for (std::size_t p = 0; served && p < machines.size(); ++p) {
      if (run.fleet().pools[p].model != run.models()[i]) continue;
      itl.merge(run.gaps()[p].ns);
      sum.add(machines[p]);
    }
    Json& entry = json[served ? run.models()[i] : std::string("(not served)")];
    add_figures(entry, {groups[i], to_seconds(run.end()), &itl, served ? &sum : nullptr},
                run.workload());
  }
  return json;
}

Json groups_by_pool(const FleetRun& run, const std::vector<Machines>& machines) {
  Json json = Json::object();
  auto groups = run.recorder().by_pool().groups();
  groups.resize(std::max(groups.size(), machines.size()));
  for (std::size_t p = 0; p < machines.size(); ++p) {
    const PoolSpec& pool = run.fleet().pools[p];
    Json& entry = json[pool.name];
    entry["model"] = pool.model, entry["instance_type"] = pool.instance_type;
    entry["replicas"] = pool.replicas;
    entry["step_times"] = pool.step_model->source();
    add_figures(entry, {groups[p], to_seconds(run.end()), &run.gaps()[p].ns, &machines[p], false},
                run.workload());
    entry["kv"]["blocks_per_replica"] = pool.settings.kv_blocks.value();
  }
  return json;
}

void fill_counts(Summary& s, FleetRun& run, const WorkloadSpec& spec) {
  const Group& total = run.recorder().total();
  s.submitted = total.submitted, s.completed = total.completed, s.rejected = total.rejected;
  s.cancelled = total.cancelled, s.unfinished = run.unfinished();
  s.ttft = total.ttft, s.tpot = total.tpot, s.e2e = total.e2e, s.queue = total.queue;
  for (const TokenGaps& gaps : run.gaps()) s.itl.ns.merge(gaps.ns);
  s.input_tokens = total.input_tokens, s.output_tokens = total.output_tokens;
  s.good_requests = total.good;
  s.target_counts = run.recorder().target_counts(run.gap_count(), run.gaps_over());
  s.trace_rows = run.workload().read_report();
  s.warnings = run.workload().warnings();
  s.stopped_early = run.stopped_early(), s.slo_impossible = run.slo_impossible();
  for (const auto& [why, r] : run.refusals()) s.reject_reasons[why] = r.count;
  if (spec.mode == LoadMode::kClosed) {
    s.saturated_why = "a closed loop adapts to the fleet: see queue_ms for waiting";
  } else {
    const Backlog::Verdict verdict = run.backlog().judge(run.end());
    s.saturated = verdict.saturated, s.saturated_why = verdict.why;
  }
  s.events = run.events();
  s.virtual_s = to_seconds(run.end());
  s.journal_hash = run.journal_hash();
}

}  // namespace

Json LatencyMetric::to_json() const { return latency_json(ns); }

Summary make_summary(FleetRun& run, const WorkloadSpec& workload, const RunOptions& options,
                     double wall_s) {
  Summary s;
  fill_counts(s, run, workload);
  std::vector<Machines> machines(run.fleet().pools.size());
  Machines all;
  for (std::size_t i = 0; i < run.replicas().size(); ++i) {
    const std::uint32_t pool = run.pool_of(i);
    machines[pool].add(run.replicas()[i], run.fleet().pools[pool]);
    all.add(run.replicas()[i], run.fleet().pools[pool]);
  }
  s.iterations = all.iterations;
  s.wall_s = wall_s;

  const Group& total = run.recorder().total();
  Json& json = s.json;
  add_figures(json, {total, s.virtual_s, &s.itl.ns, &all}, run.workload());
  json["rejections"] = refusals_of(run);
  json["network"] = {{"busy_fraction", nullptr}};
  json["ready_to_serve_s"] = 0;
  json["retries"] = 0, json["timeouts"] = 0;
  json["saturated"] = s.saturated, json["saturated_why"] = s.saturated_why;
  if (s.stopped_early || s.slo_impossible)
    json["stopped_early"] = s.stopped_early ? "asked to stop" : "the SLO could not be met any more";
  json["confidence"] = nullptr;
  json["workload"] = workload_of(run, workload, s.virtual_s);
  json["sim"] = {{"virtual_s", s.virtual_s},
                 {"wall_s", wall_s},
                 {"iterations", s.iterations},
                 {"events", s.events},
                 {"requests_per_wall_s", per(static_cast<double>(s.completed), wall_s)},
                 {"peak_rss_bytes", host::peak_rss_bytes()}};
  json["journal_hash"] = hex(s.journal_hash);
  json["seed"] = options.seed;
  json["version"] = ORRERY_VERSION;
  Json& by = json["by"];
  by["model"] = groups_by_model(run, machines);
  by["pool"] = groups_by_pool(run, machines);
  by["tenant"] = groups_by_name(run, run.recorder().by_tenant(), run.workload().tenants());
  by["app"] = groups_by_name(run, run.recorder().by_app(), run.workload().apps());
  by["hour"] = groups_by_hour(run);
  return s;
}

}  // namespace orrery::sim
