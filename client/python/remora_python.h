// Inside the extension module remora._remora: remora.h for Python, with the buffer protocol, and without the
// interpreter's lock while a call is under way. remora/_remora.pyi says what it has.
//
// module.c makes the module; client.c, many.c, buffer.c, batch.c, scan.c, watch.c, async.c and async_buffer.c
// its types; arguments.c takes what Python gives.
#pragma once

#pragma GCC diagnostic ignored "-Wpedantic"  // Python's slots hold functions as void*
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "client/c/remora.h"

typedef struct Buffer Buffer;

// What of a client's own lives in an object beside it: a scan or a watch. The object may lose its last
// reference while a call is under way in another thread; then it ends with the next call, or with its client.
typedef struct Handle {
  remora_scan* scan;    // or null
  remora_watch* watch;  // or null
  int unused;           // its object is gone
  struct Handle* next;
} Handle;

typedef struct {
  PyObject ob_base;
  remora_client* client;  // null: closed
  Buffer* buffers;        // those that are registered, in a list
  Handle* handles;        // of scans and watches that have begun
  unsigned forks;         // as `forks` was when it connected
  int busy;               // a call is under way, maybe in another thread
} Client;

struct Buffer {
  PyObject ob_base;
  Client* client;
  remora_buffer* buffer;  // null: released
  PyObject* owner;        // of the memory
  Py_buffer memory;
  Buffer* next;
};

typedef struct {
  PyObject ob_base;
  remora_async* async;  // null: closed
  PyObject* ended;      // a list, while remora_async_poll or _close is under way
  unsigned forks;       // as `forks` was when it connected
} Async;

typedef struct {
  PyObject ob_base;
  Async* client;
  remora_buffer* buffer;  // null: released
  Py_buffer memory;
  size_t operations;  // that have it
} AsyncBuffer;

extern PyType_Spec client_spec;
extern PyType_Spec buffer_spec;
extern PyType_Spec batch_spec;
extern PyType_Spec scan_spec;
extern PyType_Spec watch_spec;
extern PyType_Spec async_spec;
extern PyType_Spec async_buffer_spec;

// --- arguments.c ----------------------------------------------------------------------------------------

/// Imports what Raise raises, what TakeTtl takes, and change_type and backup_type. False: an exception is
/// raised.
int ImportTypes(void);
/// Returns null, with the exception of the code raised.
PyObject* Raise(remora_code code);
/// The same with another message than remora_message.
PyObject* RaiseWith(remora_code code, const char* message);
/// The exception, not raised; null: another one is.
PyObject* ErrorOf(remora_code code, const char* message);
/// The exception that is raised, not raised any more.
PyObject* TakeRaised(void);

/// A key or value: the bytes of a str in UTF-8, or of whatever has the buffer protocol. Not copied.
typedef struct {
  const char* data;
  Py_ssize_t size;
  Py_buffer buffer;  // obj null: none is held
} Bytes;

/// Nothing needs to be released unless it returns 1; 0: an exception is raised.
int Take(PyObject* object, Bytes* bytes);
void Release(Bytes* bytes);
/// The same for PyArg_Parse's "O&".
int TakeArgument(PyObject* object, void* bytes);

/// Seconds, as milliseconds, rounded up, so that no span becomes none. False: an exception is raised.
int TakeSeconds(double seconds, int64_t* ms);
/// A number of bytes. False: an exception is raised.
int TakeSize(PyObject* size, int64_t* bytes);
/// `cache` may be None. False: an exception is raised.
int TakeClientOptions(double connect_timeout, double timeout, PyObject* cache, int reconnect,
                      const char* token, remora_options* options);
/// Seconds, or a remora.Until. None: the server's default; math.inf: for ever.
int TakeTtl(PyObject* ttl, int64_t* ms);

/// The options of a write, and the version that it got.
typedef struct {
  remora_write_options options;
  uint64_t version;
} Wanted;
/// None, or "memory", "logged", "synced". False: an exception is raised.
int TakeDurability(PyObject* durability, uint32_t* level);
/// All three may be null. False: an exception is raised.
int TakeWanted(PyObject* ttl, PyObject* condition, PyObject* durability, Wanted* wanted);

