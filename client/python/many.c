// Many keys in one call.
#include "client/python/remora_python.h"

// Returns what the call reports of one key: a result or an Error. Null: an exception is raised.
typedef PyObject* (*OutcomeOf)(const remora_result* result);

static PyObject* ValueOf(const remora_result* result) {
  if (result->code == REMORA_NOT_FOUND) return Py_NewRef(Py_None);
  if (result->code != REMORA_OK) return ErrorOf(result->code, result->message);
  return PyBytes_FromStringAndSize(result->value.data, (Py_ssize_t)result->value.size);
}

static PyObject* VersionOf(const remora_result* result) {
  if (result->code != REMORA_OK) return ErrorOf(result->code, result->message);
  return PyLong_FromUnsignedLongLong(result->version);
}

// A list of what became of each key, or null, with an exception raised.
static PyObject* ListOf(const remora_result* results, Py_ssize_t count, OutcomeOf outcome_of) {
  PyObject* const list = PyList_New(count);
  for (Py_ssize_t i = 0; list != NULL && i < count; ++i) {
    PyObject* const outcome = outcome_of(&results[i]);
    if (outcome == NULL) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SetItem(list, i, outcome);
  }
  return list;
}

// Gives the error what became of each key. False: another exception is raised.
static int AddOutcomes(PyObject* error, PyObject* outcomes) {
  if (outcomes == NULL || PyObject_SetAttrString(error, "outcomes", outcomes) != 0) return 0;
  PyObject* const noted =
      PyObject_CallMethod(error, "add_note", "N",
                          PyUnicode_FromFormat("The attribute outcomes has what became of each of %zd keys.",
                                               PyList_Size(outcomes)));
  Py_XDECREF(noted);
  return noted != NULL;
}

// Raises the code's exception, with what became of each key. Returns null.
static PyObject* RaiseWithOutcomes(remora_code code, const char* message, const remora_result* results,
                                   Py_ssize_t count, OutcomeOf outcome_of) {
  // Without a message, the call failed before it wrote results.
  if (PyErr_Occurred() || count == 0 || results[count - 1].message == NULL) return RaiseWith(code, message);
  PyObject* const error = ErrorOf(code, message);
  if (error == NULL) return NULL;
  PyObject* const outcomes = ListOf(results, count, outcome_of);
  if (AddOutcomes(error, outcomes)) PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_XDECREF(outcomes);
  Py_DECREF(error);
  return NULL;
}

// The values. Null: an exception is raised, that of the call or else of the first key with an error.
static PyObject* EndGets(remora_code code, const remora_result* results, Py_ssize_t count) {
  if (code != REMORA_OK) return RaiseWithOutcomes(code, remora_message(), results, count, ValueOf);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (results[i].code == REMORA_OK || results[i].code == REMORA_NOT_FOUND) continue;
    return RaiseWithOutcomes(results[i].code, results[i].message, results, count, ValueOf);
  }
  return ListOf(results, count, ValueOf);
}

PyObject* ClientGetMany(PyObject* object, PyObject* argument) {
  Client* const self = (Client*)object;
  if (PyUnicode_Check(argument) || PyBytes_Check(argument) || PyByteArray_Check(argument)) {
    PyErr_Format(PyExc_TypeError, "get_many: a %S is one key, not many; pass a list of keys",
                 (PyObject*)Py_TYPE(argument));
    return NULL;
  }
  // Holds the keys for the duration of the call.
  PyObject* const sequence = PySequence_Tuple(argument);
  if (sequence == NULL) return NULL;
  const Py_ssize_t count = PyTuple_Size(sequence);
  Bytes* const taken = PyMem_Calloc((size_t)count + 1, sizeof(Bytes));
  remora_bytes* const keys = PyMem_Calloc((size_t)count + 1, sizeof(remora_bytes));
  remora_result* const results = PyMem_Calloc((size_t)count + 1, sizeof(remora_result));
  PyObject* list = NULL;
  Py_ssize_t good = 0;
  if (taken == NULL || keys == NULL || results == NULL) {
    PyErr_NoMemory();
  } else {
    while (good < count && Take(PyTuple_GetItem(sequence, good), &taken[good])) {
      keys[good].data = taken[good].data;
      keys[good].size = (size_t)taken[good].size;
      ++good;
    }
    if (good == count && Begin(self)) {
      remora_code code;
      CALL(self, code, remora_multi_get(self->client, keys, results, (size_t)count));
      list = EndGets(code, results, count);
      End(self);
    }
  }
  while (good > 0) Release(&taken[--good]);
  PyMem_Free(taken);
  PyMem_Free(keys);
  PyMem_Free(results);
  Py_DECREF(sequence);
  return list;
}

