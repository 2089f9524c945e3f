// What Python gives and is given: bytes, spans, exceptions.
#include <math.h>

#include "client/python/remora_python.h"

static PyObject* errors;      // the module remora._errors
static PyObject* until_type;  // remora._types.Until

// By remora_code.
static const char* const kErrorNames[] = {"Error",         "NotFound",         "InvalidArgument",
                                          "Unavailable",   "DeadlineExceeded", "ResourceExhausted",
                                          "OutOfRange",    "PermissionDenied", "FailedPrecondition",
                                          "AlreadyExists", "DataLoss",         "Unimplemented",
                                          "Internal",      "Aborted",          "Unknown",
                                          "Cancelled"};

PyObject* Raise(remora_code code) { return RaiseWith(code, remora_message()); }

PyObject* ErrorOf(remora_code code, const char* message) {
  const size_t count = sizeof(kErrorNames) / sizeof(kErrorNames[0]);
  PyObject* const type = PyObject_GetAttrString(errors, (size_t)code < count ? kErrorNames[code] : "Error");
  if (type == NULL) return NULL;
  PyObject* const error = PyObject_CallFunction(type, "s", message);
  Py_DECREF(type);
  return error;
}

PyObject* RaiseWith(remora_code code, const char* message) {
  PyObject* const error = ErrorOf(code, message);
  if (error == NULL) return NULL;
  PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_DECREF(error);
  return NULL;
}

int ImportTypes(void) {
  errors = PyImport_ImportModule("remora._errors");
  PyObject* const types = PyImport_ImportModule("remora._types");
  if (types != NULL) {
    change_type = PyObject_GetAttrString(types, "Change");
    backup_type = PyObject_GetAttrString(types, "Backup");
    until_type = PyObject_GetAttrString(types, "Until");
    Py_DECREF(types);
  }
  return errors != NULL && change_type != NULL && backup_type != NULL && until_type != NULL;
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

PyObject* TakeRaised(void) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return error;
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

int TakeSize(PyObject* size, int64_t* bytes) {
  const size_t taken = PyLong_AsSize_t(size);
  if (PyErr_Occurred()) return 0;
  *bytes = taken > INT64_MAX ? INT64_MAX : (int64_t)taken;
  return 1;
}

int TakeClientOptions(double connect_timeout, double timeout, PyObject* cache, int reconnect,
                      const char* token, remora_options* options) {
  remora_options_init(options);
  int64_t connect_ms, timeout_ms;
  if (!TakeSeconds(connect_timeout, &connect_ms) || !TakeSeconds(timeout, &timeout_ms)) return 0;
  options->connect_timeout_ms = connect_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)connect_ms;
  options->timeout_ms = timeout_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)timeout_ms;
  options->reconnect = reconnect != 0;
  options->token = token;
  return cache == Py_None || TakeSize(cache, &options->location_cache_bytes);
}

// To the nearest millisecond, so that what was made of milliseconds is the same again.
static int TakeUntil(PyObject* until, int64_t* ms) {
  PyObject* const expiry = PyObject_GetAttrString(until, "expiry");
  const double seconds = expiry == NULL ? -1.0 : PyFloat_AsDouble(expiry);
  Py_XDECREF(expiry);
  if (seconds == -1.0 && PyErr_Occurred()) return 0;
  if (!(seconds > 0) || (seconds > 1e15 && !isinf(seconds))) {
    PyErr_SetString(PyExc_ValueError, "a moment of expiry is in seconds since 1970, or math.inf");
    return 0;
  }
  *ms = isinf(seconds) ? REMORA_TTL_FOREVER : REMORA_TTL_UNTIL(llround(seconds * 1000));
  return 1;
}

int TakeTtl(PyObject* ttl, int64_t* ms) {
  *ms = REMORA_TTL_DEFAULT;
  if (ttl == NULL || ttl == Py_None) return 1;
  const int is_until = PyObject_IsInstance(ttl, until_type);
  if (is_until != 0) return is_until > 0 && TakeUntil(ttl, ms);
  const double seconds = PyFloat_AsDouble(ttl);
  if (seconds == -1.0 && PyErr_Occurred()) return 0;
  if (isinf(seconds) && seconds > 0) {
    *ms = REMORA_TTL_FOREVER;
    return 1;
  }
  return TakeSeconds(seconds, ms);
}

