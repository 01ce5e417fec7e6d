#include "engine/planner/work.h"

#include <algorithm>

namespace plait {
namespace {

double real(int64_t count) { return static_cast<double>(count); }

/// Sizes of a micro-batch on one rank. Of the parts into which sums of the canonical order cut a
/// layer, a rank computes `parts` one after the other; widths are those of one part.
struct PassSizes {
  int64_t batch, sequence, rows, hidden;
  int64_t tensor, parts;
  int64_t heads, head_size, query, projection, feed_forward, up;
  int64_t vocabulary;  ///< of one part, padded
  double stream;       ///< elements of the residual stream that pass here
  double compute_bytes, residual_bytes;

  PassSizes(const Job& job, const LayoutConfig& layout)
      : batch(layout.micro_batch),
        sequence(job.train.sequence_length),
        rows(batch * sequence),
        hidden(job.model.hidden),
        tensor(layout.tensor),
        parts(std::max<int64_t>(job.precision.canonical_tensor / tensor, 1)),
        head_size(job.model.head_size),
        compute_bytes(real(plait::compute_bytes(job))),
        residual_bytes(real(plait::residual_bytes(job))) {
    const int64_t all = tensor * parts;
    heads = job.model.heads / all;
    query = heads * head_size;
    projection = query + 2 * std::max<int64_t>(job.model.key_value_heads / all, 1) * head_size;
    feed_forward = job.model.feed_forward / all;
    up = feed_forward * (job.model.family == FamilyChoice::kLlama ? 2 : 1);
    vocabulary = padded_vocabulary(job.model, all) / all;
    const bool is_cut = layout.sequence_parallel && tensor > 1;
    stream = real(rows * hidden) / real(is_cut ? tensor : 1);
  }
};

/// Bytes that cross memory, by element; the one table of all profiles.
struct StreamBytes {
  // By element of the residual stream that passes here, of one layer.
  double norms_forward, norms_backward;
  double residuals_forward, residuals_backward;
  // By output of the activation.
  double activation_forward, activation_backward;
  // By element of query and key: the rotary embedding.
  double rotary;
  // By score; none where attention is fused.
  double scores_forward, scores_backward;
  // By element of all rows, and by element that passes here.
  double lookup_forward, embedding_forward;
  double lookup_backward, embedding_backward;
  // By element that passes here.
  double final_norm_forward, final_norm_backward;
  // By logit.
  double loss_forward, loss_backward;
  // By local weight of a matrix, each micro-batch.
  double accumulation;
};

/// Software with kernels of its own for bias, dropout and residual, masks of a byte, and gradients
/// that are added after their product. Figures are those of 16 bits.
StreamBytes published_bytes(const Job& job, const LayoutConfig& layout, double compute_bytes) {
  const double z = compute_bytes / 2;
  const bool is_llama = job.model.family == FamilyChoice::kLlama;
  const bool drops = job.profile.always_drops || job.train.dropout > 0;
  const bool drops_scores = job.profile.always_drops || job.train.attention_dropout > 0;
  const double residual = 2 * (drops ? 7 : 6);
  StreamBytes bytes = {};
  bytes.norms_forward = 8 * z;
  bytes.norms_backward = 12 * z;
  bytes.residuals_forward = residual * z;
  bytes.residuals_backward = (residual + 12) * z;
  bytes.activation_forward = (is_llama ? 6 : 4) * z;
  bytes.activation_backward = (is_llama ? 9 : 6) * z;
  bytes.rotary = is_llama ? 4 * z : 0;
  bytes.scores_forward = (4 + (drops_scores ? 5 : 0)) * z;
  bytes.scores_backward = (6 + (drops_scores ? 5 : 0)) * z;
  bytes.lookup_forward = 7 * z;
  bytes.lookup_backward = 8 * z;
  bytes.loss_forward = job.profile.loss_forward_bytes;
  bytes.loss_backward = job.profile.loss_backward_bytes;
  const bool accumulates = !job.profile.accumulates_in_product && micro_batches(job, layout) > 1;
  bytes.accumulation = accumulates ? 6 : 0;
  return bytes;
}

/// What the engine's ops read and write; `r` and `z` are bytes of the residual stream and of the
/// compute dtype. Residual adds and norms are one op, masks are drawn again, a part's second and
/// later sums are additions of three operands.
StreamBytes engine_bytes(const Job& job, const PassSizes& sizes) {
  const double z = sizes.compute_bytes, r = sizes.residual_bytes;
  const bool is_llama = job.model.family == FamilyChoice::kLlama;
  const double part_sums =
      3 * z * real(sizes.parts - 1) * real(sizes.rows * sizes.hidden) / sizes.stream;
  StreamBytes bytes = {};
  bytes.norms_forward = (r + z) + (2 * r + 2 * z);       // the first; add and second
  bytes.norms_backward = (3 * r + 2 * z) + (3 * r + z);  // the second with its add; the first
  bytes.residuals_forward = 2 * r + z + 2 * part_sums;   // the last add
  bytes.residuals_backward = r + z + 2 * part_sums;
  bytes.activation_forward = (is_llama ? 3 : 2) * z;
  bytes.activation_backward = (is_llama ? 5 : 3) * z;
  bytes.rotary = is_llama ? 2 * z : 0;
  bytes.lookup_forward = sizes.tensor > 1 ? 2 * z : 0;
  bytes.embedding_forward = (is_llama ? z : 2 * z) + r;
  bytes.lookup_backward = r + 8;  // a row of the gradient, and the table's read and written
  bytes.embedding_backward = is_llama ? 0 : r + 8 / real(sizes.batch);
  bytes.final_norm_forward = r + z;
  bytes.final_norm_backward = 2 * r + z;
  bytes.loss_forward = job.profile.loss_forward_bytes;
  bytes.loss_backward = job.profile.loss_backward_bytes;
  return bytes;
}

/// Makes the lists of one stage. `is_engine`: in the order and with the peculiarities of this
/// engine, whose head leaves its gradients with the forward pass.
class StageWriter {
 public:
  StageWriter(const Job& job, const LayoutConfig& layout, int64_t stage)
      : job_(job),
        layout_(layout),
        sizes_(job, layout),
        is_engine_(job.profile.is_engine()),
        bytes_(is_engine_ ? engine_bytes(job, sizes_)
                          : published_bytes(job, layout, sizes_.compute_bytes)),
        layers_(stage_layers(job.model, layout)[static_cast<size_t>(stage)]),
        is_first_(stage == 0),
        is_last_(stage + 1 == layout.pipeline * layout.interleave),
        is_cut_(layout.sequence_parallel && layout.tensor > 1),
        is_split_(layout.schedule == ScheduleChoice::kZeroBubble),
        overlaps_(job.profile.overlaps_backward && layout.overlap && !is_split_),
        hidden_bytes_(sizes_.compute_bytes * real(sizes_.rows * sizes_.hidden)) {}

