/* What C reads of a checkpoint, as one 64-bit FNV-1a hash, for comparison with what C# reads.
 *
 *   reference entries PATH   a line for each entry, with all that is known of it
 *   reference weights PATH   name and bytes of each weight */
#include <inttypes.h>
#include <plait/plait.h>
#include <stdio.h>
#include <string.h>

static uint64_t hash = 14695981039346656037u;

static void add(const void* data, size_t bytes) {
  const unsigned char* next = data;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ next[i]) * 1099511628211u;
}

static void add_number(int64_t number, const char* after) {
  char text[32];
  add(text, (size_t)snprintf(text, sizeof text, "%" PRId64 "%s", number, after));
}

static void add_entry(const plait_entry_info* entry) {
  add(entry->name, strlen(entry->name));
  if (entry->valid & PLAIT_ENTRY_PROPERTY) {
    int64_t real;
    memcpy(&real, &entry->real, sizeof real);
    add(" ", 1);
    add_number(entry->type, " ");
    add_number(entry->integer, " ");
    add_number(real, " ");
    add(entry->text, strlen(entry->text));
  } else {
    const int64_t shape[] = {entry->shape0, entry->shape1, entry->shape2, entry->shape3};
    add(" ", 1);
    add_number(entry->kind, " ");
    add_number(entry->dtype, " ");
    for (int64_t i = 0; i < entry->dims; ++i) add_number(shape[i], i + 1 < entry->dims ? "x" : " ");
    add_number(entry->elements, " ");
    add_number(entry->digest, "");
  }
  add("\n", 1);
}

int main(int count, char** arguments) {
  plait_context* context = NULL;
  plait_checkpoint* checkpoint = NULL;
  if (count != 3 || plait_context_create(PLAIT_API_VERSION, NULL, &context, NULL) != PLAIT_OK ||
      plait_checkpoint_open(context, arguments[2], &checkpoint, NULL) != PLAIT_OK) {
    return 1;
  }
  const int is_list = strcmp(arguments[1], "entries") == 0;
  const int64_t entries = plait_checkpoint_entry_count(checkpoint);
  for (int64_t i = 0; i < entries; ++i) {
    plait_entry_info entry = {.struct_size = sizeof entry};
    const void* data = NULL;
    int64_t bytes = 0;
    if (plait_checkpoint_entry_at(checkpoint, i, &entry, NULL) != PLAIT_OK) return 1;
    if (is_list) {
      add_entry(&entry);
    } else if (entry.kind == PLAIT_KIND_PARAM) {
      if (plait_checkpoint_map(checkpoint, entry.name, PLAIT_KIND_PARAM, &data, &bytes, NULL) !=
          PLAIT_OK) {
        return 1;
      }
      add(entry.name, strlen(entry.name));
      add(data, (size_t)bytes);
    }
  }
  printf("%016" PRIx64 "\n", hash);
  plait_checkpoint_free(checkpoint);
  plait_context_free(context);
  return 0;
}
