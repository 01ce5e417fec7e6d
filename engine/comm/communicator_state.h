// Private to the sources of Communicator.
#pragma once

#include "engine/comm/communicator.h"
#include "engine/comm/endpoint.h"

namespace plait {

/// A wait within a call of a group.
struct Communicator::Purpose : WaitPurpose {
  Purpose(Communicator& own_group, const Call& own_call)
      : WaitPurpose(own_group.name_.c_str(), own_call.name, own_call.sequence,
                    &own_group.counts_[static_cast<size_t>(own_call.kind)].wait_ns),
        group(own_group),
        call(own_call) {}
  void look() const override { group.look_for_others(call); }

  const Communicator& group;
  const Call& call;
};

}  // namespace plait
