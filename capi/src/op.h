// The handle of work that outlives its call, on a thread of its own or of an engine.
#pragma once

#include <memory>
#include <utility>

#include "capi/src/context.h"
#include "capi/src/handle.h"
#include "capi/src/thread.h"
#include "kernels/base/async_operation.h"
#include "plait/plait.h"

struct plait_op final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kOp;
  plait_op(const plait::Ref<plait_context>& context,
           std::shared_ptr<plait::AsyncOperation> operation)
      : Handle(kKind),
        context(context),
        operation(std::move(operation)),
        thread(context->env.clock) {}
  /// An operation that has ended leaves no thread behind; one that runs is let go.
  ~plait_op() { thread.finish(operation->wait(0) ? 1000 : 0); }

  const plait::Ref<plait_context> context;
  const std::shared_ptr<plait::AsyncOperation> operation;
  plait::LibraryThread thread;  ///< not started where an engine does the work
};

namespace plait {

/// Starts `body` on its own thread, which keeps the context alive. `name`: at most 15 characters.
std::unique_ptr<plait_op> start_op(const Ref<plait_context>& context, const char* name,
                                   AsyncOperation::Body body);

}  // namespace plait
