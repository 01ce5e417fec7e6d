#include "capi/src/handle.h"

#include "kernels/base/sanitizer.h"

#if !defined(NDEBUG) || PLAIT_ADDRESS_SANITIZER || PLAIT_THREAD_SANITIZER
#define PLAIT_QUARANTINE 1
#else
#define PLAIT_QUARANTINE 0
#endif

namespace plait {
namespace {

// What is left of a freed handle: a kind word that says so, and a chain that keeps it reachable.
struct Remains {
  std::atomic<HandleKind> kind;
  Remains* next;
};
static_assert(sizeof(Remains) <= sizeof(Handle));

[[maybe_unused]] std::atomic<Remains*> quarantine{nullptr};

}  // namespace

bool has_quarantine() { return PLAIT_QUARANTINE != 0; }

bool Handle::enter(Use use) {
  if (use == Use::kAny) return true;
  int32_t users = users_.load(std::memory_order_relaxed);
  do {
    if (users < 0 || (use == Use::kExclusive && users != 0)) return false;
  } while (!users_.compare_exchange_weak(users, use == Use::kExclusive ? -1 : users + 1,
                                         std::memory_order_acquire));
  return true;
}

void Handle::leave(Use use) {
  if (use == Use::kExclusive) users_.store(0, std::memory_order_release);
  if (use == Use::kShared) users_.fetch_sub(1, std::memory_order_release);
}

void* Handle::operator new(std::size_t bytes) { return ::operator new(bytes); }

void Handle::operator delete(void* memory) {
  if (memory == nullptr) return;
#if PLAIT_QUARANTINE
  auto* remains = ::new (memory) Remains{HandleKind::kFreed, nullptr};
  Remains* head = quarantine.load(std::memory_order_relaxed);
  do {
    remains->next = head;
  } while (!quarantine.compare_exchange_weak(head, remains, std::memory_order_release));
#else
  ::operator delete(memory);
#endif
}

}  // namespace plait
