// Inside the extension module remora._remora: remora.h for Python, with the buffer protocol, and without the
// interpreter's lock while a call is in progress. remora/_remora.pyi says what it has.
//
// module.c makes the module; client.c with connect.c, many.c, counters.c and settings.c, visit.c, buffer.c,
// batch.c, scan.c, watch.c, async.c with async_drive.c, async_buffer.c and topology.c its types; arguments.c
// takes what Python gives.
#pragma once

#pragma GCC diagnostic ignored "-Wpedantic"  // Python's slots hold functions as void*
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <pthread.h>

#include "client/c/binding.h"
#include "client/c/remora.h"

// A scan, a watch or a buffer of a client: the part of its Python object that belongs to the client. The
// object may lose its last reference while a call of the client is in progress; then the handle ends behind
// that call.
typedef struct Handle {
  remora_scan* scan;      // or null
  remora_watch* watch;    // or null
  remora_buffer* buffer;  // or null
  Py_buffer memory;       // of the buffer; obj null: none is held
  int unused;             // its object is gone
  struct Handle* next;
} Handle;

typedef struct {
  PyObject ob_base;
  remora_client* client;  // null: closed
  Handle* handles;        // a list
  int has_unused;         // some of them are
  unsigned forks;         // as `forks` was when it connected
  int busy;               // a call is in progress, from Begin to End
  int stopping;           // no call may wait any more
  PyThreadState* thread;  // of that call, from the moment that it waits; else null
  int interrupted;        // a signal's handler has raised an exception in that call
} Client;

// Memory that an Async has registered.
typedef struct Registered {
  remora_buffer* buffer;
  Py_buffer memory;
  struct Registered* next;
} Registered;

typedef struct {
  PyObject ob_base;
  remora_async* async;  // null: closed
  PyObject* name;       // of the shard, for errors; or null
  PyObject* ended;      // a list, while remora_async_poll or _close is in progress
  int closing;          // poll closes it when it has ended
  unsigned forks;       // as `forks` was when it connected
  int showing;          // the function of a visit runs
  int attempting;       // from remora_async_begin_reconnect to _end_reconnect; meanwhile nothing is released
  int stopping;         // nothing may wait any more; read by the thread that does
  PyThread_type_lock lock;  // held by the attempt's thread
  Registered* released;     // list of buffers whose release waits
} Async;

typedef struct {
  PyObject ob_base;
  Async* client;
  Registered* held;   // null once released
  size_t operations;  // that use it
} AsyncBuffer;

extern PyType_Spec client_spec;
extern PyType_Spec cluster_spec;
extern PyType_Spec buffer_spec;
extern PyType_Spec view_spec;
extern PyType_Spec batch_spec;
extern PyType_Spec scan_spec;
extern PyType_Spec watch_spec;
extern PyType_Spec async_spec;
extern PyType_Spec async_buffer_spec;
extern PyType_Spec topology_spec;

// --- module.c -------------------------------------------------------------------------------------------

/// These enclose all uses of Python in a callback of remora.h. When the interpreter ends, it ends each thread
/// that takes its lock, before 3.14 by pthread_exit. That would unwind frames of remora.h, which do not
/// support it. So such a thread blocks for ever, as it does from 3.14 on.
#define BEGIN_IN_CALLBACK pthread_cleanup_push(StayForEver, NULL)
#define END_IN_CALLBACK pthread_cleanup_pop(0)
void StayForEver(void* none);

// --- arguments.c ----------------------------------------------------------------------------------------

/// Imports what Raise raises, what TakeTtl takes, change_type, backup_type and settings_of. False: an
/// exception is raised.
int ImportTypes(void);
/// Returns null, with the exception of the code raised, unless another is raised already.
PyObject* Raise(remora_code code);
/// Raises the code's exception with this message instead of remora_message. Returns null.
PyObject* RaiseWith(remora_code code, const char* message);
/// Returns the code's exception without raising it. Null: another exception is raised.
PyObject* ErrorOf(remora_code code, const char* message);
/// Returns the raised exception and clears it.
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
/// Takes a key or value as a converter for PyArg_Parse's "O&".
int TakeArgument(PyObject* object, void* bytes);

