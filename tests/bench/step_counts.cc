#include "tests/bench/step_counts.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "tests/bench/op_watch.h"

namespace {

// Constant-initialised: malloc is called before any constructor.
constinit std::atomic<int64_t> allocation_count{0};

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

// The linker sends the engine's call of cpu_kernels here (--wrap).
Kernels real_cpu_kernels() __asm__("__real__ZN5plait11cpu_kernelsEv");
Kernels watched_cpu_kernels() __asm__("__wrap__ZN5plait11cpu_kernelsEv");

Kernels watched_cpu_kernels() { return bench::watched(real_cpu_kernels()); }

}  // namespace plait

namespace plait::bench {

int64_t allocations() { return allocation_count.load(); }

}  // namespace plait::bench
