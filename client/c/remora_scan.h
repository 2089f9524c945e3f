/* The part of remora.h, which includes it, for scans of many keys and for watches of writes. */
#ifndef REMORA_SCAN_H
#define REMORA_SCAN_H

#include "remora.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Many keys ------------------------------------------------------------------------------------------ */

/* A range: the keys that begin with `prefix` and lie in [begin, end), compared by their bytes. Size 0: no
 * such bound. */
typedef struct remora_range {
  remora_bytes prefix;
  remora_bytes begin;
  remora_bytes end;
} remora_range;

/* Options of a scan. Fill them with remora_scan_options_init, then change some. */
typedef struct remora_scan_options {
  size_t struct_size;
  remora_range range; /* default: all keys */
  int reverse;        /* 1: from the last key to the first; default: 0 */
  int keys_only;      /* 1: values come empty; default: 0 */
  int one_moment;     /* 1: end with REMORA_ABORTED rather than continue as of a later moment; default: 0 */
  uint64_t limit;     /* most entries to show; 0, the default: no limit */
  const char* resume_token; /* resume token of remora_scan_resume_token: continue there, instead of a range
                        and an order. Null, the default: begin anew. "" is rejected */
  int any_order; /* 1: show keys in any order (see below), without reverse and one_moment; default: 0 */
  int one_sided; /* 1: read the keys in the server's memory (see below), in order; default: 0 */
} remora_scan_options;

/* Fills the options with their defaults. */
void remora_scan_options_init(remora_scan_options* options);

/* A scan, which shows keys and values as of one moment: that of remora_scan_begin. `options` may be null.
 * Other calls of the client, and other scans, may come between its steps. If the client begins more than
 * four scans, or a step comes half a minute after the last one, the scan continues as of a later moment.
 *
 * A store that is only in memory keeps no order and no past, except with kvserver --ordered=memory. Without
 * that, remora_scan_begin ends with REMORA_FAILED_PRECONDITION, unless the options ask for any_order. Such
 * a scan shows each key that exists from the scan's begin to its end exactly once. It shows a key that is
 * written or goes meanwhile once or not at all, as it is at some moment in between. This holds also when the
 * server gives the scan's position up and the scan continues. The server looks at all keys, whatever the
 * range.
 *
 * A one-sided scan needs kvserver --ordered=memory, or ends with REMORA_FAILED_PRECONDITION. Then the server
 * has nothing to do for it. It shows each key that exists from the scan's begin to its end exactly once, in
 * order. It shows each record as it is at some moment in between; so it takes no one_moment.
 *
 * On a store with a disk or an ordered index, any order is the order of the keys. A resume token of the one
 * kind of scan does not work with the other: REMORA_FAILED_PRECONDITION.
 *
 * The caller owns *scan and ends it with remora_scan_end. Outcomes of remora_scan_begin, besides these:
 *   REMORA_INVALID_ARGUMENT: a bound is longer than a key, or the resume token is malformed. */
typedef struct remora_scan remora_scan;
remora_code remora_scan_begin(remora_client* client, const remora_scan_options* options, remora_scan** scan);
/* Goes to the next entry; the first call goes to the first one. The entry's bytes are in memory of the
 * client, valid until the next step of any scan, or the end of this one. `value` and `version` may be
 * null. Outcomes:
 *   REMORA_NOT_FOUND: the scan has no more entries.
 *   REMORA_FAILED_PRECONDITION: also, of a cluster, slots moved between its servers since the scan began. It
 *     may lack keys: begin a new one, without the resume token.
 *   REMORA_ABORTED: with one_moment, the server has given the scan up, or the connection broke.
 *   REMORA_UNAVAILABLE: also, the server cannot read its disk. */
remora_code remora_scan_next(remora_scan* scan, remora_bytes* key, remora_bytes* value, uint64_t* version);
/* Gets a resume token with which any client may later continue after the last entry. It consists of
 * letters, digits, "-" and "_". The token is valid until the next call with this scan. */
remora_code remora_scan_resume_token(remora_scan* scan, const char** resume_token);
/* Gets the time when the last entry expires, in ms since 1970 by the server's clock. 0: never. */
remora_code remora_scan_expiry(remora_scan* scan, uint64_t* expiry_ms);
/* Ends and frees the scan, before or after its client is closed. After the client is closed,
 * remora_scan_next ends with REMORA_FAILED_PRECONDITION. A null `scan` has no effect. */
