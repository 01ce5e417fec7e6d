/* What a call costs in C, and where a batch is filled. The same program stands here in every
 * language.
 *
 *   calls CONFIG time CALLS TURNS   prints the nanoseconds of a call of each turn
 *   calls CONFIG feed STEPS         prints where the batch of each step was mapped; one more step
 *                                   is fed by set, which copies */
#include <inttypes.h>
#include <plait/plait.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void fail(const char* message) {
  fprintf(stderr, "calls: %s\n", message);
  exit(1);
}

static void check(int32_t code, plait_error** error) {
  if (code != PLAIT_OK) fail(plait_error_message(*error));
}

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static double state_ns(const plait_engine* engine, int64_t calls) {
  const double begin = now_ns();
  double end;
  int64_t right = 0, i;
  for (i = 0; i < calls; ++i) right += plait_engine_state(engine) == PLAIT_ENGINE_READY;
  end = now_ns();
  if (right != calls) fail("the engine is not ready");
  return (end - begin) / (double)calls;
}

static double version_ns(int64_t calls) {
  const int32_t version = plait_version();
  const double begin = now_ns();
  double end;
  int64_t right = 0, i;
  for (i = 0; i < calls; ++i) right += plait_version() == version;
  end = now_ns();
  if (right != calls) fail("the version changes");
  return (end - begin) / (double)calls;
}

static void print_times(const plait_engine* engine, int64_t calls, int64_t turns) {
  int64_t i;
  printf("{\"state\": [");
  for (i = 0; i < turns; ++i) printf("%s%.2f", i == 0 ? "" : ", ", state_ns(engine, calls));
  printf("], \"version\": [");
  for (i = 0; i < turns; ++i) printf("%s%.2f", i == 0 ? "" : ", ", version_ns(calls));
  printf("]}\n");
}

static void fill(int32_t* tokens, int64_t count, int64_t step) {
  int64_t i;
  for (i = 0; i < count; ++i) tokens[i] = (int32_t)((step + i) % 256);
}

static void print_addresses(plait_engine* engine, int64_t steps) {
  plait_batch_spec spec = {0};
  plait_metrics metrics = {0};
  plait_batch* batch = NULL;
  plait_error* error = NULL;
  int32_t *tokens, *own;
  int64_t columns, count, step;
  spec.struct_size = sizeof spec;
  metrics.struct_size = sizeof metrics;
  check(plait_batch_create(engine, PLAIT_BATCH_GLOBAL, &batch, &error), &error);
  check(plait_engine_batch_spec(engine, &spec, &error), &error);
  columns = spec.sequence_length + 1;
  count = spec.global_rows * columns;
  printf("{\"bytes\": %" PRId64 ", \"addresses\": [", count * 4);
  for (step = 0; step < steps; ++step) {
    check(plait_batch_map(batch, "tokens", spec.global_rows, columns, &tokens, &error), &error);
    fill(tokens, count, step);
    check(plait_engine_step(engine, batch, -1, &metrics, &error), &error);
    printf("%s%" PRIuPTR, step == 0 ? "" : ", ", (uintptr_t)tokens);
  }
  printf("]}\n");
  own = malloc((size_t)count * sizeof *own);
  if (own == NULL) fail("no memory");
  fill(own, count, steps);
  check(plait_batch_set(batch, "tokens", own, spec.global_rows, columns, &error), &error);
  check(plait_engine_step(engine, batch, -1, &metrics, &error), &error);
  free(own);
  plait_batch_free(batch);
}

static void load(plait_config* config, const char* path) {
  char json[4096];
  FILE* file = fopen(path, "rb");
  plait_error* error = NULL;
  size_t bytes;
  if (file == NULL) fail("cannot read the configuration");
  bytes = fread(json, 1, sizeof json, file);
  fclose(file);
  check(plait_config_load(config, json, (int64_t)bytes, &error), &error);
}

int main(int count, char** arguments) {
  plait_context* context = NULL;
  plait_config* config = NULL;
  plait_group* group = NULL;
  plait_engine* engine = NULL;
  plait_error* error = NULL;
  const int is_time = count == 5 && strcmp(arguments[2], "time") == 0;
  if (!is_time && !(count == 4 && strcmp(arguments[2], "feed") == 0)) {
    fprintf(stderr, "usage: calls CONFIG time CALLS TURNS | calls CONFIG feed STEPS\n");
    return 2;
  }
  check(plait_context_create(PLAIT_API_VERSION, NULL, &context, &error), &error);
  check(plait_config_create(context, &config, &error), &error);
  load(config, arguments[1]);
  check(plait_group_create(context, config, 0, 1, 1, &group, &error), &error);
  check(plait_engine_create(group, config, -1, &engine, &error), &error);
  if (is_time) {
    print_times(engine, strtoll(arguments[3], NULL, 10), strtoll(arguments[4], NULL, 10));
  } else {
    print_addresses(engine, strtoll(arguments[3], NULL, 10));
  }
  plait_engine_free(engine);
  plait_group_free(group);
  plait_config_free(config);
  plait_context_free(context);
  return 0;
}
