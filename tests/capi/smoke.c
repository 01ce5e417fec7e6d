/* A host in C that calls every function that Plait promises, on a tiny model, and prints what must
 * not depend on version or machine. tests/checks/abi_release keeps it, compiled, with each release;
 * tests/checks/abi_binaries.sh runs what was kept on the library of today.
 *
 *   smoke     in an empty folder, into which it writes */
#include <plait/plait.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 4, LENGTH = 8, TOKENS = ROWS * (LENGTH + 1), VOCABULARY = 256 };

static const char kConfig[] =
    "{\"model\": {\"family\": \"gpt2\", \"layers\": 1, \"hidden\": 16, \"heads\": 2,"
    "  \"vocab_size\": 256, \"sequence_length\": 8}, \"threads\": 1, \"seed\": 7,"
    " \"train\": {\"global_batch\": 4}, \"layout\": {\"micro_batch\": 2},"
    " \"data\": {\"train\": \"tokens.bin\", \"token_type\": \"uint16\"}}";

typedef struct Handles {
  plait_context* context;
  plait_config* config;
  plait_plan* plan;
  plait_group* group;
  plait_engine* engine;
  plait_batch* batch;
  plait_dataset* dataset;
  plait_tokenizer* tokenizer;
  plait_checkpoint* checkpoint;
  plait_op* op;
} Handles;

static plait_error* error;
static int failures;

/* Prints the name of a call that failed, with its error. */
static int ok(const char* call, int32_t code) {
  if (code == PLAIT_OK) return 1;
  printf("%s: %s %s\n", call, plait_code_name(code), plait_error_message(error));
  plait_error_free(error);
  error = NULL;
  ++failures;
  return 0;
}
#define OK(call) ok(#call, call)

/* Prints a refusal, with all that programs may rely on. */
static void refused(const char* what, int32_t code) {
  printf("%s: %s %s code %d disposition %d rank %d host %lld\n", what, plait_code_name(code),
         plait_error_word(error), (int)plait_error_code(error), (int)plait_error_disposition(error),
         (int)plait_error_rank(error), (long long)plait_error_host_code(error));
  if (strncmp(plait_error_message(error), plait_error_word(error),
              strlen(plait_error_word(error))) != 0 ||
      plait_error_details(error)[0] != '{' || plait_error_subsystem(error) == NULL) {
    printf("%s: message, details or subsystem are missing\n", what);
    ++failures;
  }
  plait_error_free(error);
  error = NULL;
}

/* Frees bytes; true where they are there and begin with `text`. */
static int starts(plait_bytes* bytes, const char* text) {
  const size_t length = strlen(text);
  const int is_right = plait_bytes_size(bytes) >= (int64_t)length &&
                       memcmp(plait_bytes_data(bytes), text, length) == 0;
  plait_bytes_free(bytes);
  return is_right;
}

static void say(const char* what, int is_right) {
  printf("%s: %s\n", what, is_right ? "yes" : "no");
  if (!is_right) ++failures;
}

static int64_t put(void* user, const char* key, const void* value, int64_t bytes) {
  (void)user, (void)key, (void)value, (void)bytes;
  return 0;
}

static int64_t get(void* user, const char* key, int64_t timeout_ms, plait_reply* reply) {
  (void)user, (void)key, (void)timeout_ms;
  return plait_reply_set(reply, "", 0, NULL);
}

static void library(Handles* h) {
  plait_bytes* lines = NULL;
  plait_host host = {0};
  host.struct_size = sizeof host;
  say("version is that of the header or later", plait_version() >= PLAIT_API_VERSION);
  say("build_info", plait_build_info("commit") != NULL && plait_build_info("nonsense") == NULL);
  printf("%s %s %s %s\n", plait_code_name(PLAIT_OK), plait_code_name(PLAIT_DATA_LOSS),
         plait_code_name(PLAIT_HOST_ERROR), plait_code_name(12345));
  say("no error reads as OK", plait_error_code(NULL) == PLAIT_OK);
  refused("another major version",
          plait_context_create(PLAIT_API_VERSION + 1000000, NULL, &h->context, &error));
  host.struct_size = 8;
  refused("a short struct", plait_context_create(PLAIT_API_VERSION, &host, &h->context, &error));
  host.struct_size = sizeof host;
  OK(plait_context_create(PLAIT_API_VERSION, &host, &h->context, &error));
  OK(plait_context_set_log_level(h->context, PLAIT_LOG_WARNING, &error));
  if (OK(plait_context_log_drain(h->context, 10, &lines, &error))) plait_bytes_free(lines);
}

