/* Remora's client for C99, and for every language that can call C.
 *
 *   remora_client *client;
 *   if (remora_connect("local:///run/remora.sock", NULL, &client) != REMORA_OK)
 *     errx(1, "%s", remora_message());
 *   remora_put(client, "key", 3, "value", 5, NULL);
 *   const void *value;
 *   size_t size;
 *   if (remora_get(client, "key", 3, &value, &size, NULL) == REMORA_OK) fwrite(value, 1, size, stdout);
 *   remora_close(client);
 *
 * Outcomes: a function that returns a remora_code reports its outcome so. The comment of each function
 * lists its own outcomes. Each may also end with those that remora_code marks with "any call".
 * remora_message returns the reason in words when the code is not REMORA_OK. A call writes through the
 * caller's pointers only if it ends with REMORA_OK, unless its comment says otherwise. No exception passes
 * this interface.
 *
 * Threads: one thread at a time may use a client and its buffers; different clients are independent. If
 * two threads are in calls of one client at once, the process ends with a message. Threads that work in
 * parallel have one client each: clients share nothing, and no call takes a lock. If a thread is cancelled
 * (pthread_cancel(3)) or ends itself inside a call, the process ends.
 *
 * Processes: in a child of fork(2), each call with a client of the parent ends with
 * REMORA_FAILED_PRECONDITION. (To the server both would be the same client.) The child must not close that
 * client either; it connects anew.
 *
 * Later versions add functions, codes, and fields at the end of structs. They change no existing ones. */
#ifndef REMORA_H
#define REMORA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum remora_code {
  REMORA_OK = 0,        /* the call did its work */
  REMORA_NOT_FOUND = 1, /* the key does not exist */
  /* Any call: a key, value or time to live is out of bounds. The client sent nothing. */
  REMORA_INVALID_ARGUMENT = 2,
  /* Any call: the server is gone, or the connection broke and the client got no other one within
   * timeout_ms. A write that was in flight may or may not have been done. The next call tries to connect
   * again. */
  REMORA_UNAVAILABLE = 3,
  /* Any call: the server did not answer in time. The rest as for REMORA_UNAVAILABLE. */
  REMORA_DEADLINE_EXCEEDED = 4,
  /* The server has no space; or, in any call, this process is out of memory. The call did nothing. */
  REMORA_RESOURCE_EXHAUSTED = 5,
  REMORA_OUT_OF_RANGE = 6,
  REMORA_PERMISSION_DENIED = 7,
  REMORA_FAILED_PRECONDITION = 8, /* no way to reach the server; or a write's condition fails */
  REMORA_ALREADY_EXISTS = 9,
  /* The payload of a write arrived damaged, or the server's record of the key on its disk is damaged. The
   * call did nothing. */
  REMORA_DATA_LOSS = 10,
  REMORA_UNIMPLEMENTED = 11,
  /* A fault of Remora itself. */
  REMORA_INTERNAL = 12,
  REMORA_ABORTED = 13, /* the server has given up a scan of one moment */
  /* Any write: its answer was lost with the connection, and the server behind the next connection cannot
   * tell whether the write was done, once or not at all. Either that server was restarted without a
   * durable tier, or it forgot this client. */
  REMORA_UNKNOWN = 14,
  REMORA_CANCELLED = 15 /* an operation of a remora_async was cancelled */
} remora_code;

/* Returns the code's name, such as "NOT_FOUND"; for any other number, "UNKNOWN". The string is static. */
const char* remora_code_name(remora_code code);

/* Returns the reason why this thread's last failed call did not end with REMORA_OK. Never null. The string
 * is valid until this thread's next failed call. */
const char* remora_message(void);

/* Returns the version of the library that runs, not of this header: "0.1.0". The string is static. */
const char* remora_version(void);

/* --- Connecting ----------------------------------------------------------------------------------------- */

/* A client of one server, with a connection to it; or of a cluster, with one to the server of each shard. */
typedef struct remora_client remora_client;

