// The settings of the server, as a list of remora.Setting.
#include <string.h>

#include "client/python/remora_python.h"

PyObject* settings_of;

PyObject* ClientSettings(PyObject* object, PyObject* Py_UNUSED(none)) {
  Client* const self = (Client*)object;
  if (!Begin(self)) return NULL;
  remora_code code;
  const char* json = NULL;
  CALL(self, code, remora_settings(self->client, &json));
  PyObject* const text =
      code == REMORA_OK ? PyUnicode_DecodeUTF8(json, (Py_ssize_t)strlen(json), "replace") : Raise(code);
  End(self);
  if (text == NULL) return NULL;
  PyObject* const settings = PyObject_CallFunctionObjArgs(settings_of, text, (PyObject*)NULL);
  Py_DECREF(text);
  return settings;
}
