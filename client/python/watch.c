// The type remora.Watch, and backups.
#include <math.h>
#include <time.h>

#include "client/python/remora_python.h"

PyObject* change_type;
PyObject* backup_type;

typedef struct {
  PyObject ob_base;
  Client* client;
  Handle* handle;       // null: it has not begun
  int64_t patience_ms;  // of an iteration; negative: for ever
} Watch;

// None is for ever: negative. False: an exception is raised.
static int TakePatience(PyObject* seconds, int64_t* ms) {
  *ms = -1;
  if (seconds == NULL || seconds == Py_None) return 1;
  *ms = 0;
  const int is_zero = (PyLong_Check(seconds) || PyFloat_Check(seconds)) && PyObject_Not(seconds) > 0;
  return (is_zero && !PyBool_Check(seconds)) || TakeSeconds(seconds, "timeout", ms);
}

static PyObject* ChangeOf(const remora_change* change) {
  const int is_put = change->kind == REMORA_CHANGE_PUT;
  PyObject* const value = is_put
                              ? PyBytes_FromStringAndSize(change->value.data, (Py_ssize_t)change->value.size)
                              : Py_NewRef(Py_None);
  if (value == NULL) return NULL;
  return PyObject_CallFunction(change_type, "sy#NKdK", is_put ? "put" : "delete",
                               (const char*)change->key.data, (Py_ssize_t)change->key.size, value,
                               (unsigned long long)change->version,
                               change->expiry_ms == 0 ? HUGE_VAL : (double)change->expiry_ms / 1000,
                               (unsigned long long)change->sequence);
}

// The next change; null with no exception raised: none came.
static PyObject* NextWithin(Watch* self, int64_t patience_ms) {
  if (!Begin(self->client)) return NULL;
  remora_code code;
  remora_change change;
  PyObject* result = NULL;
  CALL(self->client, code, remora_watch_next(self->handle->watch, patience_ms, &change));
  if (code == REMORA_OK) {
    result = ChangeOf(&change);
  } else if (code != REMORA_NOT_FOUND) {
    Raise(code);
  }
  End(self->client);
  return result;
}

PyObject* ClientWatch(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"prefix", "resume_token", "timeout", NULL};
  Client* const client = (Client*)object;
  PyObject *prefix = Py_None, *timeout = NULL;
  remora_watch_options options;
  remora_watch_options_init(&options);
  int64_t patience_ms;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OzO", names, &prefix, &options.resume_token, &timeout) ||
      !TakePatience(timeout, &patience_ms)) {
    return NULL;
  }
  Bytes taken = {NULL, 0, {0}};
  if (prefix != Py_None && !Take(prefix, &taken)) return NULL;
  options.prefix.data = taken.data;
  options.prefix.size = (size_t)taken.size;
  Watch* const self = (Watch*)PyType_GenericAlloc((PyTypeObject*)watch_type, 0);
  remora_code code = REMORA_CANCELLED;
  if (self != NULL) {
    self->patience_ms = patience_ms;
    self->client = (Client*)Py_NewRef((PyObject*)client);
    self->handle = AddHandle(client);
    if (self->handle != NULL && Begin(client)) {
      CALL(client, code, remora_watch_begin(client->client, &options, &self->handle->watch));
      if (code != REMORA_OK) Raise(code);
      End(client);
    }
  }
  Release(&taken);
  if (code == REMORA_OK) return (PyObject*)self;
  Py_XDECREF((PyObject*)self);
  return NULL;
}

static void WatchDealloc(PyObject* object) {
  Watch* const self = (Watch*)object;
  PyTypeObject* const type = Py_TYPE(object);
  if (self->handle != NULL) DropHandle(self->client, self->handle);
  Py_XDECREF((PyObject*)self->client);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

static PyObject* WatchIterate(PyObject* object) {
  Watch* const self = (Watch*)object;
  return NextWithin(self, self->patience_ms);
}

static PyObject* WatchNext(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"timeout", NULL};
  PyObject* timeout = NULL;
  int64_t patience_ms;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &timeout) ||
      !TakePatience(timeout, &patience_ms)) {
    return NULL;
  }
  PyObject* const change = NextWithin((Watch*)object, patience_ms);
  return change != NULL || PyErr_Occurred() ? change : Py_NewRef(Py_None);
}

static PyObject* WatchResumeToken(PyObject* object, PyObject* Py_UNUSED(none)) {
  Watch* const self = (Watch*)object;
  if (!Begin(self->client)) return NULL;
  const char* token = NULL;
  const remora_code code = remora_watch_resume_token(self->handle->watch, &token);
  PyObject* const result = code == REMORA_OK ? PyUnicode_FromString(token) : Raise(code);
  End(self->client);
  return result;
}

static PyMethodDef watch_methods[] = {
    {"next", WITH_KEYWORDS(WatchNext), METH_VARARGS | METH_KEYWORDS,
     "The next change, or None: none came in this time; without a timeout, it waits for ever."},
    {"resume_token", WatchResumeToken, METH_NOARGS,
     "What goes on behind the last change: Client.watch(resume_token=...)."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot watch_slots[] = {
    {Py_tp_doc, "What is written, in its order; made by Client.watch."},
    {Py_tp_dealloc, WatchDealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, WatchIterate},
    {Py_tp_methods, watch_methods},
    {0, NULL},
};
PyType_Spec watch_spec = {"remora.Watch", sizeof(Watch), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, watch_slots};
PyObject* watch_type;

// --- Backups --------------------------------------------------------------------------------------------

static void Pause(void) {
  const struct timespec pause = {0, 10000000};
  nanosleep(&pause, NULL);
}

PyObject* ClientBackup(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"name", "wait", NULL};
  Client* const self = (Client*)object;
  PyObject* number = NULL;
  unsigned long long name = 0;
  int wait = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$p", names, &number, &wait) ||
      !TakeUnsigned(number, "name", &name)) {
    return NULL;
  }
  for (;;) {
    if (!Begin(self)) return NULL;
    remora_code code;
    remora_backup_progress progress;
    CALL(self, code, remora_backup(self->client, name, &progress));
    if (code != REMORA_OK) Raise(code);
    End(self);
    if (code != REMORA_OK) return NULL;
    if (progress.done) {
      return PyObject_CallFunction(backup_type, "KKKK", (unsigned long long)progress.id,
                                   (unsigned long long)progress.version, (unsigned long long)progress.bytes,
                                   (unsigned long long)progress.new_bytes);
    }
    if (!wait) Py_RETURN_NONE;
    if (PyErr_CheckSignals() != 0) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    Pause();
    Py_END_ALLOW_THREADS;
  }
}