static void configuration(Handles* h) {
  plait_bytes* text = NULL;
  plait_key_info info = {0};
  info.struct_size = sizeof info;
  OK(plait_config_create(h->context, &h->config, &error));
  OK(plait_config_load(h->config, kConfig, sizeof kConfig - 1, &error));
  OK(plait_config_set(h->config, "optimizer.lr", "0.01", &error));
  refused("an unknown key", plait_config_set(h->config, "optimizer.lrr", "1", &error));
  refused("a directory that is not there", plait_config_load_hf(h->config, "none", &error));
  if (OK(plait_config_get(h->config, "optimizer.lr", &text, &error))) {
    say("a value comes back", starts(text, "0.01"));
  }
  if (OK(plait_config_dump(h->config, 1, &text, &error))) say("a dump", starts(text, "{"));
  OK(plait_config_check(h->config, &error));
  say("keys", plait_config_key_count(h->config) > 50);
  if (OK(plait_config_key_at(h->config, 0, &info, &error))) {
    say("a key", info.valid == PLAIT_VALID_ALL && info.key[0] != '\0' && info.doc[0] != '\0');
  }
}

/* A planner is no part of every build; what is there works. */
static void planner(Handles* h) {
  plait_bytes* report = NULL;
  plait_plan_info info = {0};
  plait_rank_info rank = {0};
  int32_t code = plait_plan_create(h->context, h->config, 1, &h->plan, &error);
  info.struct_size = sizeof info;
  rank.struct_size = sizeof rank;
  if (code == PLAIT_UNIMPLEMENTED) {
    plait_error_free(error);
    error = NULL;
    say("no plan, no candidates", plait_plan_count(h->plan) == 0);
    return;
  }
  if (!ok("plait_plan_create", code)) return;
  say("no plan, no candidates", plait_plan_count(NULL) == 0 && plait_plan_count(h->plan) > 0);
  OK(plait_plan_at(h->plan, 0, &info, &error));
  OK(plait_plan_rank_at(h->plan, 0, 0, &rank, &error));
  if (OK(plait_plan_report(h->plan, 0, "memory", &report, &error))) plait_bytes_free(report);
  OK(plait_plan_apply(h->plan, 0, h->config, &error));
}

/* A group of one process is complete: meeting others succeeds and does nothing. */
static void group(Handles* h) {
  plait_bytes* card = NULL;
  plait_kv kv = {0};
  kv.struct_size = sizeof kv;
  kv.put = put;
  kv.get = get;
  refused("ranks that do not fit",
          plait_group_create(h->context, h->config, 1, 1, 1, &h->group, &error));
  if (!OK(plait_group_create(h->context, h->config, 0, 1, 1, &h->group, &error))) return;
  if (OK(plait_group_card(h->group, &card, &error))) {
    OK(plait_group_add_card(h->group, plait_bytes_data(card), plait_bytes_size(card), &error));
    plait_bytes_free(card);
  }
  OK(plait_group_commit(h->group, -1, &error));
  OK(plait_group_join_kv(h->group, &kv, -1, &error));
  OK(plait_group_join_tcp(h->group, "localhost:1", -1, &error));
  refused("an unknown measurement", plait_group_measure(h->group, "nonsense", -1, NULL, &error));
}

static void metrics_of(const char* what, const plait_metrics* m) {
  printf("%s: step %lld samples %lld tokens %lld targets %lld skipped %lld valid %d\n", what,
         (long long)m->step, (long long)m->samples_total, (long long)m->tokens,
         (long long)m->targets, (long long)m->skipped,
         (m->valid & PLAIT_METRICS_STEP) != 0 && (m->valid & PLAIT_METRICS_TIME) != 0);
  say("a loss near ln 256", m->loss > 4.8 && m->loss < 6.3);
}

static void feed(Handles* h) {
  int32_t* tokens = NULL;
  int32_t copy[TOKENS];
  int i;
  for (i = 0; i < TOKENS; ++i) copy[i] = i * 7 % VOCABULARY;
  OK(plait_batch_create(h->engine, PLAIT_BATCH_GLOBAL, &h->batch, &error));
  OK(plait_batch_set(h->batch, "tokens", copy, ROWS, LENGTH + 1, &error));
  if (OK(plait_batch_map(h->batch, "tokens", ROWS, LENGTH + 1, &tokens, &error))) {
    say("a batch's own memory", memcmp(tokens, copy, sizeof copy) == 0);
  }
}

