/* Looks at the generations by two clients that share what they saw. One segment is emptied and used again, many times
 * over. A reader learns the place of a record there, and reads it later.
 *
 * The model and the code
 *   Store                store/region/segments.h (Retire, ChangeGeneration, Release)
 *   Looker               READs of generations by a client: SegmentGenerations::Take (client/cache/segment_generations.h).
 *                        Looks may overlap, and be taken in any order (G7).
 *   Reader               Lookup (client/get/lookup.cc): it notes the count of looks before its READ, learns the place
 *                        with that count (G4), and judges a later READ by it (G5). It may forget the place.
 *   changed              Whether a look that was taken since then gave the segment another number.
 *   Clock                T of layout.h, I6, is GRACE ticks.
 *
 * Property: a READ that the reader believes shows no bytes but those of the record that it learned, and that one live.
 *
 * Assumptions: as those of cleaning.pml.
 *
 * CHECK
 * FAULT NOTED_LATE in 1 violates found
 * FAULT LOOK_AS_YOUNG_AS_ITS_END in 1 violates found
 * FAULT OLD_LOOKS_COMPARED in 1 violates found
 * FAULT HALF_A_REST in 1 violates found
 * FAULT NOT_JUDGED_AFTERWARDS in 1 violates found
 */
#ifndef BROKEN
#define BROKEN NOTHING
#endif
#define NOTHING                  0
#define NOTED_LATE               1 /* the count is that of when the place is learned */
#define LOOK_AS_YOUNG_AS_ITS_END 2
#define OLD_LOOKS_COMPARED       3 /* G3 without its bound */
#define HALF_A_REST              4 /* memory is retired for T */
#define NOT_JUDGED_AFTERWARDS    5 /* the place is judged before its READ alone */

#define GENERATIONS 3
#define GRACE       1
#define FRESH       GRACE
#define COMPARABLE  (GENERATIONS * GRACE)
#define NEVER       (COMPARABLE + 1) /* ticks are counted up to here */
#if BROKEN == HALF_A_REST
#define RESTS GRACE
#else
#define RESTS (2 * GRACE)
#endif

mtype = { RECORD, DEAD, LIE }; /* the bytes at the place; a LIE reads as a live record of the key */
mtype bytes = RECORD;
bool resting = false;
byte rest = 0;       /* ticks until it may be used again */
byte generation = 0; /* as the server shows it */

byte shown = 0;      /* by the look that was taken last */
byte looked = NEVER; /* ticks since that was posted */
byte posted[2] = NEVER;
bool changed = false;

#define OLDER(ticks) if :: ticks < NEVER -> ticks++ :: else fi

active proctype Store() {
  do
  :: atomic { !resting && bytes == RECORD -> bytes = DEAD }
  :: atomic { !resting && bytes != RECORD ->
       generation = (generation + 1) % GENERATIONS; resting = true; rest = RESTS }
  :: atomic { resting && rest == 0 ->
       resting = false;
       if
       :: bytes = RECORD
       :: bytes = LIE
       fi }
  od
}

active proctype Clock() {
  do
  :: d_step {
       if :: rest > 0 -> rest-- :: else fi;
       OLDER(looked); OLDER(posted[0]); OLDER(posted[1])
     }
  od
}

#if BROKEN == OLD_LOOKS_COMPARED
#define IS_COMPARABLE true
#else
#define IS_COMPARABLE (looked <= COMPARABLE)
#endif

active [2] proctype Looker() {
  byte me = _pid - 2;
  byte seen;
  do
  :: posted[me] = 0;
     seen = generation;
     d_step {
       if :: seen == shown && IS_COMPARABLE :: else -> changed = true fi;
       shown = seen;
#if BROKEN == LOOK_AS_YOUNG_AS_ITS_END
       looked = 0;
#else
       looked = posted[me];
#endif
       posted[me] = NEVER; seen = 0
     }
  od
}

#define IS_VALID (looked <= FRESH && !changed)

active proctype Reader() {
  mtype found = DEAD;
begin:
  changed = false; /* notes the count */
  found = bytes;
  if
  :: found == RECORD
  :: else -> goto begin
  fi;
#if BROKEN == NOTED_LATE
  changed = false;
#endif
  do
  :: IS_VALID ->
     found = bytes;
     if
#if BROKEN == NOT_JUDGED_AFTERWARDS
     :: true -> assert(found != LIE)
#else
     :: IS_VALID -> assert(found != LIE)
     :: else
#endif
     fi;
     found = DEAD
  :: found = DEAD; goto begin
  od
}
