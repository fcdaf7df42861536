// How a format turns one line into one request. A new importer is a RowParser and one line in the
// table of formats.cpp; order, duplicates, bad rows and reports are the reader's work.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "traces/trace.h"

namespace orrery::traces {

// Counts by kind, in order of first sight, with the first line and what stood there.
class ProblemList {
 public:
  void add(std::string_view kind, std::int64_t line, std::string_view example,
           std::int64_t count = 1);
  const std::vector<RowProblem>& list() const { return list_; }

 private:
  std::vector<RowProblem> list_;
};

class RowParser {
 public:
  enum class Verdict : std::uint8_t { kGood, kBad, kSkip };
  virtual ~RowParser() = default;

  // Reads one non-blank line into `request` (cleared before; `row` and `arrival` are the reader's)
  // and `timestamp`, in nanoseconds: since 1970 when wall_clock(), else since the file's zero.
  // kBad has been added to problems(); kSkip is a line that is no row (a header).
  virtual Verdict parse(std::string_view line, std::int64_t number, TraceRequest& request,
                        std::int64_t& timestamp) = 0;
  virtual std::string timestamp_unit() const = 0;
  virtual bool wall_clock() const { return false; }
  virtual bool from_first_row() const { return true; }  // arrival 0 is the first request
  virtual std::string start() const { return {}; }      // of arrival 0, when a header tells it
  virtual bool delta_turns() const { return false; }    // a header says that rows hold new tokens

  // The slow twin only, for tests: every line takes the general path.
  void force_slow() { slow_only_ = true; }
  const ProblemList& problems() const { return problems_; }
  const ProblemList& oddities() const { return oddities_; }

 protected:
  Verdict bad(std::string_view kind, std::int64_t line, std::string_view example) {
    problems_.add(kind, line, example);
    return Verdict::kBad;
  }
  void odd(std::string_view kind, std::int64_t line, std::string_view example) {
    oddities_.add(kind, line, example);
  }
  bool slow_only_ = false;

 private:
  ProblemList problems_, oddities_;
};

// The first non-blank line, and the file's name for messages.
struct Probe {
  std::string_view line;
  std::string_view file;
};

struct Format {
  const char* name;
  const char* looks_like;  // for "expected": what its first line holds
  bool (*detect)(const Probe&);
  std::unique_ptr<RowParser> (*make)(const Probe&, const ReadOptions&);
};
const std::vector<Format>& formats();
// By content, or by options.format. Throws InputError that tells what was seen and what is known.
const Format& detect_format(const Probe& probe, const ReadOptions& options);

// --- What importers share -------------------------------------------------------------------

// nullptr, or the kind of problem. "374" and "374.0" are counts; the limit of 10^8 catches columns
// that were mixed up.
const char* read_count(std::string_view text, std::int64_t& value);

// A numeric timestamp's unit. Throws InputError for a name that is none of auto, s, ms, us, ns.
struct TimeUnit {
  int power;  // nanoseconds are value * 10^power
  const char* name;
};
TimeUnit time_unit(const ReadOptions& options, const char* when_auto);

// Checks that hold for every format, after the fields are in. nullptr, or the kind of problem.
const char* check_request(TraceRequest& request);

bool detect_azure(const Probe& probe);
bool detect_burstgpt(const Probe& probe);
bool detect_mooncake(const Probe& probe);
bool detect_orrery(const Probe& probe);
std::unique_ptr<RowParser> make_azure(const Probe& probe, const ReadOptions& options);
std::unique_ptr<RowParser> make_burstgpt(const Probe& probe, const ReadOptions& options);
std::unique_ptr<RowParser> make_mooncake(const Probe& probe, const ReadOptions& options);
std::unique_ptr<RowParser> make_orrery(const Probe& probe, const ReadOptions& options);

}  // namespace orrery::traces
