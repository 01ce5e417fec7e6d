#include "capi/src/group.h"

#include <cxxabi.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "capi/src/arguments.h"
#include "capi/src/bytes.h"
#include "capi/src/config.h"
#include "capi/src/guard.h"
#include "capi/src/sized_struct.h"
#include "capi/src/thread.h"
#include "engine/config/settings.h"
#include "engine/trainer/measure.h"
#include "kernels/base/net.h"

using plait::guard;
using plait::Held;
using plait::Use;

namespace {

/// The host's key-value store. What it calls may answer by plait_reply_set and do nothing else.
class HostStore final : public plait::KeyValueStore {
 public:
  explicit HostStore(const plait_kv& kv) : kv_(kv) {}

  void put(const std::string& key, const std::string& value) override {
    call("put", key, [&] {
      return kv_.put(kv_.user, key.c_str(), value.data(), static_cast<int64_t>(value.size()));
    });
  }

  bool get(const std::string& key, int64_t timeout_ms, std::string* value) override {
    // The host may keep the pointer: it then finds a handle that was freed.
    const std::unique_ptr<plait_reply, void (*)(plait_reply*)> reply(
        new plait_reply, [](plait_reply* gone) { plait::free_handle(gone); });
    call("get", key, [&] { return kv_.get(kv_.user, key.c_str(), timeout_ms, reply.get()); });
    if (!reply->is_set) return false;
    *value = std::move(reply->value);
    return true;
  }

 private:
  template <class Callback>
  static void call(const char* name, const std::string& key, Callback&& callback) {
    int64_t code = 0;
    {
      const plait::InCallback mark;
      try {
        code = callback();
      } catch (const abi::__forced_unwind&) {
        throw;
      } catch (...) {
        throw failed(name, key).with("exception", true);
      }
    }
    if (code != 0) throw failed(name, key).with("host_code", code).host_code(code);
  }
  static plait::Error failed(const char* name, const std::string& key) {
    return plait::Error("callback", "the key-value store of the host failed")
        .with("function", name)
        .with("key", key)
        .subsystem("capi");
  }

  const plait_kv kv_;
};

plait::WorldOptions world_options(plait_context& context, const plait::Config& config) {
  const plait::NetworkConfig network = plait::make_network(config);
  const plait::TimeoutConfig timeout = plait::make_timeout(config);
  plait::WorldOptions options;
  options.transport = config.get("network.transport");
  options.token = network.token;
  options.version = plait_version();
  options.init_ms = timeout.init_ms;
  options.heartbeat_ms = timeout.heartbeat_ms;
  options.frozen_ms = timeout.frozen_ms;
  options.control_ms = timeout.control_ms;
  options.desync_ms = timeout.desync_ms;
  options.log = &context.log();
  const plait_host& host = context.host;
  options.hooks.start = [&host](const char* name) { plait::call_thread_start(host, name); };
  options.hooks.stop = [&host] { plait::call_thread_stop(host); };
  return options;
}

/// While a group is measured, an abort ends that.
class Measuring {
 public:
  explicit Measuring(plait_group& group) : group_(group) {
    group_.is_measure_ended.store(false);
    group_.is_measuring.store(true);
  }
  ~Measuring() { group_.is_measuring.store(false); }
  Measuring(const Measuring&) = delete;
  Measuring& operator=(const Measuring&) = delete;

 private:
  plait_group& group_;
};

plait::MeasureOptions measure_options(plait_group& group) {
  const plait_host& host = group.context->host;
  plait::MeasureOptions options;
  options.env = &group.context->env;
  options.hooks.start = [&host](const char* name) { plait::call_thread_start(host, name); };
  options.hooks.stop = [&host] { plait::call_thread_stop(host); };
  options.world = group.world.get();
  options.is_stop_wanted = &group.is_measure_ended;
  return options;
}

/// Of a word that was checked.
plait::MeasureScope scope_of(const std::string& what) {
  if (what == "links") return plait::MeasureScope::kLinks;
  return what == "compute" ? plait::MeasureScope::kCompute : plait::MeasureScope::kAll;
}

}  // namespace

