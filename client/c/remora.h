/* Remora's client for C, and for every language that calls C. C99.
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
 * Every function that returns a remora_code says there how it ended; each names its own outcomes, and any may
 * end with those that remora_code lists as "any call". remora_message says in words why it was not REMORA_OK.
 * What a call writes through its pointers is untouched unless it ends with REMORA_OK, or says otherwise. No
 * exception passes this interface.
 *
 * Threads: a client, with its buffers, is for one thread at a time; different clients are independent. Two
 * threads in calls of one client at once end the process, with a message. Threads that work side by side have
 * a client each: nothing of it is shared, and no call takes a lock. No thread may be cancelled
 * (pthread_cancel(3)), nor end itself, inside a call: the process ends then. Processes: in a child of
 * fork(2), each call with a client of the parent ends with REMORA_FAILED_PRECONDITION; do not close it there
 * either, but connect anew. (To the server both would be the same client.)
 *
 * Later versions add functions, codes, and fields at the end of structs, and change none. */
#ifndef REMORA_H
#define REMORA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum remora_code {
  REMORA_OK = 0,
  REMORA_NOT_FOUND = 1,
  /* Any call: a key or value out of bounds, a span of time that is none. Nothing was sent. */
  REMORA_INVALID_ARGUMENT = 2,
  /* Any call: the server is gone, or the connection broke, and there was no other within timeout_ms. Of a
   * write that was under way it is not known whether it was done. The next call tries to connect again. */
  REMORA_UNAVAILABLE = 3,
  /* Any call: no answer in time; then as REMORA_UNAVAILABLE. */
  REMORA_DEADLINE_EXCEEDED = 4,
  /* No room: at the server, or, as may happen to any call, in this process. Nothing was done. */
  REMORA_RESOURCE_EXHAUSTED = 5,
  REMORA_OUT_OF_RANGE = 6,
  REMORA_PERMISSION_DENIED = 7,
  REMORA_FAILED_PRECONDITION = 8, /* no way to the server; of a write: its condition does not hold */
  REMORA_ALREADY_EXISTS = 9,
  /* What was sent arrived damaged, or what the server has of the key on its disk is; nothing was done. */
  REMORA_DATA_LOSS = 10,
  REMORA_UNIMPLEMENTED = 11,
  /* A fault of Remora's own. */
  REMORA_INTERNAL = 12,
  REMORA_ABORTED = 13, /* of a scan of one moment: the server has given it up */
  /* Any write: its answer was lost with the connection, and the server that the next one leads to cannot tell
   * whether it was done, once, or not: it was restarted without a durable tier, or has forgotten this client.
   */
  REMORA_UNKNOWN = 14,
  REMORA_CANCELLED = 15 /* of an operation of a remora_async: somebody wished it */
} remora_code;

/* "NOT_FOUND" and so on; "UNKNOWN" for a number that is none of them, too. */
const char* remora_code_name(remora_code code);

/* Why this thread's last call that did not end with REMORA_OK did not. Never null; until this thread's next
 * such call. */
const char* remora_message(void);

/* "0.1.0": of the library that runs, not of this header. */
const char* remora_version(void);

/* --- Connecting ----------------------------------------------------------------------------------------- */

typedef struct remora_client remora_client;

/* To be filled by remora_options_init, then changed. */
typedef struct remora_options {
  size_t struct_size;
  uint32_t connect_timeout_ms; /* 5000 */
  uint32_t timeout_ms;         /* of each later call, of each piece of a large value: 5000 */
  /* For remembering where keys were found or put: 16 bytes for each. 0: none; negative, the default: none
   * through mapped memory, 8 MiB over verbs. */
  int64_t location_cache_bytes;
  /* For pages of scans, not touched before the first one. 0: no scans; negative, the default: 512 KiB. */
  int64_t scan_window_bytes;
  /* 1: a call that finds the connection broken makes another, within timeout_ms, and goes on there. Then a
   * write is done once, or ends with REMORA_UNAVAILABLE, REMORA_DEADLINE_EXCEEDED or REMORA_UNKNOWN, done
   * once or not at all. 0: the first one is the only one; after one of the first two, all calls fail. */
  uint32_t reconnect;
  uint32_t reserved; /* 0 */
  const char* token; /* for a server that wants one: the line of `kvctl token`, or its secret; null: none */
} remora_options;

