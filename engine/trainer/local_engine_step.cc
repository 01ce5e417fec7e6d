// Steps, gradients, evaluation and scores.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/planner/flops.h"
#include "engine/trainer/local_engine.h"
#include "engine/trainer/row_digests.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

double mean_loss(const GlobalSums& sums) {
  return sums.targets == 0 ? 0.0 : sums.loss / static_cast<double>(sums.targets);
}

}  // namespace

int64_t LocalEngine::rows_of_step() const { return settings_.train.batch_at(totals_.samples); }

int64_t LocalEngine::micro_batches(int64_t rows) const {
  return rows / (settings_.layout.data * settings_.layout.micro_batch);
}

/// Position of a data coordinate among the local ones.
int64_t LocalEngine::local_index(int64_t data) const {
  return std::lower_bound(local_data_.begin(), local_data_.end(), data) - local_data_.begin();
}

BatchSpec LocalEngine::batch_spec() const {
  BatchSpec spec;
  spec.global_rows = rows_of_step();
  const auto local = static_cast<int64_t>(local_data_.size());
  spec.local_rows = spec.global_rows / settings_.layout.data * local;
  spec.span_count = 1;
  for (size_t i = 1; i < local_data_.size(); ++i) {
    spec.span_count += local_data_[i] == local_data_[i - 1] + 1 ? 0 : 1;
  }
  spec.sequence_length = settings_.train.sequence_length;
  spec.vocab_size = settings_.model.vocab_size;
  spec.first_sample = totals_.samples + pending_.samples;
  spec.needs = kNeedsTokens | kNeedsTargets | kNeedsDocuments;
  return spec;
}

void LocalEngine::batch_span(int64_t global_rows, int64_t index, int64_t* first,
                             int64_t* count) const {
  const int64_t multiple = settings_.layout.data * settings_.layout.micro_batch;
  const int64_t spans = batch_spec().span_count;
  if (global_rows < 1 || global_rows % multiple != 0 || index < 0 || index >= spans) {
    throw Error("argument", "no such span")
        .with("global_rows", global_rows)
        .with("multiple", multiple)
        .with("index", index)
        .with("span_count", spans);
  }
  const int64_t share = global_rows / settings_.layout.data;
  int64_t span = -1;
  for (size_t i = 0; i < local_data_.size(); ++i) {
    const bool is_new = i == 0 || local_data_[i] != local_data_[i - 1] + 1;
    if (is_new && ++span == index) {
      *first = local_data_[i] * share;
      *count = 0;
    }
    if (span == index) *count += share;
  }
}

void LocalEngine::check_no_pending(const char* call_name) const {
  if (!pending_.has_gradients) return;
  throw Error("mid_step", "gradients wait for optimizer_step").with("call", call_name);
}

/// Checks a host's batch and returns the rows of the whole world that it stands for. `global_rows`
/// 0: any number.
int64_t LocalEngine::check_host_batch(const Batch& batch, int64_t global_rows) const {
  const int64_t d = settings_.layout.data, b = settings_.layout.micro_batch;
  const auto local = static_cast<int64_t>(local_data_.size());
  const bool is_global = batch.scope == BatchScope::kGlobal;
  const int64_t parts = is_global ? d : local;
  const int64_t rows =
      check_batch(batch, {global_rows / d * parts, parts * b, settings_.train.sequence_length,
                          settings_.model.vocab_size});
  return rows / parts * d;
}

/// Of a checked batch that stands for `rows` rows of the world; empty where nobody compares it.
std::string LocalEngine::digest(const Batch& batch, int64_t rows) const {
  if (ranks_.is_alone()) return "";
  const bool is_global = batch.scope == BatchScope::kGlobal;
  const int64_t share = rows / settings_.layout.data;
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < batch.tokens.rows; ++i) {
    const auto replica = static_cast<size_t>(i / share);
    positions.push_back(is_global ? i : local_data_[replica] * share + i % share);
  }
  return digest_rows(batch, positions);
}

