#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
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
  /// A free during a call ends that call.
  void on_free() {
    if (is_in_use()) end_waits();
  }
  /// A call in which processes meet, or a measurement, returns ABORTED. A complete group waits in
  /// no other call.
  void end_waits() {
    if (!world->is_complete()) {
      world->abort(plait::Error("aborted", "the meeting was ended by its host").subsystem("capi"));
    } else if (is_measuring.load()) {
      is_measure_ended.store(true);
      world->end_exchange(plait::ExchangeStream::kCalls);
    }
  }

  const plait::Ref<plait_context> context;
  const plait::Config config;
  std::unique_ptr<plait::World> world;
  std::atomic<bool> has_engine{false};  ///< one engine at a time
  std::atomic<bool> is_measuring{false}, is_measure_ended{false};
};

/// Where kv.get puts its answer.
struct plait_reply final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kReply;
  plait_reply() : Handle(kKind) {}
  std::string value;
  bool is_set = false;
};
