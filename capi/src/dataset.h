#pragma once

#include <memory>

#include "capi/src/context.h"
#include "capi/src/handle.h"
#include "engine/data/sampler.h"
#include "plait/plait.h"

struct plait_dataset final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kDataset;
  plait_dataset(plait::Ref<plait_context> context, std::shared_ptr<const plait::Dataset> value)
      : Handle(kKind), context(std::move(context)), value(std::move(value)) {}

  const plait::Ref<plait_context> context;
  const std::shared_ptr<const plait::Dataset> value;
};
