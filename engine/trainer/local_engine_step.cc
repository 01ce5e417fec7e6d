// Steps, gradients, evaluation and scores.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/trainer/host_rows.h"
#include "engine/trainer/local_engine.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

int64_t LocalEngine::rows_of_step() const { return settings_.train.batch_at(totals_.samples); }

BatchSpec LocalEngine::batch_spec() const {
  BatchSpec spec;
  spec.global_rows = rows_of_step();
  spec.local_rows = spec.global_rows;
  spec.span_count = 1;
  spec.sequence_length = settings_.train.sequence_length;
  spec.vocab_size = settings_.model.vocab_size;
  spec.first_sample = totals_.samples + pending_.samples;
  spec.needs = kNeedsTokens | kNeedsTargets | kNeedsDocuments;
  return spec;
}

void LocalEngine::batch_span(int64_t global_rows, int64_t index, int64_t* first,
                             int64_t* count) const {
  const int64_t multiple = settings_.layout.data * settings_.layout.micro_batch;
  if (global_rows < 1 || global_rows % multiple != 0 || index != 0) {
    throw Error("argument", "no such span")
        .with("global_rows", global_rows)
        .with("multiple", multiple)
        .with("index", index)
        .with("span_count", 1);
  }
  *first = 0;
  *count = global_rows;
}

void LocalEngine::check_no_pending(const char* call_name) const {
  if (!pending_.has_gradients) return;
  throw Error("mid_step", "gradients wait for optimizer_step").with("call", call_name);
}

void LocalEngine::check_rows(int64_t rows) const {
  const int64_t most = rank_->most_micro_batches() * settings_.layout.micro_batch;
  if (most == 0 || rows <= most) return;
  throw Error("argument", "the gpipe schedule holds at most the global batch at once")
      .with("rows", rows)
      .with("limit", most);
}

RunArguments LocalEngine::run_arguments(const MicroSource& source) const {
  RunArguments arguments;
  arguments.source = &source;
  arguments.batch = settings_.layout.micro_batch;
  arguments.sequence = settings_.train.sequence_length;
  return arguments;
}

Batch LocalEngine::read_rows(Rows* rows, int64_t first, int64_t count) {
  const int64_t columns = settings_.train.sequence_length + 1;
  Batch batch;
  rows->dataset->read(first, count, rows->tokens.data());
  batch.tokens = {rows->tokens.data(), count, columns};
  if (rows->dataset->isolates_documents()) {
    rows->dataset->read_documents(first, count, rows->documents.data());
    batch.documents = {rows->documents.data(), count, columns};
  }
  return batch;
}

/// On the rank's thread: forward and backward over the rows of a checked batch.
void LocalEngine::run_gradients(const Batch& batch, int64_t rows) {
  const HostRows source(batch, settings_.layout.micro_batch, settings_.train.sequence_length);
  RunArguments arguments = run_arguments(source);
  arguments.first_sample = totals_.samples + pending_.samples;
  arguments.gradient_scale = rank_->gradient_seed();
  arguments.is_training = true;
  arguments.is_accumulating = pending_.has_gradients;
  arguments.start = pending_.sum;
  const RunResult run = rank_->accumulate(arguments, rows / settings_.layout.micro_batch);
  pending_.has_gradients = true;
  pending_.sum = run.sum;
  pending_.samples += rows;
  pending_.tokens += rows * settings_.train.sequence_length;
  pending_.forward_ns += run.forward_ns;
  pending_.backward_ns += run.backward_ns;
}

void LocalEngine::run_update() {
  const int64_t begin = options_.env->clock.now_ns();
  last_loss_scale_ = rank_->loss_scale();
  last_update_ = rank_->update(pending_.sum);
  pending_.optimizer_ns += options_.env->clock.now_ns() - begin;
}