void remora_options_init(remora_options* options);

/* Connects to verbs://HOST:PORT, tcp://HOST:PORT or local:///PATH. `options` may be null.
 * REMORA_INVALID_ARGUMENT: the address, or token. REMORA_UNAVAILABLE: no such host, nobody listens.
 * REMORA_PERMISSION_DENIED: another user's server; no token, or a wrong one. REMORA_FAILED_PRECONDITION: no
 * RDMA device, or the server refused: another version, full. REMORA_DEADLINE_EXCEEDED.
 * REMORA_RESOURCE_EXHAUSTED: too little lockable memory. */
remora_code remora_connect(const char* address, const remora_options* options, remora_client** client);

/* Buffers of this client must have been released. Null: nothing happens. */
void remora_close(remora_client* client);

/* --- Reading -------------------------------------------------------------------------------------------- */

/* The value, in memory of the client: until its next call. `version`, unless null, gets that of the key's
 * last write. REMORA_NOT_FOUND. Costs one READ or two, and wakes nobody; of a record that is not in the
 * server's memory, a round trip more: then REMORA_RESOURCE_EXHAUSTED, it has no room for it, or
 * REMORA_UNAVAILABLE, it cannot read its disk, REMORA_DATA_LOSS, what is there is damaged (and the connection
 * is as good as before). */
remora_code remora_get(remora_client* client, const void* key, size_t key_size, const void** value,
                       size_t* value_size, uint64_t* version);

/* The same, copied into the caller's memory. REMORA_OUT_OF_RANGE: it does not fit; *value_size is its size.
 */
remora_code remora_get_copy(remora_client* client, const void* key, size_t key_size, void* buffer,
                            size_t buffer_size, size_t* value_size, uint64_t* version);

/* *exists is 1 or 0. Otherwise as remora_get. */
remora_code remora_exists(remora_client* client, const void* key, size_t key_size, int* exists);

typedef struct remora_bytes {
  const void* data;
  size_t size;
} remora_bytes;

typedef struct remora_result {
  remora_code code; /* as of remora_get; unless it is REMORA_OK, the rest is unspecified */
  remora_bytes value;
  uint64_t version;
  const char* message; /* specified always: why not, or "" */
} remora_result;

/* As remora_get of each of `count` keys, but side by side: it takes about as long as two READs. Each value
 * was the key's at some moment of the call. The values and messages are in memory of the client until its
 * next call. REMORA_OK: each result says what became of its key. */
remora_code remora_multi_get(remora_client* client, const remora_bytes* keys, remora_result* results,
                             size_t count);

/* What is left of the time for which the key is there, or a little less; -1: for ever. As remora_get. */
remora_code remora_ttl(remora_client* client, const void* key, size_t key_size, int64_t* ttl_ms);

/* --- Without a copy ------------------------------------------------------------------------------------- */

/* Memory of the caller that values can be read into, and put from, one-sidedly. */
typedef struct remora_buffer remora_buffer;

/* Costs some 20 us, and more where pages have never been touched: do it once, for many values. The memory
 * stays the caller's, and must stay until the buffer is released. REMORA_RESOURCE_EXHAUSTED: too little
 * memory that may be locked. */
remora_code remora_buffer_register(remora_client* client, void* bytes, size_t size, remora_buffer** buffer);
/* Not while an operation of a remora_async has it. Null: nothing happens. */
void remora_buffer_release(remora_buffer* buffer);

/* Reads the value into the beginning of the buffer. As remora_get; REMORA_OUT_OF_RANGE: it does not fit, and
 * the message says how large it is. Unless REMORA_OK, and behind the value, its bytes are unspecified. */
remora_code remora_get_into(remora_client* client, const void* key, size_t key_size, remora_buffer* buffer,
                            size_t* value_size, uint64_t* version);

/* --- Writing -------------------------------------------------------------------------------------------- */

