#include "tests/bench/step_counts.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "kernels/ops/linear.h"

namespace {

// Constant-initialised: malloc is called before any constructor.
constinit std::atomic<int64_t> allocation_count{0};
constinit std::atomic<int64_t> pack_count{0};
constinit std::atomic<int64_t> pack_bytes{0};

void count() { allocation_count.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

// glibc's own functions under the names that it keeps for whoever replaces malloc.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
void* calloc(size_t elements, size_t bytes) {
  count();
  return __libc_calloc(elements, bytes);
}
void* realloc(void* memory, size_t bytes) {
  count();
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  count();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

namespace plait {

// The linker sends calls of linear_pack here (--wrap).
void real_linear_pack(OpContext& context, const LinearWeight& weight) __asm__(
    "__real__ZN5plait11linear_packERNS_9OpContextERKNS_12LinearWeightE");
void counted_linear_pack(OpContext& context, const LinearWeight& weight) __asm__(
    "__wrap__ZN5plait11linear_packERNS_9OpContextERKNS_12LinearWeightE");

void counted_linear_pack(OpContext& context, const LinearWeight& weight) {
  if (!context.is_measuring() && weight.plan->packed_bytes() > 0) {
    pack_count.fetch_add(1, std::memory_order_relaxed);
    pack_bytes.fetch_add(weight.plan->packed_bytes(), std::memory_order_relaxed);
  }
  real_linear_pack(context, weight);
}

}  // namespace plait

namespace plait::bench {

int64_t allocations() { return allocation_count.load(); }
int64_t packs() { return pack_count.load(); }
int64_t packed_bytes() { return pack_bytes.load(); }

}  // namespace plait::bench
