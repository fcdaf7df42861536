#include "planner/search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "runtime/base/check.h"

namespace orrery::planner {
namespace {

// Requests kept in memory, opened anew for every run.
class VectorSource : public traces::RequestSource {
 public:
  explicit VectorSource(const std::vector<traces::TraceRequest>& requests) : requests_(requests) {}
  bool next(traces::TraceRequest& request) override {
    if (at_ == requests_.size()) return false;
    request = requests_[at_++];
    return true;
  }

 private:
  const std::vector<traces::TraceRequest>& requests_;
  std::size_t at_ = 0;
};

std::string usd(double value) {
  const auto cents = static_cast<std::int64_t>(std::floor(value * 100 + 0.5));
  const std::string tail = std::to_string(cents % 100);
  return std::to_string(cents / 100) + "." + (tail.size() < 2 ? "0" : "") + tail;
}

// What came of one candidate.
struct Outcome {
  std::optional<Sized> sized;
  std::optional<Rejection> rejected;
  std::int64_t simulations = 0;
};

class Sizing {
 public:
  Sizing(const Candidate& candidate, const Demand& demand, const PlanRequest& request,
         const SearchOptions& options)
      : candidate_(candidate), demand_(demand), request_(request), options_(options) {}

  // Gallops upwards from the bound to the first number that passes, then bisects between the last
  // that failed and it, so that the answer's neighbour below was seen to fail.
  Outcome run() {
    bound_ = replica_bound(candidate_, demand_, request_.slo);
    const std::int64_t most = most_replicas();
    if (bound_ > most)
      return reject("over_limit", "needs at least " + std::to_string(bound_) +
                                      " replicas, allowed are " + std::to_string(most));
    std::int64_t low = bound_ - 1, high = 0, step = 1;  // low: fails (0 replicas serve nothing)
    for (std::int64_t n = bound_; high == 0;) {
      if (try_count(n)) {
        high = n;
      } else {
        low = n;
        if (stopped()) return stopped_early();
        if (never_helps_) return reject(never_kind_, never_helps_text_);
        if (n == most)
          return reject("slo_missed", "misses " + missed_ + " even with " + std::to_string(most) +
                                          " replicas, the most allowed");
        n = std::min(most, n + step);
        step *= 2;
      }
    }
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      if (try_count(middle))
        high = middle;
      else
        low = middle;
      if (stopped()) return stopped_early();
    }
    // The bound itself passed: show that one fewer fails.
    if (high == bound_ && bound_ > 1) {
      for (std::int64_t n = bound_ - 1; n >= 1 && try_count(n); --n) high = n;
      if (stopped()) return stopped_early();
    }
    return finish(high);
  }

 private:
  std::int64_t most_replicas() const {
    std::int64_t most = request_.max_replicas;
    if (candidate_.max_instances)
      most = std::min(most, *candidate_.max_instances * candidate_.replicas_per_instance);
    if (request_.max_usd_per_hour && candidate_.usd_per_instance_hour > 0) {
      const auto instances =
          static_cast<std::int64_t>(*request_.max_usd_per_hour / candidate_.usd_per_instance_hour);
      most = std::min(most, instances * candidate_.replicas_per_instance);
    }
    return most;
  }

  bool try_count(std::int64_t n) {
    if (options_.progress) options_.progress(candidate_.label() + " x " + std::to_string(n));
    sim::Summary summary = try_fleet(candidate_, n, demand_.requests, request_, options_, true);
    ++simulations_;
    const sim::SloVerdict verdict = sim::judge(summary, request_.slo);
    const bool met = verdict.met && !summary.slo_impossible && !summary.stopped_early;
    trials_.push_back({n, met, met ? "" : verdict.missed});
    if (met) {
      best_ = std::move(summary);
      best_n_ = n;
    } else {
      missed_ = verdict.missed.empty() ? "the SLO" : verdict.missed;
      failed_at_[n] = missed_;
      check_rejections(summary);
    }
    return met;
  }

  // Requests that no replica of this kind can hold fail at every count.
  void check_rejections(const sim::Summary& summary) {
    const auto it = summary.reject_reasons.find("never_fits");
    if (it == summary.reject_reasons.end() || it->second == 0 || request_.slo.goodput_fraction <= 0)
      return;
    const double share =
        1 - static_cast<double>(it->second) / static_cast<double>(demand_.requests.size());
    if (share >= request_.slo.goodput_fraction) return;
    never_helps_ = true;
    never_kind_ = "never_fits";
    never_helps_text_ =
        std::to_string(it->second) +
        " requests exceed the KV pool of one replica: goodput cannot reach the target at any count";
  }

  bool stopped() const { return options_.stop && options_.stop(); }
  Outcome stopped_early() {
    return reject("time_limit", "not finished when the search was stopped");
  }

