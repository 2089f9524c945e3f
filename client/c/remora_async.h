/* Of remora.h, which includes it: many operations at once, from one thread. */
#ifndef REMORA_ASYNC_H
#define REMORA_ASYNC_H

#include "remora.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A client of its own: it begins operations, and tells of the end of each. Nobody waits in between, and no
 * thread is started. For one thread at a time, and not for a forked child, as remora_client. Where the
 * connection breaks, remora_async_poll makes another, as remora_client does, if `reconnect` of the options
 * says so: what reads begins again there, and of a write that was sent the server is asked. */
typedef struct remora_async remora_async;

/* How an operation ended. All of it is there until the callback returns. */
typedef struct remora_async_result {
  remora_code code;    /* as of the call of that name of a remora_client, or see below */
  const char* message; /* why it is not REMORA_OK; then the rest is unspecified */
  remora_bytes value;  /* of remora_async_get, and of remora_async_get_into, where it was read to */
  uint64_t version;    /* of the value, or of the write; of a batch, the first */
  int64_t number;      /* the sum, or the size that the value has then; or what is left of the time, in ms,
                        * -1: for ever */
} remora_async_result;

/* Is called once, when an operation that was begun has ended, and only inside remora_async_poll and
 * remora_async_close. It may begin and cancel operations, and must call neither of those two. It must not
 * throw, nor jump out, nor end its thread. */
typedef void (*remora_async_done)(void* context, const remora_async_result* result);

/* Connects as remora_connect does. `depth`: how many operations may be under way at once, up to 1024, at 5
 * KiB of memory each; 0: 64. */
remora_code remora_async_open(const char* address, const remora_options* options, size_t depth,
                              remora_async** async);
/* Ends what is under way with REMORA_CANCELLED; the callbacks cannot begin anything any more. Null: nothing
 * happens. */
void remora_async_close(remora_async* async);

/* Each begins an operation, and returns at once. REMORA_OK: `done`, unless null, will be called with
 * `context`; *operation, unless null, gets the operation's name: never 0, and never the same again. Otherwise
 * nothing was begun, and `done` is never called: REMORA_RESOURCE_EXHAUSTED, `depth` operations are under way;
 * REMORA_INVALID_ARGUMENT and REMORA_UNAVAILABLE, as any call.
 *
 * Keys, values, batches and options are copied, but what is in a buffer; what `version` of the options points
 * to is written before `done` is called, and must be there until then.
 *
 * An operation ends as the call of that name of a remora_client, or with
 *   REMORA_DEADLINE_EXCEEDED  no answer within timeout_ms. Of a write it is not known whether it was done, or
 *                             will be. The connection is as good as before.
 *   REMORA_CANCELLED          by remora_async_cancel or _close. Of a write, as above.
 *   REMORA_UNAVAILABLE        the connection broke, and there was no other within timeout_ms. Of a write, as
 *                             above.
 *   REMORA_UNKNOWN            of a write, as any call.
 *   REMORA_ABORTED            of a write: the server refused it, and has done a later one; why, was lost with
 *                             the connection. It was not done.
 *
 * Writes are done in the order in which they were begun. A get that is begun behind a put of the same key,
 * and before that has ended, may find the value before. Values of more than 262144 bytes go in pieces, and
 * timeout_ms is for each of them; writes that are begun behind one are sent when all of it was. */
remora_code remora_async_get(remora_async* async, const void* key, size_t key_size, remora_async_done done,
                             void* context, uint64_t* operation);

/* As remora_buffer_register, for the two that follow. What is in a buffer is theirs until `done` is called,
 * however the operation ended; so an operation whose time is over, or that is cancelled, ends when the device
 * is done with what is under way. The buffer may be released behind remora_async_close. */
remora_code remora_async_buffer_register(remora_async* async, void* bytes, size_t size,
                                         remora_buffer** buffer);
/* Reads the value to a buffer's `size` bytes from `offset` on, without a copy. REMORA_OUT_OF_RANGE: it does
 * not fit. REMORA_INVALID_ARGUMENT, at once: they are not all inside, or it is another client's. */
remora_code remora_async_get_into(remora_async* async, const void* key, size_t key_size,
                                  const remora_buffer* buffer, size_t offset, size_t size,
                                  remora_async_done done, void* context, uint64_t* operation);
/* As remora_put_from. The bytes must stay as they are until `done` is called. */
remora_code remora_async_put_from(remora_async* async, const void* key, size_t key_size,
                                  const remora_buffer* buffer, size_t offset, size_t size,
                                  const remora_write_options* options, remora_async_done done, void* context,
                                  uint64_t* operation);

/* REMORA_OK: the key is there. REMORA_NOT_FOUND. */
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
 * already, or there never was one. A write that was not sent yet is not done; of another it is not known. */
remora_code remora_async_cancel(remora_async* async, uint64_t operation);

/* Does what there is to do, and calls back. Waits for that, until at least one operation has ended, or none
 * is under way; for timeout_ms at most: 0 does not wait, a negative one has no end. *ended, unless null, gets
 * how many ended, also when it was too late. REMORA_DEADLINE_EXCEEDED: none did in time, though some are
 * under way. REMORA_FAILED_PRECONDITION: called by a callback. */
remora_code remora_async_poll(remora_async* async, int64_t timeout_ms, size_t* ended);

/* How many operations were begun whose callback was not called yet, and how many more may be begun. */
size_t remora_async_in_flight(const remora_async* async);
size_t remora_async_room(const remora_async* async);

/* For an event loop that sleeps on more than this client:
 *   remora_async_arm, remora_async_poll(async, 0, ..); sleep until remora_async_wait_fd is readable, for
 *   remora_async_wait_ms at most; remora_async_disarm, remora_async_poll(async, 0, ..).
 * What is begun or cancelled while it is armed makes the descriptor readable. */
int remora_async_wait_fd(const remora_async* async); /* for poll, epoll and the like; the client's */
/* Until a deadline of an operation; 0: it is over; -1: none is under way. */
int64_t remora_async_wait_ms(const remora_async* async);
/* From now on, the descriptor turns readable when poll may have something to do; not for what came before. */
void remora_async_arm(remora_async* async);
void remora_async_disarm(remora_async* async);

#ifdef __cplusplus
}
#endif

#endif