RunArguments LocalEngine::run_arguments(const Rank& rank, const MicroSource& source) const {
  RunArguments arguments;
  arguments.source = &source;
  arguments.batch = settings_.layout.micro_batch;
  arguments.sequence = settings_.train.sequence_length;
  const int64_t share = request_.rows / settings_.layout.data;
  arguments.first_sample = totals_.samples + pending_.samples + rank.at().data * share;
  return arguments;
}

/// The rows of a rank's data coordinate in the batch of the call.
HostRows LocalEngine::rows_for(const Rank& rank) const {
  const int64_t share = request_.rows / settings_.layout.data;
  const int64_t place =
      request_.batch.scope == BatchScope::kGlobal ? rank.at().data : local_index(rank.at().data);
  return HostRows(request_.batch, place * share, settings_.layout.micro_batch,
                  settings_.train.sequence_length);
}

/// Reads the local rows of the `count` rows of the world that start at ordinal `first`: those of
/// the local data coordinates.
Batch LocalEngine::read_rows(const Dataset& dataset, int64_t first, int64_t count) {
  const int64_t columns = settings_.train.sequence_length + 1;
  const int64_t share = count / settings_.layout.data;
  const auto local = static_cast<int64_t>(local_data_.size());
  Batch batch;
  batch.scope = BatchScope::kLocal;
  const auto size = static_cast<size_t>(share * local * columns);
  rows_.tokens.resize(size);
  batch.tokens = {rows_.tokens.data(), share * local, columns};
  const bool has_documents = dataset.isolates_documents();
  if (has_documents) {
    rows_.documents.resize(size);
    batch.documents = {rows_.documents.data(), share * local, columns};
  }
  for (int64_t i = 0; i < local; ++i) {
    const int64_t sample = first + local_data_[static_cast<size_t>(i)] * share;
    const int64_t offset = i * share * columns;
    dataset.read(sample, share, rows_.tokens.data() + offset);
    if (has_documents) dataset.read_documents(sample, share, rows_.documents.data() + offset);
  }
  return batch;
}

/// On a rank's thread: a part of a step over the rows of the call.
void LocalEngine::run_gradients(Rank& rank, int64_t local, ListPart part) {
  const HostRows source = rows_for(rank);
  RunArguments arguments = run_arguments(rank, source);
  arguments.part = part;
  arguments.gradient_scale = rank.gradient_seed();
  arguments.is_training = true;
  arguments.traced_step = trace_.is_on() ? totals_.step + 1 : 0;
  const int64_t waited = rank.communication_ns();
  const int64_t count =
      part == ListPart::kClose ? pending_.micro_batches : micro_batches(request_.rows);
  const RunResult run =
      rank.run(arguments, count, part == ListPart::kAccumulate ? 0 : compared_step());
  RankTime& time = times_[static_cast<size_t>(local)];
  time.forward_ns += run.forward_ns;
  time.backward_ns += run.backward_ns;
  time.bubble_ns += run.bubble_ns;
  time.step_ns += run.step_ns;
  time.communication_ns += rank.communication_ns() - waited;
  if (part != ListPart::kAccumulate) return;
  const GlobalSums sums = rank.pending_sums();
  if (local == 0) request_.total = sums;
}

