/* A host's whole life in one program: two ranks in its own process, saves beside training, a stop
 * by signal, and an engine that is lost on the way. capi/doc/embedding.md explains it. cc embed.c
 * -o embed $(pkg-config --cflags --libs plait) -pthread && ./embed ROOT */
#include <plait/plait.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 40, SAVE_EVERY = 10, ACCIDENT = 25, TRIES = 3, RANKS = 2 };

static const char kConfig[] =
    "{\"model\": {\"family\": \"gpt2\", \"layers\": 2, \"hidden\": 32, \"heads\": 2,"
    "  \"vocab_size\": 32, \"sequence_length\": 16},"
    " \"train\": {\"global_batch\": 8}, \"layout\": {\"data\": 2, \"micro_batch\": 4},"
    " \"optimizer\": {\"lr\": 1e-2}}";

typedef struct Run {
  const char* root;
  plait_context* context;
  plait_config* config;
  plait_group* group;
  plait_engine* engine;
  plait_batch* batch;
  plait_op* save; /* the one that is being written, or NULL */
} Run;

/* The engine that a signal stops. */
static _Atomic(plait_engine*) running_engine;

static void on_signal(int number) {
  (void)number;
  plait_engine* engine = atomic_load(&running_engine);
  if (engine != NULL) plait_engine_request_stop(engine);
}

static void print_logs(plait_context* context) {
  plait_bytes* lines = NULL;
  if (plait_context_log_drain(context, 1000, &lines, NULL) != PLAIT_OK) return;
  fwrite(plait_bytes_data(lines), 1, (size_t)plait_bytes_size(lines), stderr);
  plait_bytes_free(lines);
}

/* Frees what a lost engine leaves behind. Any order is legal; context and config stay. */
static void drop(Run* run) {
  atomic_store(&running_engine, NULL);
  plait_op_free(run->save);
  plait_batch_free(run->batch);
  plait_engine_free(run->engine);
  plait_group_free(run->group);
  run->save = NULL, run->batch = NULL, run->engine = NULL, run->group = NULL;
}

/* A new group and engine, with the newest state that is on disk, if there is any. */
static int32_t start(Run* run, plait_error** error) {
  int32_t code = plait_group_create(run->context, run->config, 0, RANKS, RANKS, &run->group, error);
  if (code == PLAIT_OK) {
    code = plait_engine_create(run->group, run->config, -1, &run->engine, error);
  }
  if (code == PLAIT_OK) {
    code = plait_batch_create(run->engine, PLAIT_BATCH_GLOBAL, &run->batch, error);
  }
  if (code != PLAIT_OK) return code;
  code = plait_checkpoint_load(run->engine, run->root, -1, NULL, error);
  if (code == PLAIT_NOT_FOUND) { /* the first start */
    plait_error_free(*error);
    *error = NULL;
    code = PLAIT_OK;
  }
  if (code == PLAIT_OK) atomic_store(&running_engine, run->engine);
  return code;
}

/* Sequences with something to learn, each a function of its sample index alone. */
static void fill(int32_t* tokens, const plait_batch_spec* spec) {
  for (int64_t row = 0; row < spec->global_rows; ++row) {
    const int64_t sample = spec->first_sample + row, stride = 1 + sample % 7;
    for (int64_t i = 0; i <= spec->sequence_length; ++i) {
      *tokens++ = (int32_t)((sample * 11 + i * stride) % spec->vocab_size);
    }
  }
}

/* Looks at the save that is being written, and waits for it where is_last is not 0. */
static int32_t look_at_save(Run* run, int is_last, plait_error** error) {
  plait_progress progress = {.struct_size = sizeof progress};
  if (run->save == NULL) return PLAIT_OK;
  int32_t code = plait_op_progress(run->save, &progress, error);
  if (code == PLAIT_OK && progress.state == PLAIT_OP_RUNNING && !is_last) return PLAIT_OK;
  if (code == PLAIT_OK) code = plait_op_wait(run->save, -1, error);
  plait_op_free(run->save);
  run->save = NULL;
  return code;
}

static int32_t begin_save(Run* run, plait_error** error) {
  const int32_t code = look_at_save(run, 1, error);
  if (code != PLAIT_OK) return code;
  return plait_checkpoint_save(run->engine, run->root, -1, &run->save, error);
}