Outcome LocalEngine::step(const Batch* batch, int64_t timeout_ms, Metrics* metrics) {
  check_usable();
  check_no_pending("step");
  const bool has_dataset = train_.dataset != nullptr;
  if ((batch == nullptr) != has_dataset) {
    throw Error("argument", batch == nullptr ? "a step needs a batch or an attached train dataset"
                                             : "a train dataset is attached: pass no batch")
        .with("batch", batch == nullptr ? "none" : "given")
        .with("dataset", has_dataset ? "attached" : "none");
  }
  request_ = {};
  request_.batch = batch;
  request_.rows = rows_of_step();
  if (batch != nullptr) {
    check_batch(*batch, {request_.rows, settings_.layout.data * settings_.layout.micro_batch,
                         settings_.train.sequence_length, settings_.model.vocab_size});
  }
  pending_ = {};
  pending_.begin_ns = options_.env->clock.now_ns();
  try {
    call(
        [this] {
          Batch read;
          if (request_.batch == nullptr) {
            read = read_rows(&train_, totals_.samples, request_.rows);
            pending_.data_ns = options_.env->clock.now_ns() - pending_.begin_ns;
          }
          run_gradients(request_.batch != nullptr ? *request_.batch : read, request_.rows);
          run_update();
        },
        timeout_ms);
  } catch (...) {
    pending_ = {};
    throw;
  }
  return finish_update(metrics);
}

Outcome LocalEngine::forward_backward(const Batch& batch, int64_t timeout_ms, Metrics* metrics) {
  check_usable();
  request_ = {};
  request_.batch = &batch;
  request_.rows = check_batch(batch, {0, settings_.layout.data * settings_.layout.micro_batch,
                                      settings_.train.sequence_length, settings_.model.vocab_size});
  check_rows(request_.rows);
  if (!pending_.has_gradients) {
    pending_ = {};
    pending_.begin_ns = options_.env->clock.now_ns();
  }
  const Pending before = pending_;
  try {
    call([this] { run_gradients(*request_.batch, request_.rows); }, timeout_ms);
  } catch (...) {
    pending_ = before;
    throw;
  }
  if (metrics != nullptr) {
    *metrics = {};
    metrics->valid = kMetricsStep;
    metrics->step = totals_.step + 1;
    metrics->samples_total = totals_.samples + pending_.samples;
    metrics->tokens_total = totals_.tokens + pending_.tokens;
    metrics->skipped_total = totals_.skipped;
    metrics->tokens = pending_.tokens;
    metrics->targets = pending_.sum.targets;
    metrics->loss = pending_.sum.targets == 0
                        ? 0.0
                        : pending_.sum.loss / static_cast<double>(pending_.sum.targets);
    metrics->lr = rank_->learning_rate().at(rank_->updates() + 1);
    metrics->loss_scale = rank_->loss_scale();
  }
  return take_stop() ? Outcome::kStopped : Outcome::kDone;
}

Outcome LocalEngine::optimizer_step(int64_t timeout_ms, Metrics* metrics) {
  check_usable();
  if (!pending_.has_gradients) {
    throw Error("mid_step", "no gradients are there: call forward_backward first");
  }
  call([this] { run_update(); }, timeout_ms);
  return finish_update(metrics);
}

