/* For this repository's bindings of remora.h to other languages: what ends a call that waits, and what an
 * event loop does that must not wait. */
#ifndef REMORA_BINDING_H
#define REMORA_BINDING_H

#include "client/c/remora.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As remora_connect. Each call of the client, and this one, calls `interrupted` with `context` about every 50
 * ms while it waits, in its own thread. If that returns other than 0, the call ends with REMORA_CANCELLED: of
 * a write it is not known whether it was done, and the next call makes another connection. */
remora_code remora_connect_interruptible(const char* address, const remora_options* options,
                                         int (*interrupted)(void* context), void* context,
                                         remora_client** client);
/* The same of remora_async_open, and of remora_async_attempt. */
remora_code remora_async_open_interruptible(const char* address, const remora_options* options, size_t depth,
                                            int (*interrupted)(void* context), void* context,
                                            remora_async** async);

/* A batch of the same writes. Null: too little memory. */
remora_batch* remora_batch_copy(const remora_batch* batch);

/* As AsyncClient::BeginAttempt, Attempt and EndAttempt (client/async_client.h). */
int remora_async_begin_attempt(remora_async* async);
void remora_async_attempt(remora_async* async);
void remora_async_end_attempt(remora_async* async);

#ifdef __cplusplus
}
#endif

#endif
