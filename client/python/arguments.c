// What Python gives and is given: bytes, spans, exceptions.
#include <math.h>

#include "client/python/remora_python.h"

static PyObject* errors;  // the module remora._errors

// By remora_code.
static const char* const kErrorNames[] = {"Error",         "NotFound",         "InvalidArgument",
                                          "Unavailable",   "DeadlineExceeded", "ResourceExhausted",
                                          "OutOfRange",    "PermissionDenied", "FailedPrecondition",
                                          "AlreadyExists", "DataLoss",         "Unimplemented",
                                          "Internal",      "Aborted",          "Unknown"};

PyObject* Raise(remora_code code) {
  const size_t count = sizeof(kErrorNames) / sizeof(kErrorNames[0]);
  PyObject* const type = PyObject_GetAttrString(errors, (size_t)code < count ? kErrorNames[code] : "Error");
  if (type == NULL) return NULL;
  PyErr_SetString(type, remora_message());
  Py_DECREF(type);
  return NULL;
}

int ImportErrors(void) {
  errors = PyImport_ImportModule("remora._errors");
  return errors != NULL;
}

int Take(PyObject* object, Bytes* bytes) {
  if (PyUnicode_Check(object)) {
    bytes->buffer.obj = NULL;
    bytes->data = PyUnicode_AsUTF8AndSize(object, &bytes->size);
    return bytes->data != NULL;  // lives as long as the str, which the caller holds
  }
  if (PyObject_GetBuffer(object, &bytes->buffer, PyBUF_SIMPLE) != 0) return 0;
  bytes->data = bytes->buffer.buf;
  bytes->size = bytes->buffer.len;
  return 1;
}

void Release(Bytes* bytes) {
  if (bytes->buffer.obj != NULL) PyBuffer_Release(&bytes->buffer);
}

// When a later argument is wrong, it is called again, with null.
int TakeArgument(PyObject* object, void* bytes) {
  if (object != NULL) return Take(object, bytes) ? Py_CLEANUP_SUPPORTED : 0;
  Release(bytes);
  return 1;
}

// Seconds, as an int64 of milliseconds, rounded up, so that no span becomes none. False: an exception is
// raised.
int TakeSeconds(double seconds, int64_t* ms) {
  if (!(seconds > 0) || seconds > 9e15) {
    PyErr_SetString(PyExc_ValueError, "a span of time has to be greater than 0");
    return 0;
  }
  *ms = (int64_t)ceil(seconds * 1000);
  return 1;
}

int TakeTtl(PyObject* ttl, int64_t* ms) {
  *ms = REMORA_TTL_DEFAULT;
  if (ttl == NULL || ttl == Py_None) return 1;
  const double seconds = PyFloat_AsDouble(ttl);
  if (seconds == -1.0 && PyErr_Occurred()) return 0;
  if (isinf(seconds) && seconds > 0) {
    *ms = REMORA_TTL_FOREVER;
    return 1;
  }
  return TakeSeconds(seconds, ms);
}

int TakeWanted(PyObject* ttl, PyObject* condition, Wanted* wanted) {
  remora_write_options_init(&wanted->options);
  wanted->version = 0;
  wanted->options.version = &wanted->version;
  if (condition != NULL && condition != Py_None) {
    wanted->options.condition = PyLong_AsUnsignedLongLong(condition);
    if (PyErr_Occurred()) return 0;
    if (wanted->options.condition == REMORA_IF_ANY) {
      PyErr_SetString(PyExc_ValueError, "no write has version 0");
      return 0;
    }
  }
  return TakeTtl(ttl, &wanted->options.ttl_ms);
}

void ReleaseArguments(WriteArguments* taken) {
  Release(&taken->key);
  Release(&taken->value);
}

// With what the parser took.
static int EndArguments(PyObject* ttl, PyObject* condition, WriteArguments* taken) {
  if (TakeWanted(ttl, condition, &taken->wanted)) return 1;
  ReleaseArguments(taken);
  return 0;
}

int TakePutArguments(PyObject* args, PyObject* kwargs, WriteArguments* taken) {
  static char* names[] = {"key", "value", "ttl", "condition", NULL};
  PyObject *ttl = NULL, *condition = NULL;
  return PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&|$OO", names, TakeArgument, &taken->key, TakeArgument,
                                     &taken->value, &ttl, &condition) &&
         EndArguments(ttl, condition, taken);
}

int TakeDeleteArguments(PyObject* args, PyObject* kwargs, WriteArguments* taken) {
  static char* names[] = {"key", "condition", NULL};
  PyObject* condition = NULL;
  taken->value.buffer.obj = NULL;
  return PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$O", names, TakeArgument, &taken->key, &condition) &&
         EndArguments(NULL, condition, taken);
}