/// Takes the decision of the rank into the totals, or turns it into an error that leaves them.
Outcome LocalEngine::finish_update(Metrics* metrics) {
  const int64_t step = totals_.step + 1;
  if (last_update_.kind == Update::Kind::kNonfinite ||
      last_update_.kind == Update::Kind::kScaleExhausted) {
    const Pending lost = pending_;
    pending_ = {};
    const bool is_nonfinite = last_update_.kind == Update::Kind::kNonfinite;
    const int64_t tensor = last_update_.nonfinite_tensor;
    throw Error(is_nonfinite ? "nonfinite_loss" : "scale_exhausted",
                is_nonfinite ? "loss or gradients are not finite; the update was not applied"
                             : "overflow at the smallest loss scale; the update was not applied")
        .with("step", step)
        .with("rank", options_.rank)
        .with("loss", lost.sum.loss / static_cast<double>(lost.sum.targets))
        .with("tensor",
              tensor < 0 ? "none" : rank_->tensors()[static_cast<size_t>(tensor)].name.c_str())
        .with("first_sample", totals_.samples)
        .with("samples", lost.samples)
        .rank(options_.rank)
        .subsystem("engine/optimizer");
  }
  {
    const std::lock_guard lock(mutex_);
    totals_.step = step;
    totals_.samples += pending_.samples;
    totals_.tokens += pending_.tokens;
    totals_.skipped += last_update_.kind == Update::Kind::kSkipped ? 1 : 0;
    totals_.forward_seconds += seconds(pending_.forward_ns);
    totals_.backward_seconds += seconds(pending_.backward_ns);
    totals_.optimizer_seconds += seconds(pending_.optimizer_ns);
    const double passed = seconds(options_.env->clock.now_ns() - pending_.begin_ns);
    totals_.step_seconds += passed;
    remember_step(passed);
  }
  if (metrics != nullptr) {
    *metrics = {};
    fill_step_metrics(metrics);
    fill_time_metrics(metrics);
  }
  pending_ = {};
  return take_stop() ? Outcome::kStopped : Outcome::kDone;
}

void LocalEngine::remember_step(double passed) {
  recent_seconds_[static_cast<size_t>(timed_steps_) % recent_seconds_.size()] = passed;
  ++timed_steps_;
}

void LocalEngine::fill_step_metrics(Metrics* metrics) const {
  metrics->valid |= kMetricsStep;
  metrics->step = totals_.step;
  metrics->samples_total = totals_.samples;
  metrics->tokens_total = totals_.tokens;
  metrics->skipped_total = totals_.skipped;
  metrics->tokens = pending_.tokens;
  metrics->targets = pending_.sum.targets;
  metrics->skipped = last_update_.kind == Update::Kind::kSkipped ? 1 : 0;
  metrics->loss = pending_.sum.targets == 0
                      ? 0.0
                      : pending_.sum.loss / static_cast<double>(pending_.sum.targets);
  metrics->grad_norm = last_update_.grad_norm;
  metrics->lr = last_update_.lr;
  metrics->loss_scale = last_loss_scale_;
}

/// FLOPs of a training pass over `samples`, attention counted whole: 3·(L·(E + X) + O) a sample.
double LocalEngine::model_flops(int64_t samples) const {
  const ModelConfig& m = settings_.model;
  const auto f = [](int64_t value) { return static_cast<double>(value); };
  const double s = f(settings_.train.sequence_length), h = f(m.hidden);
  const double heads = f(m.heads * m.head_size), keys = f(m.key_value_heads * m.head_size);
  const double products = m.family == FamilyChoice::kGpt2 ? 2.0 : 3.0;
  const double linear =
      2.0 * s * (2.0 * h * heads + 2.0 * h * keys + products * h * f(m.feed_forward));
  const double attention = 4.0 * s * s * heads;
  const double logits = 2.0 * s * h * f(m.vocab_size);
  return 3.0 * f(samples) * (f(m.layers) * (linear + attention) + logits);
}

void LocalEngine::fill_time_metrics(Metrics* metrics) const {
  metrics->valid |= kMetricsTime | kMetricsMemory;
  metrics->step_seconds = seconds(options_.env->clock.now_ns() - pending_.begin_ns);
  metrics->tokens_per_second = static_cast<double>(pending_.tokens) / metrics->step_seconds;
  metrics->model_flops_per_second = model_flops(pending_.samples) / metrics->step_seconds;
  metrics->forward_seconds = seconds(pending_.forward_ns);
  metrics->backward_seconds = seconds(pending_.backward_ns);
  metrics->optimizer_seconds = seconds(pending_.optimizer_ns);
  metrics->data_seconds = seconds(pending_.data_ns);
  metrics->memory_bytes = rank_->ledger().total();
  metrics->memory_peak_bytes = rank_->ledger().peak();
}

