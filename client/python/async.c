// The type remora._remora.Async: what remora.aio is made of. Operations are begun with a future, which is
// handed back with what became of it: by poll and close alone, so that no code of anybody else runs inside
// them.
#include <math.h>
#include <string.h>

#include "client/python/remora_python.h"

// One that is under way. Freed by its callback.
typedef struct Operation {
  Async* self;
  PyObject* future;
  PyObject* (*result)(const struct Operation* operation, const remora_async_result* result);
  PyObject* otherwise;  // of get; or null
  Py_buffer into;       // of get_into; or obj null
  AsyncBuffer* buffer;  // of get_into and put_from; or null
} Operation;

typedef PyObject* (*ResultOf)(const Operation* operation, const remora_async_result* result);

// --- What becomes of operations -------------------------------------------------------------------------

static PyObject* BytesOf(const remora_async_result* result) {
  return PyBytes_FromStringAndSize(result->value.data, (Py_ssize_t)result->value.size);
}

static PyObject* ValueOf(const Operation* operation, const remora_async_result* result) {
  if (result->code == REMORA_NOT_FOUND) return Py_NewRef(operation->otherwise);
  return result->code == REMORA_OK ? BytesOf(result) : NULL;
}

static PyObject* VersionedOf(const Operation* Py_UNUSED(operation), const remora_async_result* result) {
  if (result->code != REMORA_OK) return NULL;
  PyObject* const value = BytesOf(result);
  return value == NULL ? NULL : Py_BuildValue("NK", value, (unsigned long long)result->version);
}

static PyObject* SizeOfCopy(const Operation* operation, const remora_async_result* result) {
  if (result->code != REMORA_OK) return NULL;
  if (result->value.size > (size_t)operation->into.len) {
    char message[96];
    PyOS_snprintf(message, sizeof(message), "the value has %zu bytes, the memory %zd", result->value.size,
                  operation->into.len);
    return RaiseWith(REMORA_OUT_OF_RANGE, message);
  }
  if (result->value.size > 0) memcpy(operation->into.buf, result->value.data, result->value.size);
  return PyLong_FromSize_t(result->value.size);
}

static PyObject* SizeOf(const Operation* Py_UNUSED(operation), const remora_async_result* result) {
  return result->code == REMORA_OK ? PyLong_FromSize_t(result->value.size) : NULL;
}

static PyObject* PresenceOf(const Operation* Py_UNUSED(operation), const remora_async_result* result) {
  if (result->code == REMORA_NOT_FOUND) return Py_NewRef(Py_False);
  return result->code == REMORA_OK ? Py_NewRef(Py_True) : NULL;
}

static PyObject* TtlOf(const Operation* Py_UNUSED(operation), const remora_async_result* result) {
  if (result->code != REMORA_OK) return NULL;
  return PyFloat_FromDouble(result->number == REMORA_TTL_FOREVER ? HUGE_VAL : (double)result->number / 1000);
}

static PyObject* VersionOf(const Operation* Py_UNUSED(operation), const remora_async_result* result) {
  return result->code == REMORA_OK ? PyLong_FromUnsignedLongLong(result->version) : NULL;
}

static PyObject* NumberOf(const Operation* Py_UNUSED(operation), const remora_async_result* result) {
  return result->code == REMORA_OK ? PyLong_FromLongLong(result->number) : NULL;
}

static PyObject* NothingOf(const Operation* Py_UNUSED(operation), const remora_async_result* result) {
  return result->code == REMORA_OK ? Py_NewRef(Py_None) : NULL;
}

static void FreeOperation(Operation* operation) {
  Py_DECREF(operation->future);
  Py_XDECREF(operation->otherwise);
  if (operation->into.obj != NULL) PyBuffer_Release(&operation->into);
  if (operation->buffer != NULL) {
    --operation->buffer->operations;
    Py_DECREF((PyObject*)operation->buffer);
  }
  PyMem_Free(operation);
}

// Notes (future, whether it went well, result or exception).
static void Done(void* context, const remora_async_result* result) {
  Operation* const operation = context;
  PyObject* shown = operation->result(operation, result);
  const int is_good = shown != NULL;
  if (!is_good && !PyErr_Occurred()) shown = ErrorOf(result->code, result->message);
  if (shown == NULL) shown = TakeRaised();
  PyObject* const item =
      shown == NULL ? NULL : Py_BuildValue("OON", operation->future, is_good ? Py_True : Py_False, shown);
  if (item == NULL || PyList_Append(operation->self->ended, item) != 0) PyErr_WriteUnraisable(NULL);
  Py_XDECREF(item);
  FreeOperation(operation);
}