/* Options of a client. Fill them with remora_options_init, then change some. */
typedef struct remora_options {
  size_t struct_size;
  uint32_t connect_timeout_ms; /* default: 5000 */
  uint32_t timeout_ms;         /* of each later call, or of each piece of a large value; default: 5000 */
  /* Size in bytes of the cache that remembers where the client found or put keys: 16 bytes for each key.
   * 0: no cache. Negative, the default: no cache through mapped memory, 8 MiB over verbs and TCP. At most
   * 64 GiB, and what there is memory for (REMORA_RESOURCE_EXHAUSTED). */
  int64_t location_cache_bytes;
  /* Size in bytes of the window for pages of scans and watches, which the client first touches at the
   * first one. 0: no scans and watches. Negative, the default: 512 KiB. */
  int64_t scan_window_bytes;
  /* 1, the default: a call that finds the connection broken makes another one, within timeout_ms, and
   * continues there. Then a write either is done once, or ends with REMORA_UNAVAILABLE,
   * REMORA_DEADLINE_EXCEEDED or REMORA_UNKNOWN and was done once or not at all. 0: the first connection is
   * the only one. After REMORA_UNAVAILABLE or REMORA_DEADLINE_EXCEEDED all calls fail. */
  uint32_t reconnect;
  /* 1: the client records the times of its calls, for remora_client_metrics. Each call then reads the clock
   * twice. 0, the default: it does not. remora_async_metrics reads those of a remora_async. */
  uint32_t metrics;
  /* Auth token, for a server that requires one: the line that `kvctl create_token` printed, or the secret in
   * it. Null, the default: no token. */
  const char* token;
  /* Files in PEM format for a tls:// address, where all bytes are encrypted (TLS 1.3). By name: tls_ca has
   * the certificates of the authorities that may have signed the server's certificate. That one must be
   * valid for the host of the address. tls_cert and tls_key are the client's own, for a server that asks for
   * one. Null, the default: none. Without tls_ca, both sides derive the keys from the auth token. Each
   * connection reads the files anew. */
  const char* tls_ca;
  const char* tls_cert;
  const char* tls_key;
  /* Size in bytes of a copy of the server's index: 8 to 16 bytes for each key of the store. With it, a get of
   * any key is one READ, also the first one; the client READs the index when it connects. Clients of a
   * process that name the same address and the same size share a copy, which the first of them READs. 0, the
   * default: no copy. At most 64 GiB, and what there is memory for (REMORA_RESOURCE_EXHAUSTED). */
  int64_t index_mirror_bytes;
} remora_options;

/* Fills the options with their defaults. */
void remora_options_init(remora_options* options);

/* Connects to a server at verbs://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or local:///PATH, or at the
 * first that serves of several such addresses with commas between them (see remora(7)). Null
 * `options` stand for the defaults. On REMORA_OK the caller owns *client and ends it with remora_close.
 * Outcomes:
 *   REMORA_INVALID_ARGUMENT: the address, the token or a file for TLS is malformed; or one side speaks TLS,
 *     and the other does not.
 *   REMORA_UNAVAILABLE: the host does not exist, or no server listens there.
 *   REMORA_PERMISSION_DENIED: the local server belongs to another user, or the token is missing or wrong;
 *     or one side does not accept the TLS certificate of the other.
 *   REMORA_FAILED_PRECONDITION: no RDMA device reaches the server; or the server rejected it, because its
 *     version differs or it is full.
 *   REMORA_DEADLINE_EXCEEDED: connect_timeout_ms is over.
 *   REMORA_RESOURCE_EXHAUSTED: the process may not lock enough memory. */
remora_code remora_connect(const char* address, const remora_options* options, remora_client** client);

/* Connects to the servers of a cluster, whose topology file has the path `topology` (docs/guide/cluster.md).
 * `topology` may also be cluster://HOST:PORT[,HOST:PORT]... with members of shards whose division is in etcd.
 * connect_timeout_ms is for all shards together. Outcomes as for remora_connect, and:
 *   REMORA_OK: one server at least can be reached, and no address leads to another server than its shard's.
 *   REMORA_NOT_FOUND, REMORA_PERMISSION_DENIED: there is no such file, or this user may not read it.
 *   REMORA_INVALID_ARGUMENT: the file is no topology; the message names its line.
 *   REMORA_FAILED_PRECONDITION: a server is another shard than the file says, or two shards lead to one.
 *
 * The calls of the client work as with one server. These are of one server, and end with
 * REMORA_UNIMPLEMENTED: remora_buffer_register, remora_get_into, remora_put_from, remora_backup, remora_ping,
 * remora_settings, remora_stats. Connect to the server of a shard for them. An error that may come from a
 * server names its shard. If a server is gone, only calls for its keys fail. They try again to reach it,
 * within timeout_ms. These calls differ:
 *   remora_multi_get, remora_multi_put: ask the shards side by side. Unless REMORA_OK, a shard failed. Each
 *     key has its own outcome nevertheless, in its remora_result.
 *   remora_apply: REMORA_INVALID_ARGUMENT also if two keys have different slots. Give both the same {tag}.
 *   remora_scan_begin: merges the keys of all shards, each as of its own moment.
 *   remora_watch_begin: shows the changes of all shards. Those of one shard are in their order.
 *   remora_count, remora_delete_range, remora_delete_all: add up the counts of the shards. */
