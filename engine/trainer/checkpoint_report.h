// What checkpoints say of themselves, as JSON.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/hf_directory.h"
#include "checkpoint/store/step_reader.h"

namespace plait {

/// `skipped`: what stood before it in its root and could not be read.
std::string step_report(const StepReader& reader, const std::vector<SkippedStep>& skipped);

std::string hugging_face_report(const std::string& path, const HfDirectory& directory);

}  // namespace plait
