/* Cleaning: one key's records are written, moved, killed and deleted. Their segments are retired and used again.
 * A reader goes by the index, or by a cached location, or reads a large record for long.
 *
 * The model and the code
 *   Segments            store/region/segments.h (Retire, ChangeGeneration, Release). Each has one place for a record.
 *   Writer              Publish (store/write/write_pipeline.cc), Cleaner::Move (store/reclaim/cleaner.cc).
 *   Reader, warm        The warm steps of Lookup, with CachedLocationIsFresh (client/get/lookup.cc). Its looks are
 *                       those of client/cache/segment_generations.h.
 *   Reader, cold        The cold steps of Lookup, which learns the place (client/cache/read_cache.h).
 *   Reader, large       ChunkedReader (client/get/chunked_read.cc): P1 to P5.
 *   Clock               T of layout.h, I6, is GRACE ticks.
 *
 * Property: a GET ends with a value that the key had at a moment of the GET. That is linearizability, with the
 * moments of the writes fixed: nothing overwritten or deleted before, nothing that never was the key's.
 *
 * Assumptions
 *   - The adversary of client/cache/segment_generations.h: memory that was used again reads as a live record of this
 *     key, whatever was asked for, checksum and all (LIE). So no checksum is relied on, but that a record's header is
 *     of one record; its live bit is one bit.
 *   - A generation is a byte of GENERATIONS values instead of 256, with the same bounds in proportion.
 *   - All clocks run at one speed; a clock is as coarse as its tick.
 *   - A reader caches one location, and has looked at the generations long ago when it begins.
 *     The index leads to it by one slot: its changes are those of growth.pml.
 * Left out: a reader that dies or forgets is one that begins anew.
 *
 * CHECK
 * CHECK -DLARGE=1
 * FAULT NOT_KILLED in 1 violates allowed>>found
 * FAULT KILLED_LATE in 1 violates allowed>>found
 * FAULT MOVED_NOT_KILLED in 1 violates allowed>>found
 * FAULT NO_REST in 1 violates allowed>>found
 * FAULT HALF_A_REST in 1 violates allowed>>found
 * FAULT NOT_COUNTED in 1 violates allowed>>found
 * FAULT COUNTED_LATE in 1 violates allowed>>found
 * FAULT LOOK_AS_YOUNG_AS_ITS_END in 1 violates allowed>>found
 * FAULT LEARNED_WITH_LATER_LOOK in 1 violates allowed>>found
 * FAULT SLOW_WARM_TRUSTED in 1 violates allowed>>found
 * FAULT OLD_LOOKS_COMPARED in 1 violates allowed>>found
 * FAULT SLOW_COLD_TRUSTED in 1 violates allowed>>found
 * FAULT LONG_TRUSTED in 2 violates allowed>>found
 * FAULT PROOF_UNBOUNDED in 2 violates allowed>>found
 */
#ifndef BROKEN
#define BROKEN NOTHING
#endif
#define NOTHING              0
#define NOT_KILLED           1 /* an overwritten record stays live */
#define KILLED_LATE          2 /* a record dies after the slot leads elsewhere */
#define MOVED_NOT_KILLED     3 /* a moved record stays live at its old place */
#define NO_REST              4 /* memory is used again at once */
#define HALF_A_REST          5 /* memory is retired for T */
#define NOT_COUNTED          6 /* an emptied segment's generation stays */
#define COUNTED_LATE         7 /* it changes when the segment is used again */
#define LOOK_AS_YOUNG_AS_ITS_END 8
#define LEARNED_WITH_LATER_LOOK  9
#define SLOW_WARM_TRUSTED   10 /* a warm GET believes its READ however long that took */
#define OLD_LOOKS_COMPARED  11 /* G3 without its bound */
#define SLOW_COLD_TRUSTED   12
#define LONG_TRUSTED        13 /* a large record is believed without P3 */
#define PROOF_UNBOUNDED     14 /* P3 without its bound */

#ifndef WRITES
#define WRITES 2
#endif
#ifndef LARGE
#define LARGE 0 /* 1: the reader is of a large record */
#endif
#define SEGMENTS    2
#define GENERATIONS 3
#define GRACE       1
#define FRESH       GRACE /* SegmentGenerations::fresh_for_, which is less by the clock's coarseness */
#define COMPARABLE  (GENERATIONS * GRACE) /* SegmentGenerations::comparable_for_ */
#define NEVER       (COMPARABLE + 1)      /* ticks are counted up to here */

