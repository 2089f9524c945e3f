// The type remora._remora.Topology, for clients of the shards of a cluster.
#include "client/python/remora_python.h"

PyObject* topology_type;

static int IsStopped(void* context) {
  return __atomic_load_n(&((Topology*)context)->stopping, __ATOMIC_RELAXED);
}

static int TopologyInit(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"source", "connect_timeout", "timeout", "token",
                          "tls_ca", "tls_cert",        "tls_key", NULL};
  Topology* const self = (Topology*)object;
  PyObject *path = NULL, *connect_timeout = NULL, *timeout = NULL;
  remora_options options;
  remora_options_init(&options);
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$OOzzzz", names, PyUnicode_FSConverter, &path,
                                   &connect_timeout, &timeout, &options.token, &options.tls_ca,
                                   &options.tls_cert, &options.tls_key)) {
    return -1;
  }
  int result = -1;
  if (self->topology != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the topology was read already");
  } else if (TakeClientOptions(connect_timeout, timeout, Py_None, NULL, /*reconnect=*/1, &options)) {
    remora_code code;
    const char* const from = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS;
    code = remora_source_open(from, &options, IsStopped, self, &self->source, &self->topology);
    Py_END_ALLOW_THREADS;
    if (code != REMORA_OK) Raise(code);
    result = code == REMORA_OK ? 0 : -1;
  }
  Py_DECREF(path);
  return result;
}

static void TopologyDealloc(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  Topology* const self = (Topology*)object;
  remora_topology_free(self->topology);
  remora_source_close(self->source);
  Py_XDECREF(self->first);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

static Py_ssize_t TopologyLength(PyObject* object) {
  const remora_topology* const topology = ((Topology*)object)->topology;
  return topology == NULL ? 0 : (Py_ssize_t)remora_topology_count(topology);
}

// Returns true if the topology was read. Else it raises an exception.
static int IsRead(PyObject* object) {
  if (TopologyLength(object) > 0) return 1;
  PyErr_SetString(PyExc_RuntimeError, "the topology is not read");
  return 0;
}

static PyObject* TopologySlotOf(PyObject* Py_UNUSED(none), PyObject* argument) {
  Bytes key;
  if (!Take(argument, &key)) return NULL;
  const uint32_t slot = remora_slot_of(key.data, (size_t)key.size);
  Release(&key);
  return PyLong_FromUnsignedLong(slot);
}

static PyObject* TopologySlotOfBatch(PyObject* Py_UNUSED(none), PyObject* argument) {
  if (!IsBatch(argument)) return NULL;
  uint32_t slot = 0;
  const remora_code code = remora_slot_of_batch(((const Batch*)argument)->batch, &slot);
  return code == REMORA_OK ? PyLong_FromUnsignedLong(slot) : Raise(code);
}

static PyObject* TopologyShardOfSlot(PyObject* object, PyObject* argument) {
  if (!IsRead(object)) return NULL;
  const unsigned long slot = PyLong_AsUnsignedLong(argument);
  if (PyErr_Occurred()) return NULL;
  const remora_topology* const topology = ((Topology*)object)->topology;
  const size_t shard = slot > UINT32_MAX ? SIZE_MAX : remora_topology_shard_of_slot(topology, (uint32_t)slot);
  if (shard != SIZE_MAX) return PyLong_FromSize_t(shard);
  return PyErr_Format(PyExc_IndexError, "slot: there is none with the number %lu", slot);
}

static PyObject* TopologyName(PyObject* object, PyObject* argument) {
  const Py_ssize_t shard = PyNumber_AsSsize_t(argument, PyExc_IndexError);
  if (shard == -1 && PyErr_Occurred()) return NULL;
  const remora_topology* const topology = TakeShard(object, shard);
  return topology == NULL ? NULL : PyUnicode_FromString(remora_topology_name(topology, (size_t)shard));
}

const remora_topology* TakeShard(PyObject* topology, Py_ssize_t shard) {
  if (!PyObject_TypeCheck(topology, (PyTypeObject*)topology_type)) {
    PyErr_SetString(PyExc_TypeError, "topology: a remora._remora.Topology is wanted");
    return NULL;
  }
  if (!IsRead(topology)) return NULL;
  if (shard >= 0 && shard < TopologyLength(topology)) return ((Topology*)topology)->topology;
  PyErr_Format(PyExc_IndexError, "shard: %zd of %zd shards", shard, TopologyLength(topology));
  return NULL;
}

static Topology* FirstOf(PyObject* object) {
  PyObject* const first = ((Topology*)object)->first;
  return (Topology*)(first == NULL ? object : first);
}

// Any thread may call it, and it waits without the lock of the interpreter.
static PyObject* TopologyReadAnew(PyObject* object, PyObject* Py_UNUSED(none)) {
  if (!IsRead(object)) return NULL;
  Topology* const first = FirstOf(object);
  remora_topology* read = NULL;
  remora_code code;
  Py_BEGIN_ALLOW_THREADS;
  code = remora_source_read(first->source, &read);
  Py_END_ALLOW_THREADS;
  if (code != REMORA_OK) return Raise(code);
  PyTypeObject* const type = Py_TYPE(object);
  Topology* const fresh = (Topology*)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (fresh == NULL) {
    remora_topology_free(read);
    return NULL;
  }
  fresh->topology = read;
  fresh->first = Py_NewRef((PyObject*)first);
  return (PyObject*)fresh;
}

static PyObject* TopologyIsOfServers(PyObject* object, PyObject* Py_UNUSED(none)) {
  return IsRead(object) ? PyBool_FromLong(remora_source_is_of_servers(FirstOf(object)->source)) : NULL;
}

// Also before __init__ has ended.
static PyObject* TopologyStop(PyObject* object, PyObject* Py_UNUSED(none)) {
  __atomic_store_n(&FirstOf(object)->stopping, 1, __ATOMIC_RELAXED);
  Py_RETURN_NONE;
}

static PyMethodDef topology_methods[] = {
    {"slot_of", TopologySlotOf, METH_O | METH_STATIC, "The slot of a key."},
    {"slot_of_batch", TopologySlotOfBatch, METH_O | METH_STATIC, "The slot of all keys of a batch."},
    {"shard_of_slot", TopologyShardOfSlot, METH_O, "The index of a slot's shard."},
    {"read_anew", TopologyReadAnew, METH_NOARGS,
     "The topology as it is now. FailedPrecondition: it has other shards."},
    {"is_of_servers", TopologyIsOfServers, METH_NOARGS, "Whether servers tell it, and not a file."},
    {"stop", TopologyStop, METH_NOARGS, "From now on, neither __init__ nor read_anew waits."},
    {"name", TopologyName, METH_O, "The name and addresses of a shard."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot topology_slots[] = {
    {Py_tp_doc, "A topology of a file or of servers; for remora.aio. Its length is the number of shards."},
    {Py_tp_init, TopologyInit},
    {Py_tp_dealloc, TopologyDealloc},
    {Py_tp_methods, topology_methods},
    {Py_sq_length, TopologyLength},
    {0, NULL},
};
PyType_Spec topology_spec = {"remora._remora.Topology", sizeof(Topology), 0, Py_TPFLAGS_DEFAULT,
                             topology_slots};
