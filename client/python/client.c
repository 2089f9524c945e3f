// The type remora.Client.
#include <math.h>

#include "client/python/remora_python.h"

unsigned forks;

// --- What lives beside a client -------------------------------------------------------------------------

Handle* AddHandle(Client* self, remora_scan* scan, remora_watch* watch) {
  Handle* const handle = PyMem_Calloc(1, sizeof(Handle));
  if (handle == NULL) {
    remora_scan_end(scan);
    remora_watch_end(watch);
    PyErr_NoMemory();
    return NULL;
  }
  handle->scan = scan;
  handle->watch = watch;
  handle->next = self->handles;
  self->handles = handle;
  return handle;
}

void DropHandle(Client* self, Handle* handle) {
  handle->unused = 1;
  if (!self->busy) EndUnused(self, 0);
}

void EndUnused(Client* self, int all) {
  for (Handle** at = &self->handles; *at != NULL;) {
    Handle* const handle = *at;
    if (handle->unused || all) {
      if (self->forks == forks) {
        remora_scan_end(handle->scan);
        remora_watch_end(handle->watch);
      }
      handle->scan = NULL;
      handle->watch = NULL;
    }
    if (handle->unused) {
      *at = handle->next;
      PyMem_Free(handle);
    } else {
      at = &handle->next;
    }
  }
}

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
  EndUnused(self, 0);
  self->busy = 1;
  return 1;
}

// --- Client: connecting and closing ---------------------------------------------------------------------

static int ClientInit(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"address",   "connect_timeout",   "timeout", "location_cache_bytes",
                          "reconnect", "scan_window_bytes", "token",   NULL};
  Client* const self = (Client*)object;
  const char *address = NULL, *token = NULL;
  double connect_timeout = 5, timeout = 5;
  PyObject *cache = Py_None, *window = Py_None;
  int reconnect = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|$ddOpOz", names, &address, &connect_timeout, &timeout,
                                   &cache, &reconnect, &window, &token)) {
    return -1;
  }
  remora_options options;
  if (!TakeClientOptions(connect_timeout, timeout, cache, reconnect, token, &options)) return -1;
  if (window != Py_None && !TakeSize(window, &options.scan_window_bytes)) return -1;
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
  EndUnused(self, 1);
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
static remora_code Get(Client* self, const Bytes* key, PyObject** value, uint64_t* version) {
  if (!Begin(self)) return REMORA_INTERNAL;
  remora_code code;
  const void* bytes = NULL;
  size_t size = 0;
  CALL(self, code, remora_get(self->client, key->data, (size_t)key->size, &bytes, &size, version));
  if (code == REMORA_OK) {
    *value = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
  } else if (code != REMORA_NOT_FOUND) {
    Raise(code);
  }
  return code;
}

static PyObject* ClientGet(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"key", "default", NULL};
  Bytes key;
  PyObject* otherwise = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O", names, TakeArgument, &key, &otherwise)) return NULL;
  PyObject* value = NULL;
  if (Get((Client*)object, &key, &value, NULL) == REMORA_NOT_FOUND) value = Py_NewRef(otherwise);
  Release(&key);
  return value;
}

static PyObject* ClientSubscript(PyObject* object, PyObject* index) {
  Bytes key;
  if (!Take(index, &key)) return NULL;
  PyObject* value = NULL;
  if (Get((Client*)object, &key, &value, NULL) == REMORA_NOT_FOUND) Raise(REMORA_NOT_FOUND);
  Release(&key);
  return value;
}

static PyObject* ClientGetVersioned(PyObject* object, PyObject* argument) {
  Bytes key;
  if (!Take(argument, &key)) return NULL;
  PyObject* value = NULL;
  uint64_t version = 0;
  if (Get((Client*)object, &key, &value, &version) == REMORA_NOT_FOUND) Raise(REMORA_NOT_FOUND);
  Release(&key);
  return value == NULL ? NULL : Py_BuildValue("NK", value, (unsigned long long)version);
}

