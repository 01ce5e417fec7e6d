// Writing what is open as a step in another layout, without an engine.
#pragma once

#include <string>

#include "engine/config/config.h"
#include "engine/trainer/checkpoint_source.h"
#include "kernels/base/async_operation.h"
#include "kernels/base/env.h"
#include "kernels/base/log.h"

namespace plait {

/// A new step of `root`, with the protocol of saves and one writer. Its shards are byte-equal to
/// those of a save from that layout. Of a step all but the keys layout.* comes from the step; of a
/// Hugging Face directory, whose weights become a step of weights alone, from `layout` too, and
/// `train.global_batch` is the smallest that fits where it is not given. Memory: what the largest
/// rank of the layout owns.
///
/// Throws `argument` for a layout that the model does not fit, `config_mismatch` for model keys
/// that contradict the directory, and what saves throw. JSON report: path, step, files, bytes.
std::string convert_checkpoint(Env& env, Log* log, const CheckpointSource& source,
                               const Config& layout, const std::string& root,
                               AsyncOperation& operation);

}  // namespace plait
