// Checkpoint folders. Layouts known: the Llama .bin file with its vocabulary file, stated in
// checkpoint.cpp. Others are told apart and refused with what they would need.
#pragma once
#include "runtime/engine/model.h"

namespace orrery::engine {

ModelCard load_checkpoint_card(const std::string& folder);
std::shared_ptr<const Weights> load_checkpoint_weights(const ModelCard& card);

}  // namespace orrery::engine
