#include "runtime/base/latency_json.h"

#include <cstdint>
#include <string>

namespace orrery {

Json latency_json(const QuantileSketch& ns) {
  const std::int64_t n = ns.count();
  const auto known = [n](double value) { return n > 0 ? Json(value * 1e-6) : Json(nullptr); };
  const auto quantile = [&](double q) { return known(static_cast<double>(ns.quantile(q))); };
  Json json = {{"mean", known(ns.mean())},
               {"p50", quantile(0.50)},
               {"p90", quantile(0.90)},
               {"p95", quantile(0.95)},
               {"p99", quantile(0.99)},
               {"p99_9", quantile(0.999)},
               {"max", known(static_cast<double>(ns.max()))},
               {"count", n}};
  // The nearest rank of 0.99 n is the last one below 100 values.
  if (n > 0 && n < 100) json["note"] = "p99 is the maximum of " + std::to_string(n) + " values";
  return json;
}

}  // namespace orrery
