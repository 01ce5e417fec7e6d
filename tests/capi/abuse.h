// What the generated abuse tests stand on: one live handle of every kind, wrong ones of every sort,
// and the judgement of what a call returned.
#pragma once

#include <plait/plait.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "tests/capi/host.h"

namespace abuse {

enum class Expect { bad_handle, fails, returns };

/// Checks a call: a wrong handle must be named as such, `fails` must fail, and every failure with
/// a place for it has an error object of the same code with a word and a message.
void judge(const char* where, int32_t code, const plait_error* err, Expect expect, bool is_told);

class World {
 public:
  static World& get();

  template <class T>
  T* freed() const {
    return reinterpret_cast<T*>(freed_);
  }
  template <class T>
  T* other_kind() const {
    if constexpr (std::is_same_v<T, plait_context>) {
      return reinterpret_cast<T*>(static_cast<plait_config*>(config));
    } else {
      return reinterpret_cast<T*>(static_cast<plait_context*>(context));
    }
  }
  template <class T>
  T* misaligned() const {
    return reinterpret_cast<T*>(reinterpret_cast<char*>(static_cast<plait_context*>(context)) + 1);
  }
  template <class Pointer>
  Pointer odd() {
    return reinterpret_cast<Pointer>(memory + 1);
  }
  /// A struct with the given struct_size and memory for what the largest struct has.
  template <class T>
  T* sized(int64_t size) {
    static_assert(sizeof(T) <= sizeof structs);
    std::memset(structs, 0, sizeof structs);
    std::memcpy(structs, &size, sizeof size);
    return reinterpret_cast<T*>(structs);
  }
  bool has_freed() const { return freed_ != nullptr; }
  bool is_intact() const {
    return plait_config_key_count(config) > 0 &&
           plait_context_set_log_level(context, PLAIT_LOG_INFO, nullptr) == PLAIT_OK;
  }

  host::Context context;
  host::Config config;
  host::Group group, engine_group;
  host::Engine engine;
  host::Batch batch;
  host::Dataset dataset;
  host::Tokenizer tokenizer;
  host::Checkpoint checkpoint;
  host::Op op;
  host::Bytes bytes;
  plait_plan* plan = nullptr;    ///< none can exist in this build
  plait_reply* reply = nullptr;  ///< none exists outside a callback
  plait_error* error = nullptr;
  plait_host callbacks = host::sized<plait_host>();
  plait_kv kv = host::sized<plait_kv>();
  int32_t integers[64] = {};
  alignas(64) char memory[4096] = {};
  alignas(8) char structs[512] = {};

 private:
  World();
  host::Folder folder_;
  void* freed_ = nullptr;  ///< a freed context, where freed handles are kept
};

}  // namespace abuse
