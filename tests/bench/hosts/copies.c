/* Preloaded into a host, counts what the library copies of a batch, and its allocations, while it
 * is fed. Each call of plait_batch_map and plait_batch_set adds a line of JSON to the file that
 * PLAIT_COPIES names.
 *
 * The library copies by memcpy and memmove. Those to or from the memory of the batch count, or in a
 * set from the host's: that the counter sees them is proved by plait_batch_set, which has to copy.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <plait/plait.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Allocation may come before any library is initialized. */
#define THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))
THREAD_LOCAL int is_counting;
THREAD_LOCAL int64_t allocations;

typedef struct Copy {
  uintptr_t to, from, bytes;
} Copy;

enum { kMostCopies = 64 };
THREAD_LOCAL Copy copies[kMostCopies];
THREAD_LOCAL int copy_count;

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  allocations += is_counting;
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  allocations += is_counting;
  return __libc_calloc(count, bytes);
}

void* realloc(void* old, size_t bytes) {
  allocations += is_counting;
  return __libc_realloc(old, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  allocations += is_counting;
  return __libc_memalign(alignment, bytes);
}

static void add_copy(const void* to, const void* from, size_t bytes) {
  const Copy copy = {(uintptr_t)to, (uintptr_t)from, bytes};
  if (copy_count == kMostCopies) abort();
  copies[copy_count++] = copy;
}

static int64_t overlap(uintptr_t a, uintptr_t a_bytes, uintptr_t b, uintptr_t b_bytes) {
  const uintptr_t begin = a > b ? a : b, a_end = a + a_bytes, b_end = b + b_bytes,
                  end = a_end < b_end ? a_end : b_end;
  return begin < end ? (int64_t)(end - begin) : 0;
}

void* memmove(void* to, const void* from, size_t bytes) {
  char* target = to;
  const char* source = from;
  size_t i;
  if (is_counting) add_copy(to, from, bytes);
  if (target <= source) {
    for (i = 0; i < bytes; ++i) target[i] = source[i];
  } else {
    for (i = bytes; i > 0; --i) target[i - 1] = source[i - 1];
  }
  return to;
}

void* memcpy(void* to, const void* from, size_t bytes) { return memmove(to, from, bytes); }

static int is_library(struct dl_phdr_info* info, size_t size, void* path) {
  (void)size;
  if (strstr(info->dlpi_name, "/libplait.so") == NULL) return 0;
  *(const char**)path = info->dlpi_name;
  return 1;
}

/* The library's own function; a host may have loaded the library for itself alone. */
static void* of_library(const char* name) {
  const char* path = NULL;
  void *library, *function;
  dl_iterate_phdr(is_library, &path);
  library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  function = library == NULL ? NULL : dlsym(library, name);
  if (function == NULL) {
    fprintf(stderr, "copies: the library's %s is not found\n", name);
    abort();
  }
  return function;
}

static void begin(void) {
  copy_count = 0;
  allocations = 0;
  is_counting = 1;
}

/* `memory`: of the batch; in a set that of the host. */
static void end(const char* call, const void* memory, int64_t bytes) {
  const uintptr_t address = (uintptr_t)memory, size = memory == NULL ? 0 : (uintptr_t)bytes;
  int64_t copied = 0;
  FILE* file;
  int i;
  is_counting = 0;
  for (i = 0; i < copy_count; ++i) {
    copied += overlap(copies[i].to, copies[i].bytes, address, size) +
              overlap(copies[i].from, copies[i].bytes, address, size);
  }
  file = fopen(getenv("PLAIT_COPIES"), "a");
  if (file == NULL) abort();
  fprintf(file,
          "{\"call\": \"%s\", \"address\": %" PRIuPTR ", \"bytes\": %" PRId64
          ", \"copied\": %" PRId64 ", \"allocations\": %" PRId64 "}\n",
          call, address, bytes, copied, allocations);
  fclose(file);
}

int32_t plait_batch_map(plait_batch* batch, const char* name, int64_t rows, int64_t columns,
                        int32_t** values, plait_error** err) {
  int32_t code, (*map)(plait_batch*, const char*, int64_t, int64_t, int32_t**, plait_error**);
  *(void**)&map = of_library("plait_batch_map");
  begin();
  code = map(batch, name, rows, columns, values, err);
  end("map", code == PLAIT_OK ? *values : NULL, rows * columns * 4);
  return code;
}

int32_t plait_batch_set(plait_batch* batch, const char* name, const int32_t* values, int64_t rows,
                        int64_t columns, plait_error** err) {
  int32_t code, (*set)(plait_batch*, const char*, const int32_t*, int64_t, int64_t, plait_error**);
  *(void**)&set = of_library("plait_batch_set");
  begin();
  code = set(batch, name, values, rows, columns, err);
  end("set", values, rows * columns * 4);
  return code;
}