// --- Operations begin -----------------------------------------------------------------------------------

int IsOpen(const Async* self) {
  const char* why = NULL;
  if (self->async == NULL) {
    why = "the client is closed";
  } else if (self->forks != forks) {
    why = "the client was connected before a fork: connect anew in the child";
  }
  if (why != NULL) PyErr_SetString(PyExc_RuntimeError, why);
  return why == NULL;
}

// Null: an exception is raised.
static Operation* NewOperation(Async* self, PyObject* future, ResultOf result, PyObject* otherwise) {
  if (!IsOpen(self)) return NULL;
  Operation* const operation = PyMem_Calloc(1, sizeof(Operation));
  if (operation == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  operation->self = self;
  operation->future = Py_NewRef(future);
  operation->result = result;
  operation->otherwise = Py_XNewRef(otherwise);
  return operation;
}

// The operation's name, or null, with an exception raised.
static PyObject* Begun(remora_code code, Operation* operation, uint64_t name) {
  if (code == REMORA_OK) return PyLong_FromUnsignedLongLong(name);
  FreeOperation(operation);
  return Raise(code);
}

// Each is called with a future, and the arguments of the call of that name of Client.
static int Parse(PyObject* given, PyObject** future, PyObject** args, PyObject** kwargs) {
  return PyArg_ParseTuple(given, "OO!O!", future, &PyTuple_Type, args, &PyDict_Type, kwargs);
}

typedef remora_code (*BeginRead)(remora_async* async, const void* key, size_t key_size,
                                 remora_async_done done, void* context, uint64_t* operation);

static PyObject* Read(PyObject* object, PyObject* given, ResultOf result, BeginRead begin, int has_default) {
  static char* with_default[] = {"key", "default", NULL};
  static char* key_alone[] = {"key", NULL};
  Async* const self = (Async*)object;
  PyObject *future, *args, *kwargs, *otherwise = Py_None;
  Bytes key;
  if (!Parse(given, &future, &args, &kwargs) ||
      !PyArg_ParseTupleAndKeywords(args, kwargs, has_default ? "O&|O" : "O&",
                                   has_default ? with_default : key_alone, TakeArgument, &key, &otherwise)) {
    return NULL;
  }
  PyObject* name = NULL;
  Operation* const operation = NewOperation(self, future, result, otherwise);
  if (operation != NULL) {
    uint64_t number = 0;
    name = Begun(begin(self->async, key.data, (size_t)key.size, Done, operation, &number), operation, number);
  }
  Release(&key);
  return name;
}

static PyObject* AsyncGet(PyObject* self, PyObject* given) {
  return Read(self, given, ValueOf, remora_async_get, 1);
}
static PyObject* AsyncGetVersioned(PyObject* self, PyObject* given) {
  return Read(self, given, VersionedOf, remora_async_get, 0);
}
static PyObject* AsyncExists(PyObject* self, PyObject* given) {
  return Read(self, given, PresenceOf, remora_async_exists, 0);
}
static PyObject* AsyncTtl(PyObject* self, PyObject* given) {
  return Read(self, given, TtlOf, remora_async_ttl, 0);
}

// The operation has it now.
static const AsyncBuffer* Use(Operation* operation, PyObject* buffer) {
  operation->buffer = (AsyncBuffer*)Py_NewRef(buffer);
  ++operation->buffer->operations;
  return operation->buffer;
}

static PyObject* AsyncGetInto(PyObject* object, PyObject* given) {
  static char* names[] = {"key", "memory", NULL};
  Async* const self = (Async*)object;
  PyObject *future, *args, *kwargs, *memory;
  Bytes key;
  if (!Parse(given, &future, &args, &kwargs) ||
      !PyArg_ParseTupleAndKeywords(args, kwargs, "O&O", names, TakeArgument, &key, &memory)) {
    return NULL;
  }
  PyObject* name = NULL;
  uint64_t number = 0;
  const int is_registered = PyObject_TypeCheck(memory, (PyTypeObject*)async_buffer_type);
  Operation* const operation = is_registered && !IsRegistered(memory)
                                   ? NULL
                                   : NewOperation(self, future, is_registered ? SizeOf : SizeOfCopy, NULL);
  if (operation != NULL && is_registered) {
    const AsyncBuffer* const buffer = Use(operation, memory);
    name = Begun(remora_async_get_into(self->async, key.data, (size_t)key.size, buffer->buffer, 0,
                                       (size_t)buffer->memory.len, Done, operation, &number),
                 operation, number);
  } else if (operation != NULL && PyObject_GetBuffer(memory, &operation->into, PyBUF_WRITABLE) != 0) {
    operation->into.obj = NULL;
    FreeOperation(operation);
  } else if (operation != NULL) {
    name = Begun(remora_async_get(self->async, key.data, (size_t)key.size, Done, operation, &number),
                 operation, number);
  }
  Release(&key);
  return name;
}

// The version comes with the result: what the options would have it written to is gone by then.
#define BEGIN_WRITE(self, future, result, taken, call)                     \
  do {                                                                     \
    (taken).wanted.options.version = NULL;                                 \
    Operation* const operation = NewOperation(self, future, result, NULL); \
    if (operation != NULL) {                                               \
      uint64_t number = 0;                                                 \
      const remora_code code = call;                                       \
      name = Begun(code, operation, number);                               \
    }                                                                      \
    ReleaseArguments(&(taken));                                            \
  } while (0)

typedef remora_code (*BeginStore)(remora_async* async, const void* key, size_t key_size, const void* bytes,
                                  size_t size, const remora_write_options* options, remora_async_done done,
                                  void* context, uint64_t* operation);

static PyObject* Store(PyObject* object, PyObject* given, ResultOf result, BeginStore begin) {
  Async* const self = (Async*)object;
  PyObject *future, *args, *kwargs, *name = NULL;
  WriteArguments taken;
  if (!Parse(given, &future, &args, &kwargs) || !TakePutArguments(args, kwargs, &taken)) return NULL;
  BEGIN_WRITE(self, future, result, taken,
              begin(self->async, taken.key.data, (size_t)taken.key.size, taken.value.data,
                    (size_t)taken.value.size, &taken.wanted.options, Done, operation, &number));
  return name;
}

static PyObject* AsyncPut(PyObject* self, PyObject* given) {
  return Store(self, given, VersionOf, remora_async_put);
}
static PyObject* AsyncAppend(PyObject* self, PyObject* given) {
  return Store(self, given, NumberOf, remora_async_append);
}

// Given (future, (buffer, key, size), options).
static PyObject* AsyncPutFrom(PyObject* object, PyObject* given) {
  Async* const self = (Async*)object;
  PyObject *future, *args, *kwargs, *name = NULL;
  if (!Parse(given, &future, &args, &kwargs)) return NULL;
  PyObject* const buffer = PyTuple_GetItem(args, 0);
  if (buffer == NULL || !IsRegistered(buffer)) return NULL;
  PyObject* const rest = PyTuple_GetSlice(args, 1, PyTuple_Size(args));
  WriteArguments taken;
  size_t size = 0;
  const int is_good =
      rest != NULL && TakePutFromArguments(rest, kwargs, &((AsyncBuffer*)buffer)->memory, &size, &taken);
  Py_XDECREF(rest);
  if (!is_good) return NULL;
  BEGIN_WRITE(self, future, VersionOf, taken,
              remora_async_put_from(self->async, taken.key.data, (size_t)taken.key.size,
                                    Use(operation, buffer)->buffer, 0, size, &taken.wanted.options, Done,
                                    operation, &number));
  return name;
}

static PyObject* AsyncIncrement(PyObject* object, PyObject* given) {
  Async* const self = (Async*)object;
  PyObject *future, *args, *kwargs, *name = NULL;
  long long delta;
  WriteArguments taken;
  if (!Parse(given, &future, &args, &kwargs) || !TakeIncrementArguments(args, kwargs, &delta, &taken)) {
    return NULL;
  }
  BEGIN_WRITE(self, future, NumberOf, taken,
              remora_async_increment(self->async, taken.key.data, (size_t)taken.key.size, delta,
                                     &taken.wanted.options, Done, operation, &number));
  return name;
}

static PyObject* AsyncDelete(PyObject* object, PyObject* given) {
  Async* const self = (Async*)object;
  PyObject *future, *args, *kwargs, *name = NULL;
  WriteArguments taken;
  if (!Parse(given, &future, &args, &kwargs) || !TakeDeleteArguments(args, kwargs, &taken)) return NULL;
  BEGIN_WRITE(self, future, VersionOf, taken,
              remora_async_delete(self->async, taken.key.data, (size_t)taken.key.size, &taken.wanted.options,
                                  Done, operation, &number));
  return name;
}

static PyObject* AsyncTouch(PyObject* object, PyObject* given) {
  Async* const self = (Async*)object;
  PyObject *future, *args, *kwargs, *name = NULL;
  WriteArguments taken;
  if (!Parse(given, &future, &args, &kwargs) || !TakeTouchArguments(args, kwargs, &taken)) return NULL;
  BEGIN_WRITE(
      self, future, VersionOf, taken,
      remora_async_touch(self->async, taken.key.data, (size_t)taken.key.size, taken.wanted.options.ttl_ms,
                         &taken.wanted.options, Done, operation, &number));
  return name;
}

static PyObject* AsyncPersist(PyObject* object, PyObject* given) {
  Async* const self = (Async*)object;
  PyObject *future, *args, *kwargs, *name = NULL;
  WriteArguments taken;
  if (!Parse(given, &future, &args, &kwargs) || !TakeDeleteArguments(args, kwargs, &taken)) return NULL;
  BEGIN_WRITE(self, future, VersionOf, taken,
              remora_async_touch(self->async, taken.key.data, (size_t)taken.key.size, REMORA_TTL_FOREVER,
                                 &taken.wanted.options, Done, operation, &number));
  return name;
}

static PyObject* AsyncApply(PyObject* object, PyObject* given) {
  Async* const self = (Async*)object;
  PyObject *future, *args, *kwargs;
  Wanted wanted;
  if (!Parse(given, &future, &args, &kwargs)) return NULL;
  const remora_batch* const batch = TakeBatchArguments(args, kwargs, &wanted);
  Operation* const operation = batch == NULL ? NULL : NewOperation(self, future, VersionOf, NULL);
  if (operation == NULL) return NULL;
  wanted.options.version = NULL;
  uint64_t number = 0;
  return Begun(remora_async_apply(self->async, batch, &wanted.options, Done, operation, &number), operation,
               number);
}

static PyObject* AsyncPing(PyObject* object, PyObject* given) {
  static char* names[] = {NULL};
  Async* const self = (Async*)object;
  PyObject *future, *args, *kwargs;
  if (!Parse(given, &future, &args, &kwargs) || !PyArg_ParseTupleAndKeywords(args, kwargs, "", names)) {
    return NULL;
  }
  Operation* const operation = NewOperation(self, future, NothingOf, NULL);
  if (operation == NULL) return NULL;
  uint64_t number = 0;
  return Begun(remora_async_ping(self->async, Done, operation, &number), operation, number);
}

// --- Driving --------------------------------------------------------------------------------------------

static PyObject* AsyncCancel(PyObject* object, PyObject* argument) {
  Async* const self = (Async*)object;
  const uint64_t name = PyLong_AsUnsignedLongLong(argument);
  if (PyErr_Occurred() || !IsOpen(self)) return NULL;
  return PyBool_FromLong(remora_async_cancel(self->async, name) == REMORA_OK);
}

// From now on its descriptor turns readable when there is something to do.
static PyObject* AsyncPoll(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  if (!IsOpen(self)) return NULL;
  if (self->ended != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the client is in use by another thread");
    return NULL;
  }
  PyObject* const ended = PyList_New(0);
  if (ended == NULL) return NULL;
  self->ended = ended;
  remora_async_disarm(self->async);
  remora_code code = remora_async_poll(self->async, 0, NULL);
  remora_async_arm(self->async);
  if (code == REMORA_OK) code = remora_async_poll(self->async, 0, NULL);
  self->ended = NULL;
  // What ended has ended, and has to be told.
  if (code != REMORA_OK && PyList_Size(ended) == 0) {
    Py_DECREF(ended);
    return Raise(code);
  }
  return ended;
}

static PyObject* AsyncWaitSeconds(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  if (!IsOpen(self)) return NULL;
  const int64_t ms = remora_async_wait_ms(self->async);
  if (ms < 0) Py_RETURN_NONE;
  return PyFloat_FromDouble((double)ms / 1000);
}

static PyObject* AsyncFileno(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  return IsOpen(self) ? PyLong_FromLong(remora_async_wait_fd(self->async)) : NULL;
}

static PyObject* AsyncRoom(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  return IsOpen(self) ? PyLong_FromSize_t(remora_async_room(self->async)) : NULL;
}

static int AsyncInit(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {
      "address", "depth", "connect_timeout", "timeout", "location_cache_bytes", "reconnect", "token", NULL};
  Async* const self = (Async*)object;
  const char *address = NULL, *token = NULL;
  PyObject *depth = NULL, *cache = Py_None;
  double connect_timeout = 5, timeout = 5;
  int reconnect = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO|$ddOpz", names, &address, &depth, &connect_timeout,
                                   &timeout, &cache, &reconnect, &token)) {
    return -1;
  }
  remora_options options;
  if (!TakeClientOptions(connect_timeout, timeout, cache, reconnect, token, &options)) return -1;
  const size_t most = PyLong_AsSize_t(depth);
  if (PyErr_Occurred()) return -1;
  if (most == 0) {
    PyErr_SetString(PyExc_ValueError, "a depth of 0");
    return -1;
  }
  if (self->async != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the client is connected already");
    return -1;
  }
  remora_async* async = NULL;
  PyThreadState* const released = PyEval_SaveThread();
  const remora_code code = remora_async_open(address, &options, most, &async);
  PyEval_RestoreThread(released);
  if (code != REMORA_OK) {
    Raise(code);
    return -1;
  }
  self->async = async;
  self->forks = forks;
  return 0;
}