remora_code remora_connect_cluster(const char* topology, const remora_options* options,
                                   remora_client** client);

/* Closes the connection and frees the client. Release its buffers before. A null `client` has no effect. */
void remora_close(remora_client* client);

/* --- Reading -------------------------------------------------------------------------------------------- */

/* Gets the value of a key: *value points into memory of the client, valid until the client's next call.
 * Unless `version` is null, *version becomes the version of the write that stored the value. Outcomes:
 *   REMORA_NOT_FOUND: the key does not exist.
 *   REMORA_RESOURCE_EXHAUSTED: the record is only on the server's disk, and the server has no space for it
 *     in memory.
 *   REMORA_UNAVAILABLE: also, the server cannot read its disk.
 *   REMORA_DATA_LOSS: the record on the server's disk is damaged. The connection stays usable.
 * Costs one READ or two. Over RDMA and on the same host, they wake no thread of the server; over TCP, a
 * thread beside the server's answers them. For a record that is not in the server's memory, it costs one more
 * round trip. */
remora_code remora_get(remora_client* client, const void* key, size_t key_size, const void** value,
                       size_t* value_size, uint64_t* version);

/* Gets the key's value as remora_get does, and copies it into the caller's `buffer` of `buffer_size`
 * bytes. REMORA_OUT_OF_RANGE: it does not fit, and *value_size is its size in bytes. */
remora_code remora_get_copy(remora_client* client, const void* key, size_t key_size, void* buffer,
                            size_t buffer_size, size_t* value_size, uint64_t* version);

/* Calls `show` with `context` and the key's value where it is, without a copy: in the server's memory, if
 * this process maps it (local://). Over other transports, and where the value cannot be shown in place,
 * `show` gets a copy. The bytes are valid until `show` returns. `version` is as for remora_get.
 *
 * `show` may be called twice. Then the first call saw bytes that were changing, so it must cope with any
 * bytes, and the second call counts. It must not use this client, or the process may end with a message. It
 * must return, not leave by longjmp(3) or an exception. Outcomes as for remora_get: REMORA_OK: the last call
 * of `show` saw the value, whole and unchanged, as it was at some moment of this call. Any other: if `show`
 * was called, what it saw does not count. */
remora_code remora_visit(remora_client* client, const void* key, size_t key_size,
                         void (*show)(void* context, const void* value, size_t value_size), void* context,
                         uint64_t* version);

/* Sets *exists to 1 if the key exists, otherwise to 0. Errors as for remora_get. */
remora_code remora_exists(remora_client* client, const void* key, size_t key_size, int* exists);

/* A span of `size` bytes, which may contain zeros. */
typedef struct remora_bytes {
  const void* data;
  size_t size;
} remora_bytes;

/* Outcome of one key of a call with many. */
typedef struct remora_result {
  remora_code code; /* as for one key; unless REMORA_OK, `value` and `version` are unspecified */
  remora_bytes value;
  uint64_t version;
  const char* message; /* always set: the reason of a failure, or "" */
} remora_result;

/* Gets each of `count` keys, as remora_get does, and stores its outcome into the element of `results` with
 * the same index. The READs are in flight together, so the call takes about as long as two READs. Each
 * value was the key's value at some moment of the call. The values and messages are in memory of the
 * client, valid until its next call. REMORA_OK: each result has the outcome of its key. */
remora_code remora_multi_get(remora_client* client, const remora_bytes* keys, remora_result* results,
                             size_t count);

/* Sets *ttl_ms to the time in ms for which the key will exist, or a little less; -1 means for ever.
 * Outcomes as for remora_get. */