/// The arguments of a write.
typedef struct {
  Bytes key;
  Bytes value;  // empty where the write has none
  Wanted wanted;
} WriteArguments;
/// (key, value, *, ttl=None, condition=None, durability=None). As Take.
int TakePutArguments(PyObject* args, PyObject* kwargs, WriteArguments* taken);
/// (key, size, *, ttl=None, condition=None, durability=None), of the memory's first bytes. As Take.
int TakePutFromArguments(PyObject* args, PyObject* kwargs, const Py_buffer* memory, size_t* size,
                         WriteArguments* taken);
/// (key, *, condition=None, durability=None). As Take.
int TakeDeleteArguments(PyObject* args, PyObject* kwargs, WriteArguments* taken);
/// (key, delta=1, *, ttl=None, condition=None, durability=None). As Take.
int TakeIncrementArguments(PyObject* args, PyObject* kwargs, long long* delta, WriteArguments* taken);
/// (key, ttl, *, condition=None, durability=None). As Take; the ttl is that of the options.
int TakeTouchArguments(PyObject* args, PyObject* kwargs, WriteArguments* taken);
void ReleaseArguments(WriteArguments* taken);

// --- client.c -------------------------------------------------------------------------------------------

/// Forks of this process, since it was the parent's.
extern unsigned forks;

/// Whether a call may begin; else an exception is raised.
int Begin(Client* self);
/// Takes up what has begun. Null: an exception is raised, and it has ended.
Handle* AddHandle(Client* self, remora_scan* scan, remora_watch* watch);
/// Its object is gone.
void DropHandle(Client* self, Handle* handle);
/// Ends what nobody has any more, or all.
void EndUnused(Client* self, int all);

/// Runs a call of remora.h, without the interpreter's lock.
#define CALL(self, code, call)                           \
  do {                                                   \
    PyThreadState* const released = PyEval_SaveThread(); \
    code = call;                                         \
    PyEval_RestoreThread(released);                      \
    (self)->busy = 0;                                    \
  } while (0)

#define WITH_KEYWORDS(function) ((PyCFunction)(void (*)(void))(function))

/// Of METH_NOARGS.
PyObject* Self(PyObject* object, PyObject* none);

// --- buffer.c -------------------------------------------------------------------------------------------

/// Made of buffer_spec by module.c.
extern PyObject* buffer_type;

PyObject* ClientRegister(PyObject* client, PyObject* memory);
void ReleaseBuffer(Buffer* buffer);

// --- async.c --------------------------------------------------------------------------------------------

/// Whether it is; else an exception is raised.
int IsOpen(const Async* self);

// --- async_buffer.c -------------------------------------------------------------------------------------

/// Made of async_buffer_spec by module.c.
extern PyObject* async_buffer_type;

PyObject* AsyncRegister(PyObject* async, PyObject* memory);
/// Whether it is one that may be named by an operation; else an exception is raised.
int IsRegistered(PyObject* object);

// --- many.c ---------------------------------------------------------------------------------------------

PyObject* ClientGetMany(PyObject* client, PyObject* keys);
PyObject* ClientPutMany(PyObject* client, PyObject* args, PyObject* kwargs);

// --- batch.c --------------------------------------------------------------------------------------------

/// Made of batch_spec by module.c.
extern PyObject* batch_type;

/// (batch, *, durability=None). Null: an exception is raised.
remora_batch* TakeBatchArguments(PyObject* args, PyObject* kwargs, Wanted* wanted);
PyObject* ClientApply(PyObject* client, PyObject* args, PyObject* kwargs);

// --- scan.c ---------------------------------------------------------------------------------------------

/// Made of scan_spec by module.c.
extern PyObject* scan_type;

PyObject* ClientScan(PyObject* client, PyObject* args, PyObject* kwargs);
PyObject* ClientIterate(PyObject* client);
PyObject* ClientItems(PyObject* client, PyObject* none);
PyObject* ClientCount(PyObject* client, PyObject* args, PyObject* kwargs);
Py_ssize_t ClientLength(PyObject* client);
PyObject* ClientDeleteRange(PyObject* client, PyObject* args, PyObject* kwargs);
PyObject* ClientDropAll(PyObject* client, PyObject* none);

// --- watch.c --------------------------------------------------------------------------------------------

/// Made of watch_spec by module.c.
extern PyObject* watch_type;
/// remora._types.Change and Backup.
extern PyObject* change_type;
extern PyObject* backup_type;

PyObject* ClientWatch(PyObject* client, PyObject* args, PyObject* kwargs);
PyObject* ClientBackup(PyObject* client, PyObject* args, PyObject* kwargs);
