/* Trains on the bytes of a file, which it holds in memory. The same program stands in every host
 * language under samples/host, and all of them print the same line.
 *
 *   train CONFIG TEXT [--steps N] [--checkpoint ROOT] [--resume]
 *
 * Progress goes to stderr; the losses go to stdout, in one line. SIGINT and SIGTERM end the run
 * after the step in progress; with --checkpoint the state is saved then, as it is at the end. Exit
 * codes: 0 done, 1 an error, 2 usage, 3 stopped. */
#include <plait/plait.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Run {
  const char *config_path, *text_path, *root;
  int64_t steps; /* 0: as run.steps of the configuration says */
  int is_resumed;
  plait_context* context;
  plait_config* config;
  plait_group* group;
  plait_engine* engine;
  plait_batch* batch;
  plait_bytes* text; /* the file, its bytes as int32 token ids */
  double* losses;
  int64_t loss_count;
} Run;

static plait_engine* volatile running; /* what a signal stops */

static void on_signal(int number) {
  (void)number;
  plait_engine_request_stop(running);
}

/* Prints and frees an error; true where there was one, so that calls chain with ||. */
static int failed(int32_t code, plait_error** error) {
  if (code == PLAIT_OK) return 0;
  fprintf(stderr, "train: %s: %s\n", plait_code_name(code), plait_error_message(*error));
  plait_error_free(*error);
  *error = NULL;
  return 1;
}

static int read_arguments(int count, char** arguments, Run* run) {
  int i;
  for (i = 1; i < count; ++i) {
    const char* argument = arguments[i];
    if (strcmp(argument, "--resume") == 0) {
      run->is_resumed = 1;
    } else if (strcmp(argument, "--steps") == 0 && i + 1 < count) {
      run->steps = strtoll(arguments[++i], NULL, 10);
      if (run->steps <= 0) return 0;
    } else if (strcmp(argument, "--checkpoint") == 0 && i + 1 < count) {
      run->root = arguments[++i];
    } else if (argument[0] == '-' || run->text_path != NULL) {
      return 0;
    } else if (run->config_path == NULL) {
      run->config_path = argument;
    } else {
      run->text_path = argument;
    }
  }
  return run->text_path != NULL && (run->root != NULL || !run->is_resumed);
}

static char* read_file(const char* path, int64_t* bytes) {
  FILE* file = fopen(path, "rb");
  char* data = NULL;
  long size = -1;
  if (file != NULL && fseek(file, 0, SEEK_END) == 0) size = ftell(file);
  if (size >= 0 && fseek(file, 0, SEEK_SET) == 0) data = malloc((size_t)size + 1);
  if (data != NULL && fread(data, 1, (size_t)size, file) != (size_t)size) {
    free(data);
    data = NULL;
  }
  if (data == NULL) fprintf(stderr, "train: cannot read %s\n", path);
  if (file != NULL) fclose(file);
  *bytes = size;
  return data;
}

static int64_t get_integer(const Run* run, const char* key, plait_error** error) {
  plait_bytes* value = NULL;
  int64_t number = -1;
  if (!failed(plait_config_get(run->config, key, &value, error), error)) {
    number = strtoll(plait_bytes_data(value), NULL, 10);
  }
  plait_bytes_free(value);
  return number;
}

static int load_text(Run* run, plait_error** error) {
  plait_tokenizer* bytes_as_ids = NULL;
  int64_t size = 0;
  char* data = read_file(run->text_path, &size);
  const int bad =
      data == NULL ||
      failed(plait_tokenizer_open(run->context, "byte", NULL, &bytes_as_ids, error), error) ||
      failed(plait_tokenizer_encode(bytes_as_ids, data, size, &run->text, error), error);
  plait_tokenizer_free(bytes_as_ids);
  free(data);
  return bad;
}

static int open_engine(Run* run, plait_error** error) {
  int64_t size = 0;
  int32_t world;
  char* json = NULL;
  if (failed(plait_context_create(PLAIT_API_VERSION, NULL, &run->context, error), error) ||
      failed(plait_config_create(run->context, &run->config, error), error) ||
      (json = read_file(run->config_path, &size)) == NULL) {
    return 1;
  }
  if (failed(plait_config_load(run->config, json, size, error), error)) {
    free(json);
    return 1;
  }
  free(json);
  if (run->steps == 0) run->steps = get_integer(run, "run.steps", error);
  world = (int32_t)(get_integer(run, "layout.tensor", error) *
                    get_integer(run, "layout.pipeline", error) *
                    get_integer(run, "layout.data", error));
  return load_text(run, error) ||
         failed(plait_group_create(run->context, run->config, 0, world, world, &run->group, error),
                error) ||
         failed(plait_engine_create(run->group, run->config, -1, &run->engine, error), error) ||
         failed(plait_batch_create(run->engine, PLAIT_BATCH_GLOBAL, &run->batch, error), error);
}

