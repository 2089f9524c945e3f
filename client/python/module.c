// The extension module remora._remora: remora.h for Python, with the buffer protocol and without the interpreter's
// lock while a call is under way. remora/_remora.pyi says what it has.
#pragma GCC diagnostic ignored "-Wpedantic"  // Python's slots hold functions as void*
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "client/c/remora.h"

typedef struct Buffer Buffer;

typedef struct {
  PyObject_HEAD
  remora_client* client;  // null: closed
  Buffer* buffers;        // those that are registered, in a list
  unsigned forks;         // as `forks` was when it connected
  int busy;               // a call is under way, maybe in another thread
} Client;

struct Buffer {
  PyObject_HEAD
  Client* client;
  remora_buffer* buffer;  // null: released
  PyObject* owner;        // of the memory
  Py_buffer memory;
  Buffer* next;
};

static PyObject* errors;  // the module remora._errors
static PyObject* buffer_type;

// --- Errors ---------------------------------------------------------------------------------------------

// By remora_code.
static const char* const kErrorNames[] = {
    "Error",             "NotFound",   "InvalidArgument",  "Unavailable",        "DeadlineExceeded",
    "ResourceExhausted", "OutOfRange", "PermissionDenied", "FailedPrecondition", "AlreadyExists",
    "DataLoss",          "Unimplemented", "Internal"};

// Returns null, with the exception of the code raised.
static PyObject* Raise(remora_code code) {
  const size_t count = sizeof(kErrorNames) / sizeof(kErrorNames[0]);
  PyObject* const type = PyObject_GetAttrString(errors, (size_t)code < count ? kErrorNames[code] : "Error");
  if (type == NULL) return NULL;
  PyErr_SetString(type, remora_message());
  Py_DECREF(type);
  return NULL;
}

// --- One call at a time ---------------------------------------------------------------------------------

static unsigned forks;
static void CountFork(void) { ++forks; }

// Whether a call may begin; else an exception is raised.
static int Begin(Client* self) {
  const char* why = NULL;
  if (self->client == NULL) {
    why = "the client is closed";
  } else if (self->busy) {
    why = "the client is in use by another thread: give each a client of its own";
  } else if (self->forks != forks) {
    why = "the client was connected before a fork: connect anew in the child";
  }
  if (why != NULL) {
    PyErr_SetString(PyExc_RuntimeError, why);
    return 0;
  }
  self->busy = 1;
  return 1;
}

// Runs a call of remora.h, without the interpreter's lock.
#define CALL(self, code, call) \
  do {                         \
    Py_BEGIN_ALLOW_THREADS     \
    code = call;               \
    Py_END_ALLOW_THREADS       \
    (self)->busy = 0;          \
  } while (0)

// --- Arguments ------------------------------------------------------------------------------------------

// A key or value: the bytes of a str in UTF-8, or of whatever has the buffer protocol. Not copied.
typedef struct {
  const char* data;
  Py_ssize_t size;
  Py_buffer buffer;  // obj null: none is held
} Bytes;

