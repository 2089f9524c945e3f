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
/* Connects as remora_connect_cluster does, and calls `interrupted` as above. */
remora_code remora_connect_cluster_interruptible(const char* topology, const remora_options* options,
                                                 int (*interrupted)(void* context), void* context,
                                                 remora_client** client);
/* Opens as remora_async_open does. This call and remora_async_reconnect call `interrupted` as above. */
remora_code remora_async_open_interruptible(const char* address, const remora_options* options, size_t depth,
                                            int (*interrupted)(void* context), void* context,
                                            remora_async** async);

/* Where a topology comes from, to be read again and again (client/cluster/topology_reader.h). Any thread may
 * use it, but not during remora_source_close. */
typedef struct remora_source remora_source;
/* A topology that was read. The index of a shard must be less than remora_topology_count. */
typedef struct remora_topology remora_topology;
/* Reads a topology for the first time: a file, or that of cluster://HOST:PORT,... Calls `interrupted` as
 * above, now and in remora_source_read. Outcomes as for remora_connect_cluster. On REMORA_OK the caller
 * closes *source, and frees *topology. */
remora_code remora_source_open(const char* from, const remora_options* options,
                               int (*interrupted)(void* context), void* context, remora_source** source,
                               remora_topology** topology);
/* Reads it anew. REMORA_FAILED_PRECONDITION: it has other shards now. Others: it cannot be read. On REMORA_OK
 * the caller frees *topology. */
remora_code remora_source_read(remora_source* source, remora_topology** topology);
/* Ends it. A null `source` has no effect. */
void remora_source_close(remora_source* source);
/* Returns 1 if servers tell the topology, and not a file; else 0. */
int remora_source_is_of_servers(const remora_source* source);
/* Frees the topology. A null `topology` has no effect. */
void remora_topology_free(remora_topology* topology);
size_t remora_topology_count(const remora_topology* topology);
/* Returns the name and addresses of a shard for errors, valid as long as the topology. */
const char* remora_topology_name(const remora_topology* topology, size_t shard);
/* Returns 1 if an error of a call with one key may be the server's, by its code; 0: it is the key's. Such an
 * error gets the shard's name. */
int remora_is_of_server(remora_code code);
/* Returns the slot of a key. */
uint32_t remora_slot_of(const void* key, size_t key_size);
/* Sets *slot to the slot of all keys of the batch. REMORA_INVALID_ARGUMENT: as for remora_apply with a client
 * of a cluster. */
remora_code remora_slot_of_batch(const remora_batch* batch, uint32_t* slot);
/* Returns the index of the shard that has the slot. SIZE_MAX: there is no such slot. */
size_t remora_topology_shard_of_slot(const remora_topology* topology, uint32_t slot);
/* Returns 1 if the operation was not done because the server does not have the slot of its key; else 0.
 * `result` is what the library has passed to a callback. */
int remora_async_is_moved(const remora_async_result* result);
/* Opens as remora_async_open_interruptible, with the server of a shard. REMORA_FAILED_PRECONDITION: also, the
 * server is another shard. */
remora_code remora_topology_open(const remora_topology* topology, size_t shard, const remora_options* options,
                                 size_t depth, int (*interrupted)(void* context), void* context,
                                 remora_async** async);
/* Has the next connection go to the addresses of the shard in this topology. Not between
 * remora_async_begin_reconnect and remora_async_end_reconnect. */
remora_code remora_topology_place(const remora_topology* topology, size_t shard, remora_async* async);
/* Returns a number that the server has drawn at its start; 0: there is no connection. Not between
 * remora_async_begin_reconnect and remora_async_end_reconnect. */
uint64_t remora_async_incarnation(const remora_async* async);

/* Returns 1 while remora_visit shows the value that begins at `value` to this thread where it is, in memory
 * of the server; else 0. */
int remora_visit_is_in_place(const void* value);
/* Keeps the addresses of the server's memory that has `bytes`, for a program that may access them after the
 * visit. Nothing else gets them once the memory is unmapped; they read as zeros then. Call it while
 * remora_visit_is_in_place. */
void remora_keep_addresses(const void* bytes);

/* Gives each client of this process that connects from now on a mapping of its own of the server's memory, so
 * that it is unmapped with the client. Others share one. */
void remora_share_no_mappings(void);

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
