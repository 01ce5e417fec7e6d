// Sized structs as tuples, in the order of the named tuples of values.py. What the library did not
// fill is None.
#pragma once

#include "native.h"

static PyObject* plait_tuple_metrics(const plait_metrics* from) {
  plait_row row = plait_row_new(23);
  plait_row_int(&row, from->step);
  plait_row_int(&row, from->samples_total);
  plait_row_int(&row, from->tokens_total);
  plait_row_int(&row, from->skipped_total);
  plait_row_int(&row, from->tokens);
  plait_row_int(&row, from->targets);
  plait_row_bool(&row, from->skipped);
  plait_row_real(&row, from->loss);
  plait_row_real(&row, from->grad_norm);
  plait_row_real(&row, from->lr);
  plait_row_real(&row, from->loss_scale);
  const int64_t is_timed = from->valid & PLAIT_METRICS_TIME;
  plait_row_real_if(&row, is_timed, from->step_seconds);
  plait_row_real_if(&row, is_timed, from->tokens_per_second);
  plait_row_real_if(&row, is_timed, from->model_flops_per_second);
  plait_row_real_if(&row, is_timed, from->forward_seconds);
  plait_row_real_if(&row, is_timed, from->backward_seconds);
  plait_row_real_if(&row, is_timed, from->communication_seconds);
  plait_row_real_if(&row, is_timed, from->optimizer_seconds);
  plait_row_real_if(&row, is_timed, from->bubble_seconds);
  plait_row_real_if(&row, is_timed, from->data_seconds);
  const int64_t is_measured = from->valid & PLAIT_METRICS_MEMORY;
  plait_row_int_if(&row, is_measured, from->memory_bytes);
  plait_row_int_if(&row, is_measured, from->memory_peak_bytes);
  plait_row_int_if(&row, from->valid & PLAIT_METRICS_REPLICAS, from->diverged_rank);
  return row.tuple;
}

static PyObject* plait_tuple_batch_spec(const plait_batch_spec* from) {
  plait_row row = plait_row_new(7);
  plait_row_int(&row, from->global_rows);
  plait_row_int(&row, from->local_rows);
  plait_row_int(&row, from->span_count);
  plait_row_int(&row, from->sequence_length);
  plait_row_int(&row, from->vocab_size);
  plait_row_int(&row, from->first_sample);
  plait_row_int(&row, from->needs);
  return row.tuple;
}

static PyObject* plait_tuple_plan_info(const plait_plan_info* from) {
  plait_row row = plait_row_new(14);
  plait_row_bool(&row, from->is_feasible);
  plait_row_int(&row, from->tensor);
  plait_row_int(&row, from->pipeline);
  plait_row_int(&row, from->data);
  plait_row_int(&row, from->interleave);
  plait_row_int(&row, from->zero);
  plait_row_int(&row, from->micro_batch);
  plait_row_int(&row, from->memory_bytes);
  plait_row_int(&row, from->memory_limit_bytes);
  plait_row_real(&row, from->step_seconds);
  plait_row_real(&row, from->tokens_per_second);
  plait_row_real(&row, from->bubble_share);
  plait_row_real(&row, from->model_flops_share);
  plait_row_text(&row, from->reason);
  return row.tuple;
}

static PyObject* plait_tuple_rank_info(const plait_rank_info* from) {
  plait_row row = plait_row_new(12);
  plait_row_int(&row, from->tensor);
  plait_row_int(&row, from->pipeline);
  plait_row_int(&row, from->data);
  plait_row_int(&row, from->weight_bytes);
  plait_row_int(&row, from->gradient_bytes);
  plait_row_int(&row, from->optimizer_bytes);
  plait_row_int(&row, from->activation_bytes);
  plait_row_int(&row, from->communication_bytes);
  plait_row_int(&row, from->workspace_bytes);
  plait_row_real(&row, from->compute_seconds);
  plait_row_real(&row, from->communication_seconds);
  plait_row_real(&row, from->bubble_share);
  return row.tuple;
}

static PyObject* plait_tuple_key_info(const plait_key_info* from) {
  plait_row row = plait_row_new(10);
  plait_row_text(&row, from->key);
  plait_row_text(&row, from->type);
  plait_row_text(&row, from->default_value);
  plait_row_text(&row, from->minimum);
  plait_row_text(&row, from->maximum);
  plait_row_text(&row, from->choices);
  plait_row_text(&row, from->unit);
  plait_row_text(&row, from->doc);
  plait_row_text(&row, from->resume);
  plait_row_int(&row, from->flags);
  return row.tuple;
}

static PyObject* plait_tuple_property(const plait_entry_info* from) {
  if (from->type == PLAIT_PROPERTY_INTEGER) return PyLong_FromLongLong(from->integer);
  if (from->type == PLAIT_PROPERTY_REAL) return PyFloat_FromDouble(from->real);
  return PyUnicode_FromString(from->text != NULL ? from->text : "");
}

static PyObject* plait_tuple_entry_info(const plait_entry_info* from) {
  const int64_t sizes[] = {from->shape0, from->shape1, from->shape2, from->shape3};
  const int64_t dims = from->dims < 0 ? 0 : from->dims > 4 ? 4 : from->dims;
  plait_row shape = plait_row_new((Py_ssize_t)dims);
  for (int64_t i = 0; i < dims; ++i) plait_row_int(&shape, sizes[i]);
  plait_row row = plait_row_new(7);
  plait_row_text(&row, from->name);
  plait_row_int(&row, from->kind);
  plait_row_int(&row, from->dtype);
  plait_row_put(&row, shape.tuple);
  plait_row_int(&row, from->elements);
  plait_row_int_if(&row, from->valid & PLAIT_ENTRY_DIGEST, from->digest);
  if ((from->valid & PLAIT_ENTRY_PROPERTY) != 0) {
    plait_row_put(&row, plait_tuple_property(from));
  } else {
    plait_row_none(&row);
  }
  return row.tuple;
}

static PyObject* plait_tuple_dataset_info(const plait_dataset_info* from) {
  plait_row row = plait_row_new(5);
  plait_row_int(&row, from->tokens);
  plait_row_int(&row, from->documents);
  plait_row_int(&row, from->samples);
  plait_row_int(&row, from->sequence_length);
  plait_row_int(&row, from->fingerprint);
  return row.tuple;
}

static PyObject* plait_tuple_progress(const plait_progress* from) {
  plait_row row = plait_row_new(3);
  plait_row_int(&row, from->state);
  plait_row_int(&row, from->done_bytes);
  plait_row_int(&row, from->total_bytes);
  return row.tuple;
}
