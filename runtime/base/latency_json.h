// Latencies as every measured result shows them, the twin's and a client's alike: milliseconds,
// null where nothing was measured, and a note where the p99 is but the largest of a few values.
#pragma once
#include "runtime/base/json.h"
#include "runtime/base/sketch.h"

namespace orrery {

// {mean, p50, p90, p95, p99, p99_9, max, count, note?} of nanoseconds.
Json latency_json(const QuantileSketch& ns);

}  // namespace orrery
