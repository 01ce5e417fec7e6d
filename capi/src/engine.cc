#include "capi/src/engine.h"

#include <string>
#include <utility>
#include <vector>

#include "capi/src/arguments.h"
#include "capi/src/batch.h"
#include "capi/src/bytes.h"
#include "capi/src/config.h"
#include "capi/src/dataset.h"
#include "capi/src/guard.h"
#include "capi/src/sized_struct.h"

using plait::Code;
using plait::guard;
using plait::Held;
using plait::Use;

namespace {

Code code_of(plait::Outcome outcome) {
  return outcome == plait::Outcome::kStopped ? Code::kStopped : Code::kOk;
}

plait_metrics to_struct(const plait::Metrics& from) {
  plait_metrics to{};
  to.valid = from.valid;
  to.step = from.step;
  to.samples_total = from.samples_total;
  to.tokens_total = from.tokens_total;
  to.skipped_total = from.skipped_total;
  to.tokens = from.tokens;
  to.targets = from.targets;
  to.skipped = from.skipped;
  to.loss = from.loss;
  to.grad_norm = from.grad_norm;
  to.lr = from.lr;
  to.loss_scale = from.loss_scale;
  to.step_seconds = from.step_seconds;
  to.tokens_per_second = from.tokens_per_second;
  to.model_flops_per_second = from.model_flops_per_second;
  to.forward_seconds = from.forward_seconds;
  to.backward_seconds = from.backward_seconds;
  to.communication_seconds = from.communication_seconds;
  to.optimizer_seconds = from.optimizer_seconds;
  to.bubble_seconds = from.bubble_seconds;
  to.data_seconds = from.data_seconds;
  to.memory_bytes = from.memory_bytes;
  to.memory_peak_bytes = from.memory_peak_bytes;
  to.diverged_rank = from.diverged_rank;
  return to;
}

// The host's batch during one call of an engine.
class HeldBatch {
 public:
  HeldBatch(const plait_batch* batch, const plait_engine* engine)
      : held_(batch, "batch", Use::kShared), view_(held_->view()) {
    if (held_->engine.get() == engine) return;
    throw plait::Error("argument", "the batch was made for another engine")
        .with("parameter", "batch")
        .subsystem("capi");
  }
  const plait::Batch& view() const { return view_; }

 private:
  Held<plait_batch> held_;
  plait::Batch view_;
};

// A call that takes a batch (null where `body` allows it) and fills metrics.
template <class Body>
int32_t run_batch(plait_engine* engine, const plait_batch* batch, int64_t timeout_ms,
                  plait_metrics* metrics, plait_error** err, Body&& body) {
  plait::StructOut<plait_metrics> out(metrics, "plait_metrics");
  return guard(err, [&] {
    out.check();
    const Held<plait_engine> held(engine, "engine", Use::kExclusive);
    plait::check_timeout(timeout_ms);
    plait::Metrics values;
    plait::Outcome outcome;
    if (batch == nullptr) {
      outcome = body(*held->value, nullptr, &values);
    } else {
      const HeldBatch host(batch, held.get());
      outcome = body(*held->value, &host.view(), &values);
    }
    out.write(to_struct(values));
    return code_of(outcome);
  });
}

[[noreturn]] void refuse_null_batch() {
  throw plait::Error("bad_handle", "this call takes a batch of the host")
      .with("parameter", "batch")
      .subsystem("capi");
}

}  // namespace

int32_t plait_engine_create(plait_group* group, const plait_config* config, int64_t timeout_ms,
                            plait_engine** engine, plait_error** err) {
  const plait::HandleOut<plait_engine> out(engine, "engine");
  return guard(err, [&] {
    out.check();
    const Held<plait_group> held(group, "group", Use::kExclusive);
    const plait::Config copy = plait::copy_config(config, "config");
    plait::check_timeout(timeout_ms);
    if (held->has_engine.load()) {
      throw plait::Error("busy", "the group has an engine already: free it first")
          .with("parameter", "group")
          .subsystem("capi");
    }
    plait_context* context = held->context.get();
    const plait_host& host = context->host;
    plait::EngineOptions options;
    options.env = &context->env;
    options.log = &context->log();
    options.hooks.start = [&host](const char* name) { plait::call_thread_start(host, name); };
    options.hooks.stop = [&host] { plait::call_thread_stop(host); };
    options.world = held->world.get();
    out.set(new plait_engine(held.ref(), plait::Engine::create(copy, options, timeout_ms)));
    held->has_engine.store(true);
  });
}

int32_t plait_engine_state(const plait_engine* engine) {
  if (!plait::may_answer() || !plait::is_live(engine)) return 0;
  return static_cast<int32_t>(engine->value->state());
}

int32_t plait_engine_batch_spec(const plait_engine* engine, plait_batch_spec* spec,
                                plait_error** err) {
  plait::StructOut<plait_batch_spec> out(spec, "plait_batch_spec");
  return guard(err, [&] {
    out.check();
    const Held<plait_engine> held(engine, "engine", Use::kExclusive);
    const plait::BatchSpec from = held->value->batch_spec();
    plait_batch_spec to{};
    to.valid = PLAIT_VALID_ALL;
    to.global_rows = from.global_rows;
    to.local_rows = from.local_rows;
    to.span_count = from.span_count;
    to.sequence_length = from.sequence_length;
    to.vocab_size = from.vocab_size;
    to.first_sample = from.first_sample;
    to.needs = from.needs;
    out.write(to);
  });
}

