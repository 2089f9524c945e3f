// The life of an Async: the functions with which the event loop of remora.aio drives it.
#include "client/python/remora_python.h"

PyObject* AsyncCancel(PyObject* object, PyObject* argument) {
  Async* const self = (Async*)object;
  const uint64_t name = PyLong_AsUnsignedLongLong(argument);
  if (PyErr_Occurred()) return NULL;
  if (self->showing) Py_RETURN_FALSE;  // nobody waits for it any more, but it goes on
  if (!IsOpen(self)) return NULL;
  return PyBool_FromLong(remora_async_cancel(self->async, name) == REMORA_OK);
}

// REQUIRES: `ended` is there, for what ends by it.
static void Close(Async* self) {
  remora_async* const async = self->async;
  self->async = NULL;                           // so no attempt begins any more
  if (async != NULL && self->forks == forks) {  // in a forked child, it is the parent's
    if (self->attempting) {
      __atomic_store_n(&self->stopping, 1, __ATOMIC_RELAXED);
      Py_BEGIN_ALLOW_THREADS;
      PyThread_acquire_lock(self->lock, WAIT_LOCK);  // until the attempt has heard of it
      PyThread_release_lock(self->lock);
      Py_END_ALLOW_THREADS;
      remora_async_end_reconnect(async);
    }
    remora_async_close(async);
  }
  self->attempting = 0;
  EndReleased(self);
}

static int IsStopping(void* context) {
  return __atomic_load_n(&((Async*)context)->stopping, __ATOMIC_RELAXED);
}

// Whether an attempt at another connection is due, which is then to be made by another thread.
PyObject* AsyncBeginReconnect(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  if (self->async == NULL || self->forks != forks || self->attempting) Py_RETURN_FALSE;
  self->attempting = remora_async_begin_reconnect(self->async);
  return PyBool_FromLong(self->attempting);
}

PyObject* AsyncReconnect(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  // Closed before it began, or not due.
  if (self->async == NULL || !self->attempting || !PyThread_acquire_lock(self->lock, NOWAIT_LOCK))
    Py_RETURN_NONE;
  remora_async* const async = self->async;
  PyThreadState* const released = PyEval_SaveThread();
  remora_async_reconnect(async);
  PyThread_release_lock(self->lock);
  PyEval_RestoreThread(released);
  Py_RETURN_NONE;
}

// Behind an attempt, whether it was made or not.
PyObject* AsyncEndReconnect(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  if (self->async != NULL && self->attempting && self->forks == forks) {
    remora_async_end_reconnect(self->async);
    self->attempting = 0;
    EndReleased(self);
  }
  Py_RETURN_NONE;
}

// From now on, neither __init__ nor reconnect waits.
PyObject* AsyncStop(PyObject* object, PyObject* Py_UNUSED(none)) {
  __atomic_store_n(&((Async*)object)->stopping, 1, __ATOMIC_RELAXED);
  Py_RETURN_NONE;
}

// place(topology, shard). False between begin_reconnect and end_reconnect: another thread dials then.
PyObject* AsyncPlace(PyObject* object, PyObject* args) {
  Async* const self = (Async*)object;
  PyObject* in = NULL;
  Py_ssize_t shard = 0;
  if (!PyArg_ParseTuple(args, "On", &in, &shard)) return NULL;
  const remora_topology* const topology = TakeShard(in, shard);
  if (topology == NULL || !IsOpen(self)) return NULL;
  if (self->attempting) Py_RETURN_FALSE;
  PyObject* const name = PyUnicode_FromString(remora_topology_name(topology, (size_t)shard));
  if (name == NULL) return NULL;
  const remora_code code = remora_topology_place(topology, (size_t)shard, self->async);
  if (code != REMORA_OK) {
    Py_DECREF(name);
    return Raise(code);
  }
  PyObject* const before = self->name;
  self->name = name;
  Py_XDECREF(before);
  Py_RETURN_TRUE;
}

// From now on its descriptor turns readable when there is something to do.
PyObject* AsyncPoll(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  if (!IsOpen(self)) return NULL;
  PyObject* const ended = PyList_New(0);
  if (ended == NULL) return NULL;
  if (self->ended != NULL) return ended;  // in a finalizer: the outer poll returns the ended operations
  self->ended = ended;
  remora_async_disarm(self->async);
  remora_code code = remora_async_poll(self->async, 0, NULL);
  remora_async_arm(self->async);
  if (code == REMORA_OK) code = remora_async_poll(self->async, 0, NULL);
  EndReleased(self);
  if (self->closing) Close(self);
  self->ended = NULL;
  // Returns the ended operations even after an error.
  if (code != REMORA_OK && PyList_Size(ended) == 0) {
    Py_DECREF(ended);
    return Raise(code);
  }
  return ended;
}

