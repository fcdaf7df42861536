// Workload: turns a trace into the requests that clients send, in time order.
//   open      a request is sent at its arrival time, whatever became of those before it. With a
//             cap on requests in flight it may be sent later; latency still counts from the
//             arrival time it was meant for, and the run is no longer open loop (it says so).
//   closed    N clients, each sends its next request when its last answer is complete.
//   sessions  a turn is sent a think time after the answer before it.
// Times: idle gaps are capped first (in trace time), then arrivals are divided by the rate scale.
// Think times are the users' own and are never scaled.
// Law: an answer at time t causes no arrival before t + 1 ns, so all arrivals of a moment are
// known before the completions of that moment are handled.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/sketch.h"
#include "runtime/base/units.h"
#include "sim/simulate.h"
#include "traces/trace.h"
#include "traces/transform.h"

namespace orrery::sim {

// A trace file as a workload: open loop, as it is.
WorkloadSpec trace_workload(const std::string& path, const traces::ReadOptions& options = {});

// Names as small numbers; 0 is the empty name.
class Names {
 public:
  Names() { intern(""); }
  std::uint32_t intern(const std::string& name);
  const std::string& name(std::uint32_t index) const { return names_[index]; }
  std::size_t size() const { return names_.size(); }

 private:
  std::unordered_map<std::string, std::uint32_t> index_;
  std::vector<std::string> names_;
};

// One request of a client. Compact: a trace with sessions is kept whole.
struct Row {
  std::uint64_t id = 0;  // 1, 2, 3, … in trace order
  Time arrival;          // when it is meant to arrive
  std::int64_t input_tokens = 1, output_tokens = 1;
  std::int64_t max_tokens = 0;  // 0: not given
  std::uint32_t model = 0, tenant = 0, app = 0, session = 0;
  std::int32_t priority = 0;
  Duration deadline{0};  // 0: none
  Duration think{0};
  std::int64_t history_tokens = 0, hash_block_tokens = 0;
  std::vector<std::uint64_t> hash_ids;
  // Turns, in rows that are kept: 1-based indices, 0: none.
  std::uint32_t next_turn = 0;                    // of the same session
  std::uint32_t first_child = 0, next_child = 0;  // rows waiting for this one's answer
};

class Workload {
 public:
  // Throws InputError for a specification or a trace that cannot run.
  explicit Workload(const WorkloadSpec& spec);

  Time next_time() const;  // of the next request sent; never() when none is known now
  // Takes it. Its intended arrival is row.arrival; it is sent at the next_time() of before.
  Row pop();
  // The request ended. Returns the rows that will now never be sent (turns after one that was not
  // answered), in row order.
  std::vector<const Row*> on_end(const Row& row, Time now, bool answered);
  // The next turn of a row's session where it is known ahead, else null.
  const Row* next_turn(const Row& row) const {
    return row.next_turn == 0 ? nullptr : &rows_[row.next_turn - 1];
  }

  const Names& models() const { return models_; }
  const Names& tenants() const { return tenants_; }
  const Names& apps() const { return apps_; }
  const Names& sessions() const { return sessions_; }
  bool has_sessions() const { return sessions_.size() > 1; }

  bool has_prefix_data() const { return has_hash_ids_ || has_history_; }
  std::optional<double> prefix_hit_rate() const { return spec_.prefix_hit_rate; }

  // What the reader of a trace file found in what was read; nullopt for other workloads.
  std::optional<traces::ReadReport> read_report() const;
  bool read_to_end() const { return read_to_end_; }
  std::vector<std::string> warnings() const;

  std::int64_t trace_failures() const { return trace_failures_; }
  const std::map<std::string, std::int64_t>& skipped_kinds() const { return skipped_kinds_; }
  // Trace time between the first and the last arrival read, before and after capping idle gaps.
  Duration raw_span() const { return raw_span_; }
  Duration capped_span() const { return capped_span_; }
  // Of the time in gaps above the cap, the share that the cap took away (as `trace convert` says).
  double idle_removed_share() const { return idle_.idle_removed_share(); }
  const QuantileSketch& send_delay() const { return send_delay_; }

 private:
  bool read_row(Row& row);
  bool fill(Row& row, const traces::TraceRequest& request);
  Time scaled_arrival(Duration arrival);
  void load_all();
  void link_turns(const std::vector<std::string>& ids, const std::vector<std::string>& afters);
  std::vector<const Row*> turns_after(const Row& row) const;

  WorkloadSpec spec_;
  std::unique_ptr<traces::RequestSource> source_;
  traces::TraceRequest scratch_;
  Names models_, tenants_, apps_, sessions_;
  std::int64_t rows_read_ = 0, trace_failures_ = 0;
  bool has_hash_ids_ = false, has_history_ = false, read_to_end_ = false;
  std::optional<traces::ReadReport> report_;  // once the source is closed
  std::map<std::string, std::int64_t> skipped_kinds_;
  std::optional<Duration> first_arrival_, last_arrival_;
  Duration raw_span_, capped_span_;
  traces::TransformReport idle_;
  QuantileSketch send_delay_;

  // Streamed rows: a short look-ahead. Kept rows: all of them, `cursor_` is the next root.
  std::deque<Row> ahead_;
  bool kept_ = false;
  std::vector<Row> rows_;
  std::vector<bool> waits_;  // of kept rows: sent after another's answer
  std::size_t cursor_ = 0;
  std::vector<std::pair<Time, std::uint64_t>> released_;  // min-heap of (time, row id)
  // Closed loop and capped open loop: moments from which a client is free, in order.
  std::deque<Time> free_since_;
  bool bounded_ = false;
};

}  // namespace orrery::sim