#define REMORA_TTL_DEFAULT ((int64_t)0) /* as the server's default says */
#define REMORA_TTL_FOREVER ((int64_t)-1)
/* Not a span, but the moment itself, of the server's clock, in ms since 1970: up to 2^60, or it is no span of
 * time. REMORA_OUT_OF_RANGE, of a write: it is over. For a record that comes along with its expiry. */
#define REMORA_TTL_UNTIL(expiry_ms) \
  ((uint64_t)(expiry_ms) <= (uint64_t)1 << 60 ? INT64_MIN + (int64_t)(expiry_ms) : INT64_MIN)

/* What must be so of the key for a write of it to be done, as of all writes before it: one of these, or a
 * version. If it is not, nothing was done: REMORA_ALREADY_EXISTS, REMORA_NOT_FOUND, or, for another version,
 * REMORA_FAILED_PRECONDITION. */
#define REMORA_IF_ANY ((uint64_t)0)
#define REMORA_IF_ABSENT (~(uint64_t)0)
#define REMORA_IF_PRESENT (~(uint64_t)1)

/* What a write has survived when it is acknowledged; each says more than the one before. */
#define REMORA_DURABILITY_DEFAULT ((uint32_t)0) /* the server's */
#define REMORA_DURABILITY_MEMORY ((uint32_t)1)  /* nothing: it is visible */
#define REMORA_DURABILITY_LOGGED ((uint32_t)2)  /* the death of the server's process */
#define REMORA_DURABILITY_SYNCED ((uint32_t)3)  /* that of its machine; nobody has read it before */

/* Of a write. To be filled by remora_write_options_init, then changed; null stands for it as it is then. */
typedef struct remora_write_options {
  size_t struct_size;
  /* How long the record is there, by the server's clock: REMORA_TTL_DEFAULT. Of what remora_increment and
   * remora_append find, that is as long as it was to be. Nothing to remora_delete and remora_touch. */
  int64_t ttl_ms;
  uint64_t condition; /* REMORA_IF_ANY */
  uint64_t* version;  /* unless null, gets the version of this write when it was done: null */
  /* REMORA_DURABILITY_DEFAULT. A server without a disk knows no other than REMORA_DURABILITY_MEMORY:
   * REMORA_INVALID_ARGUMENT. */
  uint32_t durability;
  uint32_t reserved; /* 0 */
} remora_write_options;

void remora_write_options_init(remora_write_options* options);

/* Stores, or replaces. REMORA_OK: visible to all, and as durable as the options say.
 * REMORA_RESOURCE_EXHAUSTED: the server has no room. */
remora_code remora_put(remora_client* client, const void* key, size_t key_size, const void* value,
                       size_t value_size, const remora_write_options* options);
/* The same of `size` bytes of a buffer from `offset` on, without a copy; of less than 1024 bytes a copy is
 * made. REMORA_DATA_LOSS: somebody wrote there meanwhile, and nothing was done.
 * REMORA_INVALID_ARGUMENT: they are not all inside, or it is another client's. */
remora_code remora_put_from(remora_client* client, const void* key, size_t key_size,
                            const remora_buffer* buffer, size_t offset, size_t size,
                            const remora_write_options* options);

/* REMORA_NOT_FOUND. */
remora_code remora_delete(remora_client* client, const void* key, size_t key_size,
                          const remora_write_options* options);

/* Gives the key this time from now on, or REMORA_TTL_FOREVER, or REMORA_TTL_UNTIL. REMORA_NOT_FOUND;
 * REMORA_RESOURCE_EXHAUSTED as remora_put. */
remora_code remora_touch(remora_client* client, const void* key, size_t key_size, int64_t ttl_ms,
                         const remora_write_options* options);

/* Adds to the number that the value spells in decimal digits, and stores the sum the same way; *sum, unless
 * null, gets it. An absent key counts as 0. REMORA_FAILED_PRECONDITION: the value is no number of 64 bits.
 * REMORA_OUT_OF_RANGE: the sum is none. Otherwise as remora_put. */
remora_code remora_increment(remora_client* client, const void* key, size_t key_size, int64_t delta,
                             int64_t* sum, const remora_write_options* options);

/* Puts bytes behind the value, which is made if it is absent; *value_size, unless null, gets its size.
 * REMORA_OUT_OF_RANGE: the value would have more than 262144 bytes. Otherwise as remora_put. */