remora_code remora_ttl(remora_client* client, const void* key, size_t key_size, int64_t* ttl_ms);

/* --- Without a copy ------------------------------------------------------------------------------------- */

/* Registered memory of the caller: calls READ values into it, and WRITE values from it, without a copy. */
typedef struct remora_buffer remora_buffer;

/* Registers `size` bytes of the caller's memory. Costs some 20 us, and more if pages have never been
 * touched; so register once, and use the buffer for many values. The memory remains the caller's, and must
 * exist until remora_buffer_release. REMORA_RESOURCE_EXHAUSTED: the process may not lock enough memory. */
remora_code remora_buffer_register(remora_client* client, void* bytes, size_t size, remora_buffer** buffer);
/* Ends the registration and frees the buffer, but not the memory. Do not call it while an operation of a
 * remora_async uses the buffer. A null `buffer` has no effect. */
void remora_buffer_release(remora_buffer* buffer);

/* Reads the key's value to the beginning of the buffer. Unless the call ends with REMORA_OK, the buffer's
 * contents are unspecified; so are always the bytes behind the value. Outcomes as for remora_get, and
 * REMORA_OUT_OF_RANGE: the value does not fit; the message states its size. */
remora_code remora_get_into(remora_client* client, const void* key, size_t key_size, remora_buffer* buffer,
                            size_t* value_size, uint64_t* version);

/* --- Writing -------------------------------------------------------------------------------------------- */

#define REMORA_TTL_DEFAULT ((int64_t)0)  /* the server's default */
#define REMORA_TTL_FOREVER ((int64_t)-1) /* no expiry */
/* A time to live given by its end: an expiry in ms since 1970 by the server's clock, up to 2^60. A larger
 * one is an invalid time to live. REMORA_OUT_OF_RANGE, of a write: the expiry has passed. For a record
 * that a program copies together with its expiry. */
#define REMORA_TTL_UNTIL(expiry_ms) \
  ((uint64_t)(expiry_ms) <= (uint64_t)1 << 60 ? INT64_MIN + (int64_t)(expiry_ms) : INT64_MIN)

/* Condition of a write, which the server decides after all earlier writes: one of these, or a version that
 * the key must have. If the condition does not hold, the server does nothing and the write ends with:
 *   REMORA_ALREADY_EXISTS: the key should be absent.
 *   REMORA_NOT_FOUND: the key should exist.
 *   REMORA_FAILED_PRECONDITION: the key has another version. */
#define REMORA_IF_ANY ((uint64_t)0)
#define REMORA_IF_ABSENT (~(uint64_t)0)
#define REMORA_IF_PRESENT (~(uint64_t)1)

/* Durability of a write: the failure that it survives once it is acknowledged. Each level includes the one
 * before. */
#define REMORA_DURABILITY_DEFAULT ((uint32_t)0) /* the server's default */
#define REMORA_DURABILITY_MEMORY ((uint32_t)1)  /* none: the write is only visible */
#define REMORA_DURABILITY_LOGGED ((uint32_t)2)  /* a crash of the server's process */
#define REMORA_DURABILITY_SYNCED ((uint32_t)3)  /* a crash of its machine; readers see the write only then */

/* Options of a write. Fill them with remora_write_options_init, then change some. A null pointer stands
 * for the defaults. */
typedef struct remora_write_options {
  size_t struct_size;
  /* Time to live in ms, by the server's clock. Default: REMORA_TTL_DEFAULT; with it, remora_increment and
   * remora_append keep the expiry of an existing key. remora_delete and remora_touch ignore it. */
  int64_t ttl_ms;
  uint64_t condition; /* default: REMORA_IF_ANY */
  uint64_t* version;  /* unless null, gets the version of this write once it is done; default: null */
  /* Durability level. Default: REMORA_DURABILITY_DEFAULT. A server without a disk only accepts that and
   * REMORA_DURABILITY_MEMORY; any other level ends with REMORA_INVALID_ARGUMENT. */
  uint32_t durability;
  uint32_t reserved; /* must be 0 */
} remora_write_options;

/* Fills the options with their defaults. */
void remora_write_options_init(remora_write_options* options);

