/* Commit and recovery: one client's writes of one key, synced and not. Meanwhile connections break, the server is
 * killed, the power is cut, and the disk fails to sync. The client asks about writes in doubt, and sends them again.
 *
 * The model and the code
 *   log, disk           RocksDB's log: the part that the system has, and how much of it the disk has. A log entry is a
 *                       group, written by DurableTier::Write (MakeDurable in store/write/write_pipeline.cc). It has the
 *                       write, its completion record (store/durable/completion_records.h, R2), and the end of the block
 *                       of versions (SetVersionLimit).
 *   visible             The entry whose value readers get. Those behind it, up to written, are pending
 *                       (store/write/sync_queue.h): a key's writes become visible in their order.
 *   Syncer              SyncQueue::SyncUnlocked, DiskHealth::NoteSync.
 *   Server              WriteBatcher::AnswerWrite, AnswerSynced (server/request/write_batcher.cc),
 *                       Acceptor::AcceptClients (server/connection/acceptor.cc), and ClientEntry
 *                       (server/connection/client_table.h).
 *   Client              Session::Reconnect (client/session/reconnect.cc), kQueryCompletion.
 *   Machine             kill -9, a power cut, recovery (store/durable/wal/wal_recovery.h). After a cut the log is replayed
 *                       up to its first hole, wherever behind the synced part that is.
 *
 * Properties
 *   D1  No synced write that a reader saw, or whose client was told that it was done, is lost.
 *   -   No write is in the data twice, however often it was in doubt. A client is told of no write that is not there.
 *   -   Readers never see an older write after a newer one, but for a power cut that takes unsynced ones.
 *   -   No version that a reader saw is given to another write.
 *
 * Assumptions
 *   - The disk has all that it said that it has, once; after a sync that failed, it has anything. (A log with holes
 *     that no power cut explains is W3's and W4's, tests/unit/store/wal_recovery_test.cc.)
 *   - RocksDB writes the replayed log to tables, and syncs them, before a database is open (its default).
 *   - A client has one write at a time, so that the 16 completion records of a client are one here. A completion record
 *     and the question for it are one step: a connection that breaks in between makes the client ask again.
 *
 * CHECK
 * FAULT PUBLISHED_BEFORE_SYNC in 1 violates synced[written]
 * FAULT ACKED_BEFORE_SYNC in 1 violates synced[written]
 * FAULT COMPLETION_NOT_LOGGED in 1 violates write[i_]!=
 * FAULT COMPLETION_BEHIND_WRITE in 1 violates write[i_]!=
 * FAULT TOLD_BEFORE_SYNC in 1 violates write[i_]!=
 * FAULT NOT_DROPPED in 1 violates write[i_]!=
 * FAULT NOT_ASKED in 1 violates write[i_]!=
 * FAULT FORGOTTEN_BELIEVED in 1 violates write[i_]!=
 * FAULT LIMIT_NOT_SYNCED in 1 violates seen_as
 * FAULT OVERTAKES in 1 violates newest
 * FAULT SYNC_ASKED_AGAIN in 1 violates synced[written]
 * FAULT REPLAYED_NOT_SYNCED in 1 violates synced[written]
 */
#ifndef BROKEN
#define BROKEN NOTHING
#endif
#define NOTHING                  0
#define PUBLISHED_BEFORE_SYNC    1
#define ACKED_BEFORE_SYNC        2
#define COMPLETION_NOT_LOGGED    3 /* completion records are not in the log */
#define COMPLETION_BEHIND_WRITE  4 /* they come in a group of their own */
#define TOLD_BEFORE_SYNC         5 /* a client that asks is answered while its write is pending */
#define NOT_DROPPED              6 /* requests of a connection are done when the next one is there */
#define NOT_ASKED                7 /* a client sends every unanswered write again */
#define FORGOTTEN_BELIEVED       8 /* a client ID that was forgotten may return */
#define LIMIT_NOT_SYNCED         9 /* the block of versions is not on disk when the first of it is seen */
#define OVERTAKES               10 /* a write that is not synced does not wait for one that is, of its key */
#define SYNC_ASKED_AGAIN        11 /* a sync that failed is asked for again */
#define REPLAYED_NOT_SYNCED     12 /* the replayed log is served before the disk has it */

#ifndef WRITES
#define WRITES 2 /* that the client wants to do */
#endif
#ifndef FAULTS
#define FAULTS 3 /* of connections, processes, machines, disks */
#endif
#define OTHERS   1
#define LOG      (WRITES + OTHERS + FAULTS + 1) /* a write that is lost is sent again */
#define BLOCK    2                     /* kVersionBlock */
#define VERSIONS 24