/// On the rank's thread: the loss of a checked batch, or of the evaluation dataset's start.
void LocalEngine::run_evaluation() {
  const int64_t batches = request_.batch != nullptr ? 1 : settings_.evaluate.batches;
  for (int64_t i = 0; i < batches; ++i) {
    const Batch batch = request_.batch != nullptr
                            ? *request_.batch
                            : read_rows(&evaluate_, i * request_.rows, request_.rows);
    const HostRows source(batch, settings_.layout.micro_batch, settings_.train.sequence_length);
    RunArguments arguments = run_arguments(source);
    arguments.start = request_.sum;
    arguments.losses = request_.losses;
    arguments.stop = &is_stop_requested_;
    const RunResult run = rank_->evaluate(arguments, request_.rows / settings_.layout.micro_batch);
    request_.sum = run.sum;
    if (run.is_stopped) {
      request_.is_stopped = true;
      return;
    }
  }
}

Outcome LocalEngine::evaluate(const Batch* batch, int64_t timeout_ms, Metrics* metrics) {
  check_usable();
  const bool has_dataset = evaluate_.dataset != nullptr;
  if ((batch == nullptr) != has_dataset) {
    throw Error("argument", batch == nullptr
                                ? "an evaluation needs a batch or an attached evaluate dataset"
                                : "an evaluate dataset is attached: pass no batch")
        .with("batch", batch == nullptr ? "none" : "given")
        .with("dataset", has_dataset ? "attached" : "none");
  }
  const int64_t begin = options_.env->clock.now_ns();
  request_ = {};
  request_.batch = batch;
  request_.rows = settings_.train.global_batch;
  if (batch != nullptr) {
    request_.rows =
        check_batch(*batch, {0, settings_.layout.data * settings_.layout.micro_batch,
                             settings_.train.sequence_length, settings_.model.vocab_size});
  }
  call([this] { run_evaluation(); }, timeout_ms);
  if (request_.is_stopped) {
    take_stop();
    return Outcome::kStopped;
  }
  if (metrics != nullptr) {
    *metrics = {};
    metrics->valid = kMetricsStep | kMetricsTime;
    metrics->step = totals_.step;
    metrics->samples_total = totals_.samples;
    metrics->tokens_total = totals_.tokens;
    metrics->skipped_total = totals_.skipped;
    metrics->targets = request_.sum.targets;
    const int64_t batches = batch != nullptr ? 1 : settings_.evaluate.batches;
    metrics->tokens = batches * request_.rows * settings_.train.sequence_length;
    metrics->loss = request_.sum.targets == 0
                        ? 0.0
                        : request_.sum.loss / static_cast<double>(request_.sum.targets);
    metrics->grad_norm = std::numeric_limits<double>::quiet_NaN();
    metrics->loss_scale = rank_->loss_scale();
    metrics->step_seconds = seconds(options_.env->clock.now_ns() - begin);
    metrics->tokens_per_second = static_cast<double>(metrics->tokens) / metrics->step_seconds;
  }
  return Outcome::kDone;
}

Outcome LocalEngine::score(const Batch& batch, int64_t timeout_ms, float* losses, int64_t bytes) {
  check_usable();
  request_ = {};
  request_.batch = &batch;
  request_.rows = check_batch(batch, {0, settings_.layout.data * settings_.layout.micro_batch,
                                      settings_.train.sequence_length, settings_.model.vocab_size});
  const int64_t want =
      request_.rows * settings_.train.sequence_length * static_cast<int64_t>(sizeof(float));
  if (losses == nullptr || bytes != want) {
    throw Error("argument", "losses takes one float32 for each row and position")
        .with("bytes", bytes)
        .with("want", want);
  }
  request_.losses = losses;
  call([this] { run_evaluation(); }, timeout_ms);
  if (!request_.is_stopped) return Outcome::kDone;
  take_stop();
  return Outcome::kStopped;
}

}  // namespace plait
