/* The part of remora.h, which includes it, for many operations at once from one thread. */
#ifndef REMORA_ASYNC_H
#define REMORA_ASYNC_H

#include "remora.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A client that begins operations, and reports the end of each by a callback. It has its own connection,
 * starts no thread, and does not block between operations. As with remora_client, one thread at a time may
 * use it, and a forked child must not. If `reconnect` of the options is set and the connection breaks,
 * remora_async_poll makes another one, as remora_client does. Over it, the client begins reads again, and
 * asks the server about each write that it had sent. */
typedef struct remora_async remora_async;

/* Outcome of an operation. It is valid until the callback returns. */
typedef struct remora_async_result {
  remora_code code;    /* as for the call of that name of a remora_client, or see below */
  const char* message; /* the reason if the code is not REMORA_OK; then the fields below are unspecified */
  remora_bytes value;  /* of remora_async_get; of remora_async_get_into, in the buffer */
  uint64_t version;    /* of the value, or of the write; of a batch, of its first write */
  int64_t number;      /* the sum; or the value's new size in bytes; or the remaining ms, -1: for ever */
} remora_async_result;

/* Callback of an operation. The client calls it once, when the operation has ended, and only inside
 * remora_async_poll and remora_async_close. It may begin and cancel operations, and must call neither of
 * those two. It must not throw, jump out, or end its thread. */
typedef void (*remora_async_done)(void* context, const remora_async_result* result);

/* Connects as remora_connect does. `depth` is the number of operations that may be in flight at once, up
 * to 1024, at 5 KiB of memory each; 0 stands for 64. On REMORA_OK the caller owns *async and ends it with
 * remora_async_close. Outcomes as for remora_connect; REMORA_INVALID_ARGUMENT: also, `depth` is larger. */
remora_code remora_async_open(const char* address, const remora_options* options, size_t depth,
                              remora_async** async);
/* Ends all operations in flight with REMORA_CANCELLED, calls their callbacks, which cannot begin
 * operations any more, and frees the client. A null `async` has no effect. */
void remora_async_close(remora_async* async);

/* Each of the following functions begins an operation and returns at once:
 *   REMORA_OK: the client will call `done`, unless null, with `context`. Unless `operation` is null,
 *     *operation becomes the operation's ID: never 0, and never reused.
 *   REMORA_RESOURCE_EXHAUSTED: `depth` operations are in flight.
 *   REMORA_INVALID_ARGUMENT, REMORA_UNAVAILABLE: as for any call.
 * Unless it returns REMORA_OK, it began nothing, and `done` is never called.
 *
 * The client copies keys, values, batches and options, but not the contents of a buffer. It writes
 * *version of the options before it calls `done`, so that memory must exist until then.
 *
 * An operation ends as the call of that name of a remora_client, or with:
 *   REMORA_DEADLINE_EXCEEDED: no answer came within timeout_ms. A write may or may not have been done, or
 *     may be done later. The connection stays usable.
 *   REMORA_CANCELLED: by remora_async_cancel or remora_async_close. For a write, as above.
 *   REMORA_UNAVAILABLE: the connection broke, and the client got no other one within timeout_ms. For a
 *     write, as above.
 *   REMORA_UNKNOWN: a write, as for any call.
 *   REMORA_ABORTED: a write was not done: the server rejected it and did a later one. The reason was lost
 *     with the connection.
 *
 * The server does writes in the order in which the caller began them. A get that begins after a put of the
 * same key began, and before the put has ended, may find the value before it. Values of more than 262144
 * bytes go in pieces, and timeout_ms applies to each piece. The client sends writes that begin after such
 * a put when it has sent all of that value. */
remora_code remora_async_get(remora_async* async, const void* key, size_t key_size, remora_async_done done,
                             void* context, uint64_t* operation);

/* Registers memory as remora_buffer_register does, for the two functions that follow. An operation has
 * exclusive use of the bytes that it names until the client calls `done`, however the operation ended. So
 * an operation that is cancelled, or reaches its deadline, ends only when the device has completed its
 * work in flight. The caller may release the buffer after remora_async_close. */
remora_code remora_async_buffer_register(remora_async* async, void* bytes, size_t size,
                                         remora_buffer** buffer);
/* Reads the value to the buffer's `size` bytes from `offset` on, without a copy.
 *   REMORA_OUT_OF_RANGE: the value does not fit.
 *   REMORA_INVALID_ARGUMENT, returned at once: the bytes are not all inside the buffer, or it belongs to
 *     another client. */
remora_code remora_async_get_into(remora_async* async, const void* key, size_t key_size,
                                  const remora_buffer* buffer, size_t offset, size_t size,
                                  remora_async_done done, void* context, uint64_t* operation);
/* Puts as remora_put_from does. The bytes must not change until the client calls `done`. */
remora_code remora_async_put_from(remora_async* async, const void* key, size_t key_size,
                                  const remora_buffer* buffer, size_t offset, size_t size,
                                  const remora_write_options* options, remora_async_done done, void* context,
                                  uint64_t* operation);

