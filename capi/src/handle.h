// What every handle of the ABI begins with: a kind word, a count of references, an in-use word.
//
// The host's handle is one reference; each running call, each child and each background thread
// holds another. `free_handle` retires the kind word, so that later calls see bad_handle, and drops
// the host's reference; the object goes with the last one. Builds with assertions or sanitizers
// never give the memory of a freed handle back, so that use after free is always caught.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "kernels/base/error.h"

namespace plait {

enum class HandleKind : uint64_t {
  kFreed = 0x706C616974'000000,  // "plait" and a number
  kError,
  kBytes,
  kContext,
  kConfig,
  kPlan,
  kGroup,
  kEngine,
  kBatch,
  kDataset,
  kTokenizer,
  kCheckpoint,
  kOp,
  kReply,
};

/// How a call uses a handle: with others, or alone among the calls that declare a use.
enum class Use { kAny, kShared, kExclusive };

/// True where freed handles are kept so that a later use is caught.
bool has_quarantine();

/// Base of every handle. No virtual functions: the kind word must stand first.
class Handle {
 public:
  constexpr explicit Handle(HandleKind kind) : kind_(kind) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  bool is(HandleKind kind) const { return kind_.load(std::memory_order_acquire) == kind; }
  /// True for the one caller that turned a live handle of `kind` into a freed one.
  bool retire(HandleKind kind) { return kind_.compare_exchange_strong(kind, HandleKind::kFreed); }

  void add_reference() { references_.fetch_add(1, std::memory_order_relaxed); }
  /// True when that was the last one: the caller deletes the object.
  bool drop_reference() { return references_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

  /// Enters a use; false when it would overlap one that excludes it.
  bool enter(Use use);
  void leave(Use use);
  bool is_in_use() const { return users_.load(std::memory_order_acquire) != 0; }

  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory);

 private:
  std::atomic<HandleKind> kind_;
  std::atomic<int32_t> references_{1};
  std::atomic<int32_t> users_{0};  // −1: one exclusive use, n: shared ones
};

/// Null, misaligned, freed or of another kind: false. Never reads beyond the kind word.
template <class T>
bool is_live(const T* handle) {
  return handle != nullptr && reinterpret_cast<uintptr_t>(handle) % alignof(T) == 0 &&
         handle->is(T::kKind);
}

/// A counted reference that is not a use: what children keep of their parents.
template <class T>
class Ref {
 public:
  Ref() = default;
  /// Takes a new reference to a live object.
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->add_reference();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr && object_->drop_reference()) delete object_;
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

/// A handle during one call: checked, referenced, and in the use that the call declares.
/// Throws `bad_handle` or `busy` naming `parameter`.
template <class T>
class Held {
 public:
  Held(const T* handle, const char* parameter, Use use = Use::kAny) : use_(use) {
    if (!is_live(handle)) {
      throw Error("bad_handle", "the handle is null, freed or of another kind")
          .with("parameter", parameter)
          .subsystem("capi");
    }
    ref_ = Ref<T>(const_cast<T*>(handle));
    if (!ref_->enter(use)) {
      use_ = Use::kAny;
      throw Error("busy", "another call on the handle is running")
          .with("parameter", parameter)
          .subsystem("capi");
    }
  }
  ~Held() {
    if (ref_) ref_->leave(use_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  T* get() const { return ref_.get(); }
  T* operator->() const { return ref_.get(); }
  T& operator*() const { return *ref_; }
  const Ref<T>& ref() const { return ref_; }

 private:
  Ref<T> ref_;
  Use use_;
};

/// Retires the host's handle and drops its reference. `T::on_free` runs first: it aborts what is
/// local and must not wait. Null, freed and foreign handles are left alone.
template <class T>
void free_handle(T* handle) {
  if (!is_live(handle) || !handle->retire(T::kKind)) return;
  if constexpr (requires { handle->on_free(); }) handle->on_free();
  if (handle->drop_reference()) delete handle;
}

}  // namespace plait