int TakeDurability(PyObject* durability, uint32_t* level) {
  *level = REMORA_DURABILITY_DEFAULT;
  if (durability == NULL || durability == Py_None) return 1;
  static const char* const levels[] = {"memory", "logged", "synced"};
  for (uint32_t i = 0; PyUnicode_Check(durability) && i < 3; ++i) {
    if (PyUnicode_CompareWithASCIIString(durability, levels[i]) != 0) continue;
    *level = REMORA_DURABILITY_MEMORY + i;
    return 1;
  }
  PyErr_SetString(PyUnicode_Check(durability) ? PyExc_ValueError : PyExc_TypeError,
                  "a durability is 'memory', 'logged' or 'synced'");
  return 0;
}

int TakeWanted(PyObject* ttl, PyObject* condition, PyObject* durability, Wanted* wanted) {
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
  return TakeTtl(ttl, &wanted->options.ttl_ms) && TakeDurability(durability, &wanted->options.durability);
}

void ReleaseArguments(WriteArguments* taken) {
  Release(&taken->key);
  Release(&taken->value);
}

// With what the parser took.
static int EndArguments(PyObject* ttl, PyObject* condition, PyObject* durability, WriteArguments* taken) {
  if (TakeWanted(ttl, condition, durability, &taken->wanted)) return 1;
  ReleaseArguments(taken);
  return 0;
}

int TakePutArguments(PyObject* args, PyObject* kwargs, WriteArguments* taken) {
  static char* names[] = {"key", "value", "ttl", "condition", "durability", NULL};
  PyObject *ttl = NULL, *condition = NULL, *durability = NULL;
  return PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&|$OOO", names, TakeArgument, &taken->key,
                                     TakeArgument, &taken->value, &ttl, &condition, &durability) &&
         EndArguments(ttl, condition, durability, taken);
}

int TakePutFromArguments(PyObject* args, PyObject* kwargs, const Py_buffer* memory, size_t* size,
                         WriteArguments* taken) {
  static char* names[] = {"key", "size", "ttl", "condition", "durability", NULL};
  PyObject *ttl = NULL, *condition = NULL, *durability = NULL;
  Py_ssize_t bytes = 0;
  taken->value.buffer.obj = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&n|$OOO", names, TakeArgument, &taken->key, &bytes, &ttl,
                                   &condition, &durability)) {
    return 0;
  }
  *size = (size_t)bytes;
  if (bytes < 0 || bytes > memory->len) {
    Release(&taken->key);
    PyErr_Format(PyExc_ValueError, "%zd bytes of a memory of %zd", bytes, memory->len);
    return 0;
  }
  return EndArguments(ttl, condition, durability, taken);
}

int TakeDeleteArguments(PyObject* args, PyObject* kwargs, WriteArguments* taken) {
  static char* names[] = {"key", "condition", "durability", NULL};
  PyObject *condition = NULL, *durability = NULL;
  taken->value.buffer.obj = NULL;
  return PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$OO", names, TakeArgument, &taken->key, &condition,
                                     &durability) &&
         EndArguments(NULL, condition, durability, taken);
}

int TakeIncrementArguments(PyObject* args, PyObject* kwargs, long long* delta, WriteArguments* taken) {
  static char* names[] = {"key", "delta", "ttl", "condition", "durability", NULL};
  PyObject *ttl = NULL, *condition = NULL, *durability = NULL;
  taken->value.buffer.obj = NULL;
  *delta = 1;
  return PyArg_ParseTupleAndKeywords(args, kwargs, "O&|L$OOO", names, TakeArgument, &taken->key, delta, &ttl,
                                     &condition, &durability) &&
         EndArguments(ttl, condition, durability, taken);
}

int TakeTouchArguments(PyObject* args, PyObject* kwargs, WriteArguments* taken) {
  static char* names[] = {"key", "ttl", "condition", "durability", NULL};
  PyObject *ttl = NULL, *condition = NULL, *durability = NULL;
  taken->value.buffer.obj = NULL;
  return PyArg_ParseTupleAndKeywords(args, kwargs, "O&O|$OO", names, TakeArgument, &taken->key, &ttl,
                                     &condition, &durability) &&
         EndArguments(ttl, condition, durability, taken);
}
