// The type remora.aio.Buffer.
#include "client/python/remora_python.h"

PyObject* async_buffer_type;

static void ReleaseAsyncBuffer(AsyncBuffer* buffer) {
  if (buffer->buffer == NULL) return;
  // In a forked child, what the parent registered is the parent's.
  if (buffer->client->forks == forks) remora_buffer_release(buffer->buffer);
  buffer->buffer = NULL;
  PyBuffer_Release(&buffer->memory);
}

PyObject* AsyncRegister(PyObject* object, PyObject* argument) {
  Async* const self = (Async*)object;
  if (!IsOpen(self)) return NULL;
  AsyncBuffer* const buffer = (AsyncBuffer*)PyType_GenericAlloc((PyTypeObject*)async_buffer_type, 0);
  if (buffer == NULL) return NULL;
  buffer->client = (Async*)Py_NewRef(object);
  // While it is held, a bytearray cannot be resized.
  if (PyObject_GetBuffer(argument, &buffer->memory, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0) {
    Py_DECREF(buffer);
    return NULL;
  }
  const remora_code code = remora_async_buffer_register(self->async, buffer->memory.buf,
                                                        (size_t)buffer->memory.len, &buffer->buffer);
  if (code == REMORA_OK) return (PyObject*)buffer;
  PyBuffer_Release(&buffer->memory);
  Py_DECREF(buffer);
  return Raise(code);
}

int IsRegistered(PyObject* object) {
  if (!PyObject_TypeCheck(object, (PyTypeObject*)async_buffer_type)) {
    PyErr_SetString(PyExc_TypeError, "a remora.aio.Buffer is wanted, which Client.register makes");
    return 0;
  }
  if (((AsyncBuffer*)object)->buffer != NULL) return 1;
  PyErr_SetString(PyExc_RuntimeError, "the buffer is released");
  return 0;
}

static PyObject* AsyncBufferRelease(PyObject* object, PyObject* Py_UNUSED(none)) {
  AsyncBuffer* const self = (AsyncBuffer*)object;
  if (self->operations > 0) {
    PyErr_SetString(PyExc_RuntimeError, "operations have the buffer: await them first");
    return NULL;
  }
  ReleaseAsyncBuffer(self);
  Py_RETURN_NONE;
}

static Py_ssize_t AsyncBufferSize(PyObject* object) {
  const AsyncBuffer* const self = (AsyncBuffer*)object;
  return self->buffer == NULL ? 0 : self->memory.len;
}

static void AsyncBufferDealloc(PyObject* object) {
  AsyncBuffer* const self = (AsyncBuffer*)object;
  PyTypeObject* const type = Py_TYPE(object);
  ReleaseAsyncBuffer(self);  // operations that have it keep it
  Py_XDECREF((PyObject*)self->client);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

static PyMethodDef async_buffer_methods[] = {
    {"release", AsyncBufferRelease, METH_NOARGS, "Gives the memory back, which no operation must have."},
    {"__enter__", Self, METH_NOARGS, NULL},
    {"__exit__", AsyncBufferRelease, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot async_buffer_slots[] = {
    {Py_tp_doc,
     "Memory that values are read into, and put from, without a copy; made by aio.Client.register."},
    {Py_tp_dealloc, AsyncBufferDealloc},
    {Py_tp_methods, async_buffer_methods},
    {Py_sq_length, AsyncBufferSize},
    {0, NULL},
};
PyType_Spec async_buffer_spec = {"remora.aio.Buffer", sizeof(AsyncBuffer), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, async_buffer_slots};
