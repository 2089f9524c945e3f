// The type remora.aio.Buffer.
#include "client/python/remora_python.h"

PyObject* async_buffer_type;

void EndReleased(Async* self) {
  while (self->released != NULL && !self->attempting && !self->showing) {
    Registered* const registered = self->released;
    self->released = registered->next;
    // In a forked child, what the parent registered is the parent's.
    if (self->forks == forks) remora_buffer_release(registered->buffer);
    PyBuffer_Release(&registered->memory);
    PyMem_Free(registered);
  }
}

static void ReleaseAsyncBuffer(AsyncBuffer* buffer) {
  if (buffer->held == NULL) return;
  Registered* const registered = buffer->held;
  buffer->held = NULL;
  registered->next = buffer->client->released;
  buffer->client->released = registered;
  EndReleased(buffer->client);
}

PyObject* AsyncRegister(PyObject* object, PyObject* argument) {
  Async* const self = (Async*)object;
  AsyncBuffer* const buffer = (AsyncBuffer*)PyType_GenericAlloc((PyTypeObject*)async_buffer_type, 0);
  if (buffer == NULL) return NULL;
  buffer->client = (Async*)Py_NewRef(object);
  buffer->held = PyMem_Calloc(1, sizeof(Registered));
  remora_code code = REMORA_RESOURCE_EXHAUSTED;
  if (buffer->held == NULL) {
    PyErr_NoMemory();
  } else if (PyObject_GetBuffer(argument, &buffer->held->memory, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) == 0 &&
             IsOpen(self)) {  // while the memory is held, a bytearray cannot be resized
    if (self->attempting) {
      RaiseWith(REMORA_UNAVAILABLE,
                "register: the client is connecting anew; try again when an operation has ended");
    } else {
      code = remora_async_buffer_register(self->async, buffer->held->memory.buf,
                                          (size_t)buffer->held->memory.len, &buffer->held->buffer);
      if (code != REMORA_OK) Raise(code);
    }
  }
  if (code == REMORA_OK) return (PyObject*)buffer;
  Py_DECREF(buffer);
  return NULL;
}

int IsRegistered(PyObject* object) {
  if (!PyObject_TypeCheck(object, (PyTypeObject*)async_buffer_type)) {
    PyErr_SetString(PyExc_TypeError, "a remora.aio.Buffer is wanted, which Client.register makes");
    return 0;
  }
  if (((AsyncBuffer*)object)->held != NULL) return 1;
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
  return self->held == NULL ? 0 : self->held->memory.len;
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