int32_t plait_engine_batch_span(const plait_engine* engine, int64_t global_rows, int64_t index,
                                int64_t* first, int64_t* count, plait_error** err) {
  return guard(err, [&] {
    plait::check_aligned(first, "first");
    plait::check_aligned(count, "count");
    const Held<plait_engine> held(engine, "engine", Use::kExclusive);
    int64_t run_first = 0, run_count = 0;
    held->value->batch_span(global_rows, index, &run_first, &run_count);
    plait::put(first, run_first);
    plait::put(count, run_count);
  });
}

int32_t plait_engine_step(plait_engine* engine, const plait_batch* batch, int64_t timeout_ms,
                          plait_metrics* metrics, plait_error** err) {
  return run_batch(engine, batch, timeout_ms, metrics, err,
                   [&](plait::Engine& value, const plait::Batch* view, plait::Metrics* values) {
                     return value.step(view, timeout_ms, values);
                   });
}

int32_t plait_engine_forward_backward(plait_engine* engine, const plait_batch* batch,
                                      int64_t timeout_ms, plait_metrics* metrics,
                                      plait_error** err) {
  return run_batch(engine, batch, timeout_ms, metrics, err,
                   [&](plait::Engine& value, const plait::Batch* view, plait::Metrics* values) {
                     if (view == nullptr) refuse_null_batch();
                     return value.forward_backward(*view, timeout_ms, values);
                   });
}

int32_t plait_engine_optimizer_step(plait_engine* engine, int64_t timeout_ms,
                                    plait_metrics* metrics, plait_error** err) {
  return run_batch(engine, nullptr, timeout_ms, metrics, err,
                   [&](plait::Engine& value, const plait::Batch*, plait::Metrics* values) {
                     return value.optimizer_step(timeout_ms, values);
                   });
}

int32_t plait_engine_evaluate(plait_engine* engine, const plait_batch* batch, int64_t timeout_ms,
                              plait_metrics* metrics, plait_error** err) {
  return run_batch(engine, batch, timeout_ms, metrics, err,
                   [&](plait::Engine& value, const plait::Batch* view, plait::Metrics* values) {
                     return value.evaluate(view, timeout_ms, values);
                   });
}

int32_t plait_engine_score(plait_engine* engine, const plait_batch* batch, int64_t timeout_ms,
                           void* losses, int64_t bytes, plait_error** err) {
  return guard(err, [&] {
    const Held<plait_engine> held(engine, "engine", Use::kExclusive);
    plait::check_timeout(timeout_ms);
    const HeldBatch host(batch, held.get());
    plait::bytes_argument(losses, bytes, "losses");
    auto* memory = static_cast<float*>(losses);
    plait::check_aligned(memory, "losses");
    return code_of(held->value->score(host.view(), timeout_ms, memory, bytes));
  });
}

int32_t plait_engine_generate(plait_engine* engine, const int32_t* prompt, int64_t prompt_count,
                              int64_t max_tokens, int64_t timeout_ms, plait_bytes** tokens,
                              plait_error** err) {
  const plait::BytesOut out(tokens, "tokens");
  return guard(err, [&] {
    out.check();
    const Held<plait_engine> held(engine, "engine", Use::kExclusive);
    plait::check_timeout(timeout_ms);
    plait::check_range(prompt_count, 1, int64_t{1} << 40, "prompt_count");
    plait::bytes_argument(prompt, prompt_count * 4, "prompt");
    plait::check_aligned(prompt, "prompt");
    plait::check_range(max_tokens, 0, int64_t{1} << 40, "max_tokens");
    std::vector<int32_t> made;
    const plait::Outcome outcome =
        held->value->generate(prompt, prompt_count, max_tokens, timeout_ms, &made);
    if (outcome == plait::Outcome::kDone) out.set(made);
    return code_of(outcome);
  });
}

int32_t plait_engine_attach_dataset(plait_engine* engine, const char* role, plait_dataset* dataset,
                                    int64_t timeout_ms, plait_error** err) {
  return guard(err, [&] {
    const Held<plait_engine> held(engine, "engine", Use::kExclusive);
    const std::string name = plait::text_argument(role, "role");
    plait::check_choice(name, "train evaluate", "role");
    plait::check_timeout(timeout_ms);
    std::shared_ptr<const plait::Dataset> value;
    if (dataset != nullptr) value = Held<plait_dataset>(dataset, "dataset")->value;
    held->value->attach_dataset(name, std::move(value), timeout_ms);
  });
}

void plait_engine_request_stop(plait_engine* engine) {
  // A signal handler may be the caller: nothing but atomic operations.
  if (!plait::is_live(engine) || plait::is_forked()) return;
  const plait::Ref<plait_engine> ref(engine);
  ref->value->request_stop();
}

void plait_engine_abort(plait_engine* engine) {
  plait::guard_void([&] { Held<plait_engine>(engine, "engine")->value->abort(); });
}

int32_t plait_engine_close(plait_engine* engine, int64_t timeout_ms, plait_error** err) {
  return guard(err, [&] {
    const Held<plait_engine> held(engine, "engine", Use::kExclusive);
    plait::check_timeout(timeout_ms);
    held->value->close(timeout_ms);
  });
}

void plait_engine_free(plait_engine* engine) {
  plait::guard_void([&] { plait::free_handle(engine); });
}