/* The log; entry 0 is none. */
byte write[LOG];   /* which of the client's */
byte request[LOG]; /* and the request's number */
bool completion[LOG]; /* the completion record is with it */
bool synced[LOG];  /* Staged::synced */
byte limit[LOG];   /* the end of the block of versions, as of this group */
byte version[LOG];
byte written, disk;
/* A disk that failed says yes the next time, and has no more than before. */
bool disk_lies, sync_failed;

/* The server's memory. */
bool up = true;
byte visible, newest; /* up to which all are visible; the last that is */
byte next = 1;
byte sync_to;  /* the entry that the disk is asked for; 0: none */
bool known;    /* the client's ID is here */
byte noted;    /* the request of its last write that was done: ClientEntry::completions */

/* The connection, and the requests in flight on it. */
bool connected;
byte sent, sent_write; /* a request that the server has not taken, 0: none */
bool sent_synced;
byte replied;
/* With NOT_DROPPED: the request of an earlier connection. */
byte late, late_write;

/* The entries that readers saw, and those that the client was told of. */
bool seen[LOG], told[LOG];
byte seen_as[VERSIONS]; /* the write that a reader saw with that version */
byte faults;

#define PENDING (visible < written)

/* --- The store --------------------------------------------------------------------------------------------- */

hidden byte i_;
hidden byte raises_;

/* An entry is published, noted, and answered: Publish, AnswerWrite. There are readers at once. */
inline Show(i) {
  assert(i > newest); /* readers never see an older one */
  newest = i;
  assert(seen_as[version[i]] == 0 || seen_as[version[i]] == write[i]); /* no version comes twice */
  seen_as[version[i]] = write[i];
  seen[i] = true;
  if
  :: request[i] != 0 ->
    noted = request[i];
    if :: connected -> replied = request[i] :: else fi
  :: else
  fi
}

/* PublishSynced. */
inline ShowTo(last) {
  do
  :: visible < last ->
    visible++;
    Show(visible)
  :: else -> break
  od
}

/* One group, of one write: Stage, MakeDurable. */
inline Commit(what, id, level) {
  i_ = 1;
  do
  :: i_ <= written -> assert(write[i_] != what); i_++ /* no write is done twice */
  :: else -> break
  od;
  written++;
  write[written] = what;
  request[written] = id;
#if BROKEN == OVERTAKES
  synced[written] = level;
#else
  synced[written] = level || visible + 1 < written;            /* S1 */
#endif
  version[written] = next;
  next++;
  raises_ = next > limit[written - 1];
  limit[written] = (raises_ -> next + BLOCK : limit[written - 1]);
#if BROKEN == COMPLETION_NOT_LOGGED || BROKEN == COMPLETION_BEHIND_WRITE
  completion[written] = false;
#else
  completion[written] = true;
#endif
  skip
}

/* PublishOrAwait; a group that raises the limit is synced at once, with all that was pending. */
inline PublishOrAwait() {
  if
#if BROKEN != LIMIT_NOT_SYNCED
  :: raises_ -> if :: !disk_lies -> disk = written :: else fi; ShowTo(written)
  :: !raises_ ->
#else
  :: true ->
#endif
    if
#if BROKEN == PUBLISHED_BEFORE_SYNC
    :: true -> ShowTo(written)
#elif BROKEN == OVERTAKES
    :: !synced[written] && visible + 1 < written -> Show(written)
    :: !synced[written] && visible + 1 == written -> ShowTo(written)
#else
    :: !synced[written] -> ShowTo(written)
#endif
#if BROKEN == ACKED_BEFORE_SYNC
    :: synced[written] -> if :: connected -> replied = request[written] :: else fi
#elif BROKEN != PUBLISHED_BEFORE_SYNC
    :: synced[written]
#endif
    fi
  fi
}

active proctype Syncer() {
  do
  :: atomic { up && PENDING && sync_to == 0 && !sync_failed -> sync_to = written }
  :: atomic {                                                  /* the disk has it */
       sync_to != 0 ->
       if :: !disk_lies && sync_to > disk -> disk = sync_to :: else fi;
       ShowTo(sync_to);
       sync_to = 0
     }
  :: d_step {                                                  /* NoteSynced: it failed */
       sync_to != 0 && faults < FAULTS ->
       faults++;
       sync_to = 0;
       disk_lies = true;
#if BROKEN != SYNC_ASKED_AGAIN
       sync_failed = true
#endif
     }
  od
}

/* --- The server -------------------------------------------------------------------------------------------- */

