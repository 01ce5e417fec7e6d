// What the extension module needs beside SWIG's typemaps: the object that owns a handle, the object
// that lends the library's memory, errors and rows of values. Everything here runs with the
// interpreter's lock held, which is what guards the counts, unless a line says that it lets go.
#pragma once

#include <Python.h>
#include <structmember.h>

#include "plait/plait.h"

// ---- Errors ----

static PyObject* plait_error_factory = NULL;

static void plait_raise_parts(int32_t code, const char* word, const char* message,
                              const char* subsystem, const char* details, int32_t rank,
                              int32_t disposition, int64_t host_code) {
  if (plait_error_factory == NULL) {
    PyErr_SetString(PyExc_RuntimeError, message);
    return;
  }
  PyObject* made =
      PyObject_CallFunction(plait_error_factory, "issssiiL", (int)code, word, message, subsystem,
                            details, (int)rank, (int)disposition, (long long)host_code);
  if (made == NULL) return;
  PyErr_SetObject((PyObject*)Py_TYPE(made), made);
  Py_DECREF(made);
}

// Raises what `error` (NULL where the library made none) says, and frees it.
static void plait_raise(int32_t code, plait_error* error) {
  plait_raise_parts(code, plait_error_word(error), plait_error_message(error),
                    plait_error_subsystem(error), plait_error_details(error),
                    plait_error_rank(error), plait_error_disposition(error),
                    plait_error_host_code(error));
  plait_error_free(error);
}

// ---- Handle ----

typedef struct plait_kind {
  const char* name;
  void (*release)(void* pointer);
  void (*abort)(void* pointer);  // ends calls in progress; NULL where they end by themselves
  int is_reported;               // one that was not closed is worth a ResourceWarning
} plait_kind;

// A handle of the library and the number of its users: calls in progress, and memory that is lent.
// The last one frees what was closed meanwhile, so a call never enters with freed memory.
typedef struct plait_handle {
  PyObject ob_base;  // PyObject_HEAD
  const plait_kind* kind;
  void* pointer;  // NULL: closed
  void* closing;  // closed, but still in use
  Py_ssize_t users;
} plait_handle;

static PyTypeObject plait_handle_type;

static PyObject* plait_handle_new(const plait_kind* kind, void* pointer) {
  plait_handle* made = PyObject_New(plait_handle, &plait_handle_type);
  if (made == NULL) {
    kind->release(pointer);
    return NULL;
  }
  made->kind = kind;
  made->pointer = pointer;
  made->closing = NULL;
  made->users = 0;
  return (PyObject*)made;
}

// Begins a use of the handle in `from` (None: no handle, which some calls allow). False with an
// exception where it is none of `kind` or was closed.
static int plait_handle_enter(PyObject* from, const plait_kind* kind, plait_handle** held,
                              void** pointer) {
  *pointer = NULL;
  if (from == Py_None) return 1;
  if (Py_TYPE(from) != &plait_handle_type || ((plait_handle*)from)->kind != kind) {
    PyErr_Format(PyExc_TypeError, "%s expected, got %.100s", kind->name, Py_TYPE(from)->tp_name);
    return 0;
  }
  plait_handle* handle = (plait_handle*)from;
  if (handle->pointer == NULL) {
    char message[80];
    PyOS_snprintf(message, sizeof message, "bad_handle: the %s was closed", kind->name);
    plait_raise_parts(PLAIT_INVALID_ARGUMENT, "bad_handle", message, "bindings/python", "{}", -1,
                      PLAIT_DISPOSITION_UNCHANGED, 0);
    return 0;
  }
  ++handle->users;
  *held = handle;
  *pointer = handle->pointer;
  return 1;
}

static void plait_handle_leave(plait_handle* handle) {
  if (handle == NULL || --handle->users != 0 || handle->closing == NULL) return;
  void* pointer = handle->closing;
  handle->closing = NULL;
  Py_BEGIN_ALLOW_THREADS;
  handle->kind->release(pointer);
  Py_END_ALLOW_THREADS;
}

static PyObject* plait_handle_close(plait_handle* self, PyObject* unused) {
  (void)unused;
  if (self->pointer == NULL) Py_RETURN_NONE;
  self->closing = self->pointer;
  self->pointer = NULL;
  ++self->users;
  if (self->users > 1 && self->kind->abort != NULL) {
    Py_BEGIN_ALLOW_THREADS;
    self->kind->abort(self->closing);
    Py_END_ALLOW_THREADS;
  }
  plait_handle_leave(self);
  Py_RETURN_NONE;
}

// Nothing uses the handle here: whoever does holds a reference.
static void plait_handle_finalize(PyObject* object) {
  plait_handle* self = (plait_handle*)object;
  if (self->pointer == NULL) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (self->kind->is_reported &&
      PyErr_ResourceWarning(object, 1, "a plait %s was not closed", self->kind->name) != 0) {
    PyErr_WriteUnraisable(object);
  }
  void* pointer = self->pointer;
  self->pointer = NULL;
  if (pointer != NULL) {  // which ends a save that runs
    Py_BEGIN_ALLOW_THREADS;
    self->kind->release(pointer);
    Py_END_ALLOW_THREADS;
  }
  PyErr_Restore(type, value, traceback);
}

