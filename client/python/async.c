// The type remora._remora.Async, on which remora.aio is built. Each operation begins with a future. Only poll
// and close return that future, with the operation's outcome, so that no foreign code runs inside them.
#include <math.h>
#include <string.h>

#include "client/python/remora_python.h"

// One that is in flight. Freed by its callback.
typedef struct Operation {
  Async* self;
  PyObject* future;
  PyObject* (*result)(struct Operation* operation, const remora_async_result* result);
  PyObject* otherwise;  // of get; or null
  Py_buffer into;       // of get_into; or obj null
  AsyncBuffer* buffer;  // of get_into and put_from; or null
  Visit visit;          // of a visit; or all null
} Operation;

typedef PyObject* (*ResultOf)(Operation* operation, const remora_async_result* result);

// --- What becomes of operations -------------------------------------------------------------------------

static PyObject* BytesOf(const remora_async_result* result) {
  return PyBytes_FromStringAndSize(result->value.data, (Py_ssize_t)result->value.size);
}

static PyObject* ValueOf(Operation* operation, const remora_async_result* result) {
  if (result->code == REMORA_NOT_FOUND) return Py_NewRef(operation->otherwise);
  return result->code == REMORA_OK ? BytesOf(result) : NULL;
}

static PyObject* VersionedOf(Operation* Py_UNUSED(operation), const remora_async_result* result) {
  if (result->code != REMORA_OK) return NULL;
  PyObject* const value = BytesOf(result);
  return value == NULL ? NULL : Py_BuildValue("NK", value, (unsigned long long)result->version);
}