active proctype Server() {
  byte others;
  do
  :: atomic { up && connected && sent != 0 && !sync_failed ->
       Commit(sent_write, sent, sent_synced);
       sent = 0; sent_write = 0; sent_synced = false;
       PublishOrAwait()
     }
  /* Another client's write of the same key. */
  :: atomic { up && others < OTHERS && !sync_failed ->
       others++;
       if
       :: Commit(WRITES + others, 0, false)
       :: Commit(WRITES + others, 0, true)
       fi;
       PublishOrAwait()
     }
#if BROKEN == NOT_DROPPED
  :: atomic { up && late != 0 && !sync_failed ->
       Commit(late_write, late, false);
       late = 0; late_write = 0;
       PublishOrAwait()
     }
#endif
#if BROKEN == COMPLETION_BEHIND_WRITE
  :: atomic { up && written > 0 && !completion[written] -> completion[written] = true }
#endif
  :: atomic { up && !connected && known && !PENDING && faults < FAULTS -> /* ClientTable forgets it */
       faults++; known = false; noted = 0;
       i_ = 1;
       do
       :: i_ <= written -> completion[i_] = false; i_++
       :: else -> break
       od
     }
  od
}

/* --- The failures ------------------------------------------------------------------------------------------- */

inline Break() { connected = false; replied = 0 }

/* The server's memory is gone, with its connections and their requests. */
inline Die() {
  up = false;
  Break(); sent = 0; sent_write = 0; sent_synced = false;
  sync_to = 0; noted = 0; sync_failed = false;
  late = 0; late_write = 0
}

/* The disk keeps the log up to some entry that is not before what was synced. */
inline Lose() {
  do
  :: written > disk ->
    assert(!synced[written] || !(seen[written] || told[written])); /* D1 */
    /* The write is gone, as if it had never been; but for the version, which a reader may know. */
    write[written] = 0; request[written] = 0; completion[written] = false; synced[written] = false;
    limit[written] = 0; version[written] = 0; seen[written] = false; told[written] = false;
    written--
  :: true -> break
  od
}

/* Open: the log is replayed, written to tables, and seen. */
inline Restart() {
  up = true;
#if BROKEN != REPLAYED_NOT_SYNCED
  disk = written;
  disk_lies = false;
#endif
  next = (limit[written] > 1 -> limit[written] : 1);
  visible = written;
  newest = written;
  noted = 0;
  i_ = 1;
  do
  :: i_ <= written ->
    seen[i_] = true;
    if :: completion[i_] && request[i_] != 0 -> noted = request[i_] :: else fi;
    i_++
  :: else -> break
  od
}

active proctype Machine() {
  do
  :: d_step { connected && faults < FAULTS -> faults++; Break() }
  :: atomic { up && faults < FAULTS -> faults++; Die() }                /* kill -9 */
  :: atomic { up && faults < FAULTS -> faults++; Die(); Lose() }        /* the power is cut */
  :: atomic { up && sync_failed -> Die() }                              /* its operator opens it again */
  :: atomic { !up -> Restart() }
  od
}

/* --- The client -------------------------------------------------------------------------------------------- */

inline Send() {
  requests++;
  id = requests;
  sent = id;
  sent_write = wanted;
  sent_synced = level;
  asks = true; lost = false
}

/* It is told that the write is done. */
inline Told() {
  i_ = written;
  do
  :: i_ > 0 && request[i_] != id -> i_--
  :: else -> break
  od;
  told[i_] = true;
  asks = false; lost = false; id = 0; replied = 0
}

#if BROKEN == TOLD_BEFORE_SYNC
#define MAY_BE_TOLD true
#else
#define MAY_BE_TOLD (!PENDING)
#endif

active proctype Client() {
  byte requests;
  byte id;      /* unacknowledged_write_ */
  byte wanted;  /* the write, 0: none yet */
  bool level;   /* synced */
  bool asks;
  bool had_id;
  bool lost;    /* it was sent over a connection that broke */
  do
  :: atomic { up && !connected ->                              /* Reconnect: the connection before is dropped (O1) */
#if BROKEN == NOT_DROPPED
       if :: sent != 0 -> late = sent; late_write = sent_write :: else fi;
#endif
       sent = 0; sent_write = 0; sent_synced = false;
       connected = true;
       lost = asks;
#if BROKEN == FORGOTTEN_BELIEVED
       known = true
#else
       if
       :: known || !had_id
       :: !known && had_id -> id = 0; asks = false; lost = false /* rejected (O4): a write in doubt ends as Unknown */
       fi;
       known = true; had_id = true
#endif
     }
  :: atomic { connected && !asks && wanted < WRITES && replied == 0 ->
       wanted++;
       if :: level = false :: level = true fi;
       Send()
     }
  :: atomic { connected && asks && replied == id -> Told() }
#if BROKEN == NOT_ASKED
  :: atomic { connected && lost -> Send() }
#else
  /* The write was sent over an earlier connection: the client asks (kQueryCompletion). The answer is put off while a
   * write of its ID is pending (ClientEntry::unsynced). */
  :: atomic { connected && lost && MAY_BE_TOLD ->
       if
       :: noted == id -> Told()
       :: else -> Send()
       fi
     }
#endif
  od
}