static void steps(Handles* h) {
  plait_metrics m = {0};
  plait_batch_spec spec = {0};
  int64_t first = -1, count = -1;
  m.struct_size = sizeof m;
  spec.struct_size = sizeof spec;
  if (OK(plait_engine_batch_spec(h->engine, &spec, &error))) {
    printf("batch: %lld %lld rows of %lld, needs %lld\n", (long long)spec.global_rows,
           (long long)spec.local_rows, (long long)spec.sequence_length, (long long)spec.needs);
  }
  OK(plait_engine_batch_span(h->engine, ROWS, 0, &first, &count, &error));
  printf("span: %lld %lld\n", (long long)first, (long long)count);
  if (OK(plait_engine_step(h->engine, h->batch, -1, &m, &error))) metrics_of("step", &m);
  OK(plait_engine_forward_backward(h->engine, h->batch, -1, &m, &error));
  if (OK(plait_engine_optimizer_step(h->engine, -1, &m, &error))) {
    printf("optimizer_step: step %lld\n", (long long)m.step);
  }
  if (OK(plait_engine_evaluate(h->engine, h->batch, -1, &m, &error))) {
    say("an evaluation", m.loss > 0 && m.targets == ROWS * LENGTH);
  }
  plait_engine_request_stop(h->engine);
  say("a stop is an answer",
      plait_engine_step(h->engine, h->batch, -1, &m, &error) == PLAIT_STOPPED && error == NULL &&
          m.step == 3);
}

static void engine(Handles* h) {
  static float losses[ROWS * LENGTH], weights[LENGTH * 16];
  const int32_t prompt[] = {1, 2, 3};
  plait_bytes* bytes = NULL;
  plait_entry_info info = {0};
  double value = -1;
  info.struct_size = sizeof info;
  OK(plait_engine_score(h->engine, h->batch, -1, losses, sizeof losses, &error));
  say("a score", losses[0] > 0);
  if (OK(plait_engine_generate(h->engine, prompt, 3, 5, -1, &bytes, &error))) {
    printf("generated: %lld bytes\n", (long long)plait_bytes_size(bytes));
    plait_bytes_free(bytes);
  }
  OK(plait_engine_set(h->engine, "generate.seed", "3", &error));
  OK(plait_engine_set_property(h->engine, "smoke", PLAIT_PROPERTY_INTEGER, 5, 0, NULL, &error));
  refused("an unknown counter", plait_engine_counter(h->engine, "nonsense", &value, &error));
  if (OK(plait_engine_report(h->engine, "config", &bytes, &error))) {
    say("a report", starts(bytes, "{"));
  }
  say("tensors", plait_engine_tensor_count(h->engine) > 0);
  if (OK(plait_engine_tensor_at(h->engine, 0, &info, &error))) {
    printf("tensor: %s kind %lld dims %lld\n", info.name, (long long)info.kind,
           (long long)info.dims);
  }
  OK(plait_engine_tensor_read(h->engine, "embedding.position.weight", PLAIT_KIND_PARAM,
                              PLAIT_DTYPE_FLOAT32, -1, weights, sizeof weights, &error));
  OK(plait_engine_tensor_write(h->engine, "embedding.position.weight", PLAIT_KIND_PARAM,
                               PLAIT_DTYPE_FLOAT32, weights, sizeof weights, -1, &error));
  printf("state: %d\n", (int)plait_engine_state(h->engine));
}

static void data(Handles* h) {
  plait_bytes* bytes = NULL;
  plait_dataset_info info = {0};
  info.struct_size = sizeof info;
  OK(plait_dataset_open(h->context, h->config, "train", &h->dataset, &error));
  if (OK(plait_dataset_describe(h->dataset, &info, &error))) {
    printf("dataset: %lld tokens, %lld samples\n", (long long)info.tokens, (long long)info.samples);
  }
  if (OK(plait_dataset_read(h->dataset, "tokens", 0, 2, &bytes, &error))) {
    printf("samples: %lld bytes\n", (long long)plait_bytes_size(bytes));
    plait_bytes_free(bytes);
  }
  OK(plait_engine_attach_dataset(h->engine, "train", h->dataset, -1, &error));
  OK(plait_engine_step(h->engine, NULL, -1, NULL, &error));
  OK(plait_engine_attach_dataset(h->engine, "train", NULL, -1, &error));
}

