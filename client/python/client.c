// The types remora.Client and remora.ClusterClient.
#include <math.h>

#include "client/python/remora_python.h"

unsigned forks;

// --- What lives beside a client -------------------------------------------------------------------------

Handle* AddHandle(Client* self) {
  Handle* const handle = PyMem_Calloc(1, sizeof(Handle));
  if (handle == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  handle->next = self->handles;
  self->handles = handle;
  return handle;
}

static int IsOver(const Handle* handle) {
  return handle->scan == NULL && handle->watch == NULL && handle->buffer == NULL;
}

// Empties the handle before it releases the memory, because the release may run foreign code.
static void EndHandle(const Client* self, Handle* handle) {
  if (self->forks == forks) {  // in a forked child, the parent owns them
    remora_scan_end(handle->scan);
    remora_watch_end(handle->watch);
    remora_buffer_release(handle->buffer);
  }
  handle->scan = NULL;
  handle->watch = NULL;
  handle->buffer = NULL;
  if (handle->memory.obj != NULL) PyBuffer_Release(&handle->memory);
}

// Ends those whose objects are gone, or all. Begins its search anew each time, for the list may have changed.
static void EndHandles(Client* self, int all) {
  self->busy = 1;
  self->thread = PyThreadState_Get();
  self->has_unused = 0;
  for (Handle** at = &self->handles; *at != NULL;) {
    Handle* const handle = *at;
    if (handle->unused) {
      *at = handle->next;
      EndHandle(self, handle);
      PyMem_Free(handle);
      at = &self->handles;
    } else if (all && !IsOver(handle)) {
      EndHandle(self, handle);
      at = &self->handles;
    } else {
      at = &handle->next;
    }
  }
  self->busy = 0;
  self->thread = NULL;
}

void DropHandle(Client* self, Handle* handle) {
  handle->unused = 1;
  self->has_unused = 1;
  if (!self->busy) EndHandles(self, 0);
}

int IsFree(const Client* self) {
  if (!self->busy || self->forks != forks) return 1;  // a forked child does not have the thread of that call
  PyErr_SetString(PyExc_RuntimeError,
                  self->thread == PyThreadState_Get()
                      ? "the client is in a call of this thread: give finalizers and signal handlers one of "
                        "their own"
                      : "the client is in use by another thread: give each a client of its own");
  return 0;
}

int Begin(Client* self) {
  if (!IsFree(self)) return 0;
  const char* why = NULL;
  if (self->client == NULL) {
    why = "the client is closed";
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

void End(Client* self) {
  self->busy = 0;
  self->thread = NULL;
  while (self->has_unused) EndHandles(self, 0);
}

// --- Client: closing -------------------------------------------------------------------------------------

static PyObject* ClientStop(PyObject* object, PyObject* Py_UNUSED(none)) {
  ((Client*)object)->stopping = 1;
  Py_RETURN_NONE;
}

void CloseClient(Client* self) {
  EndHandles(self, 1);
  remora_client* const client = self->client;
  self->client = NULL;
  if (client != NULL && self->forks == forks) remora_close(client);
}

static PyObject* ClientClose(PyObject* object, PyObject* Py_UNUSED(none)) {
  Client* const self = (Client*)object;
  if (!IsFree(self)) return NULL;
  CloseClient(self);
  Py_RETURN_NONE;
}

static void ClientDealloc(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  CloseClient((Client*)object);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

// --- Client: reading ------------------------------------------------------------------------------------

// Returns the code; with REMORA_OK, also the value. REMORA_INTERNAL, with an exception: nothing was begun.
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
  End(self);
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

// Returns the value of a key that must exist. `version` may be null.
static PyObject* GetExisting(PyObject* object, PyObject* argument, uint64_t* version) {
  Bytes key;
  if (!Take(argument, &key)) return NULL;
  PyObject* value = NULL;
  if (Get((Client*)object, &key, &value, version) == REMORA_NOT_FOUND) Raise(REMORA_NOT_FOUND);
  Release(&key);
  return value;
}

static PyObject* ClientSubscript(PyObject* object, PyObject* index) {
  return GetExisting(object, index, NULL);
}

static PyObject* ClientGetVersioned(PyObject* object, PyObject* argument) {
  uint64_t version = 0;
  PyObject* const value = GetExisting(object, argument, &version);
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
    if (code != REMORA_OK) {
      exists = -1;
      Raise(code);
    }
    End(self);
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
    End(self);
  }
  Release(&key);
  return result;
}

// --- Client: writing ------------------------------------------------------------------------------------

// Ends the call of a write, which ended so. Its version; null, with an exception raised.
static PyObject* EndWrite(Client* self, remora_code code, const Wanted* wanted) {
  PyObject* const version = code == REMORA_OK ? PyLong_FromUnsignedLongLong(wanted->version) : Raise(code);
  End(self);
  return version;
}

static PyObject* Put(Client* self, const Bytes* key, const Bytes* value, const Wanted* wanted) {
  if (!Begin(self)) return NULL;
  remora_code code;
  CALL(self, code,
       remora_put(self->client, key->data, (size_t)key->size, value->data, (size_t)value->size,
                  &wanted->options));
  return EndWrite(self, code, wanted);
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
    End(self);
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
    End(self);
  }
  ReleaseArguments(&taken);
  return result;
}

static PyObject* Delete(Client* self, const Bytes* key, const Wanted* wanted) {
  if (!Begin(self)) return NULL;
  remora_code code;
  CALL(self, code, remora_delete(self->client, key->data, (size_t)key->size, &wanted->options));
  return EndWrite(self, code, wanted);
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
  return EndWrite(self, code, wanted);
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
  PyObject* const result = code == REMORA_OK ? Py_NewRef(Py_None) : Raise(code);
  End(self);
  return result;
}

// --- The types -------------------------------------------------------------------------------------------

// The first ones are of one server.
enum { kMethodsOfOneServer = 5 };
static PyMethodDef client_methods[] = {
    {"backup", WITH_KEYWORDS(ClientBackup), METH_VARARGS | METH_KEYWORDS,
     "Has the server make a backup; what it is, when it is done."},
    {"register", ClientRegister, METH_O, "Makes writable memory known, to read values into."},
    {"ping", ClientPing, METH_NOARGS, "One round trip."},
    {"settings", ClientSettings, METH_NOARGS,
     "The settings in force on the server, and where each comes from."},
    {"stats", ClientStats, METH_NOARGS, "The server's counters, by name."},
    // A client of a cluster has these alone:
    {"watch", WITH_KEYWORDS(ClientWatch), METH_VARARGS | METH_KEYWORDS,
     "What is written, in its order, from now on or from a resume token on."},
    {"get", WITH_KEYWORDS(ClientGet), METH_VARARGS | METH_KEYWORDS, "The value, or default: None."},
    {"get_versioned", ClientGetVersioned, METH_O, "The value and its version; NotFound."},
    {"visit", WITH_KEYWORDS(ClientVisit), METH_VARARGS | METH_KEYWORDS,
     "Calls the function with a View of the value, where it is; what it returned; NotFound."},
    {"visit_versioned", WITH_KEYWORDS(ClientVisitVersioned), METH_VARARGS | METH_KEYWORDS,
     "As visit; what it returned, and the version of the value."},
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
     "Pairs of key and value, in order, as of one moment unless in any_order or one_sided."},
    {"keys", ClientKeys, METH_NOARGS, "All keys, in any order, as iterating over the client shows them."},
    {"values", ClientValues, METH_NOARGS, "All values, in any order."},
    {"items", ClientItems, METH_NOARGS, "All pairs of key and value, in any order."},
    {"count", WITH_KEYWORDS(ClientCount), METH_VARARGS | METH_KEYWORDS, "How many keys there are."},
    {"delete_range", WITH_KEYWORDS(ClientDeleteRange), METH_VARARGS | METH_KEYWORDS,
     "Deletes a range, open where begin or end is None; how many keys that were. All keys: delete_all()."},
    {"delete_all", ClientDeleteAll, METH_NOARGS, "Deletes all there is; how many keys that were."},
    {"delete", WITH_KEYWORDS(ClientDelete), METH_VARARGS | METH_KEYWORDS, "Removes; NotFound."},
    {"touch", WITH_KEYWORDS(ClientTouch), METH_VARARGS | METH_KEYWORDS,
     "Gives the key this ttl from now on; NotFound."},
    {"persist", WITH_KEYWORDS(ClientPersist), METH_VARARGS | METH_KEYWORDS,
     "Lets the key be there for ever; NotFound."},
    {"ttl", ClientTtl, METH_O, "Seconds that are left; math.inf: for ever; NotFound."},
    {"counters", ClientCounters, METH_NOARGS, "What this client did, by name."},
    {"metrics", ClientMetrics, METH_NOARGS, "What this client did and how long it took, by name."},
    {"_stop", ClientStop, METH_NOARGS,
     "From now on, each call that waits, in any thread, ends with Cancelled."},
    {"close", ClientClose, METH_NOARGS, "Releases its buffers and disconnects."},
    {"__enter__", Self, METH_NOARGS, NULL},
    {"__exit__", ClientClose, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

#define OPTIONS_OF_BOTH                                                                                \
  ", *, connect_timeout=5.0, timeout=5.0, location_cache_bytes=None, reconnect=True,\n"                \
  "    scan_window_bytes=None, token=None, tls_ca=None, tls_cert=None, tls_key=None, metrics=False,\n" \
  "    index_mirror_bytes=0)\n--\n\n"

static PyType_Slot client_slots[] = {
    {Py_tp_init, ClientInit},
    {Py_tp_methods, client_methods},
    {Py_tp_dealloc, ClientDealloc},
    {Py_mp_subscript, ClientSubscript},
    {Py_mp_ass_subscript, ClientAssign},
    {Py_mp_length, ClientLength},
    {Py_tp_iter, ClientIterate},
    {Py_sq_contains, ClientContains},
    {Py_tp_doc,
     "Client(address" OPTIONS_OF_BOTH
     "One server, and a connection to it, for one thread at a time. It has the operators of a dict, and\n"
     "keys, values and items; it is no collections.abc.Mapping (see the package)."},
    {0, NULL},
};
PyType_Spec client_spec = {"remora.Client", sizeof(Client), 0, Py_TPFLAGS_DEFAULT, client_slots};

static PyType_Slot cluster_slots[] = {
    {Py_tp_init, ClusterInit},
    {Py_tp_methods, client_methods + kMethodsOfOneServer},
    {Py_tp_dealloc, ClientDealloc},
    {Py_mp_subscript, ClientSubscript},
    {Py_mp_ass_subscript, ClientAssign},
    {Py_mp_length, ClientLength},
    {Py_tp_iter, ClientIterate},
    {Py_sq_contains, ClientContains},
    {Py_tp_doc,
     "ClusterClient(topology" OPTIONS_OF_BOTH
     "The servers of a topology file, and a connection to each, for one thread at a time. It has the\n"
     "calls of Client, but for those of one server: backup, register, ping, settings and stats."},
    {0, NULL},
};
PyType_Spec cluster_spec = {"remora.ClusterClient", sizeof(Client), 0, Py_TPFLAGS_DEFAULT, cluster_slots};
