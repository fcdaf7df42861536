// FleetRun: one run of the twin. One virtual clock; arrivals from the workload, one pending event a
// replica. At equal time: arrivals, then completions, then kicks, each in the order of their ids.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/host/journal_file.h"
#include "runtime/policy/router/router.h"
#include "sim/backlog.h"
#include "sim/event_queue.h"
#include "sim/prefix.h"
#include "sim/recorder.h"
#include "sim/replica.h"
#include "sim/simulate.h"
#include "sim/workload.h"

namespace orrery::sim {

// Requests that were not answered, by why, with the first as an example.
struct Refusals {
  std::int64_t count = 0;
  std::uint64_t first_id = 0;
  Tokens needed, available;  // of a request that never fits
};

class FleetRun {
 public:
  FleetRun(const FleetSpec& fleet, const WorkloadSpec& workload, const Slo& slo,
           const RunOptions& options);
  void run();

  // After run().
  const FleetSpec& fleet() const { return fleet_; }
  const Workload& workload() const { return workload_; }
  const Recorder& recorder() const { return recorder_; }
  const std::vector<Replica>& replicas() const { return replicas_; }
  std::uint32_t pool_of(std::size_t replica) const { return pool_of_[replica]; }
  const std::vector<TokenGaps>& gaps() const { return gaps_; }  // by pool
  const std::vector<std::string>& models() const { return model_names_; }
  const std::map<std::string, Refusals>& refusals() const { return refusals_; }
  Backlog& backlog() { return backlog_; }
  Time end() const { return now_; }
  std::int64_t unfinished() const { return static_cast<std::int64_t>(live_.size()); }
  std::int64_t events() const { return events_; }
  std::uint64_t journal_hash() const { return journal_hash_; }
  bool stopped_early() const { return stopped_early_; }
  bool slo_impossible() const { return slo_impossible_; }
  std::vector<std::int64_t> gaps_over() const;
  std::int64_t gap_count() const;

 private:
  struct Capacity {  // of the pools that serve a model, in increasing order of tokens
    Tokens tokens;
    Blocks blocks;
    Tokens block_tokens;
  };

  void build_replicas();
  void open_journals();
  void write_manifest() const;
  void finish();
  bool give_up();
  void arrive(Time now);
  void complete(std::uint32_t index, Time now);
  void start(std::uint32_t index);
  void refuse(Live& live, std::uint32_t model, policy::RejectReason reason,
              const policy::SubmitResult& sizes, Time now);
  void cancel_turns(const Row& row, std::uint32_t model, Time now);
  std::uint32_t model_of(const Row& row) const;
  std::int64_t max_tokens_of(const Row& row, std::uint32_t model) const;
  void tell(const Live& live, std::uint32_t model, std::string_view status, std::string_view reason,
            const Answer* answer, std::int64_t instance, Time end) const;
  void count_whole_workload();

  FleetSpec fleet_;
  WorkloadSpec workload_spec_;
  RunOptions options_;
  Workload workload_;
  Recorder recorder_;
  PrefixHashes prefix_;
  policy::Router router_;
  LiveTable live_;
  ReplicaContext context_;
  std::vector<TokenGaps> gaps_;
  std::vector<Replica> replicas_;
  std::vector<std::uint32_t> pool_of_;
  ReplicaEvents events_queue_;
  std::vector<std::string> model_names_;
  std::vector<std::vector<Capacity>> capacity_;  // by model
  mutable std::vector<std::uint32_t> model_by_name_;
  std::map<std::string, Refusals> refusals_;
  Backlog backlog_;
  std::vector<std::unique_ptr<host::JournalFileWriter>> journal_files_;
  Time now_;
  std::int64_t events_ = 0;
  std::int64_t whole_requests_ = 0, whole_gaps_ = 0;  // of the workload, when giving up is allowed
  std::uint64_t journal_hash_ = 0;
  bool stopped_early_ = false, slo_impossible_ = false;
};

}  // namespace orrery::sim