void remora_scan_end(remora_scan* scan);

/* Counts the keys that a scan of the range would show, in any order; on a store that is only in memory, as
 * such a scan shows them. With a null range, *count becomes the server's counter of all keys, including
 * those that have expired and are not removed yet. While the server loads its durable tier, a null range
 * counts as a range with all keys. Outcomes as for remora_scan_begin. */
remora_code remora_count(remora_client* client, const remora_range* range, uint64_t* count);
/* Deletes the keys that are in the range when the call begins, one by one. Unless `deleted` is null,
 * *deleted becomes the number of keys deleted. Outcomes:
 *   REMORA_INVALID_ARGUMENT: the range has no bound, or one is longer than a key.
 *   REMORA_UNAVAILABLE, REMORA_DEADLINE_EXCEEDED: some keys may be deleted. */
remora_code remora_delete_range(remora_client* client, const remora_range* range, uint64_t* deleted);
/* Deletes all keys, as remora_delete_range does. */
remora_code remora_delete_all(remora_client* client, uint64_t* deleted);

/* --- What is written, in its order ---------------------------------------------------------------------- */

/* Options of a watch. Fill them with remora_watch_options_init, then change some. */
typedef struct remora_watch_options {
  size_t struct_size;
  remora_bytes prefix; /* watch the keys that begin with this; size 0, the default: all keys */
  /* Resume token of remora_watch_resume_token: continue there. Null, the default: begin now. "" is rejected.
   */
  const char* resume_token;
} remora_watch_options;

/* Fills the options with their defaults. */
void remora_watch_options_init(remora_watch_options* options);

/* Kind of a change. */
typedef enum remora_change_kind {
  REMORA_CHANGE_PUT = 1,    /* a write of any kind stored this value */
  REMORA_CHANGE_DELETE = 2, /* the key was deleted, or expired and was removed */
} remora_change_kind;

/* One change of a key, as a watch shows it. */
typedef struct remora_change {
  remora_change_kind kind;
  remora_bytes key;
  remora_bytes value; /* empty for a deletion */
  uint64_t version;   /* 0 for a deletion */
  uint64_t expiry_ms; /* in ms since 1970 by the server's clock; 0: never */
  uint64_t sequence;  /* increases from one change of a server to its next */
} remora_change;

/* A watch, which shows the writes to a store, in their order, once they are visible; those of a batch one
 * after the other. It may omit a write with REMORA_DURABILITY_MEMORY to a logged store. `options` may be
 * null. A watch continues over a new connection, and over a restart of a server with a data directory. The
 * caller owns *watch and ends it with remora_watch_end. Outcomes of remora_watch_begin:
 *   REMORA_FAILED_PRECONDITION: the server's store is only in memory, and keeps no changes (kvserver
 *     --change_log).
 *   REMORA_INVALID_ARGUMENT: the prefix is longer than a key, or the resume token is malformed. */
typedef struct remora_watch remora_watch;
remora_code remora_watch_begin(remora_client* client, const remora_watch_options* options,
                               remora_watch** watch);
/* Goes to the next change, and waits for it up to wait_ms: 0 does not wait, and a negative value waits
 * without limit. The change's bytes are in memory of the watch, valid until the next step. Outcomes:
 *   REMORA_NOT_FOUND: no change came in this time.
 *   REMORA_OUT_OF_RANGE: the server no longer keeps the changes that come next, or has other data now, for
 *     example as its data directory was replaced. A watch of a cluster also ends so once slots have left a
 *     server. Begin a new watch, and read all keys.
 * After any other error but REMORA_INVALID_ARGUMENT and REMORA_INTERNAL the caller may call again, and the
 * watch continues after the last change. One such error is REMORA_RESOURCE_EXHAUSTED: the server is short
 * of something. */
remora_code remora_watch_next(remora_watch* watch, int64_t wait_ms, remora_change* change);
/* Gets a resume token with which any client may later continue after the last change. It consists of
 * letters, digits, "-" and "_", and for a cluster also dots. A program that stores the token after it has
 * handled a change sees each change at least once. The token is valid until the next call with this watch. */
remora_code remora_watch_resume_token(remora_watch* watch, const char** resume_token);
/* Ends and frees the watch, before or after its client is closed. After the client is closed,
 * remora_watch_next ends with REMORA_FAILED_PRECONDITION. A null `watch` has no effect. */
void remora_watch_end(remora_watch* watch);

#ifdef __cplusplus
}
#endif

#endif
