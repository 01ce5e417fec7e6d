// The rows of the key table by file; joined, in this order, by all_keys().
#pragma once

#include <span>

#include "engine/config/keys.h"

namespace plait {

std::span<const KeyInfo> model_keys();    ///< model.*, seed, device, devices, threads, isa
std::span<const KeyInfo> layout_keys();   ///< layout.*, precision.*
std::span<const KeyInfo> train_keys();    ///< optimizer.*, train.*, data.*
std::span<const KeyInfo> run_keys();      ///< run.*, evaluate.*, generate.*, checkpoint.*
std::span<const KeyInfo> system_keys();   ///< timeout.*, network.*, trace.*, tokenize.*, export.*
std::span<const KeyInfo> planner_keys();  ///< planner.*, hardware.*

}  // namespace plait
