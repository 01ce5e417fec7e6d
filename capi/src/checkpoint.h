#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "capi/src/context.h"
#include "capi/src/handle.h"
#include "engine/trainer/checkpoint_source.h"
#include "plait/plait.h"

/// A checkpoint or a Hugging Face directory that is open.
struct plait_checkpoint final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kCheckpoint;
  plait_checkpoint(plait::Ref<plait_context> context, std::string path,
                   std::unique_ptr<const plait::CheckpointSource> source)
      : Handle(kKind),
        context(std::move(context)),
        path(std::move(path)),
        source(std::move(source)) {}

  const plait::Ref<plait_context> context;
  const std::string path;
  const std::unique_ptr<const plait::CheckpointSource> source;
  /// A whole entry: of the file itself, or read.
  struct Shown {
    std::unique_ptr<plait::FileMapping> mapping;
    std::string values;
    const void* data() const { return mapping != nullptr ? mapping->data() : values.data(); }
  };
  // Guarded by the in-use word.
  std::map<const plait::SourceEntry*, Shown> shown;
  bool may_map = false;
};
