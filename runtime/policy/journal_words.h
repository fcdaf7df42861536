// Words of the brain's journal records, written and read. Readers throw InputError (file "journal")
// for a record that is cut short or holds what no writer would write.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/policy/instance.h"
#include "runtime/policy/router/router.h"

namespace orrery::policy {

using Words = std::vector<std::uint64_t>;

// Takes words one after the other from a record whose seal was checked and cut off.
class WordReader {
 public:
  explicit WordReader(std::span<const std::uint64_t> words) : words_(words) {}
  std::uint64_t next();
  std::int64_t next_signed() { return static_cast<std::int64_t>(next()); }
  // A count of things of which at least one word each follows.
  std::size_t next_count();
  std::string next_text();
  void expect_end() const;

 private:
  std::span<const std::uint64_t> words_;
  std::size_t at_ = 0;
};

void append_header(Words& words, const InstanceSettings& settings);
InstanceSettings read_instance_header(WordReader& words);
void append_submit(Words& words, const Request& request, Time now, const SubmitResult& result);
struct Submitted {
  Request request;
  Time now;
};
Submitted read_submit(WordReader& words);  // not the answer, which is taken again

struct RunRecord {
  std::uint64_t flags = 0;
  std::int64_t repetitions = 0;
  Time now;
  std::vector<StepFinish> finishes;
  std::vector<BlockHash> hashes;
};
RunRecord read_run(WordReader& words);

void append_header(Words& words, const RouterSettings& settings);
RouterSettings read_router_header(WordReader& words);
// Block hashes are written only for a policy that reads them.
void append_route(Words& words, const RouteRequest& request, bool with_hashes, Time now,
                  const RouteResult& result);
struct Routed {
  RouteRequest request;  // its hashes are in `hashes`
  std::vector<BlockHash> hashes;
  Time now;
};
Routed read_route(WordReader& words);

}  // namespace orrery::policy