static void plait_handle_dealloc(PyObject* object) {
  if (PyObject_CallFinalizerFromDealloc(object) < 0) return;
  PyObject_Free(object);
}

static PyObject* plait_handle_is_open(plait_handle* self, void* unused) {
  (void)unused;
  return PyBool_FromLong(self->pointer != NULL);
}

static PyMethodDef plait_handle_methods[] = {
    {"close", (PyCFunction)plait_handle_close, METH_NOARGS,
     "Frees the handle, or lets the last call that uses it do so."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef plait_handle_fields[] = {
    {"is_open", (getter)plait_handle_is_open, NULL, "False once it was closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyTypeObject plait_handle_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plait._plait.Handle",
    .tp_basicsize = sizeof(plait_handle),
    .tp_dealloc = plait_handle_dealloc,
    .tp_finalize = plait_handle_finalize,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = plait_handle_methods,
    .tp_getset = plait_handle_fields,
    .tp_doc = "Owns a handle of the library.",
};

// ---- View: memory of the library, lent by the buffer protocol ----

typedef struct plait_view {
  PyObject ob_base;     // PyObject_HEAD
  plait_handle* owner;  // used for as long as the view lives
  void* data;           // NULL: taken back
  Py_ssize_t shape[2], strides[2], itemsize, exports;
  int dims, is_readonly;
  char format[2];
} plait_view;

static PyTypeObject plait_view_type;

// `columns` −1: one dimension.
static PyObject* plait_view_new(plait_handle* owner, void* data, char format, Py_ssize_t itemsize,
                                int64_t rows, int64_t columns, int is_readonly) {
  plait_view* made = PyObject_New(plait_view, &plait_view_type);
  if (made == NULL) return NULL;
  made->dims = columns < 0 ? 1 : 2;
  made->data = data;
  made->shape[0] = (Py_ssize_t)rows;
  made->shape[1] = (Py_ssize_t)columns;
  made->strides[0] = columns < 0 ? itemsize : (Py_ssize_t)columns * itemsize;
  made->strides[1] = itemsize;
  made->itemsize = itemsize;
  made->exports = 0;
  made->is_readonly = is_readonly;
  made->format[0] = format;
  made->format[1] = '\0';
  made->owner = owner;
  Py_INCREF(owner);
  ++owner->users;
  return (PyObject*)made;
}

static void plait_view_dealloc(PyObject* object) {
  plait_view* self = (plait_view*)object;
  plait_handle* owner = self->owner;
  PyObject_Free(object);
  plait_handle_leave(owner);
  Py_DECREF(owner);
}

static int plait_view_get_buffer(PyObject* object, Py_buffer* buffer, int flags) {
  plait_view* self = (plait_view*)object;
  buffer->obj = NULL;
  if (self->data == NULL) {
    PyErr_SetString(PyExc_BufferError, "the memory was given back: its shape changed");
    return -1;
  }
  if (self->is_readonly && (flags & PyBUF_WRITABLE) != 0) {
    PyErr_SetString(PyExc_BufferError, "the memory is not to be written");
    return -1;
  }
  if (self->dims == 2 && (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS) {
    PyErr_SetString(PyExc_BufferError, "the memory is row-major");
    return -1;
  }
  buffer->obj = object;
  Py_INCREF(object);
  buffer->buf = self->data;
  buffer->len = self->shape[0] * self->strides[0];
  buffer->itemsize = self->itemsize;
  buffer->readonly = self->is_readonly;
  buffer->ndim = self->dims;
  buffer->format = (flags & PyBUF_FORMAT) != 0 ? self->format : NULL;
  buffer->shape = (flags & PyBUF_ND) != 0 ? self->shape : NULL;
  buffer->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL;
  buffer->suboffsets = NULL;
  buffer->internal = NULL;
  ++self->exports;
  return 0;
}

static void plait_view_release_buffer(PyObject* object, Py_buffer* buffer) {
  (void)buffer;
  --((plait_view*)object)->exports;
}

static PyObject* plait_view_retire(plait_view* self, PyObject* unused) {
  (void)unused;
  if (self->exports > 0) {
    PyErr_SetString(PyExc_BufferError, "a memoryview of the tensor is in use: release it first");
    return NULL;
  }
  self->data = NULL;
  Py_RETURN_NONE;
}

static PyBufferProcs plait_view_buffer = {plait_view_get_buffer, plait_view_release_buffer};
static PyMethodDef plait_view_methods[] = {
    {"retire", (PyCFunction)plait_view_retire, METH_NOARGS,
     "Lends nothing any more; BufferError where something is lent."},
    {NULL, NULL, 0, NULL}};
static PyTypeObject plait_view_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plait._plait.View",
    .tp_basicsize = sizeof(plait_view),
    .tp_dealloc = plait_view_dealloc,
    .tp_as_buffer = &plait_view_buffer,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = plait_view_methods,
    .tp_doc = "Memory of the library, lent by the buffer protocol.",
};

// ---- Arguments ----

// UTF-8 of a str, NULL for None. It lives as long as the str.
static int plait_text(PyObject* from, const char** text) {
  *text = NULL;
  if (from == Py_None) return 1;
  if (!PyUnicode_Check(from)) {
    PyErr_Format(PyExc_TypeError, "str expected, got %.100s", Py_TYPE(from)->tp_name);
    return 0;
  }
  Py_ssize_t bytes = 0;
  const char* made = PyUnicode_AsUTF8AndSize(from, &bytes);
  if (made == NULL) return 0;
  if (strlen(made) != (size_t)bytes) {
    PyErr_SetString(PyExc_ValueError, "embedded null character");
    return 0;
  }
  *text = made;
  return 1;
}

// The contiguous bytes of any object with a buffer; none for None.
static int plait_buffer(PyObject* from, Py_buffer* view, int flags) {
  if (from == Py_None) return 1;
  return PyObject_GetBuffer(from, view, flags) == 0;
}

// A row-major buffer of int32 with `dims` dimensions; none for None.
static int plait_int32_buffer(PyObject* from, Py_buffer* view, int dims) {
  if (from == Py_None) return 1;
  if (PyObject_GetBuffer(from, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) return 0;
  const char* format = view->format != NULL ? view->format : "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  const int is_int32 =
      view->itemsize == 4 && (*format == 'i' || *format == 'l') && format[1] == '\0';
  if (is_int32 && view->ndim == dims) return 1;
  PyErr_Format(PyExc_TypeError,
               "a buffer of int32 with %d dimension(s) expected, got format '%s' with %d", dims,
               view->format != NULL ? view->format : "B", view->ndim);
  PyBuffer_Release(view);
  return 0;
}

// ---- Results ----

// Joins what a function returns: nothing and one value are that value, more are a tuple. Takes both
// references; NULL (an exception is set) stays NULL.
static PyObject* plait_append(PyObject* result, PyObject* item) {
  if (result == NULL || item == NULL) {
    Py_XDECREF(result);
    Py_XDECREF(item);
    return NULL;
  }
  if (result == Py_None) {
    Py_DECREF(result);
    return item;
  }
  PyObject* single = PyTuple_Check(result) ? result : PyTuple_Pack(1, result);
  if (single != result) Py_DECREF(result);
  PyObject* last = PyTuple_Pack(1, item);
  Py_DECREF(item);
  PyObject* joined = single != NULL && last != NULL ? PySequence_Concat(single, last) : NULL;
  Py_XDECREF(single);
  Py_XDECREF(last);
  return joined;
}

static PyObject* plait_take_text(plait_bytes* bytes) {
  PyObject* made = PyUnicode_DecodeUTF8((const char*)plait_bytes_data(bytes),
                                        (Py_ssize_t)plait_bytes_size(bytes), NULL);
  plait_bytes_free(bytes);
  return made;
}

static PyObject* plait_take_bytes(plait_bytes* bytes) {
  PyObject* made = PyBytes_FromStringAndSize((const char*)plait_bytes_data(bytes),
                                             (Py_ssize_t)plait_bytes_size(bytes));
  plait_bytes_free(bytes);
  return made;
}

// A tuple that is filled from the left; NULL where memory ran out.
typedef struct plait_row {
  PyObject* tuple;
  Py_ssize_t next;
} plait_row;

static plait_row plait_row_new(Py_ssize_t size) {
  const plait_row row = {PyTuple_New(size), 0};
  return row;
}

static void plait_row_put(plait_row* row, PyObject* item) {
  if (row->tuple == NULL || item == NULL) {
    Py_XDECREF(item);
    Py_CLEAR(row->tuple);
    return;
  }
  PyTuple_SET_ITEM(row->tuple, row->next++, item);
}

static void plait_row_int(plait_row* row, int64_t value) {
  plait_row_put(row, PyLong_FromLongLong(value));
}
static void plait_row_real(plait_row* row, double value) {
  plait_row_put(row, PyFloat_FromDouble(value));
}
static void plait_row_bool(plait_row* row, int64_t value) {
  plait_row_put(row, PyBool_FromLong(value != 0));
}
static void plait_row_text(plait_row* row, const char* value) {
  plait_row_put(row, PyUnicode_FromString(value != NULL ? value : ""));
}
static void plait_row_none(plait_row* row) {
  Py_INCREF(Py_None);
  plait_row_put(row, Py_None);
}
static void plait_row_int_if(plait_row* row, int64_t is_valid, int64_t value) {
  if (is_valid != 0) {
    plait_row_int(row, value);
  } else {
    plait_row_none(row);
  }
}
static void plait_row_real_if(plait_row* row, int64_t is_valid, double value) {
  if (is_valid != 0) {
    plait_row_real(row, value);
  } else {
    plait_row_none(row);
  }
}
