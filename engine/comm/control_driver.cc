#include "engine/comm/control_driver.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr uint32_t kFrameLimit = 1u << 30;
constexpr int64_t kMs = 1'000'000;
constexpr int kMostFailures = 3;
constexpr std::chrono::seconds kLookAgain{1};

int64_t tick_of(const ControlOptions& options) {
  const int64_t shortest =
      std::min({options.heartbeat_ns / 4, options.frozen_ns / 8, options.settle_ns / 4, 100 * kMs});
  return std::max<int64_t>(shortest / kMs, 5);
}

}  // namespace

ControlDriver::ControlDriver(const ControlOptions& options, uint64_t epoch,
                             std::vector<std::unique_ptr<FrameChannel>> channels, Net& net,
                             Clock& clock, std::function<void(const Error&)> on_verdict)
    : options_(options),
      epoch_(epoch),
      tick_ms_(tick_of(options)),
      net_(net),
      clock_(clock),
      on_verdict_(std::move(on_verdict)),
      waker_(net.make_waker()),
      channels_(std::move(channels)),
      control_(options, clock.now_ns()) {
  for (const auto& channel : channels_) {
    if (channel != nullptr) channel->set_limit(kFrameLimit);
  }
}

void ControlDriver::stop() {
  is_stopping_.store(true, std::memory_order_release);
  waker_->wake();
  if (thread_.joinable()) thread_.join();
}

void ControlDriver::start(const std::vector<std::pair<size_t, Frame>>& early, ThreadHooks hooks) {
  for (const auto& [peer, frame] : early) {
    if (frame.epoch == epoch_) control_.received(peer, frame, clock_.now_ns());
  }
  thread_ = start_library_thread([this, hooks = std::move(hooks)] { run(hooks); });
}

void ControlDriver::run(const ThreadHooks& hooks) {
  constexpr char kName[] = "plait-control";
  enter_library_thread(kName, false);
  if (hooks.start) hooks.start(kName);
  int failures = 0;
  while (!is_stopping_.load(std::memory_order_acquire) && failures < kMostFailures) {
    try {
      turn();
    } catch (const Error& error) {
      ++failures;
      end(error);
    } catch (const std::exception&) {
      ++failures;
      end(Error("no_memory", "the control channel has no memory"));
    }
  }
  try {
    close_all();
  } catch (const std::exception&) {
    // The connections close all the same.
  }
  if (hooks.stop) hooks.stop();
}

void ControlDriver::turn() {
  wait();
  std::vector<Letter> letters;
  std::optional<Error> verdict;
  for (size_t peer = 0; peer < channels_.size(); ++peer) read(peer);
  {
    const std::lock_guard lock(mutex_);
    control_.time(clock_.now_ns());
    letters = control_.take_letters();
    for (const ExchangeStream stream : {ExchangeStream::kCalls, ExchangeStream::kSaves}) {
      std::optional<ExchangeResult> result = control_.take_result(stream);
      if (result) results_[static_cast<size_t>(stream)] = std::move(result);
    }
    if (!has_told_verdict_ && control_.verdict() != nullptr) verdict = *control_.verdict();
    changed_.notify_all();
  }
  deliver(std::move(letters));
  if (!verdict) return;
  has_told_verdict_ = true;
  if (on_verdict_) on_verdict_(*verdict);
}

void ControlDriver::wait() {
  interests_.clear();
  interests_.push_back({.waker = waker_.get()});
  for (const auto& channel : channels_) {
    if (channel == nullptr) continue;
    interests_.push_back(
        {.socket = channel->socket(), .wants_read = true, .wants_write = channel->wants_write()});
  }
  net_.wait(&interests_, tick_ms_);
}