int32_t plait_group_create(plait_context* context, const plait_config* config, int32_t rank,
                           int32_t local_ranks, int32_t world, plait_group** group,
                           plait_error** err) {
  const plait::HandleOut<plait_group> out(group, "group");
  return guard(err, [&] {
    out.check();
    const Held<plait_context> held(context, "context");
    plait::Config copy = plait::copy_config(config, "config");
    plait::WorldOptions options = world_options(*held, copy);
    options.world = world;
    options.first_rank = rank;
    options.local_ranks = local_ranks;
    options.may_spin = static_cast<int32_t>(std::thread::hardware_concurrency()) >= local_ranks;
    auto made = std::make_unique<plait_group>(held.ref(), std::move(copy));
    made->world = plait::World::create(options, held->env, plait::posix_net());
    out.set(made.release());
  });
}

int32_t plait_group_card(plait_group* group, plait_bytes** card, plait_error** err) {
  const plait::BytesOut out(card, "card");
  return guard(err, [&] {
    out.check();
    const Held<plait_group> held(group, "group", Use::kExclusive);
    out.set(held->world->card());
  });
}

int32_t plait_group_add_card(plait_group* group, const void* card, int64_t bytes,
                             plait_error** err) {
  return guard(err, [&] {
    const Held<plait_group> held(group, "group", Use::kExclusive);
    held->world->add_card(std::string(plait::bytes_argument(card, bytes, "card")));
  });
}

int32_t plait_group_commit(plait_group* group, int64_t timeout_ms, plait_error** err) {
  return guard(err, [&] {
    const Held<plait_group> held(group, "group", Use::kExclusive);
    plait::check_timeout(timeout_ms);
    held->world->commit(timeout_ms);
  });
}

int32_t plait_group_join_kv(plait_group* group, const plait_kv* kv, int64_t timeout_ms,
                            plait_error** err) {
  return guard(err, [&] {
    const Held<plait_group> held(group, "group", Use::kExclusive);
    const plait_kv copy = plait::read_struct(kv, "plait_kv");
    if (copy.put == nullptr || copy.get == nullptr || copy.reserved != nullptr) {
      throw plait::Error("argument", "put and get must be set and reserved must be null")
          .with("parameter", "kv")
          .subsystem("capi");
    }
    plait::check_timeout(timeout_ms);
    HostStore store(copy);
    held->world->join_kv(store, timeout_ms);
  });
}

int32_t plait_group_join_tcp(plait_group* group, const char* address, int64_t timeout_ms,
                             plait_error** err) {
  return guard(err, [&] {
    const Held<plait_group> held(group, "group", Use::kExclusive);
    const std::string text = plait::text_argument(address, "address");
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
      throw plait::Error("argument", "an address is host:port")
          .with("parameter", "address")
          .with("got", text)
          .subsystem("capi");
    }
    plait::check_timeout(timeout_ms);
    held->world->join_tcp(text, timeout_ms);
  });
}

int32_t plait_reply_set(plait_reply* reply, const void* value, int64_t bytes, plait_error** err) {
  const plait::CancellationHold hold;
  try {
    plait::check_entry(true);
    const Held<plait_reply> held(reply, "reply");
    held->value = plait::bytes_argument(value, bytes, "value");
    held->is_set = true;
    return PLAIT_OK;
  } catch (...) {
    return plait::fail_current(err);
  }
}

int32_t plait_group_measure(plait_group* group, const char* what, int64_t timeout_ms,
                            plait_bytes** profile, plait_error** err) {
  const plait::BytesOut out(profile, "profile");
  return guard(err, [&] {
    out.check();
    const Held<plait_group> held(group, "group", Use::kExclusive);
    const std::string scope = plait::text_argument(what, "what");
    plait::check_choice(scope, "links compute all", "what");
    plait::check_timeout(timeout_ms);
    if (held->has_engine.load()) {
      throw plait::Error("busy", "the group has an engine: free it before measuring")
          .with("parameter", "group")
          .subsystem("capi");
    }
    const Measuring measuring(*held);
    std::string fragment;
    const plait::Outcome outcome = plait::measure(held->config, measure_options(*held),
                                                  scope_of(scope), timeout_ms, &fragment);
    if (outcome == plait::Outcome::kStopped) return plait::Code::kStopped;
    out.set(std::move(fragment));
    return plait::Code::kOk;
  });
}

void plait_group_abort(plait_group* group) {
  plait::guard_void([&] { Held<plait_group>(group, "group")->end_waits(); });
}

void plait_group_free(plait_group* group) {
  plait::guard_void([&] { plait::free_handle(group); });
}