/* Fills the batch's own memory: sequence j of the run begins at byte j * s, round and round. */
static int fill(Run* run, const plait_batch_spec* spec, plait_error** error) {
  const int32_t* text = plait_bytes_data(run->text);
  const int64_t tokens = plait_bytes_size(run->text) / (int64_t)sizeof(int32_t),
                length = spec->sequence_length;
  int32_t* row;
  int64_t r;
  if (tokens < length + 1) {
    fprintf(stderr, "train: %s holds fewer than %lld bytes\n", run->text_path,
            (long long)(length + 1));
    return 1;
  }
  if (failed(plait_batch_map(run->batch, "tokens", spec->global_rows, length + 1, &row, error),
             error))
    return 1;
  for (r = 0; r < spec->global_rows; ++r, row += length + 1) {
    const int64_t first = (spec->first_sample + r) * length % (tokens - length);
    memcpy(row, text + first, (size_t)(length + 1) * sizeof(int32_t));
  }
  return 0;
}

static int save(Run* run, plait_error** error) {
  plait_op* op = NULL;
  const int bad = failed(plait_checkpoint_save(run->engine, run->root, -1, &op, error), error) ||
                  failed(plait_op_wait(op, -1, error), error);
  plait_op_free(op);
  return bad;
}

/* Trains up to the last step; the exit code comes back. */
static int train(Run* run, plait_error** error) {
  plait_metrics metrics = {0};
  plait_batch_spec spec = {0};
  int is_stopped = 0;
  metrics.struct_size = sizeof metrics;
  spec.struct_size = sizeof spec;
  run->losses = malloc((size_t)run->steps * sizeof(double));
  if (run->losses == NULL) return 1;
  if (run->is_resumed) {
    const int32_t code = plait_checkpoint_load(run->engine, run->root, -1, NULL, error);
    if (code == PLAIT_STOPPED) return 3; /* nothing was loaded, and nothing is saved over it */
    if (failed(code, error)) return 1;
  }
  if (failed(plait_engine_batch_spec(run->engine, &spec, error), error)) return 1;
  while (!is_stopped && spec.first_sample / spec.global_rows < run->steps) {
    int32_t code;
    if (fill(run, &spec, error)) return 1;
    code = plait_engine_step(run->engine, run->batch, -1, &metrics, error);
    is_stopped = code == PLAIT_STOPPED;
    if (!is_stopped && failed(code, error)) return 1;
    run->losses[run->loss_count++] = metrics.loss;
    fprintf(stderr, "step %lld/%lld loss %.4f | %.0f tokens/s\n", (long long)metrics.step,
            (long long)run->steps, metrics.loss, metrics.tokens_per_second);
    if (failed(plait_engine_batch_spec(run->engine, &spec, error), error)) return 1;
  }
  if (run->root != NULL && save(run, error)) return 1;
  return is_stopped ? 3 : 0;
}

int main(int count, char** arguments) {
  Run run = {0};
  plait_error* error = NULL;
  int64_t i;
  int code = 1;
  if (!read_arguments(count, arguments, &run)) {
    fprintf(stderr, "usage: train CONFIG TEXT [--steps N] [--checkpoint ROOT] [--resume]\n");
    return 2;
  }
  if (!open_engine(&run, &error)) {
    running = run.engine;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    code = train(&run, &error);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
  }
  if (code == 0 || code == 3) {
    for (i = 0; i < run.loss_count; ++i) printf("%s%.17g", i == 0 ? "" : " ", run.losses[i]);
    printf("\n");
    if (failed(plait_engine_close(run.engine, -1, &error), &error)) code = 1;
  }
  free(run.losses);
  plait_bytes_free(run.text);
  plait_batch_free(run.batch);
  plait_engine_free(run.engine);
  plait_group_free(run.group);
  plait_config_free(run.config);
  plait_context_free(run.context);
  return code;
}
