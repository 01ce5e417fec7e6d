#include "engine/comm/communicator.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "engine/comm/communicator_state.h"
#include "engine/comm/endpoint.h"
#include "engine/comm/ordered_sum.h"
#include "kernels/base/error.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

/// Up to here a copy costs less than to wait until the peer has read the original.
constexpr int64_t kCopyBytes = 4096;

constexpr uint32_t kMaximumBit = 1u << 16;
constexpr uint32_t kDTypeShift = 20;

/// MessageHead::operation: kind, way, whether a maximum, dtype.
uint32_t operation_code(CollectiveKind kind, uint32_t way, bool is_maximum, DType dtype) {
  return static_cast<uint32_t>(kind) | way << 8 | (is_maximum ? kMaximumBit : 0u) |
         static_cast<uint32_t>(dtype) << kDTypeShift;
}

const char* operation_name(uint32_t code) {
  if ((code & kMaximumBit) != 0) return "all_reduce_max";
  const uint32_t kind = code & 0xFFu;
  return kind < kCollectiveKinds ? collective_name(static_cast<CollectiveKind>(kind)) : "unknown";
}

std::string head_row(int64_t rank, const MessageHead& head) {
  JsonObject row;
  row.field("rank", rank).field("operation", operation_name(head.operation));
  row.field("dtype", dtype_name(static_cast<DType>(head.operation >> kDTypeShift)));
  row.field("sequence", head.sequence).field("bytes", head.total);
  row.raw("key", JsonObject().field("micro", head.micro).field("stage", head.stage).text());
  return row.text();
}

}  // namespace

const char* collective_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kBarrier:
      return "barrier";
    case CollectiveKind::kSendReceive:
      break;
  }
  return "send_receive";
}

Communicator::Communicator(Endpoint& endpoint, std::string name, uint32_t id,
                           std::vector<int64_t> ranks, ThreadPool* pool, SumOrder order)
    : endpoint_(endpoint),
      name_(std::move(name)),
      id_(id),
      ranks_(std::move(ranks)),
      pool_(pool),
      order_(order),
      peers_(ranks_.size()),
      parts_(ranks_.size()),
      targets_(ranks_.size()) {
  const auto own = std::find(ranks_.begin(), ranks_.end(), endpoint.rank());
  check(own != ranks_.end(), "a rank is a member of its groups");
  index_ = own - ranks_.begin();
  for (int64_t i = 0; i < size(); ++i) {
    if (i == index_) continue;
    check(rank_of(i) != endpoint.rank(), "a rank is a member of a group once");
    Peer& peer = peers_[static_cast<size_t>(i)];
    peer.is_local = endpoint.fabric().is_local(rank_of(i));
    for (uint32_t lane = 0; lane < kAllLanes; ++lane) {
      peer.inbound[lane] = &endpoint.inbound(rank_of(i), id, lane);
      peer.outbound[lane] = &endpoint.outbound(rank_of(i), id, lane);
    }
  }
  for (int64_t turn = 1; turn < size(); ++turn) {
    const Peer& peer = peers_[static_cast<size_t>(other(turn))];
    first_in_.push_back(peer.inbound[static_cast<uint32_t>(Lane::kCollective)]);
    first_out_.push_back(peer.outbound[static_cast<uint32_t>(Lane::kCollective)]);
    second_out_.push_back(peer.outbound[kSecondLane]);
  }
}

Communicator::~Communicator() = default;

void Communicator::record(Call& call) {
  char name[OperationRecord::kNameBytes];
  std::snprintf(name, sizeof name, "%s %s", name_.c_str(), call.name);
  call.record = endpoint_.ring().begin(name, call.sequence, call.total, true, endpoint_.now_ns());
}

void Communicator::end_record(const Call& call) {
  endpoint_.ring().end(call.record, endpoint_.now_ns());
}

Communicator::Purpose Communicator::purpose_of(const Call& call) { return {*this, call}; }

MessageHead Communicator::head_of(const Call& call, uint32_t lane, int64_t bytes) const {
  MessageHead head;
  head.communicator = id_;
  head.lane = lane;
  head.operation =
      operation_code(call.kind, static_cast<uint32_t>(call.way), call.is_maximum, call.dtype);
  head.sequence = call.sequence;
  head.bytes = bytes;
  head.total = call.total;
  head.micro = call.key.micro;
  head.stage = call.key.stage;
  return head;
}

bool Communicator::is_copied(const Call& call, int64_t bytes) {
  switch (call.way) {
    case Way::kDirectReduce:
      return true;
    case Way::kOwnerReduce:  // the owner writes there
    case Way::kMessage:
      return false;
    default:
      return bytes <= kCopyBytes;
  }
}

