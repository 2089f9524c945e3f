/* Functions for this repository's bindings of remora.h to other languages. Some let the caller interrupt a
 * call that waits; the others are for an event loop that must not wait. */
#ifndef REMORA_BINDING_H
#define REMORA_BINDING_H

#include "client/c/remora.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Connects as remora_connect does. Each call of the client, and this one, calls `interrupted` with
 * `context` about every 50 ms while it waits, in its own thread. If that returns other than 0, the call
 * ends with REMORA_CANCELLED. A write may or may not have been done then, and the next call makes another
 * connection. */
remora_code remora_connect_interruptible(const char* address, const remora_options* options,
                                         int (*interrupted)(void* context), void* context,
                                         remora_client** client);
/* Opens as remora_async_open does. This call and remora_async_reconnect call `interrupted` as above. */
remora_code remora_async_open_interruptible(const char* address, const remora_options* options, size_t depth,
                                            int (*interrupted)(void* context), void* context,
                                            remora_async** async);

/* Returns a batch of the same writes, which the caller frees. Null: this process is out of memory. */
remora_batch* remora_batch_copy(const remora_batch* batch);

/* Call AsyncClient::BeginReconnect, Reconnect and EndReconnect (client/async_client.h). */
int remora_async_begin_reconnect(remora_async* async);
void remora_async_reconnect(remora_async* async);
void remora_async_end_reconnect(remora_async* async);

#ifdef __cplusplus
}
#endif

#endif
