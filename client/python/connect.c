// Connecting a client, to one server or to the servers of a cluster.
#include "client/python/remora_python.h"

// Runs the handlers of signals that came while the call waits. If one raises an exception, the call ends.
static int IsInterrupted(void* context) {
  Client* const self = context;
  BEGIN_IN_CALLBACK;
  PyEval_RestoreThread(self->thread);
  self->interrupted = self->interrupted || PyErr_CheckSignals() != 0;
  PyEval_SaveThread();
  END_IN_CALLBACK;
  return self->interrupted || self->stopping;
}

// Connects to the server at `to`, or to the servers of the topology file `to`. Returns as a tp_init does.
static int Connect(Client* self, const char* to, int is_cluster, const remora_options* options) {
  if (self->client != NULL || self->busy) {
    PyErr_SetString(PyExc_RuntimeError, "the client is connected already");
    return -1;
  }
  self->busy = 1;
  self->forks = forks;
  remora_code code;
  remora_client* client = NULL;
  if (is_cluster) {
    CALL(self, code, remora_connect_cluster_interruptible(to, options, IsInterrupted, self, &client));
  } else {
    CALL(self, code, remora_connect_interruptible(to, options, IsInterrupted, self, &client));
  }
  End(self);
  if (code != REMORA_OK) {
    remora_close(client);
    Raise(code);
    return -1;
  }
  self->client = client;
  return 0;
}

static int Init(Client* self, PyObject* args, PyObject* kwargs, int is_cluster) {
  char* names[] = {is_cluster ? "topology" : "address",
                   "connect_timeout",
                   "timeout",
                   "location_cache_bytes",
                   "reconnect",
                   "scan_window_bytes",
                   "token",
                   "tls_ca",
                   "tls_cert",
                   "tls_key",
                   "metrics",
                   "index_mirror_bytes",
                   NULL};
  const char* address = NULL;
  PyObject* path = NULL;
  PyObject *connect_timeout = NULL, *timeout = NULL, *cache = Py_None, *window = Py_None, *mirror = NULL;
  int reconnect = 1, metrics = 0;
  remora_options options;
  remora_options_init(&options);
  const int is_parsed =
      is_cluster ? PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$OOOpOzzzzpO", names, PyUnicode_FSConverter,
                                               &path, &connect_timeout, &timeout, &cache, &reconnect, &window,
                                               &options.token, &options.tls_ca, &options.tls_cert,
                                               &options.tls_key, &metrics, &mirror)
                 : PyArg_ParseTupleAndKeywords(args, kwargs, "s|$OOOpOzzzzpO", names, &address,
                                               &connect_timeout, &timeout, &cache, &reconnect, &window,
                                               &options.token, &options.tls_ca, &options.tls_cert,
                                               &options.tls_key, &metrics, &mirror);
  if (!is_parsed) return -1;
  int result = -1;
  if (TakeClientOptions(connect_timeout, timeout, cache, mirror, reconnect, &options) &&
      (window == Py_None || TakeSize(window, "scan_window_bytes", &options.scan_window_bytes))) {
    options.metrics = metrics != 0;
    result = Connect(self, is_cluster ? PyBytes_AsString(path) : address, is_cluster, &options);
  }
  Py_XDECREF(path);
  return result;
}

int ClientInit(PyObject* object, PyObject* args, PyObject* kwargs) {
  return Init((Client*)object, args, kwargs, 0);
}

int ClusterInit(PyObject* object, PyObject* args, PyObject* kwargs) {
  return Init((Client*)object, args, kwargs, 1);
}
