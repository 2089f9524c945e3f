// The counters of the server and of a client, and the metrics of a client of either kind, as dicts.
#include "client/python/remora_python.h"

typedef struct {
  Client* self;
  PyObject* counters;  // a dict
  int has_lock;
} Counters;

// Adds a number to the dict. The caller has the interpreter's lock.
static void AddNumber(void* dict, const char* name, uint64_t value) {
  BEGIN_IN_CALLBACK;
  PyObject* const number = PyLong_FromUnsignedLongLong(value);
  if (number != NULL) PyDict_SetItemString(dict, name, number);
  Py_XDECREF(number);
  END_IN_CALLBACK;
}

// The counters come behind all that the call waits for, so from the first one on it has the interpreter's
// lock.
static void AddCounter(void* context, const char* name, uint64_t value) {
  Counters* const into = context;
  BEGIN_IN_CALLBACK;
  if (!into->has_lock) PyEval_RestoreThread(into->self->thread);
  into->has_lock = 1;
  AddNumber(into->counters, name, value);
  END_IN_CALLBACK;
}

typedef remora_code (*TellCounters)(remora_client* client,
                                    void (*each)(void* context, const char* name, uint64_t value),
                                    void* context);

static PyObject* DictOf(Client* self, TellCounters tell, int waits) {
  Counters into = {self, PyDict_New(), !waits};
  if (into.counters == NULL || !Begin(self)) {
    Py_XDECREF(into.counters);
    return NULL;
  }
  if (waits) self->thread = PyEval_SaveThread();
  const remora_code code = tell(self->client, AddCounter, &into);
  if (!into.has_lock) PyEval_RestoreThread(self->thread);
  self->interrupted = 0;
  if (code != REMORA_OK) Raise(code);
  End(self);
  if (!PyErr_Occurred()) return into.counters;
  Py_DECREF(into.counters);
  return NULL;
}

PyObject* ClientStats(PyObject* object, PyObject* Py_UNUSED(none)) {
  return DictOf((Client*)object, remora_stats, 1);
}

PyObject* ClientCounters(PyObject* object, PyObject* Py_UNUSED(none)) {
  return DictOf((Client*)object, remora_counters, 0);
}

PyObject* ClientMetrics(PyObject* object, PyObject* Py_UNUSED(none)) {
  return DictOf((Client*)object, remora_client_metrics, 0);
}

PyObject* AsyncMetrics(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  PyObject* const metrics = IsOpen(self) ? PyDict_New() : NULL;
  if (metrics == NULL) return NULL;
  const remora_code code = remora_async_metrics(self->async, AddNumber, metrics);
  if (code != REMORA_OK) Raise(code);
  if (!PyErr_Occurred()) return metrics;
  Py_DECREF(metrics);
  return NULL;
}