/* Calls `show` with `context` and the key's value where it is, without a copy, as remora_visit does. If this
 * process maps the server's memory (local://), that needs no wait: `show` is called inside this function.
 * Where the value cannot be shown in place, `show` gets a copy, just before `done`. The result has no value.
 *
 * `show` may be called twice. Then the first call saw bytes that were changing, so it must cope with any
 * bytes, and the second call counts. The bytes are valid until `show` returns. It must not use this client,
 * or the process may end with a message. It must return, not leave by longjmp(3) or an exception. The
 * operation ends as remora_async_get does: REMORA_OK: the last call of `show` saw the value, whole and
 * unchanged, as it was at some moment of the operation. Any other: a call of `show` does not count. */
remora_code remora_async_visit(remora_async* async, const void* key, size_t key_size,
                               void (*show)(void* context, const void* value, size_t value_size),
                               remora_async_done done, void* context, uint64_t* operation);

/* Ends with REMORA_OK if the key exists, otherwise with REMORA_NOT_FOUND. The operations below, up to
 * remora_async_ping, are those of a remora_client with the same names. */
remora_code remora_async_exists(remora_async* async, const void* key, size_t key_size, remora_async_done done,
                                void* context, uint64_t* operation);
remora_code remora_async_ttl(remora_async* async, const void* key, size_t key_size, remora_async_done done,
                             void* context, uint64_t* operation);
remora_code remora_async_put(remora_async* async, const void* key, size_t key_size, const void* value,
                             size_t value_size, const remora_write_options* options, remora_async_done done,
                             void* context, uint64_t* operation);
remora_code remora_async_delete(remora_async* async, const void* key, size_t key_size,
                                const remora_write_options* options, remora_async_done done, void* context,
                                uint64_t* operation);
remora_code remora_async_touch(remora_async* async, const void* key, size_t key_size, int64_t ttl_ms,
                               const remora_write_options* options, remora_async_done done, void* context,
                               uint64_t* operation);
remora_code remora_async_increment(remora_async* async, const void* key, size_t key_size, int64_t delta,
                                   const remora_write_options* options, remora_async_done done, void* context,
                                   uint64_t* operation);
remora_code remora_async_append(remora_async* async, const void* key, size_t key_size, const void* bytes,
                                size_t size, const remora_write_options* options, remora_async_done done,
                                void* context, uint64_t* operation);
remora_code remora_async_apply(remora_async* async, const remora_batch* batch,
                               const remora_write_options* options, remora_async_done done, void* context,
                               uint64_t* operation);
remora_code remora_async_ping(remora_async* async, remora_async_done done, void* context,
                              uint64_t* operation);

/* Ends the operation with REMORA_CANCELLED, in the next remora_async_poll. REMORA_NOT_FOUND: it has ended
 * already, or never existed. A write that the client has not sent yet is not done; any other write may or
 * may not be done. */
remora_code remora_async_cancel(remora_async* async, uint64_t operation);

/* Does all work that is due and calls callbacks, until at least one operation has ended or none is in
 * flight. Waits for that up to timeout_ms: 0 does not wait, and a negative value waits without limit.
 * Unless `ended` is null, *ended becomes the number of operations that ended, also with
 * REMORA_DEADLINE_EXCEEDED. Outcomes:
 *   REMORA_DEADLINE_EXCEEDED: operations are in flight, and none ended in time.
 *   REMORA_FAILED_PRECONDITION: a callback called this function. */
remora_code remora_async_poll(remora_async* async, int64_t timeout_ms, size_t* ended);

/* Return how many operations have begun whose callbacks were not called yet, and how many more may begin
 * now. */
size_t remora_async_in_flight(const remora_async* async);
size_t remora_async_free_slots(const remora_async* async);

/* For an event loop that sleeps on more than this client:
 *   remora_async_arm, remora_async_poll(async, 0, ..); sleep until remora_async_wait_fd is readable, for
 *   remora_async_wait_ms at most; remora_async_disarm, remora_async_poll(async, 0, ..).
 * Beginning or cancelling an operation while the client is armed makes the descriptor readable.
 *
 * remora_async_wait_fd returns the descriptor for poll, epoll and the like. The client owns it. */
int remora_async_wait_fd(const remora_async* async);
/* Returns the time in ms until the next deadline of an operation. 0: it has passed. -1: no operation is in
 * flight. */
int64_t remora_async_wait_ms(const remora_async* async);
/* Makes the descriptor turn readable from now on when remora_async_poll may have work to do. Earlier
 * events do not count. */
void remora_async_arm(remora_async* async);
/* Ends the effect of remora_async_arm. */
void remora_async_disarm(remora_async* async);

/* Calls `each` for every metric of this client, as remora_client_metrics does for a remora_client. Any thread
 * may call it if `metrics` of the options is on. */
remora_code remora_async_metrics(remora_async* async,
                                 void (*each)(void* context, const char* name, uint64_t value),
                                 void* context);

#ifdef __cplusplus
}
#endif

#endif
