// Rules between keys: what one configuration can say wrong about itself, found without a device.
//
// Every rule throws `argument` whose fields are the keys concerned with their values, and what they
// had to satisfy. Rules that touch a key left to the planner (`auto`) are skipped until it is
// filled in. Named options that no build has yet are `not_built`.
#pragma once

#include <cstdint>
#include <string>

#include "engine/config/config.h"
#include "engine/config/settings.h"

namespace plait {

/// All rules, in the order of the table's groups; throws at the first that fails.
void check(const Config& config);

/// Rules of one group each, for callers that have no complete configuration (a data set, say).
void check_model(const Config& config);
void check_layout(const Config& config);
void check_precision(const Config& config);
void check_optimizer(const Config& config);
void check_train(const Config& config);
void check_data(const Config& config);
void check_system(const Config& config);  ///< timeouts, generation, checkpoints

/// Number of weights of the model; throws `argument` when they are more than 2⁶⁰.
int64_t count_parameters(const ModelConfig& model);

}  // namespace plait
