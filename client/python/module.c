// The module remora._remora.
#include <pthread.h>
#include <unistd.h>

#include "client/python/remora_python.h"

void StayForEver(void* Py_UNUSED(none)) {
  for (;;) pause();
}

static void CountFork(void) { ++forks; }

static int AddNumber(PyObject* module, const char* name, uint64_t number) {
  PyObject* const object = PyLong_FromUnsignedLongLong(number);
  const int added = object != NULL && PyModule_AddObjectRef(module, name, object) == 0;
  Py_XDECREF(object);
  return added;
}

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, "remora._remora", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__remora(void) {
  PyObject* const module = PyModule_Create(&module_def);
  if (module == NULL) return NULL;
  remora_share_no_mappings();  // a buffer that is kept of a visit reads as zeros once its client is closed
  PyObject* const client_type = PyType_FromSpec(&client_spec);
  PyObject* const cluster_type = PyType_FromSpec(&cluster_spec);
  buffer_type = PyType_FromSpec(&buffer_spec);
  view_type = PyType_FromSpec(&view_spec);
  batch_type = PyType_FromSpec(&batch_spec);
  scan_type = PyType_FromSpec(&scan_spec);
  watch_type = PyType_FromSpec(&watch_spec);
  PyObject* const async_type = PyType_FromSpec(&async_spec);
  async_buffer_type = PyType_FromSpec(&async_buffer_spec);
  topology_type = PyType_FromSpec(&topology_spec);
  if (client_type == NULL || cluster_type == NULL || buffer_type == NULL || view_type == NULL ||
      batch_type == NULL || scan_type == NULL || watch_type == NULL || async_type == NULL ||
      async_buffer_type == NULL || topology_type == NULL ||
      PyModule_AddObjectRef(module, "Async", async_type) != 0 ||
      PyModule_AddObjectRef(module, "Topology", topology_type) != 0 ||
      PyModule_AddObjectRef(module, "AsyncBuffer", async_buffer_type) != 0 || !ImportTypes() ||
      PyModule_AddObjectRef(module, "Client", client_type) != 0 ||
      PyModule_AddObjectRef(module, "ClusterClient", cluster_type) != 0 ||
      PyModule_AddObjectRef(module, "Buffer", buffer_type) != 0 ||
      PyModule_AddObjectRef(module, "View", view_type) != 0 ||
      PyModule_AddObjectRef(module, "Batch", batch_type) != 0 ||
      PyModule_AddObjectRef(module, "Scan", scan_type) != 0 ||
      PyModule_AddObjectRef(module, "Watch", watch_type) != 0 ||
      PyModule_AddStringConstant(module, "__version__", remora_version()) != 0 ||
      !AddNumber(module, "ABSENT", REMORA_IF_ABSENT) || !AddNumber(module, "PRESENT", REMORA_IF_PRESENT)) {
    Py_DECREF(module);
    return NULL;
  }
  Py_DECREF(client_type);
  Py_DECREF(cluster_type);
  Py_DECREF(async_type);
  pthread_atfork(NULL, NULL, CountFork);
  return module;
}