static int Take(PyObject* object, Bytes* bytes) {
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

static void Release(Bytes* bytes) {
  if (bytes->buffer.obj != NULL) PyBuffer_Release(&bytes->buffer);
}

// For PyArg_Parse "O&". When a later argument is wrong, it is called again, with null.
static int TakeArgument(PyObject* object, void* bytes) {
  if (object != NULL) return Take(object, bytes) ? Py_CLEANUP_SUPPORTED : 0;
  Release(bytes);
  return 1;
}

// Seconds, as an int64 of milliseconds, rounded up, so that no span becomes none. False: an exception is raised.
static int TakeSeconds(double seconds, int64_t* ms) {
  if (!(seconds > 0) || seconds > 9e15) {
    PyErr_SetString(PyExc_ValueError, "a span of time has to be greater than 0");
    return 0;
  }
  *ms = (int64_t)ceil(seconds * 1000);
  return 1;
}

// None: the server's default; math.inf: for ever.
static int TakeTtl(PyObject* ttl, int64_t* ms) {
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

// --- Client: connecting and closing ---------------------------------------------------------------------

static int ClientInit(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"address", "connect_timeout", "timeout", "location_cache_bytes", NULL};
  Client* const self = (Client*)object;
  const char* address = NULL;
  double connect_timeout = 5, timeout = 5;
  PyObject* cache = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|$ddO", names, &address, &connect_timeout, &timeout, &cache)) {
    return -1;
  }
  remora_options options;
  remora_options_init(&options);
  int64_t connect_ms, timeout_ms;
  if (!TakeSeconds(connect_timeout, &connect_ms) || !TakeSeconds(timeout, &timeout_ms)) return -1;
  options.connect_timeout_ms = connect_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)connect_ms;
  options.timeout_ms = timeout_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)timeout_ms;
  if (cache != Py_None) {
    const size_t bytes = PyLong_AsSize_t(cache);
    if (PyErr_Occurred()) return -1;
    options.location_cache_bytes = bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
  }
  if (self->client != NULL || self->busy) {
    PyErr_SetString(PyExc_RuntimeError, "the client is connected already");
    return -1;
  }
  self->busy = 1;
  remora_code code;
  remora_client* client = NULL;
  CALL(self, code, remora_connect(address, &options, &client));
  if (code != REMORA_OK) {
    Raise(code);
    return -1;
  }
  self->client = client;
  self->forks = forks;
  return 0;
}

static void ReleaseBuffer(Buffer* buffer) {
  if (buffer->buffer == NULL) return;
  for (Buffer** link = &buffer->client->buffers; *link != NULL; link = &(*link)->next) {
    if (*link != buffer) continue;
    *link = buffer->next;
    break;
  }
  // In a forked child, what the parent registered is the parent's.
  if (buffer->client->forks == forks) remora_buffer_release(buffer->buffer);
  buffer->buffer = NULL;
  PyBuffer_Release(&buffer->memory);
  Py_CLEAR(buffer->owner);
}

static void CloseClient(Client* self) {
  while (self->buffers != NULL) ReleaseBuffer(self->buffers);
  if (self->client != NULL && self->forks == forks) remora_close(self->client);
  self->client = NULL;
}

static PyObject* ClientClose(PyObject* object, PyObject* Py_UNUSED(none)) {
  Client* const self = (Client*)object;
  if (self->busy) {
    PyErr_SetString(PyExc_RuntimeError, "the client is in use by another thread");
    return NULL;
  }
  CloseClient(self);
  Py_RETURN_NONE;
}

static void ClientDealloc(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  CloseClient((Client*)object);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

static PyObject* Self(PyObject* object, PyObject* Py_UNUSED(none)) { return Py_NewRef(object); }

// --- Client: reading ------------------------------------------------------------------------------------

// The code, and when it is REMORA_OK, the value. REMORA_INTERNAL, with an exception raised: the call did not begin.
static remora_code Get(Client* self, const Bytes* key, PyObject** value) {
  if (!Begin(self)) return REMORA_INTERNAL;
  remora_code code;
  const void* bytes = NULL;
  size_t size = 0;
  CALL(self, code, remora_get(self->client, key->data, (size_t)key->size, &bytes, &size));
  if (code == REMORA_OK) {
    *value = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
  } else {
    if (code != REMORA_NOT_FOUND) Raise(code);
  }
  return code;
}

static PyObject* ClientGet(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"key", "default", NULL};
  Bytes key;
  PyObject* otherwise = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O", names, TakeArgument, &key, &otherwise)) return NULL;
  PyObject* value = NULL;
  if (Get((Client*)object, &key, &value) == REMORA_NOT_FOUND) value = Py_NewRef(otherwise);
  Release(&key);
  return value;
}

static PyObject* ClientSubscript(PyObject* object, PyObject* index) {
  Bytes key;
  if (!Take(index, &key)) return NULL;
  PyObject* value = NULL;
  if (Get((Client*)object, &key, &value) == REMORA_NOT_FOUND) Raise(REMORA_NOT_FOUND);
  Release(&key);
  return value;
}

