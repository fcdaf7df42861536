// Backlog: requests in the system over time, in a bounded number of bins, and the rule that says
// whether an open-loop run was saturated. Stated once, here:
//
// Let T be the time of the last arrival and L_q the residence in quarter q of [0, T] by Little's
// law: request-seconds in the system during the quarter over arrivals in it. Saturated when
//  (A) L_2 < L_3 < L_4 and L_4 - L_2 exceeds 2 % of T/2: requests stay longer and longer, as they
//      do when more arrives than is done (at an overload of x, L grows by x each second); or
//  (B) the arrivals of the last quarter waited on average more than 10 % of the whole run before
//      they were first scheduled (a burst that was never worked off while arrivals lasted).
// (A) needs answers shorter than T/4 on an idle replica, and 20 arrivals a quarter; else only (B)
// is used. A closed loop adapts to the fleet and is never saturated in this sense.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "runtime/base/units.h"

namespace orrery::sim {

class Backlog {
 public:
  void arrived(Time at);  // times of arrived() and ended() never decrease
  void ended(Time at);    // also of a request that was turned away
  void scheduled(Time arrival, Duration waited);
  // Length of an answer on an idle replica, for some of the requests.
  void add_alone(Duration length);

  struct Verdict {
    bool saturated = false;
    std::string why;
  };
  // `end`: of the run. Arrival times in between must not be added after this.
  Verdict judge(Time end);
  // Request-seconds over arrivals in each quarter of the arrivals, in seconds.
  std::array<double, 4> residence_by_quarter() const;

 private:
  static constexpr int kBins = 256;
  struct Bin {
    std::int64_t arrivals = 0, waits = 0;
    __int128 request_ns = 0, waited_ns = 0;
  };
  int bin_of(Time at);
  void advance(Time to);

  std::array<Bin, kBins> bins_{};
  std::int64_t width_ns_ = 1 << 20;
  Time now_, last_arrival_;
  std::int64_t in_system_ = 0;
  __int128 alone_ns_ = 0;
  std::int64_t alone_count_ = 0;
};

}  // namespace orrery::sim
