// The type remora.Client.
#include <math.h>

#include "client/python/remora_python.h"

unsigned forks;

int Begin(Client* self) {
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

// --- Client: connecting and closing ---------------------------------------------------------------------

static int ClientInit(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"address", "connect_timeout", "timeout", "location_cache_bytes", NULL};
  Client* const self = (Client*)object;
  const char* address = NULL;
  double connect_timeout = 5, timeout = 5;
  PyObject* cache = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|$ddO", names, &address, &connect_timeout, &timeout,
                                   &cache)) {
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

PyObject* Self(PyObject* object, PyObject* Py_UNUSED(none)) { return Py_NewRef(object); }

// --- Client: reading ------------------------------------------------------------------------------------

// The code, and when it is REMORA_OK, the value. REMORA_INTERNAL, with an exception raised: the call did not
// begin.
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
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&|$O", names, TakeArgument, &key, TakeArgument, &value,
                                   &ttl)) {
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

// --- The type --------------------------------------------------------------------------------------------

static PyMethodDef client_methods[] = {
    {"get", WITH_KEYWORDS(ClientGet), METH_VARARGS | METH_KEYWORDS, "The value, or default: None."},
    {"put", WITH_KEYWORDS(ClientPut), METH_VARARGS | METH_KEYWORDS, "Stores, or replaces."},
    {"delete", ClientDelete, METH_O, "Removes; NotFound."},
    {"touch", WITH_KEYWORDS(ClientTouch), METH_VARARGS | METH_KEYWORDS,
     "Gives the key this ttl from now on; NotFound."},
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
    {Py_tp_doc,
     "Client(address, *, connect_timeout=5.0, timeout=5.0, location_cache_bytes=None)\n--\n\n"
     "One connection to one server, for one thread at a time."},
    {Py_tp_init, ClientInit},
    {Py_tp_dealloc, ClientDealloc},
    {Py_tp_methods, client_methods},
    {Py_mp_subscript, ClientSubscript},
    {Py_mp_ass_subscript, ClientAssign},
    {Py_sq_contains, ClientContains},
    {0, NULL},
};
PyType_Spec client_spec = {"remora.Client", sizeof(Client), 0, Py_TPFLAGS_DEFAULT, client_slots};