void ControlDriver::read(size_t peer) {
  std::unique_ptr<FrameChannel>& channel = channels_[peer];
  if (channel == nullptr) return;
  bool is_any = false, is_closed = false;
  try {
    channel->flush();
    is_any = channel->fill();
    is_closed = channel->is_closed();
  } catch (const Error&) {
    is_closed = true;
  }
  Frame frame;
  const std::lock_guard lock(mutex_);
  const int64_t now = clock_.now_ns();
  if (is_any) control_.heard(peer, now);
  while (channel->next(&frame)) {
    if (frame.epoch == epoch_) {
      control_.received(peer, frame, now);
    } else {
      stale_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  const FrameFault fault = channel->fault();
  if (fault != FrameFault::kNone) {
    // The peer still hears why; nothing it says can be read any more.
    control_.garbled(peer, fault, now);
    const std::vector<Letter> letters = control_.take_letters();
    for (const Letter& letter : letters) {
      if (channels_[letter.peer] == nullptr) continue;
      channels_[letter.peer]->queue(letter.kind, epoch_, letter.body);
      channels_[letter.peer]->flush();
    }
  } else if (is_closed) {
    control_.closed(peer, now);
  } else {
    return;
  }
  if (fault != FrameFault::kNone) channel->socket()->shutdown();
  channel.reset();
}

void ControlDriver::deliver(std::vector<Letter> letters) {
  for (Letter& letter : letters) {
    FrameChannel* const channel = channels_[letter.peer].get();
    if (channel == nullptr) continue;
    const bool is_idle_beat = letter.kind == FrameKind::kHeartbeat && channel->wants_write();
    if (is_idle_beat) continue;  // what is under way shows as much
    channel->queue(letter.kind, epoch_, std::move(letter.body));
    channel->flush();
  }
}

void ControlDriver::end(const Error& error) {
  const std::lock_guard lock(mutex_);
  try {
    control_.abort(error, clock_.now_ns());
  } catch (const std::exception&) {
    // Tried again with the next failure; after the last one the calls end by `broken_`.
  }
  if (!broken_) broken_ = error;
  changed_.notify_all();
}

void ControlDriver::close_all() {
  std::vector<Letter> letters;
  {
    const std::lock_guard lock(mutex_);
    letters = control_.take_letters();
  }
  deliver(std::move(letters));
  for (const auto& channel : channels_) {
    if (channel == nullptr) continue;
    channel->socket()->shutdown();
    channel->fill();  // unread bytes would turn the end into a reset
  }
  channels_.clear();
}

std::vector<std::string> ControlDriver::exchange(const std::string& name, const std::string& value,
                                                 int64_t timeout_ms, ExchangeStream stream) {
  if (static_cast<int64_t>(value.size()) > Exchange::kMostBytes) {
    throw Error("too_large", "the value of an exchange is too large")
        .with("operation", name)
        .with("got", value.size())
        .with("limit", Exchange::kMostBytes);
  }
  std::unique_lock lock(mutex_);
  if (control_.verdict() != nullptr) throw *control_.verdict();
  if (broken_) throw *broken_;
  const int64_t now = clock_.now_ns();
  std::optional<ExchangeResult>& place = results_[static_cast<size_t>(stream)];
  place.reset();
  control_.begin_exchange(name, value, now + timeout_ms * kMs, now, stream);
  waker_->wake();
  while (!place && !broken_) changed_.wait_for(lock, kLookAgain);
  if (!place) throw *broken_;
  ExchangeResult result = std::move(*place);
  place.reset();
  if (result.error) throw *result.error;
  return std::move(result.values);
}

void ControlDriver::end_exchange(ExchangeStream stream) {
  {
    const std::lock_guard lock(mutex_);
    control_.hurry_exchange(stream, clock_.now_ns());
  }
  waker_->wake();
}

void ControlDriver::abort(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    control_.abort(error, clock_.now_ns());
  }
  waker_->wake();
}

void ControlDriver::leave(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  control_.leave(clock_.now_ns());
  waker_->wake();
  changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                    [&] { return control_.is_alone() || broken_; });
}

std::optional<Error> ControlDriver::verdict(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] {
    return !control_.is_aborting() || control_.verdict() != nullptr || broken_;
  });
  if (control_.verdict() != nullptr) return *control_.verdict();
  return broken_;
}

}  // namespace plait
