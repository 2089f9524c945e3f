// The type remora.Buffer.
#include "client/python/remora_python.h"

PyObject* buffer_type;

typedef struct {
  PyObject ob_base;
  Client* client;
  Handle* handle;   // null: released
  PyObject* owner;  // of the memory
} Buffer;

PyObject* ClientRegister(PyObject* object, PyObject* argument) {
  Client* const self = (Client*)object;
  Buffer* const buffer = (Buffer*)PyType_GenericAlloc((PyTypeObject*)buffer_type, 0);
  if (buffer == NULL) return NULL;
  buffer->client = (Client*)Py_NewRef(object);
  buffer->handle = AddHandle(self);
  remora_code code = REMORA_CANCELLED;
  // While its memory is held, a bytearray cannot be resized.
  if (buffer->handle != NULL &&
      PyObject_GetBuffer(argument, &buffer->handle->memory, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) == 0 &&
      Begin(self)) {
    const Py_buffer* const memory = &buffer->handle->memory;
    CALL(self, code,
         remora_buffer_register(self->client, memory->buf, (size_t)memory->len, &buffer->handle->buffer));
    if (code != REMORA_OK) Raise(code);
    End(self);
  }
  if (code != REMORA_OK) {
    Py_DECREF(buffer);
    return NULL;
  }
  buffer->owner = Py_NewRef(argument);
  return (PyObject*)buffer;
}

// Whether it is not released; else an exception is raised.
static int IsHeld(const Buffer* self) {
  if (self->handle != NULL) return 1;
  PyErr_SetString(PyExc_RuntimeError, "the buffer is released");
  return 0;
}

// A view of the memory's first `size` bytes. Null: an exception is raised.
static PyObject* ViewOf(PyObject* owner, size_t size) {
  PyObject* const whole = PyMemoryView_FromObject(owner);
  PyObject* const bytes = whole == NULL ? NULL : PyObject_CallMethod(whole, "cast", "s", "B");
  PyObject* const view = bytes == NULL ? NULL : PySequence_GetSlice(bytes, 0, (Py_ssize_t)size);
  Py_XDECREF(bytes);
  Py_XDECREF(whole);
  return view;
}

static PyObject* BufferGet(PyObject* object, PyObject* argument) {
  Buffer* const self = (Buffer*)object;
  Bytes key;
  if (!Take(argument, &key)) return NULL;
  PyObject* value = NULL;
  if (IsHeld(self) && Begin(self->client)) {
    remora_code code;
    size_t size = 0;
    CALL(
        self->client, code,
        remora_get_into(self->client->client, key.data, (size_t)key.size, self->handle->buffer, &size, NULL));
    value = code == REMORA_OK ? ViewOf(self->owner, size) : Raise(code);
    End(self->client);
  }
  Release(&key);
  return value;
}

static PyObject* BufferPut(PyObject* object, PyObject* args, PyObject* kwargs) {
  Buffer* const self = (Buffer*)object;
  size_t size = 0;
  WriteArguments taken;
  if (!IsHeld(self) || !TakePutFromArguments(args, kwargs, self->handle->memory.len, &size, &taken)) {
    return NULL;
  }
  PyObject* version = NULL;
  if (IsHeld(self) && Begin(self->client)) {  // taking the arguments may have run code that released it
    remora_code code;
    CALL(self->client, code,
         remora_put_from(self->client->client, taken.key.data, (size_t)taken.key.size, self->handle->buffer,
                         0, size, &taken.wanted.options));
    version = code == REMORA_OK ? PyLong_FromUnsignedLongLong(taken.wanted.version) : Raise(code);
    End(self->client);
  }
  ReleaseArguments(&taken);
  return version;
}

static void ReleaseBuffer(Buffer* self) {
  if (self->handle == NULL) return;
  Handle* const handle = self->handle;
  self->handle = NULL;
  DropHandle(self->client, handle);
  Py_CLEAR(self->owner);
}

static PyObject* BufferRelease(PyObject* object, PyObject* Py_UNUSED(none)) {
  Buffer* const self = (Buffer*)object;
  if (self->handle != NULL && !IsFree(self->client)) return NULL;
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