/// Converts seconds to milliseconds, rounded up, so that no span becomes 0; math.inf becomes -1. `what` names
/// the span in the error's text. Returns false if an exception is raised.
int TakeSeconds(PyObject* seconds, const char* what, int64_t* ms);
/// Takes an int of 0 or more. Returns false if an exception is raised.
int TakeUnsigned(PyObject* number, const char* what, unsigned long long* taken);
/// A number of bytes. False: an exception is raised.
int TakeSize(PyObject* size, const char* what, int64_t* bytes);
/// Changes options that remora_options_init has filled. Timeouts and `mirror` may be null; `cache` may be
/// None. False: an exception is raised.
int TakeClientOptions(PyObject* connect_timeout, PyObject* timeout, PyObject* cache, PyObject* mirror,
                      int reconnect, remora_options* options);
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
/// (key, size, *, ttl=None, condition=None, durability=None), of a memory's first bytes. As Take.
int TakePutFromArguments(PyObject* args, PyObject* kwargs, Py_ssize_t memory_size, size_t* size,
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

// A call runs between Begin and End. Its results are in memory of the client, so the binding makes Python
// objects of them before End. That may run the garbage collector, and so a finalizer. Begin rejects the calls
// of a finalizer until End.

/// Begins a call. Returns false if it may not begin; then an exception is raised.
int Begin(Client* self);
/// Ends the call, and all handles whose Python objects are gone.
void End(Client* self);
/// Returns whether no call is in progress; otherwise an exception is raised.
int IsFree(const Client* self);
/// Returns a new handle, empty so far. Null: an exception is raised.
Handle* AddHandle(Client* self);
/// Ends the handle, at once or after the call in progress.
void DropHandle(Client* self, Handle* handle);

/// Closes the client, which is in no call.
void CloseClient(Client* self);

/// Runs a call of remora.h without the interpreter's lock. Where a signal's handler has raised an exception,
/// the code is REMORA_CANCELLED.
#define CALL(self, code, call)            \
  do {                                    \
    (self)->thread = PyEval_SaveThread(); \
    code = call;                          \
    PyEval_RestoreThread((self)->thread); \
    if ((self)->interrupted) {            \
      (self)->interrupted = 0;            \
      code = REMORA_CANCELLED;            \
    }                                     \
  } while (0)

#define WITH_KEYWORDS(function) ((PyCFunction)(void (*)(void))(function))

/// Returns the object itself, as a method with METH_NOARGS.
PyObject* Self(PyObject* object, PyObject* none);

// --- connect.c ------------------------------------------------------------------------------------------

int ClientInit(PyObject* client, PyObject* args, PyObject* kwargs);
int ClusterInit(PyObject* client, PyObject* args, PyObject* kwargs);

// --- visit.c --------------------------------------------------------------------------------------------

/// Made of view_spec by module.c.
extern PyObject* view_type;

/// A visit of a value.
typedef struct {
  PyObject* function;
  // The function's last call has set one of these:
  PyObject* result;
  PyObject* error;
  int is_final;     // the error counts, whatever the call of remora.h ends with; no other call follows
  int has_escaped;  // somebody holds a buffer of the server's memory
} Visit;

/// (key, function). As Take; `function` is borrowed from the arguments.
int TakeVisitArguments(PyObject* args, PyObject* kwargs, Bytes* key, PyObject** function);
/// Calls the function with a view of the value. The caller has the interpreter's lock.
void ShowTo(Visit* visit, const char* value, Py_ssize_t size);
/// Returns the result of the function, if the call of remora.h has ended well. Null: an exception is raised.
PyObject* EndVisit(Visit* visit, remora_code code, const char* message);

PyObject* ClientVisit(PyObject* client, PyObject* args, PyObject* kwargs);
PyObject* ClientVisitVersioned(PyObject* client, PyObject* args, PyObject* kwargs);

// --- buffer.c -------------------------------------------------------------------------------------------

/// Made of buffer_spec by module.c.
extern PyObject* buffer_type;

PyObject* ClientRegister(PyObject* client, PyObject* memory);

// settings.c: a method of a client, and remora._types._settings_of.
extern PyObject* settings_of;
PyObject* ClientSettings(PyObject* client, PyObject* none);

// counters.c: methods of a client, and of an Async.
PyObject* AsyncMetrics(PyObject* async, PyObject* none);
PyObject* ClientStats(PyObject* client, PyObject* none);
PyObject* ClientCounters(PyObject* client, PyObject* none);
PyObject* ClientMetrics(PyObject* client, PyObject* none);

// --- async.c --------------------------------------------------------------------------------------------

/// Returns whether the client is open, and in no function of a visit; otherwise an exception is raised.
int IsOpen(const Async* self);
/// Raises the code's exception, with the shard's name where a server may be the reason. Returns null.
PyObject* RaiseOfAsync(const Async* self, remora_code code, const char* message);

// --- async_drive.c --------------------------------------------------------------------------------------

int AsyncInit(PyObject* async, PyObject* args, PyObject* kwargs);
void AsyncDealloc(PyObject* async);
PyObject* AsyncCancel(PyObject* async, PyObject* argument);
PyObject* AsyncBeginReconnect(PyObject* async, PyObject* none);
PyObject* AsyncReconnect(PyObject* async, PyObject* none);
PyObject* AsyncEndReconnect(PyObject* async, PyObject* none);
PyObject* AsyncStop(PyObject* async, PyObject* none);
PyObject* AsyncPlace(PyObject* async, PyObject* args);
PyObject* AsyncPoll(PyObject* async, PyObject* none);
PyObject* AsyncWaitSeconds(PyObject* async, PyObject* none);
PyObject* AsyncFileno(PyObject* async, PyObject* none);
PyObject* AsyncFreeSlots(PyObject* async, PyObject* none);
PyObject* AsyncIncarnation(PyObject* async, PyObject* none);
PyObject* AsyncClose(PyObject* async, PyObject* none);

// --- async_buffer.c -------------------------------------------------------------------------------------

/// Made of async_buffer_spec by module.c.
extern PyObject* async_buffer_type;

PyObject* AsyncRegister(PyObject* async, PyObject* memory);
/// Releases what was to be released while an attempt was in progress, or the function of a visit.
void EndReleased(Async* self);
/// Returns whether the object is a buffer that an operation may name; otherwise an exception is raised.
int IsRegistered(PyObject* object);

// --- topology.c -----------------------------------------------------------------------------------------

/// Made of topology_spec by module.c.
extern PyObject* topology_type;

typedef struct {
  PyObject ob_base;
  remora_topology* topology;  // null: not read
  remora_source* source;      // of the first one, which read it; else null
  PyObject* first;            // the first one of this source; null: this is it
  int stopping;               // of the first one: its reads wait no more
} Topology;

/// Returns the topology of a Topology that has this shard. Null: an exception is raised.
const remora_topology* TakeShard(PyObject* topology, Py_ssize_t shard);

// --- many.c ---------------------------------------------------------------------------------------------

PyObject* ClientGetMany(PyObject* client, PyObject* keys);
PyObject* ClientPutMany(PyObject* client, PyObject* args, PyObject* kwargs);

// --- batch.c --------------------------------------------------------------------------------------------

/// Made of batch_spec by module.c.
extern PyObject* batch_type;

typedef struct {
  PyObject ob_base;
  remora_batch* batch;
  size_t calls;  // that are in flight with it; until they have ended it does not change
} Batch;

/// Returns whether the object is a Batch; otherwise an exception is raised.
int IsBatch(PyObject* object);
/// (batch, *, durability=None). Null: an exception is raised. Borrowed from the arguments.
Batch* TakeBatchArguments(PyObject* args, PyObject* kwargs, Wanted* wanted);
PyObject* ClientApply(PyObject* client, PyObject* args, PyObject* kwargs);

// --- scan.c ---------------------------------------------------------------------------------------------

/// Made of scan_spec by module.c.
extern PyObject* scan_type;

PyObject* ClientScan(PyObject* client, PyObject* args, PyObject* kwargs);
PyObject* ClientIterate(PyObject* client);
PyObject* ClientKeys(PyObject* client, PyObject* none);
PyObject* ClientValues(PyObject* client, PyObject* none);
PyObject* ClientItems(PyObject* client, PyObject* none);
PyObject* ClientCount(PyObject* client, PyObject* args, PyObject* kwargs);
Py_ssize_t ClientLength(PyObject* client);
PyObject* ClientDeleteRange(PyObject* client, PyObject* args, PyObject* kwargs);
PyObject* ClientDeleteAll(PyObject* client, PyObject* none);

// --- watch.c --------------------------------------------------------------------------------------------

/// Made of watch_spec by module.c.
extern PyObject* watch_type;
/// remora._types.Change and Backup.
extern PyObject* change_type;
extern PyObject* backup_type;

PyObject* ClientWatch(PyObject* client, PyObject* args, PyObject* kwargs);
PyObject* ClientBackup(PyObject* client, PyObject* args, PyObject* kwargs);
