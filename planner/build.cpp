#include "planner/build.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/hash.h"
#include "runtime/policy/settings.h"
#include "sim/pool_builder.h"

namespace orrery::planner {
namespace {

std::vector<int> sizes_to_try(const PlanRequest& request, double gpu_count) {
  if (!request.tp.empty()) return request.tp;
  std::vector<int> sizes;
  for (int n = 1; n <= gpu_count; n *= 2) sizes.push_back(n);
  if (sizes.empty()) sizes.push_back(1);
  return sizes;
}

void enumerate_type(const PlanRequest& request, const InstanceChoice& choice,
                    const sim::Catalog& catalog, Candidates& out) {
  const double gpus = catalog.instance(choice.type).gpu_count;
  for (const int tp : sizes_to_try(request, gpus)) {
    sim::ReplicaChoice wanted;
    wanted.model = request.model;
    wanted.precision = request.precision;
    wanted.kv_precision = request.kv_precision;
    wanted.instance_type = choice.type;
    wanted.tp = tp;
    wanted.usd_per_instance_hour = choice.usd_per_hour;
    wanted.settings = request.settings;
    const sim::ReplicaPlan replica = sim::plan_replica(catalog, wanted);
    if (!replica.why_not.empty()) {
      out.rejected.push_back({choice.type, tp, replica.why_not_kind, replica.why_not});
      continue;
    }
    if (!replica.usd_per_instance_hour) {
      out.rejected.push_back({choice.type, tp, "no_price",
                              "its price is not known: give usd_per_hour with the type in "
                              "constraints.instance_types"});
      continue;
    }
    Candidate candidate;
    candidate.instance_type = choice.type;
    candidate.tp = tp;
    candidate.replicas_per_instance = replica.per_instance;
    candidate.max_instances = choice.max_instances;
    candidate.usd_per_instance_hour = *replica.usd_per_instance_hour;
    candidate.pool = replica.pool;
    out.able.push_back(std::move(candidate));
  }
}

std::uint64_t hash_row(std::uint64_t h, const traces::TraceRequest& r) {
  h = hash_combine(h, static_cast<std::uint64_t>(r.arrival.value()));
  h = hash_combine(h, static_cast<std::uint64_t>(r.input_tokens));
  h = hash_combine(h, static_cast<std::uint64_t>(r.output_tokens));
  for (const std::uint64_t id : r.hash_ids) h = hash_combine(h, id);
  return h;
}

// A summary's figures, in the shape that all results share, without what is not a figure of the
// fleet (how the run was made stands in "repeat") and without the breakdowns.
Json predicted_of(const sim::Summary& summary) {
  Json out;
  for (const auto& [key, value] : summary.json.items()) {
    if (key != "by" && key != "sim" && key != "seed" && key != "version" && key != "workload")
      out[key] = value;
  }
  return out;
}

// A fingerprint of the step times that the plan rests on: a profile that says otherwise shows.
std::uint64_t hash_of(const cost::StepModel& model) {
  std::uint64_t h = 0;
  for (std::int64_t tokens = 1; tokens <= 4096; tokens *= 4) {
    cost::StepShape shape;
    shape.tokens = shape.sequences = shape.sampled = shape.decode_sequences = tokens;
    shape.decode_context = 500 * tokens;
    const cost::StepTime decode = model.time(shape);
    h = hash_combine(h, static_cast<std::uint64_t>(decode.fixed_ps));
    h = hash_combine(h, static_cast<std::uint64_t>(decode.per_context_ps));
    shape.decode_sequences = shape.decode_context = 0;
    shape.sequences = shape.sampled = 1;
    shape.prefill_tokens = shape.prefill_context = tokens;
    shape.prefill_pairs = tokens * (tokens + 1) / 2;
    h = hash_combine(h, static_cast<std::uint64_t>(model.time(shape).fixed_ps));
  }
  return h;
}

// The requests as if the first half of each prompt (in whole blocks) were one prefix they share.
std::vector<traces::TraceRequest> half_shared(const std::vector<traces::TraceRequest>& requests) {
  constexpr std::int64_t kBlock = 16;
  std::vector<traces::TraceRequest> out = requests;
  std::uint64_t own = std::uint64_t{1} << 32;  // ids below are the shared prefix's
  for (traces::TraceRequest& r : out) {
    r.block_tokens = kBlock;
    const std::int64_t blocks = (r.input_tokens + kBlock - 1) / kBlock;
    for (std::int64_t b = 0; b < blocks; ++b)
      r.hash_ids.push_back(b < blocks / 2 ? static_cast<std::uint64_t>(b) + 1 : ++own);
  }
  return out;
}

Json read_report(const traces::ReadReport& report) {
  Json bad = Json::object(), odd = Json::object();
  for (const traces::RowProblem& p : report.problems)
    bad[p.kind] = Json{{"count", p.count}, {"first_line", p.first_line}};
  for (const traces::RowProblem& p : report.oddities)
    odd[p.kind] = Json{{"count", p.count}, {"first_line", p.first_line}};
  return Json{{"format", report.format},
              {"rows", report.rows},
              {"bad", report.bad},
              {"bad_by_kind", std::move(bad)},
              {"handled", std::move(odd)}};
}

Json rejected_json(const std::vector<Rejection>& rejected) {
  Json list = Json::array();
  for (const Rejection& r : rejected)
    list.push_back(
        {{"instance_type", r.instance_type}, {"tp", r.tp}, {"kind", r.kind}, {"reason", r.reason}});
  return list;
}

Json sized_json(const Sized& s) {
  Json trials = Json::array();
  for (const Trial& t : s.trials) {
    Json one{{"replicas", t.replicas}, {"met", t.met}};
    if (!t.met) one["missed"] = t.missed;
    trials.push_back(std::move(one));
  }
  return Json{{"instance_type", s.candidate.instance_type},
              {"tp", s.candidate.tp},
              {"replicas", s.replicas},
              {"instances", s.candidate.instances_for(s.replicas)},
              {"usd_per_hour", s.usd_per_hour},
              {"bound_replicas", s.bound},
              {"one_replica_less", s.binds},
              {"predicted", predicted_of(s.summary)},
              {"trials", std::move(trials)}};
}

PlanPool pool_of(const Sized& best, const PlanRequest& request) {
  PlanPool pool;
  pool.model = request.model;
  pool.instance_type = best.candidate.instance_type;
  pool.tp = best.candidate.tp;
  pool.replicas = static_cast<int>(best.replicas);
  pool.usd_per_hour = best.usd_per_hour;
  pool.settings = policy::to_json(best.candidate.pool.settings);
  return pool;
}

}  // namespace

Candidates enumerate(const PlanRequest& request, const sim::Catalog& catalog) {
  Candidates out;
  for (const InstanceChoice& choice : request.instance_types)
    enumerate_type(request, choice, catalog, out);
  return out;
}

SplitTrace load_trace(const PlanRequest& request) {
  SplitTrace out;
  out.name = request.trace;
  std::vector<traces::TraceRequest> all;
  const auto file = traces::open_trace(request.trace, request.reading);
  traces::TraceRequest row;
  while (file->next(row)) {
    if (request.max_requests && static_cast<std::int64_t>(all.size()) >= *request.max_requests)
      break;
    out.hash = hash_row(out.hash, row);
    out.has_prefix_data = out.has_prefix_data || !row.hash_ids.empty() || row.history_tokens > 0;
    all.push_back(row);
  }
  out.report = file->report();
  if (all.empty()) throw InputError({request.trace, 0, ""}, "no usable request", "at least one");
  if (request.rate_scale != 1) {
    for (traces::TraceRequest& r : all)
      r.arrival = Duration(
          static_cast<std::int64_t>(static_cast<double>(r.arrival.value()) / request.rate_scale));
  }
  // Cut by time, not by rows: the later part is what a clock would show.
  const double end = to_seconds(all.back().arrival), start = to_seconds(all.front().arrival);
  const double cut = start + (end - start) * request.sizing_fraction;
  for (traces::TraceRequest& r : all) {
    const bool early = request.sizing_fraction >= 1 || to_seconds(r.arrival) <= cut;
    (early ? out.sizing : out.later).push_back(std::move(r));
  }
  if (!out.later.empty()) {
    const Duration shift = out.later.front().arrival;
    for (traces::TraceRequest& r : out.later) r.arrival = r.arrival - shift;
  }
  return out;
}

// One more run of the chosen fleet, with block ids made up for every request: not for huge traces.
constexpr std::size_t kMostForSensitivity = 200'000;

PlanOutcome make_plan(const PlanRequest& request, const sim::Catalog& catalog,
                      const SplitTrace& trace, const SearchOptions& options) {
  PlanOutcome out;
  const Candidates candidates = enumerate(request, catalog);
  const Demand demand = characterise(trace.sizing);
  out.search = search(candidates.able, demand, request, options);
  out.search.rejected.insert(out.search.rejected.begin(), candidates.rejected.begin(),
                             candidates.rejected.end());
  if (out.search.ranked.empty()) return out;

  const Sized& best = out.search.ranked.front();
  out.feasible = true;
  Plan& plan = out.plan;
  plan.pools = {pool_of(best, request)};
  plan.router_policy = request.router.policy;
  plan.predicted = predicted_of(best.summary);
  if (!trace.has_prefix_data && trace.sizing.size() <= kMostForSensitivity) {
    out.half_cached = try_fleet(best.candidate, best.replicas, half_shared(trace.sizing), request,
                                options, false);
    out.has_half_cached = true;
    plan.predicted["sensitivity"] =
        Json{{"note", "no prefix data in trace: every prompt token is computed"},
             {"half_of_each_prompt_cached", predicted_of(out.half_cached)}};
  }
  plan.slo = request.slo_json;
  plan.usd_per_hour = best.usd_per_hour;
  plan.alternatives = Json::array();
  for (const Sized& s : out.search.ranked) plan.alternatives.push_back(sized_json(s));
  plan.rejected = rejected_json(out.search.rejected);
  if (!trace.later.empty()) {
    out.has_later = true;
    out.later = try_fleet(best.candidate, best.replicas, trace.later, request, options, false);
    const sim::SloVerdict verdict = sim::judge(out.later, request.slo);
    plan.later = Json{{"requests", static_cast<std::int64_t>(trace.later.size())},
                      {"slo_met", verdict.met},
                      {"missed", verdict.missed},
                      {"predicted", predicted_of(out.later)}};
  }
  plan.repeat = Json{{"request", request.name},
                     {"model", request.model},
                     {"trace", trace.name},
                     {"trace_hash", trace.hash},
                     {"rate_scale", request.rate_scale},
                     {"sizing_fraction", request.sizing_fraction},
                     {"sized_on_requests", static_cast<std::int64_t>(trace.sizing.size())},
                     {"seed", options.seed},
                     {"version", ORRERY_VERSION},
                     {"trace_rows", read_report(trace.report)},
                     {"step_model", best.candidate.pool.step_model->source()},
                     {"step_model_hash", hash_of(*best.candidate.pool.step_model)},
                     {"bound_replicas", best.bound},
                     {"simulations", out.search.simulations}};
  return out;
}

}  // namespace orrery::planner
