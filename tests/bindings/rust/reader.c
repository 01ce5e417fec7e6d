/* What C reads of a checkpoint: the number of entries, a hash of the list of entries, and a hash of
 * the bytes of all parameters. */
#include <plait/plait.h>
#include <stdio.h>
#include <string.h>

static uint64_t feed(uint64_t hash, const void* data, size_t bytes) {
  const unsigned char* byte = data;
  while (bytes-- > 0) hash = (hash ^ *byte++) * 0x100000001b3ull;
  return hash;
}

int main(int count, char** arguments) {
  const uint64_t begin = 0xcbf29ce484222325ull;
  uint64_t list = begin, weights = begin;
  plait_context* context = NULL;
  plait_checkpoint* checkpoint = NULL;
  plait_error* error = NULL;
  int64_t i, entries;
  if (count != 2 || plait_context_create(PLAIT_API_VERSION, NULL, &context, &error) ||
      plait_checkpoint_open(context, arguments[1], &checkpoint, &error)) {
    fprintf(stderr, "%s\n", plait_error_message(error));
    return 1;
  }
  entries = plait_checkpoint_entry_count(checkpoint);
  for (i = 0; i < entries; ++i) {
    plait_entry_info info = {.struct_size = sizeof info};
    char line[512];
    if (plait_checkpoint_entry_at(checkpoint, i, &info, &error)) return 1;
    list = feed(list, info.name, strlen(info.name));
    if (info.valid & PLAIT_ENTRY_PROPERTY) {
      sprintf(line, " %lld %lld\n", (long long)info.type, (long long)info.integer);
      list = feed(list, info.text, info.text == NULL ? 0 : strlen(info.text));
    } else {
      sprintf(line, " %lld %lld %lld %lld\n", (long long)info.kind, (long long)info.dtype,
              (long long)info.elements, (long long)info.digest);
    }
    list = feed(list, line, strlen(line));
    if (!(info.valid & PLAIT_ENTRY_PROPERTY) && info.kind == PLAIT_KIND_PARAM) {
      const void* data = NULL;
      int64_t bytes = 0;
      if (plait_checkpoint_map(checkpoint, info.name, PLAIT_KIND_PARAM, &data, &bytes, &error)) {
        fprintf(stderr, "%s\n", plait_error_message(error));
        return 1;
      }
      weights = feed(weights, data, (size_t)bytes);
    }
  }
  printf("%lld %016llx %016llx\n", (long long)entries, (unsigned long long)list,
         (unsigned long long)weights);
  plait_checkpoint_free(checkpoint);
  plait_context_free(context);
  return 0;
}