  StageWork write() {
    if (is_first_) embed();
    layers_forward(&work_.forward);
    if (is_last_) head_forward();
    replay();
    if (is_last_) head_backward();
    layers_backward();
    if (is_first_) embed_backward();
    return std::move(work_);
  }

 private:
  void product(WorkList* list, const char* name, int64_t m, int64_t n, int64_t k, int64_t count,
               int64_t batch = 1) const {
    if (count == 0) return;
    Work work;
    work.kind = WorkKind::kProduct;
    work.name = name;
    work.m = m, work.n = n, work.k = k, work.batch = batch;
    work.count = count;
    list->push_back(work);
  }
  void stream(WorkList* list, const char* name, double bytes, int64_t count) const {
    if (count == 0 || bytes <= 0) return;
    Work work;
    work.kind = WorkKind::kStream;
    work.name = name;
    work.bytes = bytes;
    work.count = count;
    list->push_back(work);
  }
  void collective(WorkList* list, const char* name, WorkKind kind, double bytes, int64_t count,
                  Beside beside = Beside::kNothing) const {
    if (count == 0 || layout_.tensor == 1) return;
    Work work;
    work.kind = kind;
    work.name = name;
    work.bytes = bytes;
    work.beside = overlaps_ ? beside : Beside::kNothing;
    work.count = count;
    list->push_back(work);
  }
  /// All rows where each rank has some.
  void all_rows(WorkList* list, const char* name, int64_t count,
                Beside beside = Beside::kNothing) const {
    if (is_cut_) collective(list, name, WorkKind::kAllGather, hidden_bytes_, count, beside);
  }
  /// The sum of the ranks' terms, of which each keeps what passes there.
  void sum(WorkList* list, const char* name, int64_t count,
           Beside beside = Beside::kNothing) const {
    const WorkKind kind = is_cut_ ? WorkKind::kReduceScatter : WorkKind::kAllReduce;
    collective(list, name, kind, hidden_bytes_, count, beside);
  }