remora_code remora_append(remora_client* client, const void* key, size_t key_size, const void* bytes,
                          size_t size, size_t* value_size, const remora_write_options* options);

/* One put of many; `options` may be null. */
typedef struct remora_put_request {
  remora_bytes key;
  remora_bytes value;
  const remora_write_options* options;
} remora_put_request;

/* As remora_put of each of `count` requests, in order, but side by side: many take little longer than one.
 * Each is a write of its own, done or not whatever becomes of the others. REMORA_OK: each result says what
 * became of its write, with a message as those of remora_multi_get have it, and without a value. Otherwise so
 * say the results of those, too, that were not answered by then: of them it is not known whether they were
 * done. */
remora_code remora_multi_put(remora_client* client, const remora_put_request* requests,
                             remora_result* results, size_t count);

/* --- Writing many keys, all or none ----------------------------------------------------------------------
 */

/* Puts and deletes, in order. For one thread at a time; of no client. */
typedef struct remora_batch remora_batch;

/* Null: there is no memory for it. */
remora_batch* remora_batch_new(void);
/* Null: nothing happens. */
void remora_batch_free(remora_batch* batch);
void remora_batch_clear(remora_batch* batch);
size_t remora_batch_count(const remora_batch* batch);

/* The bytes are copied. Of the options, `version` and `durability` are nothing to them: remora_apply says it.
 * REMORA_INVALID_ARGUMENT: null pointers, or options; what else is out of bounds is found out by
 * remora_apply. */
remora_code remora_batch_put(remora_batch* batch, const void* key, size_t key_size, const void* value,
                             size_t value_size, const remora_write_options* options);
remora_code remora_batch_delete(remora_batch* batch, const void* key, size_t key_size,
                                const remora_write_options* options);

/* Does all writes of the batch or none, also where the server dies meanwhile, at one place in the order of
 * all writes. Of the options, which may be null, `durability` is of all of them, and *version gets that of
 * the first; the others' are consecutive; the rest is each write's own, and nothing here. Ends as the first
 * write that could not be done; a delete of what is not there is one. REMORA_INVALID_ARGUMENT: more than 1024
 * writes, or 262144 bytes, with 24 for each write. Who reads meanwhile may see the first writes and not yet
 * the others. */
remora_code remora_apply(remora_client* client, const remora_batch* batch,
                         const remora_write_options* options);

/* --- The server ----------------------------------------------------------------------------------------- */

/* How a backup goes. */
typedef struct remora_backup_progress {
  int done;           /* 0: it is under way, and the rest says nothing */
  uint64_t id;        /* in the server's directory */
  uint64_t version;   /* all writes up to this one are in it, and perhaps some later ones */
  uint64_t bytes;     /* of all its files */
  uint64_t new_bytes; /* of those that no earlier one has */
} remora_backup_progress;

/* Has the server make a backup of all that is stored, where its administrator said. The first call with a
 * `name`, a number that is random and not 0, begins it; each call says how that one goes, so call it again
 * now and then until it is done. What was acknowledged before the first call is in it.
 * REMORA_ALREADY_EXISTS: another one is under way; nothing was begun. REMORA_FAILED_PRECONDITION: the server
 * has no place for backups, or its store is only in memory. REMORA_NOT_FOUND: that place is gone.
 * REMORA_UNAVAILABLE: also, its disk failed, or is full. */
remora_code remora_backup(remora_client* client, uint64_t name, remora_backup_progress* progress);

/* One round trip. */
remora_code remora_ping(remora_client* client);

/* Calls `each` with every counter of the server, in a fixed order. */
remora_code remora_stats(remora_client* client, void (*each)(void* context, const char* name, uint64_t value),
                         void* context);

/* The same with what this client did, for tests and tuning: "reads", "requests", "reconnects" and so on, as
 * ClientCounters of client.h. Sends nothing. */
remora_code remora_counters(remora_client* client,
                            void (*each)(void* context, const char* name, uint64_t value), void* context);

#ifdef __cplusplus
}
#endif

/* The rest of it: many operations at once; scans and watches. */
#include "remora_async.h"
#include "remora_scan.h"

#endif
