// The type remora._remora.Topology, for clients of the shards of a cluster.
#include "client/python/remora_python.h"

PyObject* topology_type;

static int TopologyInit(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"path", NULL};
  Topology* const self = (Topology*)object;
  PyObject* path = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&", names, PyUnicode_FSConverter, &path)) return -1;
  remora_topology* read = NULL;
  const remora_code code = remora_topology_read(PyBytes_AsString(path), &read);
  Py_DECREF(path);
  if (code != REMORA_OK) {
    Raise(code);
    return -1;
  }
  remora_topology_free(self->topology);
  self->topology = read;
  return 0;
}

static void TopologyDealloc(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  remora_topology_free(((Topology*)object)->topology);
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

static PyObject* TopologyHasShardsOf(PyObject* object, PyObject* argument) {
  if (!IsRead(object)) return NULL;
  const remora_topology* const other = TakeShard(argument, 0);
  if (other == NULL) return NULL;
  return PyBool_FromLong(remora_topology_has_shards_of(((Topology*)object)->topology, other));
}

static PyMethodDef topology_methods[] = {
    {"slot_of", TopologySlotOf, METH_O | METH_STATIC, "The slot of a key."},
    {"slot_of_batch", TopologySlotOfBatch, METH_O | METH_STATIC, "The slot of all keys of a batch."},
    {"shard_of_slot", TopologyShardOfSlot, METH_O, "The index of a slot's shard."},
    {"has_shards_of", TopologyHasShardsOf, METH_O,
     "Whether another topology has these shards, with their addresses, in this order."},
    {"name", TopologyName, METH_O, "The name and addresses of a shard."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot topology_slots[] = {
    {Py_tp_doc, "A topology file; for remora.aio. Its length is the number of shards."},
    {Py_tp_init, TopologyInit},
    {Py_tp_dealloc, TopologyDealloc},
    {Py_tp_methods, topology_methods},
    {Py_sq_length, TopologyLength},
    {0, NULL},
};
PyType_Spec topology_spec = {"remora._remora.Topology", sizeof(Topology), 0, Py_TPFLAGS_DEFAULT,
                             topology_slots};
