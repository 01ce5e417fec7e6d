#include <algorithm>

#include "engine/comm/communicator.h"
#include "engine/comm/communicator_state.h"
#include "engine/comm/endpoint.h"
#include "engine/comm/ordered_sum.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr uint32_t kFirst = static_cast<uint32_t>(Lane::kCollective);

/// Parts up to here are waited for together: to wake for each would take longer than to copy it.
constexpr int64_t kWakeBytes = 64 << 10;

/// Whether an all-reduce has all members add whole buffers: one exchange instead of two, for more
/// bytes. The same on all members.
bool is_direct(int64_t bytes, int64_t members) {
  return bytes <= 1024 || bytes * (members - 1) <= 16384;
}

bool is_summable(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

}  // namespace

void Communicator::all_reduce(TensorView buffer) {
  start_all_reduce(buffer);
  finish();
}

void Communicator::all_reduce_max(TensorView buffer) {
  check(buffer.dtype == DType::kFloat32, "maxima over ranks are of float32");
  start_reduce(buffer, true);
  finish();
}

void Communicator::reduce_scatter(TensorView from, TensorView to) {
  start_reduce_scatter(from, to);
  finish();
}

void Communicator::all_gather(TensorView from, TensorView to) {
  start_all_gather(from, to);
  finish();
}

void Communicator::all_gather_bytes(const void* from, int64_t bytes, void* to) {
  start_all_gather({const_cast<void*>(from), DType::kUInt8, {bytes}},
                   {to, DType::kUInt8, {bytes * size()}});
  finish();
}

void Communicator::broadcast_bytes(void* data, int64_t bytes, int64_t root) {
  broadcast({data, DType::kUInt8, {bytes}}, root);
}

void Communicator::broadcast(TensorView buffer, int64_t root) {
  check(root >= 0 && root < size(), "the root of a broadcast is a member");
  Call call;
  call.kind = CollectiveKind::kBroadcast;
  call.way = Way::kBroadcast;
  call.dtype = buffer.dtype;
  call.total = buffer.bytes();
  call.key.micro = root;
  call.from = call.to = buffer.as<char>();
  start(call);
  finish();
}

void Communicator::barrier() {
  start({});
  finish();
}

void Communicator::start_all_reduce(TensorView buffer) { start_reduce(buffer, false); }

void Communicator::start_reduce(TensorView buffer, bool is_maximum) {
  check(is_summable(buffer.dtype), "sums over ranks are of float32, bfloat16 or float16");
  Call call;
  call.kind = CollectiveKind::kAllReduce;
  call.way = is_direct(buffer.bytes(), size()) ? Way::kDirectReduce : Way::kOwnerReduce;
  call.is_maximum = is_maximum;
  call.dtype = buffer.dtype;
  call.total = buffer.bytes();
  call.from = call.to = buffer.as<char>();
  start(call);
}

void Communicator::start_reduce_scatter(TensorView from, TensorView to) {
  check(is_summable(from.dtype), "sums over ranks are of float32, bfloat16 or float16");
  check(from.dtype == to.dtype && from.elements() == size() * to.elements(),
        "what is scattered has one part for each member");
  Call call;
  call.kind = CollectiveKind::kReduceScatter;
  call.way = Way::kScatterReduce;
  call.dtype = from.dtype;
  call.total = from.bytes();
  call.from = from.as<char>();
  call.to = to.as<char>();
  start(call);
}

void Communicator::start_all_gather(TensorView from, TensorView to) {
  check(from.dtype == to.dtype && to.elements() == size() * from.elements(),
        "what is gathered has one part from each member");
  Call call;
  call.kind = CollectiveKind::kAllGather;
  call.way = Way::kGather;
  call.dtype = from.dtype;
  call.total = to.bytes();
  call.from = from.as<char>();
  call.to = to.as<char>();
  start(call);
}

void Communicator::start(Call call) {
  check(!is_open_, "one collective of a group is open at a time");
  call.name = call.is_maximum ? "all_reduce_max" : collective_name(call.kind);
  call.sequence = sequence_++;
  if (size() > 1) {
    record(call);
    post_first(call);
  }
  call_ = call;
  is_open_ = true;
}

void Communicator::post_first(const Call& call) {
  if (call.way == Way::kBroadcast && index_ != call.key.micro) return;
  wait_sent(call, first_out_);  // for all at once
  for (int64_t i = 1; i < size(); ++i) {
    Part part{call.from, call.total};
    switch (call.way) {
      case Way::kGather:
        part.bytes = call.total / size();
        break;
      case Way::kOwnerReduce:
      case Way::kScatterReduce:
        part = slice(call, other(i));
        break;
      default:
        break;
    }
    post_part(call, kFirst, other(i), part);
  }
}

