// Settings that a worker runs the embedded model with unless told otherwise. `orrery calibrate`
// measures under them and writes them into the profile, so planner and worker agree.
#pragma once
#include "runtime/engine/model.h"
#include "runtime/policy/instance.h"

namespace orrery::engine {

policy::InstanceSettings default_embedded_settings();
// The same, within the model's own context.
policy::InstanceSettings default_settings(const ModelShape& shape);

}  // namespace orrery::engine
