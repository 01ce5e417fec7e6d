/* What a C host sees, for the tests of the Java binding to compare with.
 *
 *   reference entries PATH   count and hash of the entries of a checkpoint
 *   reference tensors PATH   count and hash of the bytes of its tensors, in the order of the
 * entries reference format         %.17g of each number on stdin, given as its bits in hexadecimal
 */
#include <inttypes.h>
#include <plait/plait.h>
#include <stdio.h>
#include <string.h>

static uint64_t hash = 0xcbf29ce484222325u;

static void add(const void* data, int64_t bytes) {
  const unsigned char* byte = data;
  int64_t i;
  for (i = 0; i < bytes; ++i) hash = (hash ^ byte[i]) * 0x100000001b3u;
}

static void add_text(const char* text) { add(text, (int64_t)strlen(text)); }

static void add_integer(int64_t value) {
  char text[32];
  snprintf(text, sizeof text, " %" PRId64, value);
  add_text(text);
}

static int failed(int32_t code, plait_error** error) {
  if (code == PLAIT_OK) return 0;
  fprintf(stderr, "reference: %s: %s\n", plait_code_name(code), plait_error_message(*error));
  plait_error_free(*error);
  *error = NULL;
  return 1;
}

static void add_entry(const plait_entry_info* info) {
  const int64_t shape[4] = {info->shape0, info->shape1, info->shape2, info->shape3};
  int64_t i, bits;
  add_text(info->name);
  add_integer(info->kind);
  add_integer(info->dtype);
  for (i = 0; i < info->dims; ++i) add_integer(shape[i]);
  add_integer(info->elements);
  if (info->valid & PLAIT_ENTRY_DIGEST) add_integer(info->digest);
  if (info->valid & PLAIT_ENTRY_PROPERTY) {
    memcpy(&bits, &info->real, sizeof bits);
    if (info->type == PLAIT_PROPERTY_INTEGER) add_integer(info->integer);
    if (info->type == PLAIT_PROPERTY_REAL) add_integer(bits);
    if (info->type == PLAIT_PROPERTY_TEXT) add_text(info->text);
  }
  add_text("\n");
}

static int add_tensor(plait_checkpoint* checkpoint, const plait_entry_info* info,
                      plait_error** error) {
  const void* data = NULL;
  int64_t bytes = 0;
  if (failed(
          plait_checkpoint_map(checkpoint, info->name, (int32_t)info->kind, &data, &bytes, error),
          error))
    return 1;
  add(data, bytes);
  return 0;
}

static int read_checkpoint(const char* path, int is_content) {
  plait_error* error = NULL;
  plait_context* context = NULL;
  plait_checkpoint* checkpoint = NULL;
  int64_t i, count = 0;
  int bad = failed(plait_context_create(PLAIT_API_VERSION, NULL, &context, &error), &error) ||
            failed(plait_checkpoint_open(context, path, &checkpoint, &error), &error);
  for (i = 0; !bad && i < plait_checkpoint_entry_count(checkpoint); ++i) {
    plait_entry_info info = {0};
    info.struct_size = sizeof info;
    bad = failed(plait_checkpoint_entry_at(checkpoint, i, &info, &error), &error);
    if (bad || (is_content && info.kind == 0)) continue;
    ++count;
    if (is_content) {
      bad = add_tensor(checkpoint, &info, &error);
    } else {
      add_entry(&info);
    }
  }
  if (!bad) printf("%" PRId64 " %016" PRIx64 "\n", count, hash);
  plait_checkpoint_free(checkpoint);
  plait_context_free(context);
  return bad;
}

static int format(void) {
  uint64_t bits;
  while (scanf("%" SCNx64, &bits) == 1) {
    double value;
    memcpy(&value, &bits, sizeof value);
    printf("%.17g\n", value);
  }
  return 0;
}

int main(int count, char** arguments) {
  if (count == 2 && strcmp(arguments[1], "format") == 0) return format();
  if (count == 3 && strcmp(arguments[1], "entries") == 0) return read_checkpoint(arguments[2], 0);
  if (count == 3 && strcmp(arguments[1], "tensors") == 0) return read_checkpoint(arguments[2], 1);
  fprintf(stderr, "usage: reference entries PATH | tensors PATH | format\n");
  return 2;
}