Outcome LocalEngine::step(const Batch* batch, int64_t timeout_ms, Metrics* metrics) {
  ranks_.check_usable();
  check_no_pending("step");
  const bool has_dataset = train_ != nullptr;
  if ((batch == nullptr) != has_dataset) {
    throw Error("argument", batch == nullptr ? "a step needs a batch or an attached train dataset"
                                             : "a train dataset is attached: pass no batch")
        .with("batch", batch == nullptr ? "none" : "given")
        .with("dataset", has_dataset ? "attached" : "none");
  }
  request_ = {};
  request_.rows = rows_of_step();
  if (batch != nullptr) check_host_batch(*batch, request_.rows);
  pending_ = {};
  pending_.begin_ns = options_.env->clock.now_ns();
  std::fill(times_.begin(), times_.end(), RankTime{});
  RankSet::Call call;
  call.name = "engine_step";
  if (!ranks_.is_alone()) {
    call.value = std::to_string(totals_.step) + " " + std::to_string(totals_.samples);
    if (batch != nullptr) call.rows = digest(*batch, request_.rows);
  }
  call.timeout_ms = timeout_ms;
  const auto prepare = [&] {
    request_.batch =
        batch != nullptr ? rows_.copy(*batch) : read_rows(*train_, totals_.samples, request_.rows);
    pending_.data_ns = options_.env->clock.now_ns() - pending_.begin_ns;
  };
  call.prepare = prepare;
  call.part = [this](int64_t local) { run_gradients(ranks_.rank(local), local, ListPart::kWhole); };
  is_fresh_ = false;
  try {
    ranks_.run(call);
  } catch (...) {
    pending_ = {};
    throw;
  }
  pending_.sums = ranks_.rank(0).update().sums;
  pending_.samples = request_.rows;
  pending_.tokens = request_.rows * settings_.train.sequence_length;
  return finish_update(metrics);
}

Outcome LocalEngine::forward_backward(const Batch& batch, int64_t timeout_ms, Metrics* metrics) {
  ranks_.check_usable();
  if (settings_.precision.reduction == ReductionChoice::kCanonical) {
    throw Error("not_built", "canonical sums are made by whole steps")
        .with("call", "forward_backward")
        .with("precision.reduction", "canonical");
  }
  request_ = {};
  request_.rows = check_host_batch(batch, 0);
  for (int64_t local = 0; local < ranks_.size(); ++local) {
    ranks_.rank(local).check_micro_batches(micro_batches(request_.rows));
  }
  const Pending before = pending_;
  if (!pending_.has_gradients) {
    pending_ = {};
    pending_.begin_ns = options_.env->clock.now_ns();
    std::fill(times_.begin(), times_.end(), RankTime{});
  }
  RankSet::Call call;
  call.name = "engine_forward_backward";
  call.value = std::to_string(request_.rows);
  call.rows = digest(batch, request_.rows);
  call.timeout_ms = timeout_ms;
  const auto prepare = [&] { request_.batch = rows_.copy(batch); };
  call.prepare = prepare;
  call.part = [this](int64_t local) {
    run_gradients(ranks_.rank(local), local, ListPart::kAccumulate);
  };
  try {
    ranks_.run(call);
  } catch (...) {
    pending_ = before;
    throw;
  }
  if (trace_.is_on()) trace_.end_call(ranks_);
  pending_.has_gradients = true;
  pending_.sums = request_.total;
  pending_.micro_batches = micro_batches(request_.rows);
  pending_.samples += request_.rows;
  pending_.tokens += request_.rows * settings_.train.sequence_length;
  if (metrics != nullptr) {
    Rank& rank = ranks_.rank(0);
    *metrics = {};
    metrics->valid = kMetricsStep;
    metrics->step = totals_.step + 1;
    metrics->samples_total = totals_.samples + pending_.samples;
    metrics->tokens_total = totals_.tokens + pending_.tokens;
    metrics->skipped_total = totals_.skipped;
    metrics->tokens = pending_.tokens;
    metrics->targets = pending_.sums.targets;
    metrics->loss = mean_loss(pending_.sums);
    metrics->lr = rank.learning_rate().at(rank.updates() + 1);
    metrics->loss_scale = rank.loss_scale();
  }
  return take_stop(pending_.sums.stop != 0) ? Outcome::kStopped : Outcome::kDone;
}

Outcome LocalEngine::optimizer_step(int64_t timeout_ms, Metrics* metrics) {
  ranks_.check_usable();
  if (!pending_.has_gradients) {
    throw Error("mid_step", "no gradients are there: call forward_backward first");
  }
  request_ = {};
  RankSet::Call call;
  call.name = "engine_optimizer_step";
  call.value = std::to_string(totals_.step);
  call.timeout_ms = timeout_ms;
  call.part = [this](int64_t local) { run_gradients(ranks_.rank(local), local, ListPart::kClose); };
  is_fresh_ = false;
  ranks_.run(call);
  pending_.sums = ranks_.rank(0).update().sums;
  return finish_update(metrics);
}