void Communicator::finish() {
  check(is_open_, "a collective is finished that was not started");
  is_open_ = false;
  const Call call = call_;
  if (size() == 1) return copy(call.to, call.from, call.total);
  switch (call.way) {
    case Way::kGather:
      finish_gather(call);
      break;
    case Way::kDirectReduce:
      finish_direct_reduce(call);
      break;
    case Way::kOwnerReduce:
      finish_owner_reduce(call);
      break;
    case Way::kScatterReduce:
      finish_scatter_reduce(call);
      break;
    case Way::kBroadcast:
      finish_broadcast(call);
      break;
    case Way::kBarrier:
    case Way::kMessage:
      take_all(call, 0);
      release_all();
      break;
  }
  end_record(call);
}

Communicator::Part Communicator::slice(const Call& call, int64_t member) const {
  const int64_t element = dtype_size(call.dtype);
  const int64_t elements = call.total / element;
  const int64_t first = elements * member / size();
  const int64_t last = elements * (member + 1) / size();
  return {call.from + first * element, (last - first) * element};
}

void Communicator::take_all(const Call& call, int64_t bytes) {
  endpoint_.wait_full(first_in_, purpose_of(call));
  for (int64_t i = 1; i < size(); ++i) {
    parts_[static_cast<size_t>(other(i))] = take_part(call, kFirst, other(i), bytes);
  }
}

void Communicator::release_all() {
  for (Inbound* from : first_in_) endpoint_.release(*from);
}

void Communicator::combine(const Call& call, int64_t bytes, size_t copies) {
  OrderedParts in;
  in.parts = parts_.data();
  in.members = size();
  in.targets = targets_.data();
  in.copies = static_cast<int64_t>(copies);
  in.elements = bytes / dtype_size(call.dtype);
  in.dtype = call.dtype;
  if (call.is_maximum) {
    ordered_maximum(in, pool_);
  } else {
    in.order = order_;
    ordered_sum(in, pool_);
  }
}

void Communicator::finish_gather(const Call& call) {
  const int64_t bytes = call.total / size();
  copy(call.to + index_ * bytes, call.from, bytes);
  if (bytes <= kWakeBytes) endpoint_.wait_full(first_in_, purpose_of(call));
  for (int64_t i = 1; i < size(); ++i) {
    const int64_t member = other(i);
    copy(call.to + member * bytes, take_part(call, kFirst, member, bytes), bytes);
    endpoint_.release(*peers_[static_cast<size_t>(member)].inbound[kFirst]);
  }
  if (!is_copied(call, bytes)) wait_sent(call, first_out_);
}

void Communicator::finish_direct_reduce(const Call& call) {
  take_all(call, call.total);
  parts_[static_cast<size_t>(index_)] = call.from;
  targets_[0] = call.to;
  combine(call, call.total, 1);
  release_all();
}

void Communicator::finish_scatter_reduce(const Call& call) {
  const Part own = slice(call, index_);
  take_all(call, own.bytes);
  parts_[static_cast<size_t>(index_)] = own.data;
  targets_[0] = call.to;
  combine(call, own.bytes, 1);
  release_all();
  if (!is_copied(call, own.bytes)) wait_sent(call, first_out_);
}

// The owner of a slice adds it up and writes the sum into the buffers of all members of its process
// while it is in the cache; to the others it sends a second message.
void Communicator::finish_owner_reduce(const Call& call) {
  const Part own = slice(call, index_);
  take_all(call, own.bytes);
  parts_[static_cast<size_t>(index_)] = own.data;
  size_t copies = 0;
  targets_[copies++] = own.data;
  for (int64_t i = 1; i < size(); ++i) {
    const auto member = static_cast<size_t>(other(i));
    if (peers_[member].is_local) targets_[copies++] = const_cast<char*>(parts_[member]);
  }
  combine(call, own.bytes, copies);
  release_all();
  for (int64_t i = 1; i < size(); ++i) {
    if (peers_[static_cast<size_t>(other(i))].is_local) {
      count_sent(call, own.bytes);
    } else {
      post_part(call, kSecondLane, other(i), own);
    }
  }
  wait_sent(call, first_out_);  // a member of this process has then written its sum as well
  for (int64_t i = 1; i < size(); ++i) {
    const int64_t member = other(i);
    const Peer& peer = peers_[static_cast<size_t>(member)];
    if (peer.is_local) continue;
    const Part part = slice(call, member);
    copy(part.data, take_part(call, kSecondLane, member, part.bytes), part.bytes);
    endpoint_.release(*peer.inbound[kSecondLane]);
  }
  wait_sent(call, second_out_);
}

void Communicator::finish_broadcast(const Call& call) {
  const int64_t root = call.key.micro;
  if (index_ == root) {
    if (!is_copied(call, call.total)) wait_sent(call, first_out_);
    return;
  }
  copy(call.to, take_part(call, kFirst, root, call.total), call.total);
  endpoint_.release(*peers_[static_cast<size_t>(root)].inbound[kFirst]);
}

}  // namespace plait
