// The type remora.Buffer.
#include "client/python/remora_python.h"

PyObject* buffer_type;

void ReleaseBuffer(Buffer* buffer) {
  if (buffer->buffer == NULL) return;
  for (Buffer** link = &buffer->client->buffers; *link != NULL; link = &(*link)->next) {
    if (*link != buffer) continue;
    *link = buffer->next;
    break;
  }
  // In a forked child, what the parent registered is the parent's.
  if (buffer->client->forks == forks) remora_buffer_release(buffer->buffer);
  buffer->buffer = NULL;
  PyBuffer_Release(&buffer->memory);
  Py_CLEAR(buffer->owner);
}

PyObject* ClientRegister(PyObject* object, PyObject* argument) {
  Client* const self = (Client*)object;
  Buffer* const buffer = (Buffer*)PyType_GenericAlloc((PyTypeObject*)buffer_type, 0);
  if (buffer == NULL) return NULL;
  buffer->client = (Client*)Py_NewRef(object);
  // While it is held, a bytearray cannot be resized.
  if (PyObject_GetBuffer(argument, &buffer->memory, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0) {
    Py_DECREF(buffer);
    return NULL;
  }
  remora_code code = REMORA_INTERNAL;
  if (Begin(self)) {
    CALL(self, code,
         remora_buffer_register(self->client, buffer->memory.buf, (size_t)buffer->memory.len,
                                &buffer->buffer));
    if (code != REMORA_OK) Raise(code);
  }
  if (code != REMORA_OK) {
    PyBuffer_Release(&buffer->memory);
    Py_DECREF(buffer);
    return NULL;
  }
  buffer->owner = Py_NewRef(argument);
  buffer->next = self->buffers;
  self->buffers = buffer;
  return (PyObject*)buffer;
}

static PyObject* BufferGet(PyObject* object, PyObject* argument) {
  Buffer* const self = (Buffer*)object;
  if (self->buffer == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the buffer is released");
    return NULL;
  }
  Bytes key;
  if (!Take(argument, &key)) return NULL;
  PyObject* value = NULL;
  if (Begin(self->client)) {
    remora_code code;
    size_t size = 0;
    CALL(self->client, code,
         remora_get_into(self->client->client, key.data, (size_t)key.size, self->buffer, &size, NULL));
    if (code != REMORA_OK) {
      Raise(code);
    } else {
      PyObject* const whole = PyMemoryView_FromObject(self->owner);
      PyObject* const bytes = whole == NULL ? NULL : PyObject_CallMethod(whole, "cast", "s", "B");
      value = bytes == NULL ? NULL : PySequence_GetSlice(bytes, 0, (Py_ssize_t)size);
      Py_XDECREF(bytes);
      Py_XDECREF(whole);
    }
  }
  Release(&key);
  return value;
}

static PyObject* BufferPut(PyObject* object, PyObject* args, PyObject* kwargs) {
  Buffer* const self = (Buffer*)object;
  if (self->buffer == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the buffer is released");
    return NULL;
  }
  size_t size = 0;
  WriteArguments taken;
  if (!TakePutFromArguments(args, kwargs, &self->memory, &size, &taken)) return NULL;
  PyObject* version = NULL;
  if (Begin(self->client)) {
    remora_code code;
    CALL(self->client, code,
         remora_put_from(self->client->client, taken.key.data, (size_t)taken.key.size, self->buffer, 0, size,
                         &taken.wanted.options));
    version = code == REMORA_OK ? PyLong_FromUnsignedLongLong(taken.wanted.version) : Raise(code);
  }
  ReleaseArguments(&taken);
  return version;
}

static PyObject* BufferRelease(PyObject* object, PyObject* Py_UNUSED(none)) {
  Buffer* const self = (Buffer*)object;
  if (self->buffer != NULL && self->client->busy) {
    PyErr_SetString(PyExc_RuntimeError, "the client is in use by another thread");
    return NULL;
  }
  ReleaseBuffer(self);
  Py_RETURN_NONE;
}

static void BufferDealloc(PyObject* object) {
  Buffer* const self = (Buffer*)object;
  PyTypeObject* const type = Py_TYPE(object);
  ReleaseBuffer(self);
  Py_XDECREF((PyObject*)self->client);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

static PyMethodDef buffer_methods[] = {
    {"get", BufferGet, METH_O, "Reads the value into the memory; a view of it there. NotFound, OutOfRange."},
    {"put", WITH_KEYWORDS(BufferPut), METH_VARARGS | METH_KEYWORDS,
     "Stores the memory's first `size` bytes, without a copy; the version."},
    {"release", BufferRelease, METH_NOARGS, "Gives the memory back."},
    {"__enter__", Self, METH_NOARGS, NULL},
    {"__exit__", BufferRelease, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot buffer_slots[] = {
    {Py_tp_doc, "Memory that values are read into, and put from, without a copy; made by Client.register."},
    {Py_tp_dealloc, BufferDealloc},
    {Py_tp_methods, buffer_methods},
    {0, NULL},
};
PyType_Spec buffer_spec = {"remora.Buffer", sizeof(Buffer), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, buffer_slots};