// --- Puts -----------------------------------------------------------------------------------------------

typedef struct {
  PyObject* pair;  // holds key and value
  Bytes key;
  Bytes value;
} Pair;

// Returns whether an object is a pair. A str or bytes of two characters is none, nor is a set or dict, which
// has no order or no values.
static int IsPair(PyObject* object) {
  return PySequence_Check(object) && !PyUnicode_Check(object) && !PyBytes_Check(object) &&
         !PyByteArray_Check(object) && !PyMemoryView_Check(object);
}

// False: an exception is raised, and nothing is held.
static int TakePair(PyObject* object, Pair* pair) {
  if (!IsPair(object)) {
    PyErr_Format(PyExc_TypeError, "put_many: a %S is no pair; pass tuples of key and value, or a mapping",
                 (PyObject*)Py_TYPE(object));
    return 0;
  }
  pair->pair = PySequence_Tuple(object);
  if (pair->pair == NULL) return 0;
  if (PyTuple_Size(pair->pair) != 2) {
    PyErr_Format(PyExc_ValueError, "put_many: a sequence of %zd is no pair; pass tuples of key and value",
                 PyTuple_Size(pair->pair));
  } else if (Take(PyTuple_GetItem(pair->pair, 0), &pair->key)) {
    if (Take(PyTuple_GetItem(pair->pair, 1), &pair->value)) return 1;
    Release(&pair->key);
  }
  Py_DECREF(pair->pair);
  return 0;
}

static void ReleasePair(Pair* pair) {
  Release(&pair->key);
  Release(&pair->value);
  Py_DECREF(pair->pair);
}

static PyObject* PutMany(Client* self, PyObject* sequence, const remora_write_options* options) {
  const Py_ssize_t count = PyTuple_Size(sequence);
  Pair* const taken = PyMem_Calloc((size_t)count + 1, sizeof(Pair));
  remora_put_request* const requests = PyMem_Calloc((size_t)count + 1, sizeof(remora_put_request));
  remora_result* const results = PyMem_Calloc((size_t)count + 1, sizeof(remora_result));
  PyObject* list = NULL;
  Py_ssize_t good = 0;
  if (taken == NULL || requests == NULL || results == NULL) {
    PyErr_NoMemory();
  } else {
    for (; good < count && TakePair(PyTuple_GetItem(sequence, good), &taken[good]); ++good) {
      const remora_put_request request = {{taken[good].key.data, (size_t)taken[good].key.size},
                                          {taken[good].value.data, (size_t)taken[good].value.size},
                                          options};
      requests[good] = request;
    }
    if (good == count && Begin(self)) {
      remora_code code;
      CALL(self, code, remora_multi_put(self->client, requests, results, (size_t)count));
      list = code == REMORA_OK ? ListOf(results, count, VersionOf)
                               : RaiseWithOutcomes(code, remora_message(), results, count, VersionOf);
      End(self);
    }
  }
  while (good > 0) ReleasePair(&taken[--good]);
  PyMem_Free(taken);
  PyMem_Free(requests);
  PyMem_Free(results);
  return list;
}

// The pairs as a tuple, those of a mapping as its items() are. Null: an exception is raised.
static PyObject* PairsOf(PyObject* object) {
  // Also where it is empty, and so no element would be rejected.
  if (PyUnicode_Check(object) || PyBytes_Check(object) || PyByteArray_Check(object)) {
    PyErr_Format(PyExc_TypeError,
                 "put_many: a %S is no list of pairs; pass tuples of key and value, or a mapping",
                 (PyObject*)Py_TYPE(object));
    return NULL;
  }
  if (!PyMapping_Check(object) || !PyObject_HasAttrString(object, "items")) return PySequence_Tuple(object);
  PyObject* const items = PyMapping_Items(object);
  PyObject* const pairs = items == NULL ? NULL : PySequence_Tuple(items);
  Py_XDECREF(items);
  return pairs;
}

PyObject* ClientPutMany(PyObject* object, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"pairs", "ttl", "condition", "durability", NULL};
  PyObject *pairs, *ttl = NULL, *condition = NULL, *durability = NULL;
  Wanted wanted;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOO", names, &pairs, &ttl, &condition, &durability) ||
      !TakeWanted(ttl, condition, durability, &wanted)) {
    return NULL;
  }
  wanted.options.version = NULL;
  PyObject* const sequence = PairsOf(pairs);
  if (sequence == NULL) return NULL;
  PyObject* const list = PutMany((Client*)object, sequence, &wanted.options);
  Py_DECREF(sequence);
  return list;
}