static int ClientContains(PyObject* object, PyObject* index) {
  Client* const self = (Client*)object;
  Bytes key;
  if (!Take(index, &key)) return -1;
  int exists = -1;
  if (Begin(self)) {
    remora_code code;
    CALL(self, code, remora_exists(self->client, key.data, (size_t)key.size, &exists));
    if (code != REMORA_OK) Raise(code);
  }
  Release(&key);
  return exists;
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

// The version of a write that ended so; null, with an exception raised.
static PyObject* VersionOf(remora_code code, const Wanted* wanted) {
  return code == REMORA_OK ? PyLong_FromUnsignedLongLong(wanted->version) : Raise(code);
}

static PyObject* Put(Client* self, const Bytes* key, const Bytes* value, const Wanted* wanted) {
  if (!Begin(self)) return NULL;
  remora_code code;
  CALL(self, code,
       remora_put(self->client, key->data, (size_t)key->size, value->data, (size_t)value->size,
                  &wanted->options));
  return VersionOf(code, wanted);
}

static PyObject* ClientPut(PyObject* object, PyObject* args, PyObject* kwargs) {
  WriteArguments taken;
  if (!TakePutArguments(args, kwargs, &taken)) return NULL;
  PyObject* const result = Put((Client*)object, &taken.key, &taken.value, &taken.wanted);
  ReleaseArguments(&taken);
  return result;
}

static PyObject* ClientAppend(PyObject* object, PyObject* args, PyObject* kwargs) {
  Client* const self = (Client*)object;
  WriteArguments taken;
  if (!TakePutArguments(args, kwargs, &taken)) return NULL;
  PyObject* result = NULL;
  if (Begin(self)) {
    remora_code code;
    size_t size = 0;
    CALL(self, code,
         remora_append(self->client, taken.key.data, (size_t)taken.key.size, taken.value.data,
                       (size_t)taken.value.size, &size, &taken.wanted.options));
    result = code == REMORA_OK ? PyLong_FromSize_t(size) : Raise(code);
  }
  ReleaseArguments(&taken);
  return result;
}

static PyObject* ClientIncrement(PyObject* object, PyObject* args, PyObject* kwargs) {
  Client* const self = (Client*)object;
  long long delta;
  WriteArguments taken;
  if (!TakeIncrementArguments(args, kwargs, &delta, &taken)) return NULL;
  PyObject* result = NULL;
  if (Begin(self)) {
    remora_code code;
    int64_t sum = 0;
    CALL(self, code,
         remora_increment(self->client, taken.key.data, (size_t)taken.key.size, delta, &sum,
                          &taken.wanted.options));
    result = code == REMORA_OK ? PyLong_FromLongLong(sum) : Raise(code);
  }
  ReleaseArguments(&taken);
  return result;
}

static PyObject* Delete(Client* self, const Bytes* key, const Wanted* wanted) {
  if (!Begin(self)) return NULL;
  remora_code code;
  CALL(self, code, remora_delete(self->client, key->data, (size_t)key->size, &wanted->options));
  return VersionOf(code, wanted);
}

static PyObject* ClientDelete(PyObject* object, PyObject* args, PyObject* kwargs) {
  WriteArguments taken;
  if (!TakeDeleteArguments(args, kwargs, &taken)) return NULL;
  PyObject* const result = Delete((Client*)object, &taken.key, &taken.wanted);
  ReleaseArguments(&taken);
  return result;
}

static int ClientAssign(PyObject* object, PyObject* index, PyObject* assigned) {
  Bytes key, value;
  Wanted wanted;
  if (!TakeWanted(NULL, NULL, NULL, &wanted) || !Take(index, &key)) return -1;
  PyObject* result = NULL;
  if (assigned == NULL) {
    result = Delete((Client*)object, &key, &wanted);
  } else if (Take(assigned, &value)) {
    result = Put((Client*)object, &key, &value, &wanted);
    Release(&value);
  }
  Release(&key);
  Py_XDECREF(result);
  return result != NULL ? 0 : -1;
}

static PyObject* Touch(Client* self, const Bytes* key, int64_t ttl_ms, const Wanted* wanted) {
  if (!Begin(self)) return NULL;
  remora_code code;
  CALL(self, code, remora_touch(self->client, key->data, (size_t)key->size, ttl_ms, &wanted->options));
  return VersionOf(code, wanted);
}

static PyObject* ClientTouch(PyObject* object, PyObject* args, PyObject* kwargs) {
  WriteArguments taken;
  if (!TakeTouchArguments(args, kwargs, &taken)) return NULL;
  PyObject* const result = Touch((Client*)object, &taken.key, taken.wanted.options.ttl_ms, &taken.wanted);
  ReleaseArguments(&taken);
  return result;
}

static PyObject* ClientPersist(PyObject* object, PyObject* args, PyObject* kwargs) {
  WriteArguments taken;
  if (!TakeDeleteArguments(args, kwargs, &taken)) return NULL;
  PyObject* const result = Touch((Client*)object, &taken.key, REMORA_TTL_FOREVER, &taken.wanted);
  ReleaseArguments(&taken);
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

// With the interpreter's lock, which ClientStats keeps.
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

static PyObject* ClientCounters(PyObject* object, PyObject* Py_UNUSED(none)) {
  Client* const self = (Client*)object;
  if (!Begin(self)) return NULL;
  PyObject* const counters = PyDict_New();
  if (counters != NULL) remora_counters(self->client, AddStat, counters);
  self->busy = 0;
  if (counters != NULL && !PyErr_Occurred()) return counters;
  Py_XDECREF(counters);
  return NULL;
}

// --- The type --------------------------------------------------------------------------------------------

static PyMethodDef client_methods[] = {
    {"get", WITH_KEYWORDS(ClientGet), METH_VARARGS | METH_KEYWORDS, "The value, or default: None."},
    {"get_versioned", ClientGetVersioned, METH_O, "The value and its version; NotFound."},
    {"get_many", ClientGetMany, METH_O, "The values of these keys, side by side, or None."},
    {"put", WITH_KEYWORDS(ClientPut), METH_VARARGS | METH_KEYWORDS, "Stores, or replaces; the version."},
    {"append", WITH_KEYWORDS(ClientAppend), METH_VARARGS | METH_KEYWORDS,
     "Puts bytes behind the value; its size."},
    {"increment", WITH_KEYWORDS(ClientIncrement), METH_VARARGS | METH_KEYWORDS,
     "Adds to the number that the value spells; the sum."},
    {"put_many", WITH_KEYWORDS(ClientPutMany), METH_VARARGS | METH_KEYWORDS,
     "Puts these pairs of key and value, side by side; their versions."},
    {"apply", WITH_KEYWORDS(ClientApply), METH_VARARGS | METH_KEYWORDS,
     "Does all writes of a batch, or none; the version of the first."},
    {"scan", WITH_KEYWORDS(ClientScan), METH_VARARGS | METH_KEYWORDS,
     "Pairs of key and value, in order, as of one moment."},
    {"watch", WITH_KEYWORDS(ClientWatch), METH_VARARGS | METH_KEYWORDS,
     "What is written, in its order, from now on or from a token on."},
    {"backup", WITH_KEYWORDS(ClientBackup), METH_VARARGS | METH_KEYWORDS,
     "Has the server make a backup; what it is, when it is done."},
    {"items", ClientItems, METH_NOARGS, "All of them."},
    {"count", WITH_KEYWORDS(ClientCount), METH_VARARGS | METH_KEYWORDS, "How many keys there are."},
    {"delete_range", WITH_KEYWORDS(ClientDeleteRange), METH_VARARGS | METH_KEYWORDS,
     "Deletes what is there; how many keys that were."},
    {"drop_all", ClientDropAll, METH_NOARGS, "Deletes all there is; how many keys that were."},
    {"delete", WITH_KEYWORDS(ClientDelete), METH_VARARGS | METH_KEYWORDS, "Removes; NotFound."},
    {"touch", WITH_KEYWORDS(ClientTouch), METH_VARARGS | METH_KEYWORDS,
     "Gives the key this ttl from now on; NotFound."},
    {"persist", WITH_KEYWORDS(ClientPersist), METH_VARARGS | METH_KEYWORDS,
     "Lets the key be there for ever; NotFound."},
    {"ttl", ClientTtl, METH_O, "Seconds that are left; math.inf: for ever; NotFound."},
    {"register", ClientRegister, METH_O, "Makes writable memory known, to read values into."},
    {"ping", ClientPing, METH_NOARGS, "One round trip."},
    {"stats", ClientStats, METH_NOARGS, "The server's counters, by name."},
    {"counters", ClientCounters, METH_NOARGS, "What this client did, by name."},
    {"close", ClientClose, METH_NOARGS, "Releases its buffers and disconnects."},
    {"__enter__", Self, METH_NOARGS, NULL},
    {"__exit__", ClientClose, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot client_slots[] = {
    {Py_tp_doc,
     "Client(address, *, connect_timeout=5.0, timeout=5.0, location_cache_bytes=None, reconnect=True,\n"
     "       scan_window_bytes=None)\n--\n\n"
     "One server, and a connection to it, for one thread at a time."},
    {Py_tp_init, ClientInit},
    {Py_tp_dealloc, ClientDealloc},
    {Py_tp_methods, client_methods},
    {Py_mp_subscript, ClientSubscript},
    {Py_mp_ass_subscript, ClientAssign},
    {Py_mp_length, ClientLength},
    {Py_tp_iter, ClientIterate},
    {Py_sq_contains, ClientContains},
    {0, NULL},
};
PyType_Spec client_spec = {"remora.Client", sizeof(Client), 0, Py_TPFLAGS_DEFAULT, client_slots};
