// Visits of values where they are, and the type remora.View.
#include <string.h>

#include "client/python/remora_python.h"

PyObject* view_type;

// --- View -----------------------------------------------------------------------------------------------

typedef struct View {
  PyObject ob_base;
  struct View* whole;  // the view that this one is a part of; null: of none
  const char* bytes;
  Py_ssize_t size;
  // These are of a view that is no part:
  PyObject* copy;      // a bytes object with the value; null: the value is in the server's memory
  Py_ssize_t buffers;  // of it and its parts that are held
  int has_ended;       // the function has returned
} View;

static View* WholeOf(View* self) { return self->whole != NULL ? self->whole : self; }

// Returns whether its bytes may be read. If not, an exception is raised.
static int IsShown(View* self) {
  if (!WholeOf(self)->has_ended) return 1;
  PyErr_SetString(PyExc_ValueError, "the visit of this value is over: copy it with bytes() before");
  return 0;
}

static View* NewView(const char* bytes, Py_ssize_t size) {
  View* const view = (View*)PyType_GenericAlloc((PyTypeObject*)view_type, 0);
  if (view == NULL) return NULL;
  view->bytes = bytes;
  view->size = size;
  return view;
}

// A view of the value, of a copy of it unless it is where the server has it. Null: an exception is raised.
static View* ViewOf(const char* value, Py_ssize_t size) {
  if (remora_visit_is_in_place(value)) return NewView(value, size);
  PyObject* const copy = PyBytes_FromStringAndSize(value, size);
  View* const view = copy == NULL ? NULL : NewView(PyBytes_AsString(copy), size);
  if (view == NULL) {
    Py_XDECREF(copy);
  } else {
    view->copy = copy;
  }
  return view;
}