/// All processes learned of the wish together.
bool LocalEngine::take_stop(bool is_agreed) {
  if (is_agreed) ranks_.clear_stop();
  return is_agreed;
}

void LocalEngine::throw_nonfinite(const Update& update) {
  const Pending lost = pending_;
  pending_ = {};
  const bool is_nonfinite = update.kind == Update::Kind::kNonfinite;
  // All ranks decide from the same sums; only a single rank is known to be the origin.
  const int32_t rank = options_.world->options().world == 1 ? 0 : -1;
  const int64_t tensor = update.sums.first_nonfinite;
  throw Error(is_nonfinite ? "nonfinite_loss" : "scale_exhausted",
              is_nonfinite ? "loss or gradients are not finite; the update was not applied"
                           : "overflow at the smallest loss scale; the update was not applied")
      .with("step", totals_.step + 1)
      .with("loss", mean_loss(lost.sums))
      .with("tensor", tensor < 0
                          ? "none"
                          : ranks_.rank(0).tensors()[static_cast<size_t>(tensor)].name.c_str())
      .with("first_sample", totals_.samples)
      .with("samples", lost.samples)
      .with("rank", rank)
      .rank(rank)
      .subsystem("engine/optimizer");
}

/// Ends a step and then, out of its time, the trace of it.
Outcome LocalEngine::finish_update(Metrics* metrics) {
  struct TraceEnd {
    LocalEngine& engine;
    ~TraceEnd() { engine.trace_.end_step(engine.ranks_, engine.settings_.trace.directory); }
  } const trace_end{*this};
  return end_update(ranks_.rank(0).update(), metrics);
}

/// Takes the decision of the ranks into the totals, or turns it into an error that leaves them.
Outcome LocalEngine::end_update(const Update& update, Metrics* metrics) {
  note_replicas(update);
  is_last_applied_ = update.kind == Update::Kind::kApplied;
  if (update.kind == Update::Kind::kNonfinite || update.kind == Update::Kind::kScaleExhausted) {
    throw_nonfinite(update);
  }
  {
    const std::lock_guard lock(mutex_);
    ++totals_.step;
    totals_.samples += pending_.samples;
    totals_.tokens += pending_.tokens;
    const bool is_skipped = update.kind == Update::Kind::kSkipped;
    totals_.skipped += is_skipped ? 1 : 0;
    const bool is_scaled = settings_.precision.compute == DType::kFloat16;
    totals_.overflows += is_skipped && is_scaled && update.sums.targets > 0 ? 1 : 0;
    if (update.kind == Update::Kind::kApplied) totals_.lr = update.lr;
    totals_.forward_seconds += mean_seconds(&RankTime::forward_ns);
    totals_.backward_seconds += mean_seconds(&RankTime::backward_ns);
    totals_.communication_seconds += mean_seconds(&RankTime::communication_ns);
    totals_.bubble_seconds += mean_seconds(&RankTime::bubble_ns);
    totals_.optimizer_seconds += mean_seconds(&RankTime::step_ns);
    const double passed = seconds(options_.env->clock.now_ns() - pending_.begin_ns);
    totals_.step_seconds += passed;
    ranks_.remember_step(passed);
  }
  note_paces(update);
  if (metrics != nullptr) {
    *metrics = {};
    fill_step_metrics(update, metrics);
    fill_time_metrics(metrics);
  }
  pending_ = {};
  return take_stop(update.sums.stop != 0) ? Outcome::kStopped : Outcome::kDone;
}

void LocalEngine::fill_step_metrics(const Update& update, Metrics* metrics) const {
  metrics->valid |= kMetricsStep;
  metrics->step = totals_.step;
  metrics->samples_total = totals_.samples;
  metrics->tokens_total = totals_.tokens;
  metrics->skipped_total = totals_.skipped;
  metrics->tokens = pending_.tokens;
  metrics->targets = pending_.sums.targets;
  metrics->skipped = update.kind == Update::Kind::kSkipped ? 1 : 0;
  metrics->loss = mean_loss(pending_.sums);
  metrics->grad_norm = update.grad_norm;
  metrics->lr = update.lr;
  metrics->loss_scale = update.loss_scale;
  if (!update.is_compared) return;
  metrics->valid |= kMetricsReplicas;
  metrics->diverged_rank = update.divergence ? update.divergence->rank() : -1;
}

