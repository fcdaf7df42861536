// Settings that a worker runs the embedded model with unless told otherwise. `orrery calibrate`
// measures under them and writes them into the profile, so planner and worker agree.
#pragma once
#include "runtime/policy/instance.h"

namespace orrery::engine {

policy::InstanceSettings default_embedded_settings();

}  // namespace orrery::engine
