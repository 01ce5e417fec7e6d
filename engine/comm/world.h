// The processes of a world: who drives which ranks, how they found one another, and the control
// channel between them (heartbeats, errors, agreements). Owns the fabric that carries the data.
//
//   auto world = World::create(options, env, net);
//   world->join_tcp("10.0.0.1:29500", 60000);   // or cards, or the host's key-value store
//
// A world of one process is complete at once and has no control channel. Any thread, one call at a
// time; abort and verdict at any time. A call that fails to make the world may be repeated. The
// destructor waits for no peer; without `leave` the others see this process as lost.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/exchange_stream.h"
#include "engine/comm/fabric.h"
#include "kernels/base/env.h"
#include "kernels/base/log.h"
#include "kernels/base/net.h"
#include "kernels/device/thread_pool.h"

namespace plait {

struct WorldOptions {
  int64_t world = 1;
  int64_t first_rank = 0;
  int64_t local_ranks = 1;
  std::string transport = "auto";  ///< key network.transport
  std::string token;               ///< key network.token: strangers with another are refused
  int64_t version = 0;             ///< of the library: processes must agree
  int64_t init_ms = 60000;
  int64_t heartbeat_ms = 1000;
  int64_t frozen_ms = 5000;
  int64_t control_ms = 10000;
  int64_t desync_ms = 5000;  ///< from calls that differ to the verdict, where somebody is missing
  bool may_spin = false;     ///< a core for each local rank
  Log* log = nullptr;
  ThreadHooks hooks;  ///< of the control channel's thread
};

/// One process of the world.
struct WorldPeer {
  int64_t first_rank = 0;
  int64_t local_ranks = 1;
  std::string address;  ///< of its listener
  std::string host;     ///< processes of one machine share it
  int64_t pid = 0;
};

/// The host's key-value store: put publishes, get waits for a value that another process put.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  virtual void put(const std::string& key, const std::string& value) = 0;
  /// False: not there in time.
  virtual bool get(const std::string& key, int64_t timeout_ms, std::string* value) = 0;
};

class World {
 public:
  /// Throws `topology` when the ranks do not lie in the world.
  static std::unique_ptr<World> create(const WorldOptions& options, Env& env, Net& net);
  virtual ~World() = default;

  /// What other processes need to reach this one. Opaque bytes.
  virtual std::string card() = 0;
  /// Cards of other processes, in any order; the own one is ignored. Throws `argument` on bytes
  /// that are no card, `topology` on a card of another world or a rank that is there twice,
  /// `version_mismatch`.
  virtual void add_card(const std::string& card) = 0;
  /// Connects to all of them. Throws `missing_ranks` with the list when cards are missing or peers
  /// do not come in time, `token`, `topology`, `version_mismatch`.
  virtual void commit(int64_t timeout_ms) = 0;
  /// Cards under "plait/<world>/card/<rank>", one for each rank. What an earlier world left in the
  /// store must not be seen.
  virtual void join_kv(KeyValueStore& store, int64_t timeout_ms) = 0;
  /// The process of rank 0 serves cards at `address`, the others fetch them there.
  virtual void join_tcp(const std::string& address, int64_t timeout_ms) = 0;

  virtual bool is_complete() const = 0;
  virtual const WorldOptions& options() const = 0;
  /// By ascending first rank; the own one among them.
  virtual const std::vector<WorldPeer>& peers() const = 0;
  virtual int64_t own_peer() const = 0;
  /// There once complete.
  virtual Fabric& fabric() = 0;

  /// The connection for data to another process, once: a second call gives null.
  virtual std::unique_ptr<Socket> take_data_socket(int64_t peer) = 0;

  /// Every process gives bytes and gets those of all, by peer. Collective: `name` and the number of
  /// the exchange travel with it; another name at a peer is `desync` with a table of who called
  /// what, at all that called. A peer that does not come in time: `deadline`, `missing` naming its
  /// ranks; nobody has then completed the exchange, and it may be tried again. −1: control_ms.
  /// Throws the verdict once there is one. Streams run beside one another, from a thread each.
  virtual std::vector<std::string> exchange(const std::string& name, const std::string& value,
                                            int64_t timeout_ms,
                                            ExchangeStream stream = ExchangeStream::kCalls) = 0;
  /// Any thread: the exchange that runs in `stream`, if one does, ends as if its time were over.
  virtual void end_exchange(ExchangeStream stream) = 0;

  /// Any thread. While processes meet, that call ends with `aborted`. Later: all waits of this
  /// process end with the error, and the other processes end with the same one; but `aborted` and
  /// `deadline` are this process's alone, which the others see as `peer_lost` with its rank.
  /// Aborting the fabric does the same.
  virtual void abort(const Error& error) = 0;
  /// What all processes that are left ended with, whichever error each of them met first. Waits at
  /// most `timeout_ms` for their agreement; nothing when nothing was aborted.
  virtual std::optional<Error> verdict(int64_t timeout_ms) = 0;
  /// Tells the others that this process leaves on purpose, and waits until they leave too, never
  /// longer than `timeout_ms`.
  virtual void leave(int64_t timeout_ms) = 0;
  /// Connections of strangers that were dropped.
  virtual int64_t dropped() const = 0;
};

}  // namespace plait
