#include "engine/comm/world.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/comm/card.h"
#include "engine/comm/control_driver.h"
#include "engine/comm/links.h"
#include "engine/comm/rendezvous_driver.h"

namespace plait {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kGetMs = 500;  // of one question to a store: an abort is seen in between
constexpr int64_t kProbeMs = 500;
constexpr int64_t kLongestSettleMs = 500, kShortestSettleMs = 100;

void check_ranks(const WorldOptions& options) {
  if (options.world >= 1 && options.local_ranks >= 1 && options.first_rank >= 0 &&
      options.local_ranks <= options.world &&
      options.first_rank <= options.world - options.local_ranks) {
    return;
  }
  throw Error("topology", "the ranks of this process do not lie within the world")
      .with("rank", options.first_rank)
      .with("local_ranks", options.local_ranks)
      .with("world", options.world)
      .subsystem("engine/comm");
}

/// Name and boot number of this machine: the same in all its processes, and in no others.
std::string host_id(Files& files, Net& net) {
  std::string boot;
  try {
    char text[64] = "";
    const std::unique_ptr<File> file = files.open_read("/proc/sys/kernel/random/boot_id");
    const int64_t bytes = file->pread(text, sizeof text, 0);
    boot.assign(text, static_cast<size_t>(bytes));
  } catch (const Error&) {
    // The name alone must do.
  }
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  return net.host_name() + "/" + boot;
}

WorldPeer peer_of(const Card& card) {
  return {card.first_rank, card.local_ranks, card.addresses.empty() ? "" : card.addresses[0],
          card.host, card.pid};
}

uint64_t epoch_of(const CardSet& cards) {
  uint64_t epoch = 0;
  for (const Card& card : cards.cards()) {
    epoch = XXH3_64bits_withSeed(&card.nonce, sizeof card.nonce, epoch);
  }
  return epoch;
}

class ProcessWorld final : public World {
 public:
  ProcessWorld(const WorldOptions& options, Env& env, Net& net)
      : options_(options), env_(env), net_(net), cards_(make_card()) {
    if (options_.local_ranks == options_.world) complete_alone();
  }
  ~ProcessWorld() override {
    if (control_ == nullptr) return;
    fabric_->set_on_abort({});
    control_->stop();  // its thread calls the fabric; a link's thread may still call it
  }

  std::string card() override {
    prepare();
    return encode_card(cards_.own());
  }
  void add_card(const std::string& card) override;
  void commit(int64_t timeout_ms) override {
    if (!is_complete()) meet(cards_, "", deadline_ns(timeout_ms));
  }
  void join_kv(KeyValueStore& store, int64_t timeout_ms) override;
  void join_tcp(const std::string& address, int64_t timeout_ms) override {
    if (is_complete()) return;
    prepare();
    meet(CardSet(cards_.own()), address, deadline_ns(timeout_ms));
  }

  bool is_complete() const override { return is_complete_.load(std::memory_order_acquire); }
  const WorldOptions& options() const override { return options_; }
  const std::vector<WorldPeer>& peers() const override { return peers_; }
  int64_t own_peer() const override { return own_peer_; }
  Fabric& fabric() override {
    check(fabric_ != nullptr, "the fabric of a world that is not complete");
    return *fabric_;
  }
  std::unique_ptr<Socket> take_data_socket(int64_t peer) override {
    return std::move(data_.at(static_cast<size_t>(peer)));
  }

  std::vector<std::string> exchange(const std::string& name, const std::string& value,
                                    int64_t timeout_ms, ExchangeStream stream) override;
  void end_exchange(ExchangeStream stream) override {
    if (control_ != nullptr) control_->end_exchange(stream);
  }
  void abort(const Error& error) override;
  std::optional<Error> verdict(int64_t timeout_ms) override {
    if (!is_complete()) return std::nullopt;
    return control_ == nullptr ? fabric_->abort_error() : control_->verdict(timeout_ms);
  }
  void leave(int64_t timeout_ms) override {
    if (control_ != nullptr) control_->leave(std::max<int64_t>(timeout_ms, 0));
  }
  int64_t dropped() const override {
    return dropped_ + (control_ == nullptr ? 0 : control_->stale_frames());
  }

 private:
  Card make_card();
  void prepare();
  void complete_alone();
  int64_t deadline_ns(int64_t timeout_ms) const;
  CardSet cards_from(KeyValueStore& store, int64_t deadline);
  std::vector<RankSpan> absent_from(KeyValueStore& store, const CardSet& found, int64_t rank);
  void meet(const CardSet& cards, const std::string& store, int64_t deadline);
  void complete(Rendezvous* meeting, Connections connections);
  void attach();
  void note_dropped(int64_t count);
  std::string key(int64_t rank) const {
    return "plait/" + std::to_string(options_.world) + "/card/" + std::to_string(rank);
  }
  [[noreturn]] void throw_aborted() const {
    throw Error("aborted", "the meeting was ended by its host").subsystem("engine/comm");
  }

