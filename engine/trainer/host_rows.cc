#include "engine/trainer/host_rows.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace plait {
namespace {

void check_shape(const char* name, const BatchTensor& tensor, int64_t rows, int64_t columns) {
  if (tensor.rows == rows && tensor.columns == columns) return;
  throw Error("argument", "a batch tensor has the wrong shape")
      .with("tensor", name)
      .with("rows", tensor.rows)
      .with("columns", tensor.columns)
      .with("want_rows", rows)
      .with("want_columns", columns);
}

void check_values(const char* name, const BatchTensor& tensor, int32_t least, int64_t vocabulary) {
  for (int64_t row = 0; row < tensor.rows; ++row) {
    const int32_t* values = tensor.data + row * tensor.columns;
    for (int64_t column = 0; column < tensor.columns; ++column) {
      if (values[column] >= least && values[column] < vocabulary) continue;
      throw Error("token_range", "an id lies outside the vocabulary")
          .with("tensor", name)
          .with("sequence", row)
          .with("position", column)
          .with("value", values[column])
          .with("vocabulary", vocabulary);
    }
  }
}

void check_documents(const BatchTensor& tensor) {
  for (int64_t row = 0; row < tensor.rows; ++row) {
    const int32_t* values = tensor.data + row * tensor.columns;
    for (int64_t column = 0; column < tensor.columns; ++column) {
      const int32_t before = column == 0 ? 0 : values[column - 1];
      if (values[column] >= before) continue;
      throw Error("argument", "document numbers are non-negative and never fall along a row")
          .with("tensor", "documents")
          .with("sequence", row)
          .with("position", column)
          .with("value", values[column])
          .with("before", before);
    }
  }
}

}  // namespace

int64_t check_batch(const Batch& batch, const BatchLimits& limits) {
  if (batch.tokens.data == nullptr) {
    throw Error("argument", "the batch has no tokens").with("tensor", "tokens");
  }
  const int64_t rows = batch.tokens.rows;
  if (rows < 1 || rows % limits.multiple != 0 || (limits.rows > 0 && rows != limits.rows)) {
    throw Error("argument", "the number of rows does not fit")
        .with("rows", rows)
        .with("want", limits.rows > 0 ? limits.rows : limits.multiple)
        .with("multiple", limits.multiple);
  }
  const bool has_targets = batch.targets.data != nullptr;
  const int64_t columns = limits.sequence + (has_targets ? 0 : 1);
  check_shape("tokens", batch.tokens, rows, columns);
  check_values("tokens", batch.tokens, 0, limits.vocabulary);
  if (has_targets) {
    check_shape("targets", batch.targets, rows, limits.sequence);
    check_values("targets", batch.targets, -1, limits.vocabulary);
  }
  if (batch.documents.data != nullptr) {
    check_shape("documents", batch.documents, rows, columns);
    check_documents(batch.documents);
  }
  return rows;
}

void RowMemory::reserve(int64_t elements) {
  for (std::vector<int32_t>* values : {&tokens, &targets, &documents}) {
    values->reserve(static_cast<size_t>(elements));
  }
}

Batch RowMemory::copy(const Batch& batch) {
  Batch own = batch;
  const auto take = [](BatchTensor* tensor, std::vector<int32_t>* values) {
    if (tensor->data == nullptr) return;
    values->assign(tensor->data, tensor->data + tensor->rows * tensor->columns);
    tensor->data = values->data();
  };
  take(&own.tokens, &tokens);
  take(&own.targets, &targets);
  take(&own.documents, &documents);
  return own;
}

void HostRows::fill_row(int64_t row, int64_t offset, const MicroBuffers& buffers) const {
  const int64_t columns = batch_.tokens.columns;
  const int32_t* tokens = batch_.tokens.data + row * columns;
  std::copy_n(tokens, sequence_, buffers.tokens + offset);
  const bool has_targets = batch_.targets.data != nullptr;
  const int32_t* targets = has_targets ? batch_.targets.data + row * sequence_ : tokens + 1;
  std::copy_n(targets, sequence_, buffers.targets + offset);
  if (batch_.documents.data == nullptr) return;
  const int32_t* documents = batch_.documents.data + row * columns;
  int32_t start = 0;
  for (int64_t i = 0; i < sequence_; ++i) {
    if (i > 0 && documents[i] != documents[i - 1]) start = static_cast<int32_t>(i);
    buffers.first_visible[offset + i] = start;
    buffers.positions[offset + i] = static_cast<int32_t>(i) - start;
    const bool crosses = !has_targets && documents[i + 1] != documents[i];
    if (crosses) buffers.targets[offset + i] = -1;
  }
}

bool HostRows::fill(int64_t micro, const MicroBuffers& buffers) const {
  for (int64_t i = 0; i < micro_batch_; ++i) {
    fill_row(first_row_ + micro * micro_batch_ + i, i * sequence_, buffers);
  }
  return batch_.documents.data != nullptr;
}

}  // namespace plait