static void tokenizer(Handles* h) {
  plait_bytes *bytes = NULL, *text = NULL;
  OK(plait_tokenizer_open(h->context, "byte", NULL, &h->tokenizer, &error));
  printf("vocabulary: %lld\n", (long long)plait_tokenizer_vocab_size(h->tokenizer));
  if (OK(plait_tokenizer_encode(h->tokenizer, "ab", 2, &bytes, &error))) {
    const int32_t* ids = plait_bytes_data(bytes);
    printf("tokens: %d %d\n", (int)ids[0], (int)ids[1]);
    if (OK(plait_tokenizer_decode(h->tokenizer, ids, 2, &text, &error))) {
      say("text comes back", starts(text, "ab"));
    }
    plait_bytes_free(bytes);
  }
  OK(plait_tokenizer_encode_file(h->tokenizer, NULL, "text", "encoded.bin", &h->op, &error));
  OK(plait_op_wait(h->op, -1, &error));
  plait_op_free(h->op);
  h->op = NULL;
}

/* Waits for an operation, looks at it, frees it. */
static void finish(Handles* h, const char* what) {
  plait_progress progress = {0};
  plait_bytes* report = NULL;
  progress.struct_size = sizeof progress;
  if (!ok(what, plait_op_wait(h->op, -1, &error))) return;
  OK(plait_op_progress(h->op, &progress, &error));
  printf("%s: state %lld\n", what, (long long)progress.state);
  if (OK(plait_op_result(h->op, &report, &error))) say("its report", starts(report, "{"));
  plait_op_cancel(h->op); /* too late: it is done */
  plait_op_free(h->op);
  h->op = NULL;
}

static void checkpoints(Handles* h) {
  plait_bytes* report = NULL;
  plait_entry_info info = {0};
  const void* memory = NULL;
  int64_t bytes = 0;
  info.struct_size = sizeof info;
  OK(plait_checkpoint_save(h->engine, "root", -1, &h->op, &error));
  finish(h, "save");
  if (OK(plait_checkpoint_load(h->engine, "root", -1, &report, &error))) {
    say("a load says what it took", starts(report, "{"));
  }
  if (OK(plait_checkpoint_list(h->context, "root", &report, &error))) {
    say("a list", starts(report, "{"));
  }
  if (!OK(plait_checkpoint_open(h->context, "root", &h->checkpoint, &error))) return;
  if (OK(plait_checkpoint_report(h->checkpoint, &report, &error))) {
    say("a report of it", starts(report, "{"));
  }
  OK(plait_checkpoint_set(h->checkpoint, "checkpoint.mmap", "true", &error));
  if (OK(plait_checkpoint_entry_at(h->checkpoint, 0, &info, &error))) {
    printf("entry: %s kind %lld\n", info.name, (long long)info.kind);
  }
  say("entries", plait_checkpoint_entry_count(h->checkpoint) > 0);
  OK(plait_checkpoint_map(h->checkpoint, "embedding.position.weight", PLAIT_KIND_PARAM, &memory,
                          &bytes, &error));
  printf("mapped: %lld bytes\n", (long long)bytes);
  OK(plait_checkpoint_verify(h->checkpoint, 1, &h->op, &error));
  finish(h, "verify");
  OK(plait_checkpoint_convert(h->checkpoint, h->config, "other", &h->op, &error));
  finish(h, "convert");
  OK(plait_checkpoint_export_hf(h->checkpoint, NULL, "exported", &h->op, &error));
  finish(h, "export");
}

static int write_inputs(void) {
  FILE* file = fopen("tokens.bin", "wb");
  int i;
  if (file == NULL) return 0;
  for (i = 0; i < 500; ++i) fputc(i % 250, file), fputc(0, file);
  if (fclose(file) != 0 || (file = fopen("text", "wb")) == NULL) return 0;
  fputs("some text", file);
  return fclose(file) == 0;
}

int main(void) {
  Handles h = {0};
  if (!write_inputs()) return 2;
  library(&h);
  configuration(&h);
  planner(&h);
  group(&h);
  if (OK(plait_engine_create(h.group, h.config, -1, &h.engine, &error))) {
    feed(&h);
    steps(&h);
    engine(&h);
    data(&h);
    tokenizer(&h);
    checkpoints(&h);
    OK(plait_engine_close(h.engine, -1, &error));
    plait_engine_abort(h.engine);
  }
  plait_group_abort(h.group);
  /* Parents before children: the order does not matter. */
  plait_context_free(h.context);
  plait_config_free(h.config);
  plait_plan_free(h.plan);
  plait_group_free(h.group);
  plait_engine_free(h.engine);
  plait_batch_free(h.batch);
  plait_dataset_free(h.dataset);
  plait_tokenizer_free(h.tokenizer);
  plait_checkpoint_free(h.checkpoint);
  plait_op_free(h.op);
  printf("%d failures\n", failures);
  return failures != 0;
}
