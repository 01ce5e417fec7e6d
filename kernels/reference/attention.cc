#include "kernels/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/dispatch.h"
#include "kernels/reference/reference_lists.h"

namespace plait {
namespace {

/// Where the rows of one sample and head lie, and the scratch of one head.
template <class T>
struct Head {
  const AttentionShape& shape;
  int64_t batch;
  int64_t head;  ///< local query head

  int64_t width() const { return (shape.heads + 2 * shape.key_value_heads) * shape.head_size; }
  int64_t row(int64_t position) const { return batch * shape.sequence + position; }
  int64_t key_value_head() const { return head * shape.key_value_heads / shape.heads; }
  T* query(const TensorView& fused, int64_t position) const {
    return fused.as<T>() + row(position) * width() + head * shape.head_size;
  }
  T* key(const TensorView& fused, int64_t position) const {
    const int64_t column = (shape.heads + key_value_head()) * shape.head_size;
    return fused.as<T>() + row(position) * width() + column;
  }
  T* value(const TensorView& fused, int64_t position) const {
    return key(fused, position) + shape.key_value_heads * shape.head_size;
  }
  T* output(const TensorView& y, int64_t position) const {
    return y.as<T>() + (row(position) * shape.heads + head) * shape.head_size;
  }
  float* log_sum(const TensorView& sums, int64_t position) const {
    return sums.as<float>() + (batch * shape.heads + head) * shape.sequence + position;
  }
  int64_t first_visible(const int32_t* first, int64_t position) const {
    return first == nullptr ? 0 : first[row(position)];
  }
  double score(const TensorView& fused, int64_t at, int64_t other) const {
    const double scale = 1.0 / std::sqrt(static_cast<double>(shape.head_size));
    return scale * dot(query(fused, at), key(fused, other));
  }
  double dot(const T* a, const T* b) const {
    double sum = 0.0;
    for (int64_t i = 0; i < shape.head_size; ++i) sum += load(a, i) * load(b, i);
    return sum;
  }
  double kept(const Dropout& dropout, int64_t at, int64_t other) const {
    if (!dropout.is_active()) return 1.0;
    const int64_t global = shape.first_head + head;
    const int64_t element = (global * shape.sequence + at) * shape.sequence + other;
    return dropout_factor(dropout, static_cast<uint64_t>(dropout.first_sample + batch),
                          static_cast<uint64_t>(element));
  }
};

/// One query row; `scores` [S] and `sums` [D] are scratch.
template <class T>
void forward_row(const AttentionForward& a, const Head<T>& h, int64_t at, double* scores,
                 double* sums) {
  const int64_t first = h.first_visible(a.first_visible, at);
  double maximum = -INFINITY, total = 0.0;
  bool is_nan = false;
  for (int64_t j = first; j <= at; ++j) {
    scores[j] = h.score(a.qkv, at, j);
    is_nan = is_nan || std::isnan(scores[j]);
    maximum = std::max(maximum, scores[j]);
  }
  if (is_nan) maximum = NAN;
  for (int64_t j = first; j <= at; ++j) total += std::exp(scores[j] - maximum);
  *h.log_sum(a.log_sum, at) = static_cast<float>(maximum + std::log(total));
  std::fill(sums, sums + a.shape.head_size, 0.0);
  for (int64_t j = first; j <= at; ++j) {
    const double p = std::exp(scores[j] - maximum) / total * h.kept(a.dropout, at, j);
    const T* value = h.value(a.qkv, j);
    for (int64_t i = 0; i < a.shape.head_size; ++i) sums[i] += p * load(value, i);
  }
  for (int64_t i = 0; i < a.shape.head_size; ++i) store(h.output(a.y, at), i, sums[i]);
}

/// Sums of one sample and key/value head while its query heads pass: [S, D] each, and of one row.
struct BackwardSums {
  double* key;
  double* value;
  double* query;          ///< [D]
  double* probabilities;  ///< [S]
  double* grads;          ///< [S]
};

template <class T>
void backward_row(const AttentionBackward& a, const Head<T>& h, int64_t at, BackwardSums& sums) {
  const int64_t size = a.shape.head_size, first = h.first_visible(a.first_visible, at);
  const double log_sum = *h.log_sum(a.log_sum, at);
  const double scale = 1.0 / std::sqrt(static_cast<double>(size));
  const T* grad_y = h.output(a.grad_y, at);
  double mean = 0.0;
  for (int64_t j = first; j <= at; ++j) {
    sums.probabilities[j] = std::exp(h.score(a.qkv, at, j) - log_sum);
    const double kept = h.kept(a.dropout, at, j);
    sums.grads[j] = kept * h.dot(grad_y, h.value(a.qkv, j));
    mean += sums.probabilities[j] * sums.grads[j];
    const double p = sums.probabilities[j] * kept;
    for (int64_t i = 0; i < size; ++i) sums.value[j * size + i] += p * load(grad_y, i);
  }
  std::fill(sums.query, sums.query + size, 0.0);
  for (int64_t j = first; j <= at; ++j) {
    const double grad_score = scale * sums.probabilities[j] * (sums.grads[j] - mean);
    for (int64_t i = 0; i < size; ++i) {
      sums.query[i] += grad_score * load(h.key(a.qkv, j), i);
      sums.key[j * size + i] += grad_score * load(h.query(a.qkv, at), i);
    }
  }
  for (int64_t i = 0; i < size; ++i) store(h.query(a.grad_qkv, at), i, sums.query[i]);
}

/// All query heads of one sample that share key/value head `shared`.
template <class T>
void backward_group(const AttentionBackward& a, int64_t batch, int64_t shared, double* scratch) {
  const AttentionShape& shape = a.shape;
  const int64_t s = shape.sequence, d = shape.head_size;
  BackwardSums sums{scratch, scratch + s * d, scratch + 2 * s * d, scratch + 2 * s * d + d,
                    scratch + 2 * s * d + d + s};
  std::fill(scratch, scratch + 2 * s * d, 0.0);
  int64_t last = -1;
  for (int64_t head = 0; head < shape.heads; ++head) {
    const Head<T> h{shape, batch, head};
    if (h.key_value_head() != shared) continue;
    for (int64_t at = 0; at < s; ++at) backward_row(a, h, at, sums);
    last = head;
  }
  const Head<T> h{shape, batch, last};
  for (int64_t j = 0; j < s; ++j) {
    for (int64_t i = 0; i < d; ++i) {
      store(h.key(a.grad_qkv, j), i, sums.key[j * d + i]);
      store(h.value(a.grad_qkv, j), i, sums.value[j * d + i]);
    }
  }
}

class ReferenceAttention : public AttentionKernel {
 public:
  const char* name() const override { return "reference"; }
  bool supports(const AttentionShape&, DType dtype, IsaLevel) const override {
    return is_floating(dtype);
  }
  int64_t workspace_bytes(const AttentionShape& shape, DType, int) const override {
    const int64_t s = shape.sequence, d = shape.head_size;
    return (2 * s * d + d + 2 * s) * static_cast<int64_t>(sizeof(double));
  }

  void forward(OpContext&, const AttentionForward& a, void* workspace) const override {
    visit_dtype(a.qkv.dtype, [&](auto t) {
      auto* scratch = static_cast<double*>(workspace);
      for (int64_t unit = 0; unit < a.shape.batch * a.shape.heads; ++unit) {
        const Head<typename decltype(t)::type> h{a.shape, unit / a.shape.heads,
                                                 unit % a.shape.heads};
        for (int64_t at = 0; at < a.shape.sequence; ++at) {
          forward_row(a, h, at, scratch, scratch + a.shape.sequence);
        }
      }
    });
  }

  void backward(OpContext&, const AttentionBackward& a, void* workspace) const override {
    visit_dtype(a.qkv.dtype, [&](auto t) {
      for (int64_t batch = 0; batch < a.shape.batch; ++batch) {
        for (int64_t shared = 0; shared < a.shape.key_value_heads; ++shared) {
          backward_group<typename decltype(t)::type>(a, batch, shared,
                                                     static_cast<double*>(workspace));
        }
      }
    });
  }
};

}  // namespace

const AttentionKernel& reference_attention() {
  static const ReferenceAttention kernel;
  return kernel;
}

}  // namespace plait