// What ended by it; null, with an exception raised.
static PyObject* AsyncClose(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  if (self->ended != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the client is in use by another thread");
    return NULL;
  }
  PyObject* const ended = PyList_New(0);
  if (ended == NULL) return NULL;
  self->ended = ended;
  // In a forked child, it is the parent's.
  if (self->forks == forks) remora_async_close(self->async);
  self->async = NULL;
  self->ended = NULL;
  return ended;
}

static void AsyncDealloc(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  PyObject* const ended = AsyncClose(object, NULL);
  if (ended == NULL) PyErr_WriteUnraisable(NULL);
  Py_XDECREF(ended);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

// --- The type --------------------------------------------------------------------------------------------

static PyMethodDef async_methods[] = {
    {"get", AsyncGet, METH_VARARGS, NULL},
    {"get_versioned", AsyncGetVersioned, METH_VARARGS, NULL},
    {"get_into", AsyncGetInto, METH_VARARGS, NULL},
    {"exists", AsyncExists, METH_VARARGS, NULL},
    {"ttl", AsyncTtl, METH_VARARGS, NULL},
    {"put", AsyncPut, METH_VARARGS, NULL},
    {"put_from", AsyncPutFrom, METH_VARARGS, NULL},
    {"append", AsyncAppend, METH_VARARGS, NULL},
    {"increment", AsyncIncrement, METH_VARARGS, NULL},
    {"delete", AsyncDelete, METH_VARARGS, NULL},
    {"touch", AsyncTouch, METH_VARARGS, NULL},
    {"persist", AsyncPersist, METH_VARARGS, NULL},
    {"apply", AsyncApply, METH_VARARGS, NULL},
    {"ping", AsyncPing, METH_VARARGS, NULL},
    {"register", AsyncRegister, METH_O, "A remora.aio.Buffer of this memory."},
    {"cancel", AsyncCancel, METH_O, "Whether the operation had not ended yet."},
    {"poll", AsyncPoll, METH_NOARGS, "What has ended: (future, whether it went well, result or exception)."},
    {"wait_seconds", AsyncWaitSeconds, METH_NOARGS, "When poll is due at the latest, or None."},
    {"fileno", AsyncFileno, METH_NOARGS, "Readable when poll is due."},
    {"room", AsyncRoom, METH_NOARGS, "How many more may be begun."},
    {"close", AsyncClose, METH_NOARGS, "Disconnects; what ended by it, as poll."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot async_slots[] = {
    {Py_tp_doc, "Many operations under way; for remora.aio."},
    {Py_tp_init, AsyncInit},
    {Py_tp_dealloc, AsyncDealloc},
    {Py_tp_methods, async_methods},
    {0, NULL},
};
PyType_Spec async_spec = {"remora._remora.Async", sizeof(Async), 0, Py_TPFLAGS_DEFAULT, async_slots};
