// Conversion of arguments and results between Python and C: bytes, time spans, exceptions.
#include <math.h>
#include <string.h>

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
  // Copies the message first: the following calls may run code that replaces it.
  PyObject* const text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
  PyObject* const type = PyObject_GetAttrString(errors, (size_t)code < count ? kErrorNames[code] : "Error");
  PyObject* const error =
      text == NULL || type == NULL ? NULL : PyObject_CallFunctionObjArgs(type, text, (PyObject*)NULL);
  Py_XDECREF(text);
  Py_XDECREF(type);
  return error;
}

PyObject* RaiseWith(remora_code code, const char* message) {
  if (PyErr_Occurred() != NULL) return NULL;
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
    settings_of = PyObject_GetAttrString(types, "_settings_of");
    until_type = PyObject_GetAttrString(types, "Until");
    Py_DECREF(types);
  }
  return errors != NULL && change_type != NULL && backup_type != NULL && settings_of != NULL &&
         until_type != NULL;
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

// A bool is an int to Python, and a mistake here. False: an exception is raised.
static int IsNumber(PyObject* object, const char* what) {
  if (!PyBool_Check(object)) return 1;
  PyErr_Format(PyExc_TypeError, "%s: a bool is no number; pass a number", what);
  return 0;
}

// More than this many seconds are as good as no limit: 285 million years.
static const double kMaxSeconds = 9e15;

int TakeSeconds(PyObject* seconds, const char* what, int64_t* ms) {
  if (!IsNumber(seconds, what)) return 0;
  const double given = PyFloat_AsDouble(seconds);
  if (given == -1.0 && PyErr_Occurred()) return 0;
  if (!(given > 0)) {  // nor is nan
    PyErr_Format(PyExc_ValueError, "%s: %R s are no span of time; pass more than 0, or math.inf", what,
                 seconds);
    return 0;
  }
  *ms = given > kMaxSeconds ? -1 : (int64_t)ceil(given * 1000);
  return 1;
}

int TakeUnsigned(PyObject* number, const char* what, unsigned long long* taken) {
  if (!IsNumber(number, what)) return 0;
  PyObject* const index = PyNumber_Index(number);
  if (index == NULL) return 0;
  *taken = PyLong_AsUnsignedLongLong(index);
  Py_DECREF(index);
  return !(*taken == (unsigned long long)-1 && PyErr_Occurred());
}

// An int of 64 bits. False: an exception is raised.
static int TakeSigned(PyObject* number, const char* what, long long* taken) {
  if (!IsNumber(number, what)) return 0;
  *taken = PyLong_AsLongLong(number);
  return !(*taken == -1 && PyErr_Occurred());
}

int TakeSize(PyObject* size, const char* what, int64_t* bytes) {
  unsigned long long taken = 0;
  if (!TakeUnsigned(size, what, &taken)) return 0;
  *bytes = taken > INT64_MAX ? INT64_MAX : (int64_t)taken;
  return 1;
}

// Takes a timeout of the client's options, which have 32 bits for it. Null: the default stays. Without a
// limit it is 49 days.
static int TakeTimeout(PyObject* seconds, const char* what, uint32_t* timeout_ms) {
  int64_t ms = *timeout_ms;
  if (seconds != NULL && !TakeSeconds(seconds, what, &ms)) return 0;
  *timeout_ms = ms < 0 || ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
  return 1;
}

PyObject* Self(PyObject* object, PyObject* Py_UNUSED(none)) { return Py_NewRef(object); }

int TakeClientOptions(PyObject* connect_timeout, PyObject* timeout, PyObject* cache, PyObject* mirror,
                      int reconnect, remora_options* options) {
  options->reconnect = reconnect != 0;
  return TakeTimeout(connect_timeout, "connect_timeout", &options->connect_timeout_ms) &&
         TakeTimeout(timeout, "timeout", &options->timeout_ms) &&
         (cache == Py_None || TakeSize(cache, "location_cache_bytes", &options->location_cache_bytes)) &&
         (mirror == NULL || TakeSize(mirror, "index_mirror_bytes", &options->index_mirror_bytes));
}

// To the nearest millisecond, so that what was made of milliseconds is the same again.
static int TakeUntil(PyObject* until, int64_t* ms) {
  PyObject* const expiry = PyObject_GetAttrString(until, "expiry");
  const double seconds = expiry == NULL || !IsNumber(expiry, "Until") ? -1.0 : PyFloat_AsDouble(expiry);
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
  return TakeSeconds(ttl, "ttl", ms);  // for ever is -1 to both
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
    unsigned long long version = 0;
    if (!TakeUnsigned(condition, "condition", &version)) return 0;
    if (version == REMORA_IF_ANY) {
      PyErr_SetString(PyExc_ValueError,
                      "condition: no write has version 0; pass a version, ABSENT or PRESENT");
      return 0;
    }
    wanted->options.condition = version;
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

int TakePutFromArguments(PyObject* args, PyObject* kwargs, Py_ssize_t memory_size, size_t* size,
                         WriteArguments* taken) {
  static char* names[] = {"key", "size", "ttl", "condition", "durability", NULL};
  PyObject *ttl = NULL, *condition = NULL, *durability = NULL, *number = NULL;
  long long bytes = 0;
  taken->value.buffer.obj = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O|$OOO", names, TakeArgument, &taken->key, &number, &ttl,
                                   &condition, &durability)) {
    return 0;
  }
  int is_inside = TakeSigned(number, "size", &bytes);
  if (is_inside && (bytes < 0 || bytes > memory_size)) {
    PyErr_Format(PyExc_ValueError, "%lld bytes of a memory of %zd", bytes, memory_size);
    is_inside = 0;
  }
  if (!is_inside) {
    Release(&taken->key);
    return 0;
  }
  *size = (size_t)bytes;
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
  PyObject *ttl = NULL, *condition = NULL, *durability = NULL, *number = NULL;
  taken->value.buffer.obj = NULL;
  *delta = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O$OOO", names, TakeArgument, &taken->key, &number, &ttl,
                                   &condition, &durability)) {
    return 0;
  }
  if (number != NULL && !TakeSigned(number, "delta", delta)) {
    Release(&taken->key);
    return 0;
  }
  return EndArguments(ttl, condition, durability, taken);
}

int TakeTouchArguments(PyObject* args, PyObject* kwargs, WriteArguments* taken) {
  static char* names[] = {"key", "ttl", "condition", "durability", NULL};
  PyObject *ttl = NULL, *condition = NULL, *durability = NULL;
  taken->value.buffer.obj = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O|$OO", names, TakeArgument, &taken->key, &ttl,
                                   &condition, &durability)) {
    return 0;
  }
  if (ttl == Py_None) {  // to a put, it is the server's default
    Release(&taken->key);
    PyErr_SetString(PyExc_TypeError, "ttl: None is no span of time; pass a number, or call persist");
    return 0;
  }
  return EndArguments(ttl, condition, durability, taken);
}
