// The type remora.Batch.
#include "client/python/remora_python.h"

static PyObject* BatchOf(PyTypeObject* type, remora_batch* batch) {
  Batch* const self = batch == NULL ? NULL : (Batch*)PyType_GenericAlloc(type, 0);
  if (self == NULL) {
    remora_batch_free(batch);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
  }
  self->batch = batch;
  return (PyObject*)self;
}

static PyObject* BatchNew(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  if (PyTuple_Size(args) != 0 || (kwargs != NULL && PyDict_Size(kwargs) != 0)) {
    PyErr_SetString(PyExc_TypeError, "Batch() takes no arguments");
    return NULL;
  }
  return BatchOf(type, remora_batch_new());
}

static PyObject* BatchCopy(PyObject* object, PyObject* Py_UNUSED(none)) {
  return BatchOf(Py_TYPE(object), remora_batch_copy(((Batch*)object)->batch));
}

static void BatchDealloc(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  remora_batch_free(((Batch*)object)->batch);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

static PyObject* NoneOf(remora_code code) {
  if (code != REMORA_OK) return Raise(code);
  Py_RETURN_NONE;
}

// Whether no call reads the batch; else an exception is raised.
static int MayChange(PyObject* object) {
  if (((Batch*)object)->calls == 0) return 1;
  PyErr_SetString(PyExc_RuntimeError, "the batch is being applied; change it when apply has ended");
  return 0;
}

// Whether the arguments are those of a write of a batch that may change; else an exception is raised.
static int MayAdd(PyObject* object, const WriteArguments* taken) {
  if (!MayChange(object)) return 0;
  if (taken->wanted.options.durability == REMORA_DURABILITY_DEFAULT) return 1;
  PyErr_SetString(PyExc_TypeError, "how durable a batch is, is said to apply");
  return 0;
}

static PyObject* BatchPut(PyObject* object, PyObject* args, PyObject* kwargs) {
  WriteArguments taken;
  if (!TakePutArguments(args, kwargs, &taken)) return NULL;
  PyObject* result = NULL;
  if (MayAdd(object, &taken)) {
    result = NoneOf(remora_batch_put(((Batch*)object)->batch, taken.key.data, (size_t)taken.key.size,
                                     taken.value.data, (size_t)taken.value.size, &taken.wanted.options));
  }
  ReleaseArguments(&taken);
  return result;
}

static PyObject* BatchDelete(PyObject* object, PyObject* args, PyObject* kwargs) {
  WriteArguments taken;
  if (!TakeDeleteArguments(args, kwargs, &taken)) return NULL;
  PyObject* result = NULL;
  if (MayAdd(object, &taken)) {
    result = NoneOf(remora_batch_delete(((Batch*)object)->batch, taken.key.data, (size_t)taken.key.size,
                                        &taken.wanted.options));
  }
  ReleaseArguments(&taken);
  return result;
}

static PyObject* BatchClear(PyObject* object, PyObject* Py_UNUSED(none)) {
  if (!MayChange(object)) return NULL;
  remora_batch_clear(((Batch*)object)->batch);
  Py_RETURN_NONE;
}

static Py_ssize_t BatchLength(PyObject* object) {
  return (Py_ssize_t)remora_batch_count(((Batch*)object)->batch);
}

int IsBatch(PyObject* object) {
  if (PyObject_TypeCheck(object, (PyTypeObject*)batch_type)) return 1;
  PyErr_SetString(PyExc_TypeError, "what is applied is a remora.Batch");
  return 0;
}

Batch* TakeBatchArguments(PyObject* args, PyObject* kwargs, Wanted* wanted) {
  static char* names[] = {"batch", "durability", NULL};
  PyObject *batch, *durability = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$O", names, &batch, &durability)) return NULL;
  if (!IsBatch(batch)) return NULL;
  return TakeWanted(NULL, NULL, durability, wanted) ? (Batch*)batch : NULL;
}

PyObject* ClientApply(PyObject* object, PyObject* args, PyObject* kwargs) {
  Client* const self = (Client*)object;
  Wanted wanted;
  Batch* const batch = TakeBatchArguments(args, kwargs, &wanted);
  if (batch == NULL || !Begin(self)) return NULL;
  remora_code code;
  ++batch->calls;
  CALL(self, code, remora_apply(self->client, batch->batch, &wanted.options));
  --batch->calls;
  PyObject* const version = code == REMORA_OK ? PyLong_FromUnsignedLongLong(wanted.version) : Raise(code);
  End(self);
  return version;
}

static PyMethodDef batch_methods[] = {
    {"put", WITH_KEYWORDS(BatchPut), METH_VARARGS | METH_KEYWORDS, "Adds a put."},
    {"delete", WITH_KEYWORDS(BatchDelete), METH_VARARGS | METH_KEYWORDS, "Adds a delete."},
    {"__copy__", BatchCopy, METH_NOARGS, "A batch of the same writes."},
    {"clear", BatchClear, METH_NOARGS, "Forgets what was added."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot batch_slots[] = {
    {Py_tp_doc, "Writes that Client.apply does all, or none of them."},
    {Py_tp_new, BatchNew},
    {Py_tp_dealloc, BatchDealloc},
    {Py_tp_methods, batch_methods},
    {Py_sq_length, BatchLength},
    {0, NULL},
};
PyType_Spec batch_spec = {"remora.Batch", sizeof(Batch), 0, Py_TPFLAGS_DEFAULT, batch_slots};
PyObject* batch_type;