  void embed();
  void layers_forward(WorkList* list) const;
  void attention_forward(WorkList* list) const;
  void attention_backward(WorkList* list) const;
  void replay();
  void column_backward(const char* name, int64_t outputs);
  void row_backward(const char* name, int64_t inputs);
  void layers_backward();
  void embed_backward();
  void head_forward();
  void head_backward();
  void head_chunk(int64_t rows, int64_t count);
  double logits(int64_t rows) const { return real(rows) * real(sizes_.vocabulary); }
  double scores() const {
    return real(sizes_.batch * sizes_.heads) * real(sizes_.sequence) * real(sizes_.sequence);
  }
  /// Calls of a layer's linears in all layers of the stage.
  int64_t calls() const { return layers_ * sizes_.parts; }
  double rotated() const {
    return real(sizes_.rows) * real(sizes_.query + (sizes_.projection - sizes_.query) / 2);
  }

  const Job& job_;
  const LayoutConfig& layout_;
  PassSizes sizes_;
  bool is_engine_;
  StreamBytes bytes_;
  int64_t layers_;
  bool is_first_, is_last_, is_cut_, is_split_, overlaps_;
  double hidden_bytes_;  // of a tensor [rows, hidden] in the compute dtype
  StageWork work_;
};

void StageWriter::embed() {
  WorkList* list = &work_.forward;
  stream(list, "embedding.token", bytes_.lookup_forward * real(sizes_.rows * sizes_.hidden), 1);
  sum(list, "embedding", 1);
  stream(list, "embedding", bytes_.embedding_forward * sizes_.stream, 1);
}

void StageWriter::attention_forward(WorkList* list) const {
  const int64_t s = sizes_.sequence, e = sizes_.head_size, batch = sizes_.batch * sizes_.heads;
  if (job_.profile.has_fused_attention) {
    if (layers_ == 0) return;
    Work work;
    work.kind = WorkKind::kAttention;
    work.name = "attention";
    work.flops = 2 * scores() * real(e);
    work.count = calls();
    list->push_back(work);
    return;
  }
  product(list, "attention.scores", s, s, e, calls(), batch);
  stream(list, "attention.scores", bytes_.scores_forward * scores(), calls());
  product(list, "attention.values", s, e, s, calls(), batch);
}

void StageWriter::attention_backward(WorkList* list) const {
  const int64_t s = sizes_.sequence, e = sizes_.head_size, batch = sizes_.batch * sizes_.heads;
  if (job_.profile.has_fused_attention) {
    if (layers_ == 0) return;
    Work work;
    work.kind = WorkKind::kAttention;
    work.name = "attention";
    work.flops = 2.5 * 2 * scores() * real(e);
    work.count = calls();
    list->push_back(work);
    return;
  }
  product(list, "attention.values", s, e, s, 2 * calls(), batch);
  stream(list, "attention.scores", bytes_.scores_backward * scores(), calls());
  product(list, "attention.scores", s, s, e, 2 * calls(), batch);
}

void StageWriter::layers_forward(WorkList* list) const {
  const int64_t rows = sizes_.rows, hidden = sizes_.hidden;
  stream(list, "norm", bytes_.norms_forward * sizes_.stream, layers_);
  all_rows(list, "attention.query_key_value", layers_);
  product(list, "attention.query_key_value", rows, sizes_.projection, hidden, calls());
  stream(list, "attention.rotary", bytes_.rotary * rotated(), calls());
  attention_forward(list);
  product(list, "attention.output", rows, hidden, sizes_.query, calls());
  sum(list, "attention.output", layers_);
  all_rows(list, "feed_forward.up", layers_);
  product(list, "feed_forward.up", rows, sizes_.up, hidden, calls());
  stream(list, "feed_forward.activation",
         bytes_.activation_forward * real(rows * sizes_.feed_forward), calls());
  product(list, "feed_forward.down", rows, hidden, sizes_.feed_forward, calls());
  sum(list, "feed_forward.down", layers_);
  stream(list, "residual", bytes_.residuals_forward * sizes_.stream, layers_);
}

void StageWriter::replay() {
  switch (layout_.recompute) {
    case RecomputeChoice::kNone:
      return;
    case RecomputeChoice::kSelective:
      if (!job_.profile.has_fused_attention) attention_forward(&work_.replay);
      return;
    case RecomputeChoice::kFull:
      // A split backward pass keeps whole states.
      if (!is_split_) layers_forward(&work_.replay);
      return;
  }
}

/// Input gradient and its sum, weight gradient. A weight part of its own brings all rows together
/// once more.
void StageWriter::column_backward(const char* name, int64_t outputs) {
  const int64_t rows = sizes_.rows, hidden = sizes_.hidden;
  all_rows(is_split_ ? &work_.backward_weight : &work_.backward_input, name, layers_,
           Beside::kInputGradient);
  product(&work_.backward_input, name, rows, hidden, outputs, calls());
  sum(&work_.backward_input, name, layers_, Beside::kWeightGradient);
  product(&work_.backward_weight, name, outputs, hidden, rows, calls());
  stream(&work_.backward_weight, name, bytes_.accumulation * real(outputs * hidden), calls());
}

void StageWriter::row_backward(const char* name, int64_t inputs) {
  const int64_t rows = sizes_.rows, hidden = sizes_.hidden;
  all_rows(&work_.backward_input, name, layers_);
  if (is_split_) all_rows(&work_.backward_weight, name, layers_);
  product(&work_.backward_input, name, rows, inputs, hidden, calls());
  product(&work_.backward_weight, name, hidden, inputs, rows, calls());
  stream(&work_.backward_weight, name, bytes_.accumulation * real(inputs * hidden), calls());
}

void StageWriter::layers_backward() {
  WorkList* list = &work_.backward_input;
  stream(list, "residual", bytes_.residuals_backward * sizes_.stream, layers_);
  row_backward("feed_forward.down", sizes_.feed_forward);
  stream(list, "feed_forward.activation",
         bytes_.activation_backward * real(sizes_.rows * sizes_.feed_forward), calls());
  column_backward("feed_forward.up", sizes_.up);
  row_backward("attention.output", sizes_.query);
  attention_backward(list);
  stream(list, "attention.rotary", bytes_.rotary * rotated(), calls());
  column_backward("attention.query_key_value", sizes_.projection);
  stream(list, "norm", bytes_.norms_backward * sizes_.stream, layers_);
}

void StageWriter::embed_backward() {
  stream(&work_.backward_input, "embedding", bytes_.embedding_backward * sizes_.stream, 1);
  WorkList* list = &work_.backward_weight;
  if (is_cut_) {
    const double bytes = sizes_.residual_bytes * real(sizes_.rows * sizes_.hidden);
    collective(list, "embedding", WorkKind::kAllGather, bytes, 1);
  }
  stream(list, "embedding.token", bytes_.lookup_backward * real(sizes_.rows * sizes_.hidden), 1);
}

/// Rows of logits that the engine's head has at a time; those of its LossHead.
int64_t head_chunk_rows(int64_t width) {
  constexpr int64_t kChunkElements = int64_t{1} << 25;
  return std::clamp<int64_t>(kChunkElements / width / 64 * 64, 64, 4096);
}

/// `count` chunks of logits, their loss and both gradients.
void StageWriter::head_chunk(int64_t rows, int64_t count) {
  if (rows == 0 || count == 0) return;
  WorkList* list = &work_.forward;
  const int64_t width = sizes_.vocabulary, hidden = sizes_.hidden, calls = count * sizes_.parts;
  product(list, "head", rows, width, hidden, calls);
  collective(list, "loss.maximum", WorkKind::kAllReduce, 4 * real(rows), count);
  collective(list, "loss.sums", WorkKind::kAllReduce, 8 * real(rows), count);
  stream(list, "loss", (bytes_.loss_forward + bytes_.loss_backward) * logits(rows), calls);
  product(list, "head", rows, hidden, width, calls);
  product(list, "head", width, hidden, rows, calls);
}

void StageWriter::head_forward() {
  WorkList* list = &work_.forward;
  const int64_t rows = sizes_.rows;
  stream(list, "final_norm", bytes_.final_norm_forward * sizes_.stream, 1);
  all_rows(list, "head", 1);
  if (!is_engine_) {
    product(list, "head", rows, sizes_.vocabulary, sizes_.hidden, 1);
    stream(list, "loss", bytes_.loss_forward * logits(rows), 1);
    return;
  }
  const int64_t chunk = head_chunk_rows(sizes_.vocabulary);
  head_chunk(chunk, rows / chunk);
  head_chunk(rows % chunk, 1);
  sum(list, "head", 1);
}

void StageWriter::head_backward() {
  WorkList* list = &work_.backward_input;
  if (!is_engine_) {
    const int64_t rows = sizes_.rows, width = sizes_.vocabulary, hidden = sizes_.hidden;
    stream(list, "loss", bytes_.loss_backward * logits(rows), 1);
    product(list, "head", rows, hidden, width, 1);
    sum(list, "head", 1, Beside::kWeightGradient);
    product(&work_.backward_weight, "head", width, hidden, rows, 1);
    stream(&work_.backward_weight, "head", bytes_.accumulation * real(width * hidden), 1);
  }
  stream(list, "final_norm", bytes_.final_norm_backward * sizes_.stream, 1);
}

}  // namespace

StageWork stage_work(const Job& job, const LayoutConfig& layout, int64_t stage) {
  return StageWriter(job, layout, stage).write();
}

}  // namespace plait
