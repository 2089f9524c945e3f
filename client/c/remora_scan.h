/* Of remora.h, which includes it: many keys, and what is written, in its order. */
#ifndef REMORA_SCAN_H
#define REMORA_SCAN_H

#include "remora.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Many keys ------------------------------------------------------------------------------------------ */

/* Keys that begin with `prefix`, and of them those of [begin, end), by their bytes. Size 0: no such bound. */
typedef struct remora_range {
  remora_bytes prefix;
  remora_bytes begin;
  remora_bytes end;
} remora_range;

/* To be filled by remora_scan_options_init, then changed. */
typedef struct remora_scan_options {
  size_t struct_size;
  remora_range range; /* all */
  int reverse;        /* from the last key to the first: 0 */
  int keys_only;      /* values come empty: 0 */
  int one_moment;     /* rather REMORA_ABORTED than to go on as of a later moment: 0 */
  uint64_t limit;     /* 0: none */
  const char* token;  /* of remora_scan_token: instead of a range and an order, go on there. Null: none; "" is
                         refused */
  int any_order;      /* in whatever order there is, see below; without reverse and one_moment: 0 */
  int reserved;       /* 0 */
} remora_scan_options;

void remora_scan_options_init(remora_scan_options* options);

/* Keys and values as of one moment: that of this call. Other calls, and other scans, may come between its
 * steps; when the client begins more than four, or a step comes half a minute after the last, it goes on as
 * of a later moment. `options` may be null.
 *
 * A store that is only in memory keeps no order, and no past: REMORA_FAILED_PRECONDITION, unless any_order is
 * asked for. Then each key that is there from the scan's begin to its end is shown exactly once, and one that
 * is written or goes meanwhile once or not at all, as it is at some moment in between, whatever else happens.
 * (So also where the scan is given up, and goes on.) All keys are looked at, whatever the range. With a disk,
 * any order is that of the keys. A token of the one does not go on in the other:
 * REMORA_FAILED_PRECONDITION. */
typedef struct remora_scan remora_scan;
remora_code remora_scan_begin(remora_client* client, const remora_scan_options* options, remora_scan** scan);
/* Goes to the next entry, at first to the first one. Its bytes, in memory of the client, are there until the
 * next step of any scan, and its end. `value` and `version` may be null. REMORA_NOT_FOUND: there is no more.
 */
remora_code remora_scan_next(remora_scan* scan, remora_bytes* key, remora_bytes* value, uint64_t* version);
/* What goes on behind the last entry, later, with any client: letters, digits, "-" and "_". Until the next
 * call with this scan. */
remora_code remora_scan_token(remora_scan* scan, const char** token);
/* The moment of the server's clock, in ms since 1970, at which the last entry expires. 0: never. */
remora_code remora_scan_expiry(remora_scan* scan, uint64_t* expiry_ms);
/* Before its client is closed, or behind that: then remora_scan_next ends with REMORA_FAILED_PRECONDITION.
 * Null: nothing happens. */
void remora_scan_end(remora_scan* scan);

/* How many keys a scan of the range would show; of a null range, how many there are, as the server's counter
 * has it: also those that have expired and are not removed yet (while it loads, as of a range that has them
 * all). In any order, so of a store that is only in
 * memory as such a scan shows them. */
remora_code remora_count(remora_client* client, const remora_range* range, uint64_t* count);
/* Deletes what is in the range when it begins, one by one; *deleted, unless null, gets how many keys that
 * were. REMORA_INVALID_ARGUMENT: a range without a bound. */
remora_code remora_delete_range(remora_client* client, const remora_range* range, uint64_t* deleted);
/* The same of all there is. */
remora_code remora_drop_all(remora_client* client, uint64_t* deleted);

/* --- What is written, in its order ---------------------------------------------------------------------- */

/* To be filled by remora_watch_options_init, then changed. */
typedef struct remora_watch_options {
  size_t struct_size;
  remora_bytes prefix; /* of keys that begin with this; size 0: of all */
  const char*
      token; /* of remora_watch_token: go on there. Null: what is written from now on; "" is refused */
} remora_watch_options;

void remora_watch_options_init(remora_watch_options* options);

typedef enum remora_change_kind {
  REMORA_CHANGE_PUT = 1,    /* the key has this value: by any write that stores one */
  REMORA_CHANGE_DELETE = 2, /* the key is gone: deleted, or expired and removed */
} remora_change_kind;

typedef struct remora_change {
  remora_change_kind kind;
  remora_bytes key;
  remora_bytes value; /* of a deletion: empty */
  uint64_t version;   /* of a deletion: 0 */
  uint64_t expiry_ms; /* of the server's clock, in ms since 1970; 0: never */
  uint64_t sequence;  /* goes up from one change to the next */
} remora_change;

/* What is written to a logged store, in its order, once it is visible; of a batch, one write after the other.
 * A write with REMORA_DURABILITY_MEMORY may be left out. `options` may be null. Goes on over a new
 * connection, and a restart of the server. REMORA_FAILED_PRECONDITION: the server's store is only in memory;
 * REMORA_INVALID_ARGUMENT: a prefix longer than a key, or a token that is none. */
typedef struct remora_watch remora_watch;
remora_code remora_watch_begin(remora_client* client, const remora_watch_options* options,
                               remora_watch** watch);
/* Goes to the next change, and waits for it, wait_ms at most: 0 does not wait, a negative one has no end. Its
 * bytes, in memory of the watch, are there until the next step. REMORA_NOT_FOUND: none came in this time.
 * REMORA_OUT_OF_RANGE: what comes next is not kept any more: begin anew, and read what there is. After all
 * other errors but REMORA_INVALID_ARGUMENT and REMORA_INTERNAL it may be called again, and goes on behind the
 * last change: so after REMORA_RESOURCE_EXHAUSTED, where the server was short of something. */
remora_code remora_watch_next(remora_watch* watch, int64_t wait_ms, remora_change* change);
/* What goes on behind the last change, later, with any client: letters, digits, "-" and "_". Who keeps it
 * after having done what a change asks for sees each change at least once. Until the next call with this
 * watch. */
remora_code remora_watch_token(remora_watch* watch, const char** token);
/* Before its client is closed, or behind that: then remora_watch_next ends with REMORA_FAILED_PRECONDITION.
 * Null: nothing happens. */
void remora_watch_end(remora_watch* watch);

#ifdef __cplusplus
}
#endif

#endif
