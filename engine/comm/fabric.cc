#include "engine/comm/fabric.h"

#include <string>
#include <utility>

#include "engine/comm/communicator.h"
#include "engine/comm/endpoint.h"

namespace plait {
namespace {

Error bad_head(const char* sentence, const MessageHead& head) {
  return Error("corrupt", sentence)
      .with("source", head.source)
      .with("destination", head.destination)
      .with("communicator", head.communicator)
      .with("lane", head.lane)
      .with("sequence", head.sequence)
      .with("bytes", head.bytes)
      .rank(head.source)
      .subsystem("comm");
}

}  // namespace

Fabric::Fabric(const Options& options, Clock& clock)
    : options_(options), clock_(clock), wait_limit_ms_(options.wait_limit_ms) {
  check(options.world >= 1 && options.first_rank >= 0 && options.local_ranks >= 1 &&
            options.first_rank + options.local_ranks <= options.world,
        "local ranks lie in the world");
  for (int64_t i = 0; i < options.local_ranks; ++i) {
    endpoints_.push_back(std::make_unique<Endpoint>(*this, options.first_rank + i));
  }
}

Fabric::~Fabric() { link_.reset(); }

Endpoint& Fabric::endpoint(int64_t rank) {
  check(is_local(rank), "an endpoint belongs to a local rank");
  return *endpoints_[static_cast<size_t>(rank - options_.first_rank)];
}

void Fabric::attach(std::unique_ptr<Link> link) {
  const std::lock_guard lock(abort_mutex_);
  link_ = std::move(link);
  if (is_aborted()) link_->stop();
}

void Fabric::abort(const Error& error) {
  std::function<void(const Error&)> on_abort;
  Link* link = nullptr;
  {
    const std::lock_guard lock(abort_mutex_);
    if (error_) return;
    error_ = error;
    on_abort = on_abort_;
    link = link_.get();
    is_aborted_.store(true);
  }
  if (link != nullptr) link->stop();
  for (const std::unique_ptr<Endpoint>& endpoint : endpoints_) endpoint->wake();
  if (on_abort) on_abort(error);
}

std::optional<Error> Fabric::abort_error() const {
  const std::lock_guard lock(abort_mutex_);
  return error_;
}

void Fabric::set_on_abort(std::function<void(const Error&)> on_abort) {
  const std::lock_guard lock(abort_mutex_);
  on_abort_ = std::move(on_abort);
}

void Fabric::set_wait_limit_ms(int64_t limit) { wait_limit_ms_.store(limit); }

bool Fabric::settle(int64_t timeout_ms) {
  const int64_t deadline_ns = clock_.now_ns() + timeout_ms * 1'000'000;
  bool is_settled = true;
  for (const std::unique_ptr<Endpoint>& endpoint : endpoints_) {
    is_settled = endpoint->settle(deadline_ns) && is_settled;
  }
  return is_settled;
}

void Fabric::throw_if_aborted() const {
  if (!is_aborted()) return;
  throw Error(*abort_error());
}

void* Fabric::place(const MessageHead& head) {
  if (head.epoch != options_.epoch) return nullptr;
  if (!is_local(head.destination) || is_local(head.source) || head.source < 0 ||
      head.source >= options_.world) {
    throw bad_head("a message has come to the wrong process", head);
  }
  if (head.lane >= static_cast<uint32_t>(kAllLanes) || head.bytes < 0) {
    throw bad_head("a message has no valid head", head);
  }
  Endpoint& endpoint = this->endpoint(head.destination);
  Inbound& inbound = endpoint.inbound(head.source, head.communicator, head.lane);
  if (inbound.is_full()) {
    throw bad_head("a message has come before the one in front of it was released", head);
  }
  return endpoint.reserve(inbound.memory, head.bytes);
}

void Fabric::deliver(const MessageHead& head) {
  Endpoint& endpoint = this->endpoint(head.destination);
  Inbound& inbound = endpoint.inbound(head.source, head.communicator, head.lane);
  endpoint.deliver(inbound, head, inbound.memory.data(), true);
}

void Fabric::wake(int64_t rank) { endpoint(rank).wake(); }

}  // namespace plait
