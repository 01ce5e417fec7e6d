/* Trains a small model on tokens in memory. Against an installed Plait:
 *   cc train.c -o train $(pkg-config --cflags --libs plait) */
#include <plait/plait.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 8, LENGTH = 16, VOCABULARY = 32, STEPS = 100 };

static const char kConfig[] =
    "{\"model\": {\"family\": \"gpt2\", \"layers\": 2, \"hidden\": 32, \"heads\": 2,"
    "  \"vocab_size\": 32, \"sequence_length\": 16},"
    " \"train\": {\"global_batch\": 8}, \"layout\": {\"micro_batch\": 8},"
    " \"optimizer\": {\"lr\": 1e-2}}";

/* Prints what went wrong and frees it; the code comes back, so that calls chain with ||. */
static int failed(int code, plait_error** error) {
  if (code == PLAIT_OK) return 0;
  fprintf(stderr, "%s: %s\n", plait_code_name(code), plait_error_message(*error));
  plait_error_free(*error);
  *error = NULL;
  return 1;
}

/* Sequences with something to learn: each row counts up by a stride that its first token gives. */
static void fill(int32_t* tokens, int step) {
  for (int row = 0; row < ROWS; ++row) {
    const int first = (step * 37 + row * 11) % VOCABULARY, stride = 1 + first % 7;
    for (int i = 0; i <= LENGTH; ++i) {
      tokens[row * (LENGTH + 1) + i] = (first + i * stride) % VOCABULARY;
    }
  }
}

static int train(plait_engine* engine, plait_batch* batch) {
  plait_error* error = NULL;
  int32_t* tokens = NULL;
  if (failed(plait_batch_map(batch, "tokens", ROWS, LENGTH + 1, &tokens, &error), &error)) return 1;
  for (int step = 1; step <= STEPS; ++step) {
    plait_metrics metrics;
    memset(&metrics, 0, sizeof metrics);
    metrics.struct_size = sizeof metrics;
    fill(tokens, step);
    if (failed(plait_engine_step(engine, batch, -1, &metrics, &error), &error)) return 1;
    if (step % 20 != 0) continue;
    printf("step %3d  loss %.4f  %.0f tokens/s\n", step, metrics.loss, metrics.tokens_per_second);
  }
  return 0;
}

int main(void) {
  plait_context* context = NULL;
  plait_config* config = NULL;
  plait_group* group = NULL;
  plait_engine* engine = NULL;
  plait_batch* batch = NULL;
  plait_error* error = NULL;
  const int is_failed =
      failed(plait_context_create(PLAIT_API_VERSION, NULL, &context, &error), &error) ||
      failed(plait_config_create(context, &config, &error), &error) ||
      failed(plait_config_load(config, kConfig, sizeof kConfig - 1, &error), &error) ||
      failed(plait_group_create(context, config, 0, 1, 1, &group, &error), &error) ||
      failed(plait_engine_create(group, config, -1, &engine, &error), &error) ||
      failed(plait_batch_create(engine, PLAIT_BATCH_GLOBAL, &batch, &error), &error) ||
      train(engine, batch) || failed(plait_engine_close(engine, -1, &error), &error);
  plait_batch_free(batch); /* in any order; NULL is fine */
  plait_engine_free(engine);
  plait_group_free(group);
  plait_config_free(config);
  plait_context_free(context);
  return is_failed;
}