/* Stores the key's value, or replaces it. Outcomes:
 *   REMORA_OK: the value is visible to all clients, and as durable as the options say.
 *   REMORA_RESOURCE_EXHAUSTED: the server has no space; it did nothing.
 *   REMORA_ALREADY_EXISTS, REMORA_NOT_FOUND, REMORA_FAILED_PRECONDITION: the condition does not hold. */
remora_code remora_put(remora_client* client, const void* key, size_t key_size, const void* value,
                       size_t value_size, const remora_write_options* options);
/* Puts as remora_put does; the value is the `size` bytes of the buffer from `offset` on. The client does
 * not copy them, unless they are less than 1024 bytes. Outcomes as for remora_put, and:
 *   REMORA_DATA_LOSS: the memory changed during the call; the server did nothing.
 *   REMORA_INVALID_ARGUMENT: the bytes are not all inside the buffer, or it belongs to another client. */
remora_code remora_put_from(remora_client* client, const void* key, size_t key_size,
                            const remora_buffer* buffer, size_t offset, size_t size,
                            const remora_write_options* options);

/* Deletes the key. REMORA_NOT_FOUND: it does not exist. Conditions and other outcomes as for remora_put. */
remora_code remora_delete(remora_client* client, const void* key, size_t key_size,
                          const remora_write_options* options);

/* Sets the key's time to live from now on: ttl_ms may be milliseconds, REMORA_TTL_FOREVER or
 * REMORA_TTL_UNTIL. REMORA_NOT_FOUND: the key does not exist. REMORA_RESOURCE_EXHAUSTED: as for
 * remora_put. */
remora_code remora_touch(remora_client* client, const void* key, size_t key_size, int64_t ttl_ms,
                         const remora_write_options* options);

/* Adds `delta` to the number that the key's value spells in decimal digits, and stores the sum in the same
 * form. Unless `sum` is null, *sum becomes the sum. An absent key counts as 0. Outcomes as for remora_put,
 * and:
 *   REMORA_FAILED_PRECONDITION: the value is not a number of 64 bits.
 *   REMORA_OUT_OF_RANGE: the sum does not fit into 64 bits. */
remora_code remora_increment(remora_client* client, const void* key, size_t key_size, int64_t delta,
                             int64_t* sum, const remora_write_options* options);

/* Appends bytes to the key's value; an absent key counts as an empty value. Unless `value_size` is null,
 * *value_size becomes the new size in bytes. Outcomes as for remora_put, and REMORA_OUT_OF_RANGE: the
 * value would exceed 262144 bytes. */
remora_code remora_append(remora_client* client, const void* key, size_t key_size, const void* bytes,
                          size_t size, size_t* value_size, const remora_write_options* options);

/* One put of remora_multi_put. `options` may be null. */
typedef struct remora_put_request {
  remora_bytes key;
  remora_bytes value;
  const remora_write_options* options;
} remora_put_request;

/* Puts each of `count` requests in order, as remora_put does, and stores its outcome into the element of
 * `results` with the same index. Their messages are in flight together, so many take little longer than
 * one. Each is a write of its own, and is done or fails independently of the others. The results have
 * messages, valid as those of remora_multi_get, and no values. Outcomes:
 *   REMORA_OK: each result has the outcome of its write.
 *   Any other: the results of the requests without an answer have the same code. Their writes may or may
 *     not have been done. */
remora_code remora_multi_put(remora_client* client, const remora_put_request* requests,
                             remora_result* results, size_t count);

/* --- Writing many keys, all or none --------------------------------------------------------------------- */

/* A list of puts and deletes, in order. It belongs to no client. One thread at a time may use it. */
typedef struct remora_batch remora_batch;

/* Returns an empty batch, which the caller frees with remora_batch_free. Null: no memory for it. */
remora_batch* remora_batch_new(void);
/* Frees the batch. A null `batch` has no effect. */
void remora_batch_free(remora_batch* batch);
/* Removes all writes from the batch. */
void remora_batch_clear(remora_batch* batch);
/* Returns how many writes the batch has. */
size_t remora_batch_count(const remora_batch* batch);

/* Each of these two adds a write to the batch, and copies its bytes. It ignores `version` and `durability`
 * of the options, which remora_apply takes. REMORA_INVALID_ARGUMENT: a pointer is null where it must not
 * be, or the options are invalid. remora_apply finds all other values that are out of bounds. */