  Outcome reject(const std::string& kind, const std::string& reason) const {
    return {std::nullopt, Rejection{candidate_.instance_type, candidate_.tp, kind, reason},
            simulations_};
  }

  Outcome finish(std::int64_t n) {
    ORRERY_CHECK(best_n_ >= n);
    if (best_n_ != n) try_count(n);
    Sized sized;
    sized.candidate = candidate_;
    sized.bound = bound_;
    sized.replicas = n;
    sized.summary = std::move(best_);
    sized.binds = n == 1 ? "one replica is enough" : failed_at_[n - 1];
    sized.trials = trials_;
    sized.usd_per_hour = candidate_.usd_per_hour(n);
    return {std::move(sized), std::nullopt, simulations_};
  }

  const Candidate& candidate_;
  const Demand& demand_;
  const PlanRequest& request_;
  const SearchOptions& options_;
  std::int64_t bound_ = 1, best_n_ = 0, simulations_ = 0;
  sim::Summary best_;
  std::vector<Trial> trials_;
  std::map<std::int64_t, std::string> failed_at_;
  std::string missed_, never_kind_, never_helps_text_;
  bool never_helps_ = false;
};

}  // namespace

sim::Summary try_fleet(const Candidate& candidate, std::int64_t replicas,
                       const std::vector<traces::TraceRequest>& requests,
                       const PlanRequest& request, const SearchOptions& options, bool give_up) {
  sim::FleetSpec fleet;
  fleet.pools = {candidate.pool};
  fleet.pools[0].replicas = static_cast<int>(replicas);
  fleet.pools[0].usd_per_hour_per_replica =
      candidate.usd_per_hour(replicas) / static_cast<double>(replicas);
  fleet.router = request.router;
  sim::WorkloadSpec workload;
  workload.open = [&requests] { return std::make_unique<VectorSource>(requests); };
  sim::RunOptions run;
  run.seed = options.seed;
  run.stop = options.stop;
  run.give_up_when_slo_impossible = give_up ? &request.slo : nullptr;
  return sim::simulate(fleet, workload, request.slo, run);
}

SearchResult search(const std::vector<Candidate>& candidates, const Demand& demand,
                    const PlanRequest& request, const SearchOptions& options) {
  SearchResult result;
  struct Entry {
    const Candidate* candidate;
    double least_usd;
  };
  std::vector<Entry> queue;
  for (const Candidate& c : candidates) {
    if (const auto floor = check_floors(c, demand, request.slo))
      result.rejected.push_back(*floor);
    else
      queue.push_back({&c, c.usd_per_hour(replica_bound(c, demand, request.slo))});
  }
  std::stable_sort(queue.begin(), queue.end(), [](const Entry& a, const Entry& b) {
    return a.least_usd != b.least_usd ? a.least_usd < b.least_usd
                                      : a.candidate->label() < b.candidate->label();
  });

  // Rounds of a fixed size, so that what is pruned does not depend on the number of threads.
  constexpr std::size_t kRound = 4;
  const int threads = options.threads > 0
                          ? options.threads
                          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  double best_usd = -1;
  for (std::size_t start = 0; start < queue.size();) {
    std::vector<const Candidate*> round;
    for (; start < queue.size() && round.size() < kRound; ++start) {
      const Entry& e = queue[start];
      if (best_usd >= 0 && e.least_usd > options.prune_factor * best_usd) {
        result.rejected.push_back({e.candidate->instance_type, e.candidate->tp, "dearer",
                                   "even the fewest replicas that can serve the tokens cost " +
                                       usd(e.least_usd) + " USD/h, the best found costs " +
                                       usd(best_usd)});
      } else {
        round.push_back(e.candidate);
      }
    }
    std::vector<Outcome> outcomes(round.size());
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t i = next++; i < round.size(); i = next++)
        outcomes[i] = Sizing(*round[i], demand, request, options).run();
    };
    std::vector<std::thread> pool;
    for (int t = 1; t < std::min<int>(threads, static_cast<int>(round.size())); ++t)
      pool.emplace_back(work);
    work();
    for (std::thread& t : pool) t.join();
    for (Outcome& o : outcomes) {
      result.simulations += o.simulations;
      if (o.sized) {
        if (best_usd < 0 || o.sized->usd_per_hour < best_usd) best_usd = o.sized->usd_per_hour;
        result.ranked.push_back(std::move(*o.sized));
      }
      if (o.rejected) result.rejected.push_back(*o.rejected);
    }
    result.stopped = result.stopped || (options.stop && options.stop());
  }
  std::stable_sort(result.ranked.begin(), result.ranked.end(), [](const Sized& a, const Sized& b) {
    if (a.usd_per_hour != b.usd_per_hour) return a.usd_per_hour < b.usd_per_hour;
    if (a.replicas != b.replicas) return a.replicas < b.replicas;
    return a.candidate.label() < b.candidate.label();
  });
  return result;
}

}  // namespace orrery::planner
