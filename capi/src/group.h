#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "capi/src/context.h"
#include "capi/src/handle.h"
#include "engine/comm/world.h"
#include "engine/config/config.h"
#include "plait/plait.h"

/// The ranks that this process drives.
struct plait_group final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kGroup;
  plait_group(plait::Ref<plait_context> context, plait::Config config)
      : Handle(kKind), context(std::move(context)), config(std::move(config)) {}

  const plait::Ref<plait_context> context;
  const plait::Config config;
  std::unique_ptr<plait::World> world;
  std::string card;                     ///< JSON
  std::atomic<bool> has_engine{false};  ///< one engine at a time
};

/// Where kv.get puts its answer.
struct plait_reply final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kReply;
  plait_reply() : Handle(kKind) {}
  std::string value;
  bool is_set = false;
};