remora_code remora_batch_put(remora_batch* batch, const void* key, size_t key_size, const void* value,
                             size_t value_size, const remora_write_options* options);
remora_code remora_batch_delete(remora_batch* batch, const void* key, size_t key_size,
                                const remora_write_options* options);

/* Does all writes of the batch or none, at one place in the order of all writes, even if the server dies
 * meanwhile. Of the options, which may be null, `durability` is that of the whole batch. *version becomes
 * the version of the first write; the others have the consecutive ones. The other options belong to each
 * write, and remora_apply ignores them. A client that reads meanwhile may see the first writes and not yet
 * the others. Outcomes:
 *   REMORA_INVALID_ARGUMENT: also, the batch has more than 1024 writes, or more than 262144 bytes,
 *     counting 24 more for each write.
 *   Any other: the outcome of the first write that could not be done. The delete of an absent key is such
 *     a write. */
remora_code remora_apply(remora_client* client, const remora_batch* batch,
                         const remora_write_options* options);

/* --- The server ----------------------------------------------------------------------------------------- */

/* Progress of a backup of the server's store. */
typedef struct remora_backup_progress {
  int done;           /* 0: it is in progress, and the other fields mean nothing */
  uint64_t id;        /* the backup's number in the server's backup directory */
  uint64_t version;   /* the backup has all writes up to this one, and perhaps later ones */
  uint64_t bytes;     /* total size of its files */
  uint64_t new_bytes; /* size of those files that no earlier backup shares */
} remora_backup_progress;

/* Has the server make a backup of the whole store in the directory that its administrator chose. The first
 * call with a `name`, a random number other than 0, begins the backup. Each call returns the progress of
 * the backup of that name: call again now and then until it is done. The backup includes every write that
 * was acknowledged before the first call.
 *
 * Outcomes:
 *   REMORA_ALREADY_EXISTS: another backup is in progress; the server began none.
 *   REMORA_FAILED_PRECONDITION: the server has no backup directory, or its store is only in memory.
 *   REMORA_NOT_FOUND: the backup directory is gone.
 *   REMORA_UNAVAILABLE: also, the server's disk failed or is full.
 *   REMORA_RESOURCE_EXHAUSTED: the server's system is short of descriptors, memory or threads; the message
 *     says which limit to raise. */
remora_code remora_backup(remora_client* client, uint64_t name, remora_backup_progress* progress);

/* Sends a message to the server and waits for its reply: one round trip. */
remora_code remora_ping(remora_client* client);

/* Sets *json to the settings in force on the server: a JSON array of objects with the strings "key",
 * "value" and "source" ("default", "file" or "command line"). A zero byte ends it. It has names of files
 * with secrets, and no secret. It is in memory of the client, valid until its next call.
 * Outcomes:
 *   REMORA_FAILED_PRECONDITION: the server is of an earlier release that does not tell, or has no settings.
 *   REMORA_PERMISSION_DENIED: the client's token is for reading alone. */
remora_code remora_settings(remora_client* client, const char** json);

/* Calls `each` with `context` for every metric of the server, in a fixed order, before the call returns.
 * Times are in nanoseconds, sizes in bytes; the manual page remora_metrics, of section 7, has the units. The
 * name is valid until `each` returns. */
remora_code remora_stats(remora_client* client, void (*each)(void* context, const char* name, uint64_t value),
                         void* context);

/* Calls `each` with `context` for every counter of this client, for tests and tuning: "reads", "requests",
 * "reconnects" and so on, as in ClientCounters (client/counters.h). Sends nothing. */
remora_code remora_counters(remora_client* client,
                            void (*each)(void* context, const char* name, uint64_t value), void* context);

/* Calls `each` with `context` for every metric of this client, in a fixed order; docs/operating/metrics.md
 * has their meaning. A histogram is five numbers, with the ends _count, _sum_ns, _p50_ns, _p99_ns and _max_ns
 * behind its name. With `metrics` of the options off, only the counters are not 0. With it on, any thread may
 * call this, also during a call of another one. Sends nothing. */
remora_code remora_client_metrics(remora_client* client,
                                  void (*each)(void* context, const char* name, uint64_t value),
                                  void* context);

#ifdef __cplusplus
}
#endif

/* The other parts of this interface: many operations at once; scans and watches. */
#include "remora_async.h"
#include "remora_scan.h"

#endif