void Communicator::post_part(const Call& call, uint32_t lane, int64_t peer, Part part) {
  Outbound& to = *peers_[static_cast<size_t>(peer)].outbound[lane];
  const MessageHead head = head_of(call, lane, part.bytes);
  if (is_copied(call, part.bytes)) {
    endpoint_.post_copy(to, head, part.data, purpose_of(call));
  } else {
    endpoint_.post(to, head, part.data, purpose_of(call));
  }
  count_sent(call, part.bytes);
}

void Communicator::count_sent(const Call& call, int64_t bytes) {
  Counts& counts = counts_[static_cast<size_t>(call.kind)];
  counts.bytes.fetch_add(bytes, std::memory_order_relaxed);
  counts.messages.fetch_add(1, std::memory_order_relaxed);
}

Traffic Communicator::traffic(CollectiveKind kind) const {
  const Counts& counts = counts_[static_cast<size_t>(kind)];
  return {counts.bytes.load(std::memory_order_relaxed),
          counts.messages.load(std::memory_order_relaxed),
          counts.wait_ns.load(std::memory_order_relaxed)};
}

const char* Communicator::take_part(const Call& call, uint32_t lane, int64_t peer, int64_t bytes) {
  Inbound& from = *peers_[static_cast<size_t>(peer)].inbound[lane];
  Inbound* const one = &from;
  endpoint_.wait_full({&one, 1}, purpose_of(call));
  expect(head_of(call, lane, bytes), from.head);
  return static_cast<const char*>(from.data);
}

void Communicator::expect(const MessageHead& want, const MessageHead& got) const {
  if (want.operation == got.operation && want.sequence == got.sequence && want.bytes == got.bytes &&
      want.total == got.total && want.micro == got.micro && want.stage == got.stage) {
    return;
  }
  JsonArray table;
  table.add(head_row(endpoint_.rank(), want)).add(head_row(got.source, got));
  throw Error("desync", "two ranks of a group call different operations")
      .with("communicator", name_)
      .with("rank", endpoint_.rank())
      .with("peer", got.source)
      .with_raw("calls", table.text())
      .rank(static_cast<int32_t>(endpoint_.rank()))
      .disposition(Disposition::kEngineLost)
      .subsystem("comm");
}

void Communicator::look_for_others(const Call& call) const {
  if (call.way == Way::kMessage) return;
  const auto lane = static_cast<uint32_t>(Lane::kCollective);
  for (const Peer& peer : peers_) {
    const Inbound* from = peer.inbound[lane];
    if (from == nullptr || !from->is_full()) continue;
    // A member that only received broadcasts may be ahead.
    if (from->head.sequence <= call.sequence) {
      expect(head_of(call, lane, from->head.bytes), from->head);
    }
  }
}

void Communicator::wait_sent(const Call& call, const std::vector<Outbound*>& to) {
  endpoint_.wait_sent(to, purpose_of(call));
}

void Communicator::copy(void* to, const void* from, int64_t bytes) {
  if (to != from) parallel_copy(to, from, bytes, pool_);
}

Communicator::Call Communicator::message_call(const char* name, uint64_t sequence, MessageKey key,
                                              int64_t bytes) const {
  Call call;
  call.kind = CollectiveKind::kSendReceive;
  call.way = Way::kMessage;
  call.name = name;
  call.sequence = sequence;
  call.total = bytes;
  call.key = key;
  return call;
}

Communicator::Peer& Communicator::peer_on(int64_t peer, Lane lane) {
  check(peer >= 0 && peer < size() && peer != index_ && lane != Lane::kCollective,
        "a message goes to another member on a lane of its own");
  return peers_[static_cast<size_t>(peer)];
}

void Communicator::send(int64_t peer, Lane lane, MessageKey key, TensorView from) {
  uint64_t& count = peer_on(peer, lane).sent[static_cast<size_t>(lane)];
  Call call = message_call("send", count, key, from.bytes());
  record(call);
  post_part(call, static_cast<uint32_t>(lane), peer, {from.as<char>(), from.bytes()});
  ++count;
  end_record(call);
}

void Communicator::wait_sent(int64_t peer, Lane lane) {
  const Peer& state = peer_on(peer, lane);
  const uint64_t count = state.sent[static_cast<size_t>(lane)];
  const Call call = message_call("send", count - (count > 0 ? 1 : 0), {}, 0);
  endpoint_.wait_sent({&state.outbound[static_cast<size_t>(lane)], 1}, purpose_of(call));
}

void Communicator::receive(int64_t peer, Lane lane, MessageKey key, TensorView to) {
  Peer& state = peer_on(peer, lane);
  uint64_t& count = state.received[static_cast<size_t>(lane)];
  Call call = message_call("receive", count, key, to.bytes());
  record(call);
  const char* data = take_part(call, static_cast<uint32_t>(lane), peer, to.bytes());
  copy(to.data, data, to.bytes());
  endpoint_.release(*state.inbound[static_cast<size_t>(lane)]);
  ++count;
  end_record(call);
}

}  // namespace plait