#define LIE 7 /* a version that never was */
#if BROKEN == NO_REST
#define RESTS 0
#elif BROKEN == HALF_A_REST
#define RESTS GRACE
#else
#define RESTS (2 * GRACE)
#endif

/* The use of a segment: FREE, in use (a record's version, live or not; the key's, or others' bytes), or retired. */
mtype = { FREE, OURS, OTHERS, RESTING };
mtype use[SEGMENTS] = FREE;
byte version[SEGMENTS];
bool live[SEGMENTS];
byte changes[SEGMENTS]; /* of its generation, since the reader saw it; modulo GENERATIONS, as a byte shows them */
byte rested[SEGMENTS]; /* ticks that are left */

/* The result of a READ of a record there: a version if it verifies as live, 0 if not. Freed memory keeps its bytes. */
#define SHOWS(s) (use[s] == OTHERS -> LIE : (live[s] -> version[s] : 0))

#define NONE 255
byte slot = NONE; /* of the index: the segment of the record */
byte value;       /* that readers may see: a version, 0: none */
byte versions = 0;

/* Of the reader: which values there were since its GET began, as bits, and ticks since then. Also the ticks since the
 * look that it goes by was posted, since the one in flight was, and since it read the generations of a large record. */
byte allowed;
bool getting;
byte age = 0;
byte looked = NEVER, looking = NEVER;
byte proving = NEVER;

inline SetValue(v) {
  value = v;
  if :: getting -> allowed = allowed | (1 << v) :: else fi
}

/* --- The store --------------------------------------------------------------------------------------------- */

/* ValueLog::Append, Seal: a record where there is space, which nobody can find yet. */
inline Append(v, s) {
  if
  :: use[0] == FREE && rested[0] == 0 -> s = 0
  :: use[1] == FREE && rested[1] == 0 -> s = 1
  fi;
  use[s] = OURS; version[s] = v; live[s] = false
}
#define SOME_FREE (use[0] == FREE || use[1] == FREE)

inline Put() {
  atomic { versions++; Append(versions, new) }
#if BROKEN == KILLED_LATE
  old = slot;
  live[new] = true;
  d_step { slot = new; SetValue(versions) }
  if :: old != NONE -> live[old] = false :: else fi;
#else
  if
  :: slot != NONE ->
#if BROKEN == NOT_KILLED
    SetValue(versions);
#else
    d_step { live[slot] = false; SetValue(versions) }          /* Kill (I5) */
#endif
    live[new] = true;                                          /* MakeLive */
    slot = new                                                 /* Index::Replace */
  :: else ->
    live[new] = true;
    d_step { slot = new; SetValue(versions) }                  /* Index::Insert */
  fi;
#endif
  d_step { new = 0; old = 0 }
}

inline Delete() {
  d_step { live[slot] = false; SetValue(0) }
  slot = NONE
}

inline Move() {
  atomic { Append(version[slot], new) }
#if BROKEN != MOVED_NOT_KILLED
  live[slot] = false;
#endif
  live[new] = true;
  slot = new;
  new = 0
}

inline Count(s) { changes[s] = (changes[s] + 1) % GENERATIONS }

/* Segments::Retire, when nothing leads there any more; others' records may be dead at any time. */
inline Retire(s) {
  d_step {
    use[s] = RESTING;
    rested[s] = RESTS;
#if BROKEN != NOT_COUNTED && BROKEN != COUNTED_LATE
    Count(s)
#endif
  }
}

inline UseAgain(s) {
  d_step {
    use[s] = FREE
#if BROKEN == COUNTED_LATE
    ; Count(s)
#endif
  }
}

#define MAY_RETIRE(s) ((use[s] == OURS && slot != s) || use[s] == OTHERS)

active proctype Writer() {
  byte new, old;
  do
  :: SOME_FREE && versions < WRITES -> Put()
  :: slot != NONE -> Delete()
  :: slot != NONE && SOME_FREE -> Move()
  :: MAY_RETIRE(0) -> Retire(0)
  :: MAY_RETIRE(1) -> Retire(1)
  :: use[0] == RESTING && rested[0] == 0 -> UseAgain(0)
  :: use[1] == RESTING && rested[1] == 0 -> UseAgain(1)
  :: use[0] == FREE -> use[0] = OTHERS
  :: use[1] == FREE -> use[1] = OTHERS
  od
}

/* --- Time: it goes by wherever it makes a difference ------------------------------------------------------- */

