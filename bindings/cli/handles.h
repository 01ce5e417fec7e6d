// Owners of the library's handles, and calls whose errors become exceptions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bindings/cli/failure.h"
#include "plait/plait.h"

namespace plait::cli {

template <class Type, void (*Free)(Type*)>
struct FreeHandle {
  void operator()(Type* handle) const { Free(handle); }
};

template <class Type, void (*Free)(Type*)>
using Owned = std::unique_ptr<Type, FreeHandle<Type, Free>>;

using Context = Owned<plait_context, plait_context_free>;
using Config = Owned<plait_config, plait_config_free>;
using Plan = Owned<plait_plan, plait_plan_free>;
using Group = Owned<plait_group, plait_group_free>;
using Engine = Owned<plait_engine, plait_engine_free>;
using Dataset = Owned<plait_dataset, plait_dataset_free>;
using Tokenizer = Owned<plait_tokenizer, plait_tokenizer_free>;
using Checkpoint = Owned<plait_checkpoint, plait_checkpoint_free>;
using Operation = Owned<plait_op, plait_op_free>;
using Bytes = Owned<plait_bytes, plait_bytes_free>;

/// Runs `body(plait_error** err)`. PLAIT_OK and PLAIT_STOPPED come back; all else is thrown.
template <class Body>
int32_t call(Body&& body) {
  plait_error* error = nullptr;
  const int32_t code = body(&error);
  if (code != PLAIT_OK && code != PLAIT_STOPPED) throw Failure(code, error);
  return code;
}

/// Runs `body(Handle** out, plait_error** err)` and owns what it made; empty on PLAIT_STOPPED.
template <class Owner, class Body>
Owner make(Body&& body) {
  typename Owner::pointer made = nullptr;
  call([&](plait_error** err) { return body(&made, err); });
  return Owner(made);
}

/// The same for text: the content of the bytes that `body` made.
template <class Body>
std::string make_text(Body&& body) {
  const Bytes bytes = make<Bytes>(body);
  if (bytes == nullptr) return "";
  return std::string(static_cast<const char*>(plait_bytes_data(bytes.get())),
                     static_cast<size_t>(plait_bytes_size(bytes.get())));
}

/// A sized struct, zeroed, with its size set.
template <class Struct>
Struct sized() {
  Struct value{};
  value.struct_size = sizeof value;
  return value;
}

/// Effective value of a key.
std::string get_text(const Config& config, const std::string& key);
/// The same as a number; a usage failure naming the key when it has none.
int64_t get_integer(const Config& config, const std::string& key);

}  // namespace plait::cli