/// Of a training pass over `samples`.
double LocalEngine::model_flops(int64_t samples) const {
  const int64_t sequence = settings_.train.sequence_length;
  const double layers = static_cast<double>(settings_.model.layers);
  return 3.0 * static_cast<double>(samples) *
         (layers * layer_flops(settings_.model, sequence) + head_flops(settings_.model, sequence));
}

/// Mean over local ranks.
double LocalEngine::mean_seconds(int64_t RankTime::*field) const {
  double sum = 0;
  for (const RankTime& time : times_) sum += seconds(time.*field);
  return sum / static_cast<double>(times_.size());
}

/// The largest value of a local rank's ledger.
int64_t LocalEngine::largest(int64_t (MemoryLedger::*value)() const) const {
  int64_t most = 0;
  for (int64_t local = 0; local < ranks_.size(); ++local) {
    most = std::max(most, (ranks_.rank(local).ledger().*value)());
  }
  return most;
}

void LocalEngine::fill_time_metrics(Metrics* metrics) const {
  metrics->valid |= kMetricsTime | kMetricsMemory;
  metrics->step_seconds = seconds(options_.env->clock.now_ns() - pending_.begin_ns);
  metrics->tokens_per_second = static_cast<double>(pending_.tokens) / metrics->step_seconds;
  metrics->model_flops_per_second = model_flops(pending_.samples) / metrics->step_seconds;
  metrics->forward_seconds = mean_seconds(&RankTime::forward_ns);
  metrics->backward_seconds = mean_seconds(&RankTime::backward_ns);
  metrics->communication_seconds = mean_seconds(&RankTime::communication_ns);
  metrics->bubble_seconds = mean_seconds(&RankTime::bubble_ns);
  metrics->optimizer_seconds = mean_seconds(&RankTime::step_ns);
  metrics->data_seconds = seconds(pending_.data_ns);
  metrics->memory_bytes = largest(&MemoryLedger::total);
  metrics->memory_peak_bytes = largest(&MemoryLedger::peak);
}

/// On a rank's thread: the loss of a checked batch, or of the evaluation dataset's start.
void LocalEngine::run_evaluation(Rank& rank, int64_t local) {
  const bool is_last_tensor = rank.at().tensor == 0;  // of equal losses one rank writes
  const HostRows source = rows_for(rank);
  RunArguments arguments = run_arguments(rank, source);
  if (!request_.losses.empty() && rank.holds_loss() && is_last_tensor) {
    const int64_t share = request_.rows / settings_.layout.data;
    arguments.losses =
        request_.losses.data() + rank.at().data * share * settings_.train.sequence_length;
  }
  LossSum& sum = request_.sums[static_cast<size_t>(local)];
  rank.evaluate(arguments, micro_batches(request_.rows), &sum);
  const GlobalSums total = rank.add_up({sum.loss, sum.targets, ranks_.is_stop_requested() ? 1 : 0});
  if (local == 0) request_.total = total;
}

/// One evaluation pass over request_.batch.
void LocalEngine::call_evaluation(const char* name, FunctionRef<void()> prepare,
                                  int64_t timeout_ms) {
  RankSet::Call call;
  call.name = name;
  call.prepare = prepare;
  call.value = std::to_string(request_.rows);
  call.rows = request_.digest;
  call.timeout_ms = timeout_ms;
  call.part = [this](int64_t local) { run_evaluation(ranks_.rank(local), local); };
  ranks_.run(call);
  request_.is_stopped = take_stop(request_.total.stop != 0);
}