inline Older(ticks) { if :: ticks < NEVER -> ticks++ :: else fi }

active proctype Clock() {
  do
  :: d_step {
       rested[0] > 0 || rested[1] > 0 || (getting && age <= GRACE) || looked < NEVER || looking < NEVER ||
           proving < NEVER ->
       if :: rested[0] > 0 -> rested[0]-- :: else fi;
       if :: rested[1] > 0 -> rested[1]-- :: else fi;
       if :: getting && age <= GRACE -> age++ :: else fi;
       Older(looked); Older(looking); Older(proving)
     }
  od
}

/* --- The reader -------------------------------------------------------------------------------------------- */

/* A look at the generations: posted, read, complete. A cached location stays valid while its number is that of its
 * segment's last look: no look shows another byte there, and all can be compared (G3). */
#if BROKEN == OLD_LOOKS_COMPARED
#define IS_COMPARABLE true
#else
#define IS_COMPARABLE (looked <= COMPARABLE)
#endif
#if BROKEN == LOOK_AS_YOUNG_AS_ITS_END
#define AGE_OF_LOOK 0
#else
#define AGE_OF_LOOK looking
#endif

#define NO_CHANGE(s) (s == NONE || changes[s] == 0)

inline Look() {
  looking = 0;
  d_step { same = NO_CHANGE(place); changes[0] = 0; changes[1] = 0 }
  d_step {
    if :: same && IS_COMPARABLE :: else -> place = NONE fi;
    looked = AGE_OF_LOOK;
    looking = NEVER; same = false
  }
}

#if BROKEN == SLOW_COLD_TRUSTED
#define IN_TIME true
#else
#define IN_TIME (age <= GRACE)
#endif
#if BROKEN == SLOW_WARM_TRUSTED
#define IS_FRESH true
#else
#define IS_FRESH (looked <= FRESH)
#endif

#if LARGE == 0
active proctype Reader() {
  byte place = NONE; /* remembered, with the number of its segment's last look */
  bool same;
  byte at = 0, found = 0;

begin:
  atomic {
    getting = true; allowed = 1 << value; age = 0; found = 0; at = 0;
    if
    :: place != NONE -> goto warm
    :: true -> goto cold
    fi
  }

warm:
  if
  :: looked <= FRESH
  :: else -> Look()
  fi;
  if
  :: place == NONE -> goto cold
  :: else
  fi;
  found = SHOWS(place);                                        /* ReadRecord */
  atomic {                                                     /* JudgeKnown */
    if
    :: IS_FRESH && found != 0 ->
      assert(allowed >> found & 1); /* warm */
      goto begin
    :: else -> place = NONE; goto begin
    fi
  }

cold:
  at = slot;
  atomic {
    if
    :: at == NONE ->
      assert(!IN_TIME || (allowed & 1)); /* missing */
      goto begin
    :: else
    fi
  }
  if
  :: true -> skip                                              /* it goes by a look of earlier */
  :: true -> Look()
  fi;
  found = SHOWS(at);
#if BROKEN == LEARNED_WITH_LATER_LOOK
  Look();
#endif
  atomic {
    if
    :: IN_TIME && found != 0 ->
      assert(allowed >> found & 1); /* cold */
      if
      :: place = at                                            /* Learn (G4) */
      :: true
      fi
    :: else
    fi;
    goto begin
  }
}
#else
active proctype Reader() {
  byte at = 0, found = 0;

begin:
  atomic { getting = true; allowed = 1 << value; age = 0; found = 0; at = 0; proving = NEVER }
  at = slot;
  if
  :: at == NONE -> goto begin
  :: else
  fi;
  proving = 0;
  d_step { changes[0] = 0; changes[1] = 0 }                    /* the generations */
  found = SHOWS(at);                                           /* the header, with the live bit */
  if
  :: found == 0 || !IN_TIME -> goto begin
  :: else
  fi;
  /* The value, at a later moment: of that record as long as it stands there. */
  if
  :: use[at] == OTHERS || version[at] != found -> found = LIE
  :: else
  fi;
  atomic {                                                     /* the generations again: TakeProof */
    if
#if BROKEN == LONG_TRUSTED
    :: true ->
#elif BROKEN == PROOF_UNBOUNDED
    :: NO_CHANGE(at) ->
#else
    :: age <= GRACE || (NO_CHANGE(at) && proving <= COMPARABLE) ->
#endif
      assert(allowed >> found & 1); /* large */
      goto begin
    :: else -> goto begin
    fi
  }
}
#endif
