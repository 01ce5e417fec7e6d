#include "capi/src/group.h"

#include <memory>

#include "capi/src/arguments.h"
#include "capi/src/bytes.h"
#include "capi/src/config.h"
#include "capi/src/guard.h"
#include "capi/src/sized_struct.h"
#include "kernels/base/json_text.h"

using plait::guard;
using plait::Held;
using plait::Use;

namespace {

void check_ranks(int32_t rank, int32_t local_ranks, int32_t world) {
  if (world >= 1 && local_ranks >= 1 && rank >= 0 && local_ranks <= world &&
      rank <= world - local_ranks) {
    return;
  }
  throw plait::Error("topology", "the ranks of this process do not lie within the world")
      .with("rank", rank)
      .with("local_ranks", local_ranks)
      .with("world", world)
      .subsystem("capi");
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
    check_ranks(rank, local_ranks, world);
    auto made = std::make_unique<plait_group>(held.ref(), std::move(copy));
    plait::WorldOptions options;
    options.world = world;
    options.first_rank = rank;
    options.local_ranks = local_ranks;
    made->world = plait::World::create(options, made->context->env, plait::posix_net());
    made->card = made->world->card();
    out.set(made.release());
  });
}

int32_t plait_group_card(plait_group* group, plait_bytes** card, plait_error** err) {
  const plait::BytesOut out(card, "card");
  return guard(err, [&] {
    out.check();
    const Held<plait_group> held(group, "group", Use::kExclusive);
    out.set(held->card);
  });
}

int32_t plait_group_add_card(plait_group* group, const void* card, int64_t bytes,
                             plait_error** err) {
  return guard(err, [&] {
    const Held<plait_group> held(group, "group", Use::kExclusive);
    if (plait::bytes_argument(card, bytes, "card") == held->card) return;
    throw plait::Error("topology", "the group is complete: only its own card can be added")
        .with("bytes", bytes)
        .with("world", held->world->options().world)
        .subsystem("capi");
  });
}

int32_t plait_group_commit(plait_group* group, int64_t timeout_ms, plait_error** err) {
  return guard(err, [&] {
    const Held<plait_group> held(group, "group", Use::kExclusive);
    plait::check_timeout(timeout_ms);
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
    plait::check_choice(plait::text_argument(what, "what"), "links compute all", "what");
    plait::check_timeout(timeout_ms);
    throw plait::not_built("measure", "measuring is not in this build");
  });
}

void plait_group_abort(plait_group* group) {
  // A complete group never waits: there is nothing to end.
  plait::guard_void([&] { const Held<plait_group> held(group, "group"); });
}

void plait_group_free(plait_group* group) {
  plait::guard_void([&] { plait::free_handle(group); });
}