  const WorldOptions options_;
  Env& env_;
  Net& net_;
  CardSet cards_;
  std::unique_ptr<Listener> listener_;
  std::mutex mutex_;  // guards waker_ against abort
  std::unique_ptr<Waker> waker_;
  std::atomic<bool> is_aborted_{false};  // by the host, and not yet seen by the call that meets
  std::atomic<bool> is_complete_{false};
  std::atomic<int64_t> dropped_{0};
  std::vector<WorldPeer> peers_;
  int64_t own_peer_ = 0;
  std::vector<std::unique_ptr<Socket>> data_;
  std::unique_ptr<Fabric> fabric_;
  std::shared_ptr<ControlDriver> control_;
};

Card ProcessWorld::make_card() {
  Card card;
  card.version = options_.version;
  card.world = options_.world;
  card.first_rank = options_.first_rank;
  card.local_ranks = options_.local_ranks;
  card.pid = net_.process_id();
  card.nonce = env_.entropy.next() | 1;
  card.host = host_id(env_.files, net_);
  return card;
}

void ProcessWorld::prepare() {
  if (is_complete() || listener_ != nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    if (waker_ == nullptr) waker_ = net_.make_waker();
  }
  std::unique_ptr<Listener> listener = net_.listen(":0");
  const std::string host = net_.host_address();
  const bool is_ipv6 = host.find(':') != std::string::npos;
  Card card = cards_.own();
  card.addresses = {(is_ipv6 ? "[" + host + "]" : host) + ":" +
                    split_address(listener->address()).port};
  cards_.add(card);
  listener_ = std::move(listener);
}

void ProcessWorld::complete_alone() {
  peers_ = {peer_of(cards_.own())};
  data_.resize(1);
  Fabric::Options options;
  options.world = options_.world;
  options.local_ranks = options_.local_ranks;
  options.may_spin = options_.may_spin;
  fabric_ = std::make_unique<Fabric>(options, env_.clock);
  is_complete_.store(true, std::memory_order_release);
}

void ProcessWorld::add_card(const std::string& card) {
  const Card decoded = decode_card(card);
  if (is_complete()) {
    if (cards_.find(decoded.nonce)) return;
    throw Error("topology", "the world is complete: no other card can be added")
        .with("rank", decoded.first_rank)
        .with("world", options_.world)
        .subsystem("engine/comm");
  }
  cards_.add(decoded);
}

int64_t ProcessWorld::deadline_ns(int64_t timeout_ms) const {
  const int64_t limit = timeout_ms > 0 ? std::min(timeout_ms, options_.init_ms) : options_.init_ms;
  return env_.clock.now_ns() + limit * kMs;
}

void ProcessWorld::join_kv(KeyValueStore& store, int64_t timeout_ms) {
  if (is_complete()) return;
  const int64_t deadline = deadline_ns(timeout_ms);
  prepare();
  const std::string own = encode_card(cards_.own());
  for (int64_t i = 0; i < options_.local_ranks; ++i) store.put(key(options_.first_rank + i), own);
  meet(cards_from(store, deadline), "", deadline);
}

CardSet ProcessWorld::cards_from(KeyValueStore& store, int64_t deadline) {
  CardSet found(cards_.own());
  for (int64_t rank = 0; rank < options_.world;) {
    if (rank == options_.first_rank) {
      rank += options_.local_ranks;
      continue;
    }
    std::string value;
    for (;;) {
      if (is_aborted_.exchange(false)) throw_aborted();
      const int64_t left = (deadline - env_.clock.now_ns()) / kMs;
      if (left <= 0) {
        throw missing_ranks("the store has no card of some ranks", absent_from(store, found, rank));
      }
      if (store.get(key(rank), std::min(left, kGetMs), &value)) break;
    }
    const Card card = decode_card(value);
    found.add(card);
    if (card.first_rank != rank) {
      throw Error("topology", "the store has another process's card in the place of a rank")
          .with("rank", rank)
          .with("got", card.first_rank)
          .subsystem("engine/comm");
    }
    rank = card.end_rank();
  }
  return found;
}

/// `rank` and those of the ranks above it that are not there either.
std::vector<RankSpan> ProcessWorld::absent_from(KeyValueStore& store, const CardSet& found,
                                                int64_t rank) {
  std::vector<RankSpan> absent = {{rank, 1}};
  const int64_t until = env_.clock.now_ns() + kProbeMs * kMs;
  for (int64_t next = rank + 1; next < options_.world; ++next) {
    std::string value;
    const bool is_own = next >= options_.first_rank && next < found.own().end_rank();
    if (is_own || (env_.clock.now_ns() < until && store.get(key(next), 1, &value))) continue;
    absent.push_back({next, 1});
  }
  return absent;
}

void ProcessWorld::meet(const CardSet& cards, const std::string& store, int64_t deadline) {
  prepare();
  std::unique_ptr<Listener> store_listener;
  if (!store.empty() && options_.first_rank == 0) store_listener = net_.listen(store);
  std::vector<Listener*> listeners = {listener_.get()};
  if (store_listener != nullptr) listeners.push_back(store_listener.get());
  Rendezvous meeting({options_.token, store, deadline, options_.control_ms * kMs}, cards,
                     env_.entropy, env_.clock.now_ns());
  RendezvousDriver driver(net_, env_.clock, std::move(listeners), *waker_, is_aborted_);
  Connections connections;
  try {
    connections = driver.run(&meeting);
  } catch (...) {
    note_dropped(meeting.dropped());
    throw;
  }
  note_dropped(meeting.dropped());
  if (is_aborted_.exchange(false)) throw_aborted();
  complete(&meeting, std::move(connections));
  attach();
}

/// All processes succeed or all fail; who fails has no world again.
void ProcessWorld::attach() {
  try {
    attach_link(*this, {env_.clock, net_});
  } catch (...) {
    is_complete_.store(false, std::memory_order_release);
    fabric_->set_on_abort({});
    control_->stop();  // its thread may hold the driver for as long as it tells the fabric
    control_.reset();
    fabric_.reset();
    data_.clear();
    peers_.clear();
    throw;
  }
}

void ProcessWorld::note_dropped(int64_t count) {
  if (count == 0) return;
  dropped_ += count;
  if (options_.log == nullptr) return;
  options_.log->write(LogLevel::kWarning, static_cast<int32_t>(options_.first_rank), "engine/comm",
                      "connections of strangers were dropped: " + std::to_string(count));
}

void ProcessWorld::complete(Rendezvous* meeting, Connections connections) {
  Fabric::Options options;
  options.world = options_.world;
  options.first_rank = options_.first_rank;
  options.local_ranks = options_.local_ranks;
  options.may_spin = options_.may_spin;
  options.epoch = static_cast<uint32_t>(epoch_of(meeting->cards()));
  auto fabric = std::make_unique<Fabric>(options, env_.clock);

  ControlOptions control;
  std::vector<WorldPeer> peers;
  for (const Card& card : meeting->cards().cards()) {
    peers.push_back(peer_of(card));
    control.peers.push_back({card.first_rank, card.local_ranks, card.host, card.pid});
  }
  control.own = meeting->cards().own_index();
  control.frozen_ns = options_.frozen_ms * kMs;
  control.heartbeat_ns = std::min(options_.heartbeat_ms, options_.frozen_ms / 3) * kMs;
  control.settle_ns = std::clamp(options_.frozen_ms / 4, kShortestSettleMs, kLongestSettleMs) * kMs;
  control.desync_ns = options_.desync_ms * kMs;
  Fabric* const carrier = fabric.get();
  auto driver = std::make_shared<ControlDriver>(
      control, epoch_of(meeting->cards()), std::move(connections.control), net_, env_.clock,
      [carrier](const Error& error) { carrier->abort(error); });
  driver->start(meeting->take_early(), options_.hooks);
  carrier->set_on_abort([channel = std::weak_ptr(driver)](const Error& error) {
    if (const auto driver = channel.lock()) driver->abort(error);
  });

  cards_ = meeting->cards();
  peers_ = std::move(peers);
  own_peer_ = static_cast<int64_t>(control.own);
  data_ = std::move(connections.data);
  fabric_ = std::move(fabric);
  control_ = std::move(driver);
  listener_.reset();
  is_complete_.store(true, std::memory_order_release);
}

std::vector<std::string> ProcessWorld::exchange(const std::string& name, const std::string& value,
                                                int64_t timeout_ms, ExchangeStream stream) {
  check(is_complete(), "an exchange before the world is complete");
  if (control_ != nullptr) {
    return control_->exchange(name, value, timeout_ms < 0 ? options_.control_ms : timeout_ms,
                              stream);
  }
  if (const std::optional<Error> error = fabric_->abort_error()) throw *error;
  return {value};
}

void ProcessWorld::abort(const Error& error) {
  if (is_complete()) {
    fabric_->abort(error);
    return;
  }
  is_aborted_.store(true);
  const std::lock_guard lock(mutex_);
  if (waker_ != nullptr) waker_->wake();
}

}  // namespace

std::unique_ptr<World> World::create(const WorldOptions& options, Env& env, Net& net) {
  check_ranks(options);
  return std::make_unique<ProcessWorld>(options, env, net);
}

}  // namespace plait