static int ClientContains(PyObject* object, PyObject* index) {
  Client* const self = (Client*)object;
  Bytes key;
  if (!Take(index, &key)) return -1;
  int result = -1;
  if (Begin(self)) {
    remora_code code;
    const void* bytes;
    size_t size;
    CALL(self, code, remora_get(self->client, key.data, (size_t)key.size, &bytes, &size));
    if (code == REMORA_OK || code == REMORA_NOT_FOUND) {
      result = code == REMORA_OK;
    } else {
      Raise(code);
    }
  }
  Release(&key);
  return result;
}

static PyObject* ClientTtl(PyObject* object, PyObject* argument) {
  Client* const self = (Client*)object;
  Bytes key;
  if (!Take(argument, &key)) return NULL;
  PyObject* result = NULL;
  if (Begin(self)) {
    remora_code code;
    int64_t ttl_ms = 0;
    CALL(self, code, remora_ttl(self->client, key.data, (size_t)key.size, &ttl_ms));
    if (code != REMORA_OK) {
      Raise(code);
    } else {
      result = PyFloat_FromDouble(ttl_ms == REMORA_TTL_FOREVER ? HUGE_VAL : (double)ttl_ms / 1000);
    }
  }
  Release(&key);
  return result;
}

// --- Client: writing ------------------------------------------------------------------------------------

// Null, with an exception raised, or None.
static PyObject* Put(Client* self, const Bytes* key, const Bytes* value, int64_t ttl_ms) {
  if (!Begin(self)) return NULL;
  remora_put_options options;
  remora_put_options_init(&options);
  options.ttl_ms = ttl_ms;
  remora_code code;
  CALL(self, code,
       remora_put(self->client, key->data, (size_t)key->size, value->data, (size_t)value->size, &options));
  if (code != REMORA_OK) return Raise(code);
  Py_RETURN_NONE;
}

static PyObject* ClientPut(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"key", "value", "ttl", NULL};
  Bytes key, value;
  PyObject* ttl = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&|$O", names, TakeArgument, &key, TakeArgument, &value, &ttl)) {
    return NULL;
  }
  int64_t ttl_ms;
  PyObject* const result = TakeTtl(ttl, &ttl_ms) ? Put((Client*)object, &key, &value, ttl_ms) : NULL;
  Release(&key);
  Release(&value);
  return result;
}

static PyObject* Delete(Client* self, const Bytes* key) {
  if (!Begin(self)) return NULL;
  remora_code code;
  CALL(self, code, remora_delete(self->client, key->data, (size_t)key->size));
  if (code != REMORA_OK) return Raise(code);
  Py_RETURN_NONE;
}

static PyObject* ClientDelete(PyObject* object, PyObject* argument) {
  Bytes key;
  if (!Take(argument, &key)) return NULL;
  PyObject* const result = Delete((Client*)object, &key);
  Release(&key);
  return result;
}

static int ClientAssign(PyObject* object, PyObject* index, PyObject* assigned) {
  Bytes key, value;
  if (!Take(index, &key)) return -1;
  PyObject* result = NULL;
  if (assigned == NULL) {
    result = Delete((Client*)object, &key);
  } else if (Take(assigned, &value)) {
    result = Put((Client*)object, &key, &value, REMORA_TTL_DEFAULT);
    Release(&value);
  }
  Release(&key);
  Py_XDECREF(result);
  return result != NULL ? 0 : -1;
}

static PyObject* Touch(Client* self, const Bytes* key, int64_t ttl_ms) {
  if (!Begin(self)) return NULL;
  remora_code code;
  CALL(self, code, remora_touch(self->client, key->data, (size_t)key->size, ttl_ms));
  if (code != REMORA_OK) return Raise(code);
  Py_RETURN_NONE;
}

static PyObject* ClientTouch(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"key", "ttl", NULL};
  Bytes key;
  PyObject* ttl;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O", names, TakeArgument, &key, &ttl)) return NULL;
  int64_t ttl_ms;
  PyObject* const result = TakeTtl(ttl, &ttl_ms) ? Touch((Client*)object, &key, ttl_ms) : NULL;
  Release(&key);
  return result;
}

