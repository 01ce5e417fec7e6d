// Python's side of plait.i: how values cross. The objects that do the work are in
// bindings/python/native.h. The module is plait._plait; the classes of bindings/python/plait stand
// on it. A function returns its outputs: one as it is, more as a tuple, none as None. PLAIT_STOPPED
// is returned as its number in the place of None, so an output of such a call is never mixed up
// with it.

%{
#include "native.h"
#include "structs.h"
%}

%rename("%(strip:[plait_])s") "";

// Other threads run during a call, but for those that are shorter than letting them.
%nothread plait_version;
%nothread plait_build_info;
%nothread plait_code_name;
%nothread plait_context_set_log_level;
%nothread plait_config_set;
%nothread plait_config_get;
%nothread plait_config_key_count;
%nothread plait_config_key_at;
%nothread plait_plan_count;
%nothread plait_plan_at;
%nothread plait_plan_rank_at;
%nothread plait_group_add_card;
%nothread plait_engine_state;
%nothread plait_engine_batch_spec;
%nothread plait_engine_batch_span;
%nothread plait_engine_counter;
%nothread plait_engine_tensor_count;
%nothread plait_engine_tensor_at;
%nothread plait_engine_request_stop;
%nothread plait_dataset_describe;
%nothread plait_tokenizer_vocab_size;
%nothread plait_checkpoint_entry_count;
%nothread plait_checkpoint_entry_at;
%nothread plait_op_progress;
%nothread plait_op_cancel;
%nothread set_error_factory;

// a. Errors.
%ignore plait_error_code;
%ignore plait_error_rank;
%ignore plait_error_disposition;
%ignore plait_error_message;
%ignore plait_error_word;
%ignore plait_error_subsystem;
%ignore plait_error_details;
%ignore plait_error_host_code;
%ignore plait_error_free;
%inline %{
// What makes an exception of an error's parts: code, word, message, subsystem, details, rank,
// disposition, host_code.
void set_error_factory(PyObject* factory) {
  Py_INCREF(factory);
  Py_XSETREF(plait_error_factory, factory);
}
%}
%typemap(out) int32_t {
  if ($1 == PLAIT_STOPPED) {
    $result = PyLong_FromLong(PLAIT_STOPPED);
  } else {
    Py_INCREF(Py_None);
    $result = Py_None;
  }
}
// The code comes first where metrics come with it.
%typemap(out) int32_t plait_version, int32_t plait_engine_state, int32_t plait_engine_step,
    int32_t plait_engine_forward_backward, int32_t plait_engine_optimizer_step,
    int32_t plait_engine_evaluate "$result = PyLong_FromLong($1);"
%typemap(in, numinputs=0) plait_error** err (plait_error* error = NULL) "$1 = &error;"
%typemap(argout) plait_error** err {
  if (result != PLAIT_OK && result != PLAIT_STOPPED) {
    Py_CLEAR($result);
    plait_raise(result, *$1);
  }
  if ($result == NULL) SWIG_fail;
}

