// The model keys of a configuration as the checkpoint room knows them.
#pragma once

#include "checkpoint/model_facts.h"
#include "engine/config/settings.h"

namespace plait {

ModelFacts model_facts(const ModelConfig& model);

}  // namespace plait