static PyObject* SizeOfCopy(Operation* operation, const remora_async_result* result) {
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

static PyObject* SizeOf(Operation* Py_UNUSED(operation), const remora_async_result* result) {
  return result->code == REMORA_OK ? PyLong_FromSize_t(result->value.size) : NULL;
}

static PyObject* PresenceOf(Operation* Py_UNUSED(operation), const remora_async_result* result) {
  if (result->code == REMORA_NOT_FOUND) return Py_NewRef(Py_False);
  return result->code == REMORA_OK ? Py_NewRef(Py_True) : NULL;
}

static PyObject* TtlOf(Operation* Py_UNUSED(operation), const remora_async_result* result) {
  if (result->code != REMORA_OK) return NULL;
  return PyFloat_FromDouble(result->number == REMORA_TTL_FOREVER ? HUGE_VAL : (double)result->number / 1000);
}

static PyObject* VersionOf(Operation* Py_UNUSED(operation), const remora_async_result* result) {
  return result->code == REMORA_OK ? PyLong_FromUnsignedLongLong(result->version) : NULL;
}

static PyObject* NumberOf(Operation* Py_UNUSED(operation), const remora_async_result* result) {
  return result->code == REMORA_OK ? PyLong_FromLongLong(result->number) : NULL;
}

static PyObject* NothingOf(Operation* Py_UNUSED(operation), const remora_async_result* result) {
  return result->code == REMORA_OK ? Py_NewRef(Py_None) : NULL;
}

static PyObject* VisitedOf(Operation* operation, const remora_async_result* result) {
  return EndVisit(&operation->visit, result->code, result->message);
}

static PyObject* VisitedVersionedOf(Operation* operation, const remora_async_result* result) {
  PyObject* const shown = EndVisit(&operation->visit, result->code, result->message);
  return shown == NULL ? NULL : Py_BuildValue("NK", shown, (unsigned long long)result->version);
}

static void FreeOperation(Operation* operation) {
  Py_DECREF(operation->future);
  Py_XDECREF(operation->otherwise);
  if (operation->into.obj != NULL) PyBuffer_Release(&operation->into);
  if (operation->buffer != NULL) {
    --operation->buffer->operations;
    Py_DECREF((PyObject*)operation->buffer);
  }
  Py_XDECREF(operation->visit.function);
  Py_XDECREF(operation->visit.result);
  Py_XDECREF(operation->visit.error);
  PyMem_Free(operation);
}

// The message, with the shard's name where a server may be the reason. *text keeps it, unless null.
static const char* Named(const Async* self, remora_code code, const char* message, PyObject** text) {
  *text = NULL;
  if (self->name == NULL || !remora_is_of_server(code)) return message;
  *text = PyUnicode_FromFormat("%U: %s", self->name, message);
  const char* const named = *text == NULL ? NULL : PyUnicode_AsUTF8AndSize(*text, NULL);
  if (named != NULL) return named;
  PyErr_Clear();
  return message;
}

PyObject* RaiseOfAsync(const Async* self, remora_code code, const char* message) {
  if (PyErr_Occurred()) return NULL;
  PyObject* text;
  RaiseWith(code, Named(self, code, message, &text));
  Py_XDECREF(text);
  return NULL;
}

// Notes (future, whether it went well, result or exception). None in the second place: the server did
// nothing, for the key's slot is another one's.
static void Done(void* context, const remora_async_result* result) {
  Operation* const operation = context;
  BEGIN_IN_CALLBACK;  // it has the lock, but a finalizer that runs here may release it
  PyObject* text;
  remora_async_result named = *result;
  named.message = Named(operation->self, result->code, result->message, &text);
  PyObject* shown = operation->result(operation, &named);
  const int is_good = shown != NULL;
  if (!is_good && !PyErr_Occurred()) shown = ErrorOf(named.code, named.message);
  if (shown == NULL) shown = TakeRaised();
  PyObject* const went_well = is_good ? Py_True : remora_async_is_moved(result) ? Py_None : Py_False;
  PyObject* const item = shown == NULL ? NULL : Py_BuildValue("OON", operation->future, went_well, shown);
  if (item == NULL || PyList_Append(operation->self->ended, item) != 0) PyErr_WriteUnraisable(NULL);
  Py_XDECREF(item);
  Py_XDECREF(text);
  FreeOperation(operation);
  END_IN_CALLBACK;
}

// --- Operations begin -----------------------------------------------------------------------------------

int IsOpen(const Async* self) {
  const char* why = NULL;
  if (self->async == NULL) {
    why = "the client is closed";
  } else if (self->forks != forks) {
    why = "the client was connected before a fork: connect anew in the child";
  } else if (self->showing) {
    why = "the client is in a visit: use it when the function has returned, or use another client";
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
  RaiseOfAsync(operation->self, code, remora_message());
  FreeOperation(operation);
  return NULL;
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

static void ShowValue(void* context, const void* value, size_t size) {
  Operation* const operation = context;
  BEGIN_IN_CALLBACK;  // it has the lock
  operation->self->showing = 1;
  ShowTo(&operation->visit, value, (Py_ssize_t)size);
  operation->self->showing = 0;
  END_IN_CALLBACK;
}

// None in place of the name: the program holds a buffer of the server's memory, so the client must be closed.
static PyObject* VisitKey(PyObject* object, PyObject* given, ResultOf result) {
  Async* const self = (Async*)object;
  PyObject *future, *args, *kwargs, *function, *name = NULL;
  Bytes key;
  if (!Parse(given, &future, &args, &kwargs) || !TakeVisitArguments(args, kwargs, &key, &function)) {
    return NULL;
  }
  Operation* const operation = NewOperation(self, future, result, NULL);
  if (operation != NULL) {
    operation->visit.function = Py_NewRef(function);
    uint64_t number = 0;
    const remora_code code =
        remora_async_visit(self->async, key.data, (size_t)key.size, ShowValue, Done, operation, &number);
    EndReleased(self);
    const int has_escaped = code == REMORA_OK && operation->visit.has_escaped;
    name = has_escaped ? Py_NewRef(Py_None) : Begun(code, operation, number);
  }
  Release(&key);
  return name;
}

static PyObject* AsyncVisit(PyObject* self, PyObject* given) { return VisitKey(self, given, VisitedOf); }
static PyObject* AsyncVisitVersioned(PyObject* self, PyObject* given) {
  return VisitKey(self, given, VisitedVersionedOf);
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
    name = Begun(remora_async_get_into(self->async, key.data, (size_t)key.size, buffer->held->buffer, 0,
                                       (size_t)buffer->held->memory.len, Done, operation, &number),
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

// The version comes with the result, because the options to which it would be written are gone by then.
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
  const int is_taken =
      rest != NULL &&
      TakePutFromArguments(rest, kwargs, ((AsyncBuffer*)buffer)->held->memory.len, &size, &taken);
  Py_XDECREF(rest);
  if (!is_taken) return NULL;
  if (!IsRegistered(buffer)) {  // taking the arguments may have run code that released it
    ReleaseArguments(&taken);
    return NULL;
  }
  BEGIN_WRITE(self, future, VersionOf, taken,
              remora_async_put_from(self->async, taken.key.data, (size_t)taken.key.size,
                                    Use(operation, buffer)->held->buffer, 0, size, &taken.wanted.options,
                                    Done, operation, &number));
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
  const Batch* const batch = TakeBatchArguments(args, kwargs, &wanted);
  Operation* const operation = batch == NULL ? NULL : NewOperation(self, future, VersionOf, NULL);
  if (operation == NULL) return NULL;
  wanted.options.version = NULL;
  uint64_t number = 0;
  return Begun(remora_async_apply(self->async, batch->batch, &wanted.options, Done, operation, &number),
               operation, number);
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

// --- The type --------------------------------------------------------------------------------------------

static PyMethodDef async_methods[] = {
    {"get", AsyncGet, METH_VARARGS, NULL},
    {"get_versioned", AsyncGetVersioned, METH_VARARGS, NULL},
    {"visit", AsyncVisit, METH_VARARGS, NULL},
    {"visit_versioned", AsyncVisitVersioned, METH_VARARGS, NULL},
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
    {"begin_reconnect", AsyncBeginReconnect, METH_NOARGS,
     "Whether a connection is to be made, by reconnect."},
    {"reconnect", AsyncReconnect, METH_NOARGS, "Waits for the server; for a thread of its own."},
    {"end_reconnect", AsyncEndReconnect, METH_NOARGS, "Behind reconnect; poll next."},
    {"place", AsyncPlace, METH_VARARGS,
     "Has the next connection go to a shard of a topology. Returns False during reconnect: nothing was "
     "done."},
    {"stop", AsyncStop, METH_NOARGS, "From now on, neither __init__ nor reconnect waits."},
    {"poll", AsyncPoll, METH_NOARGS, "What has ended: (future, whether it went well, result or exception)."},
    {"wait_seconds", AsyncWaitSeconds, METH_NOARGS, "When poll is due at the latest, or None."},
    {"fileno", AsyncFileno, METH_NOARGS, "Readable when poll is due."},
    {"free_slots", AsyncFreeSlots, METH_NOARGS, "How many more may be begun."},
    {"incarnation", AsyncIncarnation, METH_NOARGS,
     "A number that the server has drawn at its start; 0: unknown."},
    {"metrics", AsyncMetrics, METH_NOARGS, "What it did and how long that took, by name."},
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