static void ViewDealloc(PyObject* object) {
  View* const self = (View*)object;
  PyTypeObject* const type = Py_TYPE(object);
  Py_XDECREF((PyObject*)self->whole);
  Py_XDECREF(self->copy);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

static int ViewGetBuffer(PyObject* object, Py_buffer* buffer, int flags) {
  View* const self = (View*)object;
  buffer->obj = NULL;
  if (!IsShown(self) || PyBuffer_FillInfo(buffer, object, (void*)self->bytes, self->size, 1, flags) != 0) {
    return -1;
  }
  ++WholeOf(self)->buffers;
  return 0;
}

static void ViewReleaseBuffer(PyObject* object, Py_buffer* Py_UNUSED(buffer)) {
  --WholeOf((View*)object)->buffers;
}

static Py_ssize_t ViewLength(PyObject* object) { return ((View*)object)->size; }

static PyObject* ViewItem(PyObject* object, Py_ssize_t index) {
  View* const self = (View*)object;
  if (!IsShown(self)) return NULL;
  if (index < 0 || index >= self->size) {
    PyErr_SetString(PyExc_IndexError, "view index out of range");
    return NULL;
  }
  return PyLong_FromLong((unsigned char)self->bytes[index]);
}

static PyObject* ViewPart(View* self, PyObject* slice) {
  Py_ssize_t start, stop, step;
  if (PySlice_Unpack(slice, &start, &stop, &step) != 0) return NULL;
  if (step != 1) {
    PyErr_SetString(PyExc_ValueError, "view: a slice with a step; take bytes() of the view first");
    return NULL;
  }
  const Py_ssize_t size = PySlice_AdjustIndices(self->size, &start, &stop, step);
  View* const part = IsShown(self) ? NewView(self->bytes + start, size) : NULL;
  if (part != NULL) part->whole = (View*)Py_NewRef((PyObject*)WholeOf(self));
  return (PyObject*)part;
}

static PyObject* ViewSubscript(PyObject* object, PyObject* index) {
  if (PySlice_Check(index)) return ViewPart((View*)object, index);
  const Py_ssize_t number = PyNumber_AsSsize_t(index, PyExc_IndexError);
  if (number == -1 && PyErr_Occurred()) return NULL;
  return ViewItem(object, number < 0 ? number + ((View*)object)->size : number);
}

static PyObject* ViewCompare(PyObject* object, PyObject* other, int operator) {
  View* const self = (View*)object;
  if (operator!= Py_EQ && operator!= Py_NE) Py_RETURN_NOTIMPLEMENTED;
  if (!IsShown(self)) return NULL;
  if (!PyObject_CheckBuffer(other)) Py_RETURN_NOTIMPLEMENTED;
  Py_buffer buffer;
  if (PyObject_GetBuffer(other, &buffer, PyBUF_SIMPLE) != 0) return NULL;
  // Taking it may have run code of the other object.
  const int is_shown = IsShown(self);
  const int is_equal =
      is_shown && buffer.len == self->size && memcmp(buffer.buf, self->bytes, (size_t)self->size) == 0;
  PyBuffer_Release(&buffer);
  if (!is_shown) return NULL;
  return PyBool_FromLong(is_equal == (operator== Py_EQ));
}

static PyObject* ViewToBytes(PyObject* object, PyObject* Py_UNUSED(none)) {
  View* const self = (View*)object;
  return IsShown(self) ? PyBytes_FromStringAndSize(self->bytes, self->size) : NULL;
}

static PyMethodDef view_methods[] = {
    {"tobytes", ViewToBytes, METH_NOARGS, "A copy of the bytes, as bytes(view)."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot view_slots[] = {
    {Py_tp_doc,
     "A value where it is, for the function of Client.visit, until it returns. It has the buffer protocol.\n"
     "A slice of it is a view, too. Afterwards both raise ValueError."},
    {Py_tp_dealloc, ViewDealloc},
    {Py_tp_methods, view_methods},
    {Py_tp_richcompare, ViewCompare},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_sq_length, ViewLength},
    {Py_sq_item, ViewItem},
    {Py_mp_length, ViewLength},
    {Py_mp_subscript, ViewSubscript},
    {Py_bf_getbuffer, ViewGetBuffer},
    {Py_bf_releasebuffer, ViewReleaseBuffer},
    {0, NULL},
};
PyType_Spec view_spec = {"remora.View", sizeof(View), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, view_slots};

// --- Visit ----------------------------------------------------------------------------------------------

// Takes the raised exception, with its traceback.
static PyObject* TakeTraced(void) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  if (trace != NULL) PyException_SetTraceback(error, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return error;
}

// Raises it as it was: with its traceback and context.
static void RaiseTaken(PyObject* error) {
  PyErr_Restore(Py_NewRef((PyObject*)Py_TYPE(error)), error, PyException_GetTraceback(error));
}

// Ends with this error, whatever else may happen.
static void EndWith(Visit* visit, PyObject* error) {
  visit->error = error;
  visit->is_final = 1;
}

// Calls a function of a module with an argument, or with none where that is null, for its effect.
static void Run(const char* module_name, const char* function, PyObject* argument) {
  PyObject* const module = PyImport_ImportModule(module_name);
  PyObject* const result = module == NULL     ? NULL
                           : argument == NULL ? PyObject_CallMethod(module, function, NULL)
                                              : PyObject_CallMethod(module, function, "O", argument);
  if (result == NULL) PyErr_Clear();  // then it has none
  Py_XDECREF(result);
  Py_XDECREF(module);
}

// Clears the local variables of the functions that the exception came through.
static void ClearFrames(PyObject* error) {
  PyObject* const trace = PyException_GetTraceback(error);
  if (trace != NULL) Run("traceback", "clear_frames", trace);
  Py_XDECREF(trace);
}

// Runs the collector, also where the program has disabled it.
static void CollectGarbage(void) { Run("gc", "collect", NULL); }

// Sees to it that nobody reads the value any more through a buffer of the view, a memoryview for instance.
static void EndBuffers(Visit* visit, View* view) {
  if (visit->error != NULL) ClearFrames(visit->error);
  if (view->buffers > 0) CollectGarbage();
  if (view->buffers == 0) return;  // the function's variables had them
  Py_CLEAR(visit->result);
  if (view->buffers > 0) CollectGarbage();
  const char* why = "visit: the function returned a buffer of the value; copy it with bytes()";
  if (view->buffers > 0 && view->copy == NULL) {
    remora_keep_addresses(view->bytes);
    visit->has_escaped = 1;
    why =
        "visit: a buffer of the value is still held, and the client is closed; release it, or copy the value";
  } else if (view->buffers > 0) {
    why = "visit: a buffer of the value is still held; release it, or copy the value";
  }
  if (visit->is_final) return;
  PyErr_SetString(PyExc_BufferError, why);
  PyObject* const error = TakeTraced();
  if (visit->error != NULL) PyException_SetContext(error, visit->error);  // which it takes
  EndWith(visit, error);
}

void ShowTo(Visit* visit, const char* value, Py_ssize_t size) {
  if (visit->is_final) return;
  Py_CLEAR(visit->result);
  Py_CLEAR(visit->error);
  View* const view = ViewOf(value, size);
  if (view == NULL) {
    EndWith(visit, TakeTraced());
    return;
  }
  visit->result = PyObject_CallFunctionObjArgs(visit->function, (PyObject*)view, (PyObject*)NULL);
  if (visit->result == NULL) {
    PyObject* const error = TakeTraced();
    if (PyErr_GivenExceptionMatches(error, PyExc_Exception)) {
      visit->error = error;
    } else {
      EndWith(visit, error);  // KeyboardInterrupt, SystemExit
    }
  }
  view->has_ended = 1;
  if (view->buffers > 0) EndBuffers(visit, view);
  Py_DECREF((PyObject*)view);
}

PyObject* EndVisit(Visit* visit, remora_code code, const char* message) {
  PyObject* const result = visit->result;
  PyObject* const error = visit->error;
  visit->result = NULL;
  visit->error = NULL;
  if (PyErr_Occurred()) {  // of a signal's handler
    Py_XDECREF(error);
  } else if (error != NULL && (visit->is_final || code == REMORA_OK)) {
    RaiseTaken(error);
  } else if (code != REMORA_OK) {
    PyObject* const failure = ErrorOf(code, message);
    if (failure == NULL) {
      Py_XDECREF(error);
    } else {
      if (error != NULL) PyException_SetContext(failure, error);  // which it takes
      RaiseTaken(failure);
    }
  } else {
    return result;
  }
  Py_XDECREF(result);
  return NULL;
}

int TakeVisitArguments(PyObject* args, PyObject* kwargs, Bytes* key, PyObject** function) {
  static char* names[] = {"key", "function", NULL};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O", names, TakeArgument, key, function)) return 0;
  if (PyCallable_Check(*function)) return 1;
  Release(key);
  PyErr_Format(PyExc_TypeError, "visit: a %S cannot be called; pass a function of one argument",
               (PyObject*)Py_TYPE(*function));
  return 0;
}

// --- Visits of a client that blocks ---------------------------------------------------------------------

typedef struct {
  Visit visit;
  Client* client;
} ClientsVisit;

static void Show(void* context, const void* value, size_t size) {
  ClientsVisit* const it = context;
  BEGIN_IN_CALLBACK;
  PyEval_RestoreThread(it->client->thread);
  if (!it->client->interrupted) ShowTo(&it->visit, value, (Py_ssize_t)size);
  if (it->visit.is_final) it->client->interrupted = 1;  // so the call waits for nothing any more
  PyEval_SaveThread();
  END_IN_CALLBACK;
}

static PyObject* VisitKey(Client* self, PyObject* args, PyObject* kwargs, uint64_t* version) {
  Bytes key;
  ClientsVisit it = {{NULL, NULL, NULL, 0, 0}, self};
  if (!TakeVisitArguments(args, kwargs, &key, &it.visit.function)) return NULL;
  PyObject* result = NULL;
  if (Begin(self)) {
    Py_INCREF(it.visit.function);
    self->thread = PyEval_SaveThread();
    const remora_code code = remora_visit(self->client, key.data, (size_t)key.size, Show, &it, version);
    PyEval_RestoreThread(self->thread);
    self->interrupted = 0;
    result = EndVisit(&it.visit, code, remora_message());
    End(self);
    Py_DECREF(it.visit.function);
  }
  Release(&key);
  // The buffer reads as zeros once the client is closed, and never as bytes that the server puts there.
  if (it.visit.has_escaped) CloseClient(self);
  return result;
}

PyObject* ClientVisit(PyObject* object, PyObject* args, PyObject* kwargs) {
  return VisitKey((Client*)object, args, kwargs, NULL);
}

PyObject* ClientVisitVersioned(PyObject* object, PyObject* args, PyObject* kwargs) {
  uint64_t version = 0;
  PyObject* const result = VisitKey((Client*)object, args, kwargs, &version);
  return result == NULL ? NULL : Py_BuildValue("NK", result, (unsigned long long)version);
}