// b. Handles.
%define PLAIT_HANDLE(NAME, ABORT, IS_REPORTED)
%ignore plait_##NAME##_free;
%{
static void plait_release_##NAME(void* pointer) { plait_##NAME##_free((plait_##NAME*)pointer); }
static const plait_kind plait_kind_##NAME = {#NAME, plait_release_##NAME, ABORT, IS_REPORTED};
%}
%typemap(in) plait_##NAME* (plait_handle* held = NULL) {
  void* pointer;
  if (!plait_handle_enter($input, &plait_kind_##NAME, &held, &pointer)) SWIG_fail;
  $1 = (plait_##NAME*)pointer;
}
%typemap(freearg) plait_##NAME* "plait_handle_leave(held$argnum);"
%apply plait_##NAME* { const plait_##NAME* };
%typemap(in, numinputs=0) plait_##NAME** (plait_##NAME* made = NULL) "$1 = &made;"
%typemap(argout) plait_##NAME** {
  if (*$1 != NULL) $result = plait_append($result, plait_handle_new(&plait_kind_##NAME, *$1));
}
%enddef
%{
static void plait_abort_group(void* pointer) { plait_group_abort((plait_group*)pointer); }
static void plait_abort_engine(void* pointer) { plait_engine_abort((plait_engine*)pointer); }
%}
PLAIT_HANDLE(context, NULL, 0)
PLAIT_HANDLE(config, NULL, 0)
PLAIT_HANDLE(plan, NULL, 0)
PLAIT_HANDLE(group, plait_abort_group, 1)
PLAIT_HANDLE(engine, plait_abort_engine, 1)
PLAIT_HANDLE(batch, NULL, 0)
PLAIT_HANDLE(dataset, NULL, 0)
PLAIT_HANDLE(tokenizer, NULL, 0)
PLAIT_HANDLE(checkpoint, NULL, 0)
PLAIT_HANDLE(op, NULL, 0)

// c. Text and bytes out. Token ids come as bytes, which the classes cast.
%ignore plait_bytes_data;
%ignore plait_bytes_size;
%ignore plait_bytes_free;
%typemap(in, numinputs=0) plait_bytes** (plait_bytes* made = NULL) "$1 = &made;"
%typemap(argout) plait_bytes** {
  if (*$1 != NULL) $result = plait_append($result, plait_take_text(*$1));
}
%typemap(argout) plait_bytes** card, plait_bytes** data_out, plait_bytes** text,
    plait_bytes** values, plait_bytes** tokens {
  if (*$1 != NULL) $result = plait_append($result, plait_take_bytes(*$1));
}

// d. Text in; static text out.
%typemap(in) const char* {
  if (!plait_text($input, (const char**)&$1)) SWIG_fail;
}
%typemap(freearg) const char* ""
%typemap(out) const char* {
  if ($1 == NULL) {
    Py_INCREF(Py_None);
    $result = Py_None;
  } else {
    $result = PyUnicode_FromString($1);
  }
}

// e. Memory of the host, read or written during the call.
%define PLAIT_BUFFER(POINTER, FLAGS)
%typemap(in) (POINTER, int64_t bytes) (Py_buffer view = {0}) {
  if (!plait_buffer($input, &view, FLAGS)) SWIG_fail;
  $1 = view.buf;
  $2 = view.len;
}
%typemap(freearg) (POINTER, int64_t bytes) "PyBuffer_Release(&view$argnum);"
%enddef
PLAIT_BUFFER(const void* json, PyBUF_SIMPLE)
PLAIT_BUFFER(const void* card, PyBUF_SIMPLE)
PLAIT_BUFFER(const void* text, PyBUF_SIMPLE)
PLAIT_BUFFER(const void* data, PyBUF_SIMPLE)
PLAIT_BUFFER(void* losses, PyBUF_WRITABLE)
PLAIT_BUFFER(void* data, PyBUF_WRITABLE)

// Memory of a checkpoint. The handle is the first argument of the call.
%typemap(in, numinputs=0) (const void** data, int64_t* bytes)
    (void* data = NULL, int64_t bytes = 0) "$1 = &data; $2 = &bytes;"
%typemap(argout) (const void** data, int64_t* bytes) {
  if (result == PLAIT_OK) {
    $result = plait_append($result, plait_view_new(held1, *$1, 'B', 1, *$2, -1, 1));
  }
}

// f. Token ids in: one dimension with a count, two with rows and columns.
%define PLAIT_IDS(POINTER, COUNT)
%typemap(in) (POINTER, COUNT) (Py_buffer view = {0}) {
  if (!plait_int32_buffer($input, &view, 1)) SWIG_fail;
  $1 = (int32_t*)view.buf;
  $2 = view.len / 4;
}
%typemap(freearg) (POINTER, COUNT) "PyBuffer_Release(&view$argnum);"
%enddef
PLAIT_IDS(const int32_t* prompt, int64_t prompt_count)
PLAIT_IDS(const int32_t* tokens, int64_t count)
%typemap(in) (const int32_t* values, int64_t rows, int64_t columns) (Py_buffer view = {0}) {
  if (!plait_int32_buffer($input, &view, 2)) SWIG_fail;
  $1 = (int32_t*)view.buf;
  $2 = view.shape != NULL ? view.shape[0] : 0;
  $3 = view.shape != NULL ? view.shape[1] : 0;
}
%typemap(freearg) (const int32_t* values, int64_t rows, int64_t columns)
    "PyBuffer_Release(&view$argnum);"

// g. The batch's own memory: plait_batch_map(batch, name, rows, columns, values, err).
%typemap(in, numinputs=0) int32_t** values (int32_t* values = NULL) "$1 = &values;"
%typemap(argout) int32_t** values {
  if (*$1 != NULL) {
    $result = plait_append($result, plait_view_new(held1, *$1, 'i', 4, arg3, arg4, 0));
  }
}

// h. Structs: hidden, the result is a tuple.
%define PLAIT_STRUCT(NAME)
%ignore plait_##NAME;
%typemap(in, numinputs=0) plait_##NAME* (plait_##NAME made) {
  memset(&made, 0, sizeof made);
  made.struct_size = sizeof made;
  $1 = &made;
}
%typemap(argout) plait_##NAME* {
  if (result == PLAIT_OK || result == PLAIT_STOPPED) {
    $result = plait_append($result, plait_tuple_##NAME($1));
  }
}
%enddef
PLAIT_STRUCT(metrics)
PLAIT_STRUCT(batch_spec)
PLAIT_STRUCT(plan_info)
PLAIT_STRUCT(rank_info)
PLAIT_STRUCT(key_info)
PLAIT_STRUCT(entry_info)
PLAIT_STRUCT(dataset_info)
PLAIT_STRUCT(progress)

// i. Further results.
%define PLAIT_RESULT(TYPE, NAME, MAKE)
%typemap(in, numinputs=0) TYPE* NAME (TYPE made = 0) "$1 = &made;"
%typemap(argout) TYPE* NAME "$result = plait_append($result, MAKE(*$1));"
%enddef
PLAIT_RESULT(int64_t, first, PyLong_FromLongLong)
PLAIT_RESULT(int64_t, count, PyLong_FromLongLong)
PLAIT_RESULT(int64_t, integer_out, PyLong_FromLongLong)
PLAIT_RESULT(double, value, PyFloat_FromDouble)
PLAIT_RESULT(double, real_out, PyFloat_FromDouble)

%init %{
  if (PyType_Ready(&plait_handle_type) < 0 || PyType_Ready(&plait_view_type) < 0) return NULL;
%}