Outcome LocalEngine::evaluate(const Batch* batch, int64_t timeout_ms, Metrics* metrics) {
  ranks_.check_usable();
  const bool has_dataset = evaluate_ != nullptr;
  if ((batch == nullptr) != has_dataset) {
    throw Error("argument", batch == nullptr
                                ? "an evaluation needs a batch or an attached evaluate dataset"
                                : "an evaluate dataset is attached: pass no batch")
        .with("batch", batch == nullptr ? "none" : "given")
        .with("dataset", has_dataset ? "attached" : "none");
  }
  const int64_t begin = options_.env->clock.now_ns();
  request_ = {};
  request_.sums.resize(static_cast<size_t>(ranks_.size()));
  request_.rows = batch != nullptr ? check_host_batch(*batch, 0) : settings_.train.global_batch;
  if (batch != nullptr) request_.digest = digest(*batch, request_.rows);
  const int64_t batches = batch != nullptr ? 1 : settings_.evaluate.batches;
  for (int64_t i = 0; i < batches && !request_.is_stopped; ++i) {
    const auto prepare = [&] {
      request_.batch = batch != nullptr ? rows_.copy(*batch)
                                        : read_rows(*evaluate_, i * request_.rows, request_.rows);
    };
    call_evaluation("engine_evaluate", prepare, timeout_ms);
  }
  if (request_.is_stopped) return Outcome::kStopped;
  if (metrics != nullptr) {
    *metrics = {};
    metrics->valid = kMetricsStep | kMetricsTime;
    metrics->step = totals_.step;
    metrics->samples_total = totals_.samples;
    metrics->tokens_total = totals_.tokens;
    metrics->skipped_total = totals_.skipped;
    metrics->targets = request_.total.targets;
    metrics->tokens = batches * request_.rows * settings_.train.sequence_length;
    metrics->loss = mean_loss(request_.total);
    metrics->grad_norm = std::numeric_limits<double>::quiet_NaN();
    metrics->loss_scale = ranks_.rank(0).loss_scale();
    metrics->step_seconds = seconds(options_.env->clock.now_ns() - begin);
    metrics->tokens_per_second = static_cast<double>(metrics->tokens) / metrics->step_seconds;
  }
  return Outcome::kDone;
}

Outcome LocalEngine::score(const Batch& batch, int64_t timeout_ms, float* losses, int64_t bytes) {
  ranks_.check_usable();
  request_ = {};
  request_.sums.resize(static_cast<size_t>(ranks_.size()));
  request_.rows = check_host_batch(batch, 0);
  request_.digest = digest(batch, request_.rows);
  const int64_t s = settings_.train.sequence_length;
  const int64_t want = batch.tokens.rows * s * static_cast<int64_t>(sizeof(float));
  if (losses == nullptr || bytes != want) {
    throw Error("argument", "losses takes one float32 for each row and position")
        .with("bytes", bytes)
        .with("want", want);
  }
  request_.losses.resize(static_cast<size_t>(request_.rows * s));
  const auto prepare = [&] { request_.batch = rows_.copy(batch); };
  call_evaluation("engine_score", prepare, timeout_ms);
  if (request_.is_stopped) return Outcome::kStopped;
  if (!ranks_.is_alone()) {
    RankSet::Call call;
    call.name = "engine_score_losses";
    call.timeout_ms = timeout_ms;
    call.part = [this](int64_t local) {
      // Each row's losses are there in one process and 0 in the others.
      if (local != 0) return;
      ranks_.leaders()->all_reduce({request_.losses.data(),
                                    DType::kFloat32,
                                    {static_cast<int64_t>(request_.losses.size())}});
    };
    ranks_.run(call);
  }
  const std::vector<float>& all = request_.losses;
  if (batch.scope == BatchScope::kGlobal) {
    std::copy(all.begin(), all.end(), losses);
    return Outcome::kDone;
  }
  const int64_t share = request_.rows / settings_.layout.data * s;
  for (size_t i = 0; i < local_data_.size(); ++i) {
    std::copy_n(all.data() + local_data_[i] * share, share,
                losses + static_cast<int64_t>(i) * share);
  }
  return Outcome::kDone;
}

}  // namespace plait
