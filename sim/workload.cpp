#include "sim/workload.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

#include "runtime/base/check.h"
#include "runtime/base/errors.h"
#include "traces/read_report.h"

namespace orrery::sim {
namespace {

// Rows looked at before deciding whether the trace has sessions and is kept whole.
constexpr std::size_t kLookAhead = 256;
// An instance's clock counts picoseconds in 63 bits: 106 days.
constexpr std::int64_t kLongestRunSeconds = 100LL * 86400;

InputError spec_error(std::string field, std::string found, std::string expected) {
  return InputError({"workload", 0, std::move(field)}, std::move(found), std::move(expected));
}

void check_spec(const WorkloadSpec& spec) {
  if (!spec.open) throw spec_error("trace", "nothing", "a trace or a synth spec");
  if (!(spec.rate_scale > 0) || !std::isfinite(spec.rate_scale))
    throw spec_error("rate_scale", std::to_string(spec.rate_scale), "a number above 0");
  if (spec.idle_gap_cap && spec.idle_gap_cap->value() <= 0)
    throw spec_error("idle_gap_cap_s", "a cap that is not above 0", "seconds above 0");
  if (spec.mode == LoadMode::kClosed && spec.concurrency < 1)
    throw spec_error("concurrency", std::to_string(spec.concurrency),
                     "the number of clients of a closed loop, at least 1");
  if (spec.mode == LoadMode::kSessions && spec.concurrency != 0)
    throw spec_error("concurrency", std::to_string(spec.concurrency), "none in mode \"sessions\"");
  if (spec.prefix_hit_rate && !(*spec.prefix_hit_rate >= 0 && *spec.prefix_hit_rate <= 1))
    throw spec_error("prefix_hit_rate", std::to_string(*spec.prefix_hit_rate),
                     "a share from 0 to 1");
  if (spec.max_requests && *spec.max_requests < 1)
    throw spec_error("max_requests", std::to_string(*spec.max_requests), "at least 1");
}

}  // namespace

WorkloadSpec trace_workload(const std::string& path, const traces::ReadOptions& options) {
  WorkloadSpec spec;
  spec.time_unit_confirmed = options.time_unit != "auto";
  spec.open = [path, options]() -> std::unique_ptr<traces::RequestSource> {
    return traces::open_trace(path, options);
  };
  spec.description = path.substr(path.rfind('/') + 1);
  return spec;
}

std::uint32_t Names::intern(const std::string& name) {
  if (name.empty() && !names_.empty()) return 0;
  const auto [at, added] = index_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
  if (added) names_.push_back(name);
  return at->second;
}

Workload::Workload(const WorkloadSpec& spec) : spec_(spec) {
  check_spec(spec_);
  source_ = spec_.open();
  bounded_ = spec_.mode == LoadMode::kClosed || spec_.concurrency > 0;
  for (std::int64_t i = 0; i < spec_.concurrency; ++i) free_since_.push_back(Time(0));
  if (spec_.mode == LoadMode::kSessions) {
    load_all();
    return;
  }
  std::vector<std::string> ids, afters;
  bool sessions = false;
  Row row;
  while (ahead_.size() < kLookAhead && read_row(row)) {
    sessions = sessions || row.session != 0;
    ahead_.push_back(std::move(row));
  }
  if (sessions) load_all();
}

Time Workload::scaled_arrival(Duration arrival) {
  if (!first_arrival_) {
    first_arrival_ = last_arrival_ = arrival;
  }
  Duration gap = std::max(arrival - *last_arrival_, Duration(0));
  raw_span_ += gap;
  if (spec_.idle_gap_cap && gap > *spec_.idle_gap_cap) {
    idle_.idle += gap, idle_.idle_left += *spec_.idle_gap_cap;
    gap = *spec_.idle_gap_cap;
  }
  capped_span_ += gap;
  last_arrival_ = std::max(arrival, *last_arrival_);
  const Duration at = *first_arrival_ + capped_span_;
  if (spec_.rate_scale == 1) return Time(at.value());
  return Time(static_cast<std::int64_t>(
      std::floor(static_cast<double>(at.value()) / spec_.rate_scale + 0.5)));
}

// False: a row that is not simulated (counted by why).
bool Workload::fill(Row& row, const traces::TraceRequest& r) {
  if (!r.ok) return ++trace_failures_, false;
  if (r.output_tokens < 1) return ++skipped_kinds_[r.kind.empty() ? "no output" : r.kind], false;
  row.arrival = scaled_arrival(r.arrival);
  if (row.arrival.ns() > kLongestRunSeconds * 1'000'000'000)
    throw spec_error("trace",
                     "a request after " + std::to_string(row.arrival.ns() / 1'000'000'000) + " s",
                     "a run of at most 100 days (use idle_gap_cap_s or rate_scale)");
  row.input_tokens = r.input_tokens, row.output_tokens = r.output_tokens;
  row.max_tokens = r.max_tokens.value_or(0);
  row.model = models_.intern(r.model), row.tenant = tenants_.intern(r.tenant);
  row.app = apps_.intern(r.app), row.session = sessions_.intern(r.session);
  row.priority = r.priority, row.deadline = r.deadline.value_or(Duration(0));
  row.history_tokens = r.history_tokens, row.hash_block_tokens = r.block_tokens;
  row.hash_ids.clear();
  if (r.block_tokens > 0) row.hash_ids = r.hash_ids;
  row.next_turn = row.first_child = row.next_child = 0;
  row.think = r.think.value_or(Duration(-1));
  has_hash_ids_ = has_hash_ids_ || !row.hash_ids.empty();
  has_history_ = has_history_ || row.history_tokens > 0;
  if (spec_.prefix_hit_rate && has_prefix_data())
    throw spec_error("prefix_hit_rate",
                     std::string("a trace that says what its prompts share (") +
                         (has_hash_ids_ ? "hash_ids" : "history_tokens") + " in row " +
                         std::to_string(r.row + 1) + ")",
                     "no rate with such a trace");
  return true;
}

bool Workload::read_row(Row& row) {
  if (!source_) return false;
  while (!spec_.max_requests || rows_read_ < *spec_.max_requests) {
    if (!source_->next(scratch_)) {
      read_to_end_ = true;
      break;
    }
    if (!fill(row, scratch_)) continue;
    row.id = static_cast<std::uint64_t>(++rows_read_);
    return true;
  }
  report_ = read_report();
  source_.reset();
  return false;
}

std::optional<traces::ReadReport> Workload::read_report() const {
  const auto* file = dynamic_cast<const traces::TraceFile*>(source_.get());
  return file != nullptr ? std::optional(file->report()) : report_;
}

std::vector<std::string> Workload::warnings() const {
  std::vector<std::string> list;
  // A closed loop does not look at arrival times, and made-up rates are meant.
  if (spec_.mode == LoadMode::kClosed || spec_.time_unit_confirmed || !read_report()) return list;
  const std::string odd = traces::implausible_rate(rows_read_, raw_span_);
  if (!odd.empty()) list.push_back(odd);
  return list;
}

// Keeps the whole trace, and links each turn to the one before it.
void Workload::load_all() {
  kept_ = true;
  ahead_.clear();
  // Anew from the start: ids and `after` are needed as well.
  models_ = tenants_ = apps_ = sessions_ = Names();
  rows_read_ = trace_failures_ = 0;
  skipped_kinds_.clear();
  first_arrival_ = last_arrival_ = std::nullopt;
  raw_span_ = capped_span_ = Duration(0);
  idle_ = {}, read_to_end_ = false;
  source_ = spec_.open();
  std::vector<std::string> ids, afters;
  Row row;
  while (read_row(row)) {
    ids.push_back(scratch_.id.empty() ? std::to_string(scratch_.row) : scratch_.id);
    afters.push_back(scratch_.after);
    rows_.push_back(std::move(row));
    row = Row();
  }
  link_turns(ids, afters);
}

void Workload::link_turns(const std::vector<std::string>& ids,
                          const std::vector<std::string>& afters) {
  std::unordered_map<std::string, std::uint32_t> by_id;
  std::vector<std::uint32_t> last_of_session(sessions_.size(), 0);
  std::vector<std::uint32_t> last_child(rows_.size() + 1, 0);
  waits_.assign(rows_.size(), false);
  for (std::uint32_t i = 0; i < rows_.size(); ++i) {
    Row& row = rows_[i];
    std::uint32_t before = row.session != 0 ? last_of_session[row.session] : 0;
    if (row.session != 0) last_of_session[row.session] = i + 1;
    if (!afters[i].empty()) {
      const auto found = by_id.find(afters[i]);
      // A failed request of the trace is no row here: its turn goes on as if it were the first.
      before = found != by_id.end() ? found->second : 0;
    }
    by_id.emplace(ids[i], i + 1);
    if (before == 0) continue;
    Row& earlier = rows_[before - 1];
    if (earlier.next_turn == 0) earlier.next_turn = i + 1;
    if (spec_.mode != LoadMode::kSessions) continue;
    waits_[i] = true;
    if (row.think.value() < 0) row.think = row.arrival - earlier.arrival;
    std::uint32_t& last = last_child[before];
    (last == 0 ? earlier.first_child : rows_[last - 1].next_child) = i + 1;
    last = i + 1;
  }
  while (cursor_ < rows_.size() && waits_[cursor_]) ++cursor_;
}

Time Workload::next_time() const {
  const bool more = kept_ ? cursor_ < rows_.size() : !ahead_.empty();
  Time at = Time::never();
  if (more) {
    at = spec_.mode == LoadMode::kClosed ? Time(0)
                                         : (kept_ ? rows_[cursor_] : ahead_.front()).arrival;
    if (bounded_) {
      if (free_since_.empty()) return Time::never();
      at = std::max(at, free_since_.front());
    }
  }
  return released_.empty() ? at : std::min(at, released_.front().first);
}

Row Workload::pop() {
  const Time at = next_time();
  ORRERY_CHECK(at != Time::never());
  const bool root = kept_ ? cursor_ < rows_.size() : true;
  const bool from_heap =
      !released_.empty() && (!root || std::pair(released_.front()) <
                                          std::pair(rows_[cursor_].arrival, rows_[cursor_].id));
  Row row;
  if (from_heap) {
    row = rows_[released_.front().second - 1];
    row.arrival = at;
    std::pop_heap(released_.begin(), released_.end(), std::greater<>());
    released_.pop_back();
    return row;
  }
  if (kept_) {
    row = rows_[cursor_++];
    while (cursor_ < rows_.size() && waits_[cursor_]) ++cursor_;
  } else {
    row = std::move(ahead_.front());
    ahead_.pop_front();
    Row next;
    if (ahead_.empty() && read_row(next)) ahead_.push_back(std::move(next));
  }
  if (spec_.mode == LoadMode::kClosed) row.arrival = at;
  if (bounded_) {
    free_since_.pop_front();
    send_delay_.add((at - row.arrival).value());
  }
  return row;
}

// All turns that hang on this one, near and far, in row order.
std::vector<const Row*> Workload::turns_after(const Row& row) const {
  std::vector<const Row*> turns;
  std::vector<std::uint32_t> open{row.first_child};
  while (!open.empty()) {
    std::uint32_t child = open.back();
    open.pop_back();
    for (; child != 0; child = rows_[child - 1].next_child) {
      turns.push_back(&rows_[child - 1]);
      open.push_back(rows_[child - 1].first_child);
    }
  }
  std::sort(turns.begin(), turns.end(), [](const Row* a, const Row* b) { return a->id < b->id; });
  return turns;
}

std::vector<const Row*> Workload::on_end(const Row& row, Time now, bool answered) {
  if (bounded_) free_since_.push_back(now + Duration(1));
  if (row.first_child == 0) return {};
  if (!answered) return turns_after(row);
  for (std::uint32_t child = row.first_child; child != 0; child = rows_[child - 1].next_child) {
    const Row& next = rows_[child - 1];
    released_.emplace_back(now + std::max(next.think, Duration(1)), next.id);
    std::push_heap(released_.begin(), released_.end(), std::greater<>());
  }
  return {};
}

}  // namespace orrery::sim