PyObject* AsyncWaitSeconds(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  if (!IsOpen(self)) return NULL;
  const int64_t ms = remora_async_wait_ms(self->async);
  if (ms < 0) Py_RETURN_NONE;
  return PyFloat_FromDouble((double)ms / 1000);
}

PyObject* AsyncFileno(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  return IsOpen(self) ? PyLong_FromLong(remora_async_wait_fd(self->async)) : NULL;
}

PyObject* AsyncFreeSlots(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  return IsOpen(self) ? PyLong_FromSize_t(remora_async_free_slots(self->async)) : NULL;
}

PyObject* AsyncIncarnation(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  if (!IsOpen(self)) return NULL;
  return PyLong_FromUnsignedLongLong(self->attempting ? 0 : remora_async_incarnation(self->async));
}

// Opens a client of the server at `address`, or of a shard of `topology`. Returns as a tp_init does.
static int Open(Async* self, const char* address, const remora_topology* topology, size_t shard,
                const remora_options* options, size_t depth) {
  remora_code code;
  remora_async* async = NULL;
  PyThreadState* const released = PyEval_SaveThread();
  if (topology == NULL) {
    code = remora_async_open_interruptible(address, options, depth, IsStopping, self, &async);
  } else {
    code = remora_topology_open(topology, shard, options, depth, IsStopping, self, &async);
  }
  PyEval_RestoreThread(released);
  if (code != REMORA_OK) {
    RaiseOfAsync(self, code, remora_message());
    return -1;
  }
  self->async = async;
  self->forks = forks;
  return 0;
}

int AsyncInit(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {
      "address", "depth",    "connect_timeout", "timeout", "location_cache_bytes", "reconnect", "token",
      "tls_ca",  "tls_cert", "tls_key",         "metrics", "index_mirror_bytes",   "topology",  "shard",
      NULL};
  Async* const self = (Async*)object;
  const char* address = NULL;
  PyObject* in = NULL;
  Py_ssize_t shard = 0;
  PyObject *connect_timeout = NULL, *timeout = NULL, *depth = NULL, *cache = Py_None, *mirror = NULL;
  int reconnect = 1, metrics = 0;
  remora_options options;
  remora_options_init(&options);
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO|$OOOpzzzzpOOn", names, &address, &depth,
                                   &connect_timeout, &timeout, &cache, &reconnect, &options.token,
                                   &options.tls_ca, &options.tls_cert, &options.tls_key, &metrics, &mirror,
                                   &in, &shard)) {
    return -1;
  }
  const remora_topology* const topology = in == NULL ? NULL : TakeShard(in, shard);
  if (in != NULL && topology == NULL) return -1;
  options.metrics = metrics != 0;
  if (!TakeClientOptions(connect_timeout, timeout, cache, mirror, reconnect, &options)) return -1;
  unsigned long long most = 0;
  if (!TakeUnsigned(depth, "depth", &most)) return -1;
  if (most == 0) {
    PyErr_SetString(PyExc_ValueError, "a depth of 0");
    return -1;
  }
  if (self->async != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the client is connected already");
    return -1;
  }
  if (self->lock == NULL) self->lock = PyThread_allocate_lock();
  if (self->lock == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  if (topology != NULL && self->name == NULL) {
    self->name = PyUnicode_FromString(remora_topology_name(topology, (size_t)shard));
    if (self->name == NULL) return -1;
  }
  return Open(self, address, topology, (size_t)shard, &options, most);
}

// Closes, and returns the operations that ended by it; null: an exception is raised. Inside poll, for example
// by a finalizer, it closes at the end of poll.
PyObject* AsyncClose(PyObject* object, PyObject* Py_UNUSED(none)) {
  Async* const self = (Async*)object;
  if (self->showing && !IsOpen(self)) return NULL;
  PyObject* const ended = PyList_New(0);
  if (ended == NULL) return NULL;
  if (self->ended != NULL) {
    self->closing = 1;
    return ended;
  }
  self->ended = ended;
  Close(self);
  self->ended = NULL;
  return ended;
}

void AsyncDealloc(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  PyObject* const ended = AsyncClose(object, NULL);
  if (ended == NULL) PyErr_WriteUnraisable(NULL);
  Py_XDECREF(ended);
  if (((Async*)object)->lock != NULL) PyThread_free_lock(((Async*)object)->lock);
  Py_XDECREF(((Async*)object)->name);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}
