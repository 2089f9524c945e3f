// The type remora.Scan, and what a client has for many keys.
#include <math.h>

#include "client/python/remora_python.h"

typedef struct {
  PyObject ob_base;
  Client* client;
  Handle* handle;  // null: it has not begun
  enum Shown { kPairs, kKeys, kValues } shown;
  uint64_t version;
} Scan;

static int TakeRange(PyObject* prefix, PyObject* begin, PyObject* end, Bytes taken[3], remora_range* range) {
  PyObject* const objects[3] = {prefix, begin, end};
  remora_bytes* const into[3] = {&range->prefix, &range->begin, &range->end};
  for (int i = 0; i < 3; ++i) taken[i].buffer.obj = NULL;
  for (int i = 0; i < 3; ++i) {
    into[i]->data = NULL;
    into[i]->size = 0;
    if (objects[i] == NULL || objects[i] == Py_None) continue;
    if (!Take(objects[i], &taken[i])) {
      taken[i].buffer.obj = NULL;
      while (i > 0) Release(&taken[--i]);
      return 0;
    }
    into[i]->data = taken[i].data;
    into[i]->size = (size_t)taken[i].size;
  }
  return 1;
}

static void ReleaseRange(Bytes taken[3]) {
  for (int i = 0; i < 3; ++i) Release(&taken[i]);
}

static PyObject* BeginScan(Client* client, const remora_scan_options* options, enum Shown shown) {
  Scan* const self = (Scan*)PyType_GenericAlloc((PyTypeObject*)scan_type, 0);
  if (self == NULL) return NULL;
  self->client = (Client*)Py_NewRef((PyObject*)client);
  self->handle = AddHandle(client);
  self->shown = shown;
  remora_code code = REMORA_CANCELLED;
  if (self->handle != NULL && Begin(client)) {
    CALL(client, code, remora_scan_begin(client->client, options, &self->handle->scan));
    if (code != REMORA_OK) Raise(code);
    End(client);
  }
  if (code == REMORA_OK) return (PyObject*)self;
  Py_DECREF((PyObject*)self);
  return NULL;
}

static void ScanDealloc(PyObject* object) {
  Scan* const self = (Scan*)object;
  PyTypeObject* const type = Py_TYPE(object);
  if (self->handle != NULL) DropHandle(self->client, self->handle);
  Py_XDECREF((PyObject*)self->client);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

static PyObject* ScanNext(PyObject* object) {
  Scan* const self = (Scan*)object;
  if (!Begin(self->client)) return NULL;
  remora_code code;
  remora_bytes key = {NULL, 0}, value = {NULL, 0};
  uint64_t version = 0;
  CALL(self->client, code, remora_scan_next(self->handle->scan, &key, &value, &version));
  PyObject* entry = NULL;
  if (code != REMORA_OK) {
    if (code != REMORA_NOT_FOUND) Raise(code);  // else null alone: the end of an iteration
  } else if (self->shown != kPairs) {
    const remora_bytes* const shown = self->shown == kKeys ? &key : &value;
    entry = PyBytes_FromStringAndSize(shown->data, (Py_ssize_t)shown->size);
  } else {
    entry = Py_BuildValue("y#y#", key.data != NULL ? key.data : "", (Py_ssize_t)key.size,
                          value.data != NULL ? value.data : "", (Py_ssize_t)value.size);
  }
  if (code == REMORA_OK) self->version = version;
  End(self->client);
  return entry;
}

static PyObject* ScanResumeToken(PyObject* object, PyObject* Py_UNUSED(none)) {
  Scan* const self = (Scan*)object;
  if (!Begin(self->client)) return NULL;
  const char* token = NULL;
  const remora_code code = remora_scan_resume_token(self->handle->scan, &token);
  PyObject* const result = code == REMORA_OK ? PyUnicode_FromString(token) : Raise(code);
  End(self->client);
  return result;
}

static PyObject* ScanVersion(PyObject* object, PyObject* Py_UNUSED(none)) {
  return PyLong_FromUnsignedLongLong(((Scan*)object)->version);
}

PyObject* ClientScan(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"prefix",     "begin",        "end",       "reverse",   "limit", "keys_only",
                          "one_moment", "resume_token", "any_order", "one_sided", NULL};
  PyObject *prefix = NULL, *begin = NULL, *end = NULL, *limit = NULL;
  remora_scan_options options;
  remora_scan_options_init(&options);
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOpOppzpp", names, &prefix, &begin, &end,
                                   &options.reverse, &limit, &options.keys_only, &options.one_moment,
                                   &options.resume_token, &options.any_order, &options.one_sided)) {
    return NULL;
  }
  unsigned long long most = 0;
  if (limit != NULL && limit != Py_None && !TakeUnsigned(limit, "limit", &most)) return NULL;
  options.limit = most;
  Bytes taken[3];
  if (!TakeRange(prefix, begin, end, taken, &options.range)) return NULL;
  PyObject* const scan = BeginScan((Client*)object, &options, options.keys_only ? kKeys : kPairs);
  ReleaseRange(taken);
  return scan;
}