static PyObject* ClientPersist(PyObject* object, PyObject* argument) {
  Bytes key;
  if (!Take(argument, &key)) return NULL;
  PyObject* const result = Touch((Client*)object, &key, REMORA_TTL_FOREVER);
  Release(&key);
  return result;
}

// --- Client: the server ---------------------------------------------------------------------------------

static PyObject* ClientPing(PyObject* object, PyObject* Py_UNUSED(none)) {
  Client* const self = (Client*)object;
  if (!Begin(self)) return NULL;
  remora_code code;
  CALL(self, code, remora_ping(self->client));
  if (code != REMORA_OK) return Raise(code);
  Py_RETURN_NONE;
}

// With the interpreter's lock: ClientStats takes it back for this.
static void AddStat(void* context, const char* name, uint64_t value) {
  PyObject* const dict = context;
  PyObject* const number = PyLong_FromUnsignedLongLong(value);
  if (number != NULL) PyDict_SetItemString(dict, name, number);
  Py_XDECREF(number);
}

static PyObject* ClientStats(PyObject* object, PyObject* Py_UNUSED(none)) {
  Client* const self = (Client*)object;
  if (!Begin(self)) return NULL;
  PyObject* const stats = PyDict_New();
  // It is a READ or two: not worth giving the lock away between the counters.
  const remora_code code = stats == NULL ? REMORA_OK : remora_stats(self->client, AddStat, stats);
  self->busy = 0;
  if (code == REMORA_OK && !PyErr_Occurred()) return stats;
  Py_XDECREF(stats);
  return code == REMORA_OK ? NULL : Raise(code);
}

// --- Buffers --------------------------------------------------------------------------------------------

