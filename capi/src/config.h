#pragma once

#include "capi/src/context.h"
#include "capi/src/handle.h"
#include "engine/config/config.h"
#include "plait/plait.h"

struct plait_config final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kConfig;
  explicit plait_config(plait::Ref<plait_context> context)
      : Handle(kKind), context(std::move(context)) {}

  const plait::Ref<plait_context> context;
  plait::Config value;  ///< guarded by the in-use word
};

namespace plait {

/// A copy of the host's configuration; defaults for null where that is allowed.
inline Config copy_config(const plait_config* config, const char* parameter) {
  return Held<plait_config>(config, parameter, Use::kShared)->value;
}
inline Config copy_config_or_default(const plait_config* config, const char* parameter) {
  return config == nullptr ? Config() : copy_config(config, parameter);
}

}  // namespace plait