static PyObject* BeginAll(PyObject* client, enum Shown shown) {
  remora_scan_options options;
  remora_scan_options_init(&options);
  options.keys_only = shown == kKeys;
  options.any_order = 1;
  return BeginScan((Client*)client, &options, shown);
}

PyObject* ClientIterate(PyObject* object) { return BeginAll(object, kKeys); }
PyObject* ClientKeys(PyObject* object, PyObject* Py_UNUSED(none)) { return BeginAll(object, kKeys); }
PyObject* ClientValues(PyObject* object, PyObject* Py_UNUSED(none)) { return BeginAll(object, kValues); }
PyObject* ClientItems(PyObject* object, PyObject* Py_UNUSED(none)) { return BeginAll(object, kPairs); }

typedef remora_code RangeCall(remora_client* client, const remora_range* range, uint64_t* count);

// Returns the number that a call tells of the range in the arguments.
static PyObject* CallWithRange(PyObject* object, PyObject* args, PyObject* kwargs, RangeCall* call) {
  static char* names[] = {"prefix", "begin", "end", NULL};
  Client* const self = (Client*)object;
  PyObject *prefix = NULL, *begin = NULL, *end = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOO", names, &prefix, &begin, &end)) return NULL;
  remora_range range;
  Bytes taken[3];
  if (!TakeRange(prefix, begin, end, taken, &range)) return NULL;
  PyObject* result = NULL;
  if (Begin(self)) {
    remora_code code;
    uint64_t count = 0;
    CALL(self, code, call(self->client, &range, &count));
    result = code == REMORA_OK ? PyLong_FromUnsignedLongLong(count) : Raise(code);
    End(self);
  }
  ReleaseRange(taken);
  return result;
}

static remora_code CountIn(remora_client* client, const remora_range* range, uint64_t* count) {
  const int is_bounded = range->prefix.size + range->begin.size + range->end.size > 0;
  return remora_count(client, is_bounded ? range : NULL, count);
}

PyObject* ClientCount(PyObject* object, PyObject* args, PyObject* kwargs) {
  return CallWithRange(object, args, kwargs, CountIn);
}

Py_ssize_t ClientLength(PyObject* object) {
  Client* const self = (Client*)object;
  if (!Begin(self)) return -1;
  remora_code code;
  uint64_t count = 0;
  CALL(self, code, remora_count(self->client, NULL, &count));
  if (code != REMORA_OK) Raise(code);
  End(self);
  return code == REMORA_OK ? (Py_ssize_t)count : -1;
}

PyObject* ClientDeleteRange(PyObject* object, PyObject* args, PyObject* kwargs) {
  return CallWithRange(object, args, kwargs, remora_delete_range);
}

PyObject* ClientDeleteAll(PyObject* object, PyObject* Py_UNUSED(none)) {
  Client* const self = (Client*)object;
  if (!Begin(self)) return NULL;
  remora_code code;
  uint64_t deleted = 0;
  CALL(self, code, remora_delete_all(self->client, &deleted));
  PyObject* const result = code == REMORA_OK ? PyLong_FromUnsignedLongLong(deleted) : Raise(code);
  End(self);
  return result;
}

static PyObject* ScanExpiry(PyObject* object, PyObject* Py_UNUSED(none)) {
  Scan* const self = (Scan*)object;
  if (!Begin(self->client)) return NULL;
  uint64_t expiry_ms = 0;
  const remora_code code = remora_scan_expiry(self->handle->scan, &expiry_ms);
  if (code != REMORA_OK) Raise(code);
  End(self->client);
  if (code != REMORA_OK) return NULL;
  return PyFloat_FromDouble(expiry_ms == 0 ? HUGE_VAL : (double)expiry_ms / 1000);
}

static PyMethodDef scan_methods[] = {
    {"resume_token", ScanResumeToken, METH_NOARGS,
     "What goes on behind the last entry: Client.scan(resume_token=...)."},
    {"expiry", ScanExpiry, METH_NOARGS,
     "When the last entry expires, in seconds since 1970 by the server's clock; math.inf: never."},
    {"version", ScanVersion, METH_NOARGS, "Of the last entry."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot scan_slots[] = {
    {Py_tp_doc,
     "Keys and values, in order as of one moment unless in any_order or one_sided; made by Client.scan."},
    {Py_tp_dealloc, ScanDealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, ScanNext},
    {Py_tp_methods, scan_methods},
    {0, NULL},
};
PyType_Spec scan_spec = {"remora.Scan", sizeof(Scan), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, scan_slots};
PyObject* scan_type;