static int32_t step(Run* run, plait_metrics* metrics, plait_error** error) {
  plait_batch_spec spec = {.struct_size = sizeof spec};
  int32_t* tokens = NULL;
  int32_t code = plait_engine_batch_spec(run->engine, &spec, error);
  if (code != PLAIT_OK) return code;
  code = plait_batch_map(run->batch, "tokens", spec.global_rows, spec.sequence_length + 1, &tokens,
                         error);
  if (code != PLAIT_OK) return code;
  fill(tokens, &spec);
  return plait_engine_step(run->engine, run->batch, -1, metrics, error);
}

static void* abort_engine(void* engine) {
  plait_engine_abort(engine);
  return NULL;
}

/* Something goes wrong, from another thread and in the middle of a step. */
static int32_t accident(Run* run, plait_error** error) {
  plait_metrics metrics = {.struct_size = sizeof metrics};
  pthread_t thread;
  if (pthread_create(&thread, NULL, abort_engine, run->engine) != 0) return PLAIT_OK;
  int32_t code = PLAIT_OK;
  while (code == PLAIT_OK) code = step(run, &metrics, error);
  pthread_join(thread, NULL);
  return code;
}

/* Steps up to the end, a stop or an error. */
static int32_t train(Run* run, int has_accident, plait_error** error) {
  double steps = 0;
  int32_t code = plait_engine_counter(run->engine, "steps", &steps, error);
  while (code == PLAIT_OK && steps < STEPS) {
    plait_metrics metrics = {.struct_size = sizeof metrics};
    code = step(run, &metrics, error);
    if (code != PLAIT_OK && code != PLAIT_STOPPED) return code;
    steps = (double)metrics.step;
    if (metrics.step % 5 == 0) printf("step %2d  loss %.6f\n", (int)metrics.step, metrics.loss);
    int32_t saved = look_at_save(run, 0, error);
    if (saved == PLAIT_OK && (code == PLAIT_STOPPED || metrics.step % SAVE_EVERY == 0)) {
      saved = begin_save(run, error);
    }
    if (saved != PLAIT_OK) return saved;
    print_logs(run->context);
    if (has_accident && metrics.step == ACCIDENT) return accident(run, error);
  }
  if (code != PLAIT_OK && code != PLAIT_STOPPED) return code;
  int32_t ended = look_at_save(run, 1, error);
  if (ended == PLAIT_OK) ended = plait_engine_close(run->engine, -1, error);
  return ended != PLAIT_OK ? ended : code;
}

/* Trains as often as engines are lost, but not for ever. */
static int32_t live(Run* run, plait_error** error) {
  for (int attempt = 1;; ++attempt) {
    int32_t code = start(run, error);
    if (code == PLAIT_OK) code = train(run, attempt == 1, error);
    const int is_lost = plait_error_disposition(*error) == PLAIT_DISPOSITION_ENGINE_LOST;
    if (!is_lost || attempt == TRIES) return code;
    printf("lost by %s, starting again\n", plait_error_word(*error));
    plait_error_free(*error);
    *error = NULL;
    drop(run);
  }
}

int main(int count, char** arguments) {
  if (count != 2) return fprintf(stderr, "usage: embed ROOT\n"), 2;
  Run run = {.root = arguments[1]};
  plait_error* error = NULL;
  signal(SIGTERM, on_signal);
  signal(SIGINT, on_signal);
  int32_t code = plait_context_create(PLAIT_API_VERSION, NULL, &run.context, &error);
  if (code == PLAIT_OK) code = plait_config_create(run.context, &run.config, &error);
  if (code == PLAIT_OK) {
    code = plait_config_load(run.config, kConfig, sizeof kConfig - 1, &error);
  }
  if (code == PLAIT_OK) code = live(&run, &error);
  if (code == PLAIT_STOPPED) printf("stopped, and saved\n");
  if (error != NULL) {
    fprintf(stderr, "%s: %s\n", plait_code_name(code), plait_error_message(error));
    plait_error_free(error);
  }
  drop(&run);
  plait_config_free(run.config);
  plait_context_free(run.context);
  return code == PLAIT_OK ? 0 : code == PLAIT_STOPPED ? 3 : 1;
}
