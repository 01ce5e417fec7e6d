#pragma once

#include <memory>

#include "capi/src/context.h"
#include "capi/src/group.h"
#include "capi/src/handle.h"
#include "engine/trainer/engine.h"
#include "plait/plait.h"

struct plait_engine final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kEngine;
  /// `group` was marked as having an engine; the mark goes with this object.
  plait_engine(plait::Ref<plait_group> group, std::unique_ptr<plait::Engine> value)
      : Handle(kKind), group(std::move(group)), value(std::move(value)) {}
  ~plait_engine() {
    value.reset();
    group->has_engine.store(false);
  }
  /// A free during a call ends that call.
  void on_free() {
    if (is_in_use()) value->abort();
  }

  const plait::Ref<plait_group> group;
  std::unique_ptr<plait::Engine> value;
};