static PyObject* ClientRegister(PyObject* object, PyObject* argument) {
  Client* const self = (Client*)object;
  Buffer* const buffer = (Buffer*)PyType_GenericAlloc((PyTypeObject*)buffer_type, 0);
  if (buffer == NULL) return NULL;
  buffer->client = (Client*)Py_NewRef(object);
  // While it is held, a bytearray cannot be resized.
  if (PyObject_GetBuffer(argument, &buffer->memory, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0) {
    Py_DECREF(buffer);
    return NULL;
  }
  remora_code code = REMORA_INTERNAL;
  if (Begin(self)) {
    CALL(self, code,
         remora_buffer_register(self->client, buffer->memory.buf, (size_t)buffer->memory.len, &buffer->buffer));
    if (code != REMORA_OK) Raise(code);
  }
  if (code != REMORA_OK) {
    PyBuffer_Release(&buffer->memory);
    Py_DECREF(buffer);
    return NULL;
  }
  buffer->owner = Py_NewRef(argument);
  buffer->next = self->buffers;
  self->buffers = buffer;
  return (PyObject*)buffer;
}

static PyObject* BufferGet(PyObject* object, PyObject* argument) {
  Buffer* const self = (Buffer*)object;
  if (self->buffer == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the buffer is released");
    return NULL;
  }
  Bytes key;
  if (!Take(argument, &key)) return NULL;
  PyObject* value = NULL;
  if (Begin(self->client)) {
    remora_code code;
    size_t size = 0;
    CALL(self->client, code,
         remora_get_into(self->client->client, key.data, (size_t)key.size, self->buffer, &size));
    if (code != REMORA_OK) {
      Raise(code);
    } else {
      PyObject* const whole = PyMemoryView_FromObject(self->owner);
      PyObject* const bytes = whole == NULL ? NULL : PyObject_CallMethod(whole, "cast", "s", "B");
      value = bytes == NULL ? NULL : PySequence_GetSlice(bytes, 0, (Py_ssize_t)size);
      Py_XDECREF(bytes);
      Py_XDECREF(whole);
    }
  }
  Release(&key);
  return value;
}

static PyObject* BufferRelease(PyObject* object, PyObject* Py_UNUSED(none)) {
  Buffer* const self = (Buffer*)object;
  if (self->buffer != NULL && self->client->busy) {
    PyErr_SetString(PyExc_RuntimeError, "the client is in use by another thread");
    return NULL;
  }
  ReleaseBuffer(self);
  Py_RETURN_NONE;
}

static void BufferDealloc(PyObject* object) {
  Buffer* const self = (Buffer*)object;
  PyTypeObject* const type = Py_TYPE(object);
  ReleaseBuffer(self);
  Py_XDECREF((PyObject*)self->client);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

// --- The module -----------------------------------------------------------------------------------------

#define WITH_KEYWORDS(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef client_methods[] = {
    {"get", WITH_KEYWORDS(ClientGet), METH_VARARGS | METH_KEYWORDS, "The value, or default: None."},
    {"put", WITH_KEYWORDS(ClientPut), METH_VARARGS | METH_KEYWORDS, "Stores, or replaces."},
    {"delete", ClientDelete, METH_O, "Removes; NotFound."},
    {"touch", WITH_KEYWORDS(ClientTouch), METH_VARARGS | METH_KEYWORDS, "Gives the key this ttl from now on; NotFound."},
    {"persist", ClientPersist, METH_O, "Lets the key be there for ever; NotFound."},
    {"ttl", ClientTtl, METH_O, "Seconds that are left; math.inf: for ever; NotFound."},
    {"register", ClientRegister, METH_O, "Makes writable memory known, to read values into."},
    {"ping", ClientPing, METH_NOARGS, "One round trip."},
    {"stats", ClientStats, METH_NOARGS, "The server's counters, by name."},
    {"close", ClientClose, METH_NOARGS, "Releases its buffers and disconnects."},
    {"__enter__", Self, METH_NOARGS, NULL},
    {"__exit__", ClientClose, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot client_slots[] = {
    {Py_tp_doc, "Client(address, *, connect_timeout=5.0, timeout=5.0, location_cache_bytes=None)\n--\n\n"
                "One connection to one server, for one thread at a time."},
    {Py_tp_init, ClientInit},
    {Py_tp_dealloc, ClientDealloc},
    {Py_tp_methods, client_methods},
    {Py_mp_subscript, ClientSubscript},
    {Py_mp_ass_subscript, ClientAssign},
    {Py_sq_contains, ClientContains},
    {0, NULL},
};
static PyType_Spec client_spec = {"remora.Client", sizeof(Client), 0, Py_TPFLAGS_DEFAULT, client_slots};

static PyMethodDef buffer_methods[] = {
    {"get", BufferGet, METH_O, "Reads the value into the memory; a view of it there. NotFound, OutOfRange."},
    {"release", BufferRelease, METH_NOARGS, "Gives the memory back."},
    {"__enter__", Self, METH_NOARGS, NULL},
    {"__exit__", BufferRelease, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot buffer_slots[] = {
    {Py_tp_doc, "Memory that values are read into without a copy; made by Client.register."},
    {Py_tp_dealloc, BufferDealloc},
    {Py_tp_methods, buffer_methods},
    {0, NULL},
};
static PyType_Spec buffer_spec = {"remora.Buffer", sizeof(Buffer), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, buffer_slots};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, "remora._remora", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__remora(void) {
  PyObject* const module = PyModule_Create(&module_def);
  if (module == NULL) return NULL;
  PyObject* const client_type = PyType_FromSpec(&client_spec);
  buffer_type = PyType_FromSpec(&buffer_spec);
  errors = PyImport_ImportModule("remora._errors");
  if (client_type == NULL || buffer_type == NULL || errors == NULL ||
      PyModule_AddObjectRef(module, "Client", client_type) != 0 ||
      PyModule_AddObjectRef(module, "Buffer", buffer_type) != 0 ||
      PyModule_AddStringConstant(module, "__version__", remora_version()) != 0) {
    Py_DECREF(module);
    return NULL;
  }
  Py_DECREF(client_type);
  pthread_atfork(NULL, NULL, CountFork);
  return module;
}
