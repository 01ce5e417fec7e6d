#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "capi/src/context.h"
#include "capi/src/handle.h"
#include "checkpoint/hf_directory.h"
#include "kernels/base/dtype.h"
#include "plait/plait.h"

/// A Hugging Face directory that is open.
struct plait_checkpoint final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kCheckpoint;
  plait_checkpoint(plait::Ref<plait_context> context, std::string path,
                   plait::HfDirectory directory)
      : Handle(kKind),
        context(std::move(context)),
        path(std::move(path)),
        directory(std::move(directory)) {
    for (const auto& tensor : this->directory.tensors()) entries.push_back(&tensor);
    std::sort(entries.begin(), entries.end(),
              [](const auto* a, const auto* b) { return a->name < b->name; });
  }

  const plait::Ref<plait_context> context;
  const std::string path;
  const plait::HfDirectory directory;
  std::vector<const plait::CheckpointTensor*> entries;  ///< by name, into `directory`
  std::map<std::string, std::string> mapped;  ///< tensors read so far; guarded by the in-use word
};

namespace plait {

/// What `path` holds; throws `no_file`, `no_checkpoint`, or `not_built` for a native checkpoint.
void check_is_hugging_face(Files& files, const std::string& path);

}  // namespace plait
