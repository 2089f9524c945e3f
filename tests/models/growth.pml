/* Growth: a reader's search while buckets are split, entries copied and cleared, keys written and deleted.
 *
 * The model and the code
 *   Bucket, slot, control word     store/format/memory/layout.h. A slot's word is the place of its record (0: empty).
 *                                  Its fingerprint is the same for all keys here, so every other key is a candidate.
 *   Reader                         KeySearch (store/format/memory/key_search.h) as Lookup (client/get/lookup.cc)
 *                                  drives it.
 *   Writer                         The store's one writer: Publish (store/write/write_pipeline.cc), and Split, Compact,
 *                                  UnlinkEmpty, Tick, AddOverflow of store/index/index.cc.
 *   Clock                          Clock (store/base/clock.h). T of I6 is one tick, so a grace period takes two.
 *
 * Property: linearizability, with the moments of the writes fixed. A search that ends in time, with a version (the
 * place of its record) or with a miss, ends with the key's value at a moment of the search.
 *
 * Assumptions
 *   - Bytes are read whole. So the depth is. A slot is read in two pieces, fingerprint and place, in any order, with
 *     anything in between. A place that is a mixture itself leads to nothing that verifies, which only makes the
 *     reader unsure; a mixture of two links is recognised (EncodeControl in layout.h).
 *   - There is one writer; its stores are seen in their order.
 *   - Both clocks run at one speed.
 *   - No memory of records or overflow buckets is used again within the time looked at: cleaning.pml is about that.
 * Left out: cold slots, and a chain longer than two buckets.
 *
 * CHECK -DSLOTS=1
 * CHECK -DSLOTS=2
 * CHECK -DSLOTS=2 -DSPLITS=3 -DWRITES=1
 * FAULT CLEARED_AT_ONCE in 2 violates allowed&1
 * FAULT NOT_MARKED in 2 violates allowed&1
 * FAULT MARKED_FIRST in 2 violates allowed&1
 * FAULT SLOW_TRUSTED in 2 violates allowed&1
 * FAULT DEAD_IS_MISSING in 2 violates allowed&1
 * FAULT MOVED_NOT_COPIED in 1 violates allowed&1
 * FAULT STAYS_AT_HOME in 2 violates allowed&1
 * FAULT RESTS_TOO_EARLY in 2 violates allowed&1
 * FAULT DEAD_IS_FOUND in 2 violates allowed>>place
 */
#ifndef BROKEN
#define BROKEN NOTHING
#endif
#define NOTHING          0
#define CLEARED_AT_ONCE  1 /* a copied entry does not rest before it is cleared */
#define NOT_MARKED       2 /* a split bucket does not say so */
#define MARKED_FIRST     3 /* a split bucket says so before the other half is filled */
#define SLOW_TRUSTED     4 /* a reader believes its READs however long they took */
#define DEAD_IS_MISSING  5 /* a reader that met a dead record takes the key for missing */
#define MOVED_NOT_COPIED 6 /* an entry leaves its slot before it is in another */
#define STAYS_AT_HOME    7 /* a reader does not go on where a deeper bucket sends it */
#define RESTS_TOO_EARLY  8 /* a copied entry's grace period begins before the split bucket says so */
#define DEAD_IS_FOUND    9 /* a reader does not look at the live bit */

#ifndef WRITES
#define WRITES 2 /* puts */
#endif
#ifndef SLOTS
#define SLOTS 1 /* of a bucket: 1, and some buckets have another behind them; or 2, and none has */
#endif
#ifndef SPLITS
#define SPLITS 1 /* at most 3 */
#endif
/* The low two bits of the keys' hashes. They part at the first split; at the second, key 0 moves, at the third
 * key 1. */
#define HASH(k) (k == 0 -> 2 : 3)

#if SLOTS == 1
#define BUCKETS  5
#define OVERFLOW 4 /* may continue bucket 0 */
#else
#define BUCKETS  4
#endif
#define WORD(b, i) word[(b) * SLOTS + (i)]
#define ALL_SLOTS (BUCKETS * SLOTS)
#define NO_LINK 0
#define NONE    255
#define GRACE   1
#define RESTS   2 /* ticks, 2T */

byte word[ALL_SLOTS];
byte depth[BUCKETS];
byte linked[BUCKETS]; /* 0: none, else the bucket */
byte rest[ALL_SLOTS]; /* 0: the slot does not rest; else one more than the ticks that are left */

#define PLACES (WRITES + 1)
byte key_of[PLACES];
bool live[PLACES];
byte places = 1;

byte splits;     /* done: the exact level and split, in one number */
bool compact;    /* the chain of bucket 0 may be compacted */

/* The value that readers may see: the place of the record, 0: none. */
byte value[2];

/* Of the reader: which key it searches, what was the value since it began (bit p: p was), and how long ago that
 * was. */
byte searched;
byte allowed;
byte age;

inline SetValue(k, p) {
  value[k] = p;
  if :: searched == k -> allowed = allowed | (1 << p) :: else fi
}

/* IndexView::HomeOf (store/format/memory/index_view.h) of the exact view: a key's main bucket after so many splits. */
#define HOME(k, n) (n == 0 -> 0 : (n < k + 2 -> k : HASH(k)))
/* The bucket that is split next. Level 0: 0 into 0 and 1; level 1: 0 into 0 and 2, 1 into 1 and 3. */
#define SPLIT_NEXT (splits < 2 -> 0 : 1)

/* --- Index::Find, FreeSlot -------------------------------------------------------------------------------- */

hidden byte s_, home_, key_;

#define HOLDS_KEY(s) (word[s] != 0 && key_of[word[s]] == key_ && live[word[s]])
#define IS_FREE(s)   (word[s] == 0)

/* 'to' becomes the first slot of the chain for which CONDITION holds, or NONE. */
#if SLOTS == 1
#define FIRST_OF(CONDITION, to) \
  if \
  :: CONDITION(home_) -> to = home_ \
  :: !CONDITION(home_) && linked[home_] != NO_LINK && CONDITION(linked[home_]) -> to = linked[home_] \
  :: else -> to = NONE \
  fi
#else
#define FIRST_OF(CONDITION, to) \
  if \
  :: CONDITION(home_ * 2) -> to = home_ * 2 \
  :: !CONDITION(home_ * 2) && CONDITION(home_ * 2 + 1) -> to = home_ * 2 + 1 \
  :: else -> to = NONE \
  fi
#endif

inline Find(k, to) {
  key_ = k;
  home_ = HOME(k, splits);
  FIRST_OF(HOLDS_KEY, to)
}

/* A free slot of the key's chain, which gets an overflow bucket if it has none (AddOverflow). NONE: no space. */
inline FindSpace(k, to) {
  home_ = HOME(k, splits);
  FIRST_OF(IS_FREE, to);
  if
#if SLOTS == 1
  :: to == NONE && home_ == 0 && linked[0] == NO_LINK ->
    linked[0] = OVERFLOW;
    to = OVERFLOW
#endif
  :: else
  fi
}

/* --- The writer: a d_step is one store that readers can tell from the next, and what is decided before --- */

inline Put(k) {
  d_step { new = places; key_of[new] = k; places++; Find(k, slot) }
  if
  :: slot != NONE ->
    d_step { live[word[slot]] = false; SetValue(k, new) }      /* Publish: Kill (I5), */
    live[new] = true;                                          /* MakeLive, */
    word[slot] = new                                           /* Index::Replace */
  :: else ->
    d_step { FindSpace(k, slot) }
    if
    :: slot == NONE
    :: else ->
      live[new] = true;
      d_step { word[slot] = new; SetValue(k, new) }            /* Index::Insert */
    fi
  fi;
  d_step { slot = 0; new = 0 }
}

inline Delete(k) {
  d_step { Find(k, slot); new = word[slot]; live[new] = false; SetValue(k, 0) } /* Kill */
  word[slot] = 0;                                              /* Index::Erase: its slot, */
  d_step {                                                     /* and a copy of it in the chain */
#if SLOTS == 1
    if
    :: HOME(k, splits) == 0 && linked[0] != NO_LINK ->
      if :: word[OVERFLOW] == new -> word[OVERFLOW] = 0; rest[OVERFLOW] = 0 :: else fi;
      compact = true
    :: else
    fi;
#endif
    slot = 0; new = 0
  }
}

#if BROKEN == CLEARED_AT_ONCE
#define RESTS_FOR 1
#else
#define RESTS_FOR (RESTS + 1)
#endif

/* OwnerHash is some, and Belongs(hash, upper). */
#define MOVES(w) (w != 0 && live[w] && HOME(key_of[w], splits + 1) == upper)

inline Mover(s) {
  if
  :: MOVES(word[s]) -> clear = clear | (1 << (s)); mover = word[s] /* a copy of it says the same */
  :: else
  fi
}

/* Index::Fill. */
inline Fill() {
  word[upper * SLOTS] = mover;
  depth[upper] = (splits == 0 -> 1 : 2)
}

/* Index::StartGracePeriod. */
inline RestAll() {
  s_ = 0;
  do
  :: s_ < ALL_SLOTS ->
    if :: (clear >> s_ & 1) && rest[s_] == 0 -> rest[s_] = RESTS_FOR :: else fi;
    s_++
  :: else -> break
  od;
  clear = 0
}

inline Split() {
  d_step {
    lower = SPLIT_NEXT;
    upper = (splits == 0 -> 1 : lower + 2);
    Mover(lower * SLOTS);
#if SLOTS == 2
    Mover(lower * SLOTS + 1);
#else
    if :: linked[lower] != NO_LINK -> Mover(OVERFLOW) :: else fi;
#endif
#if BROKEN == RESTS_TOO_EARLY
    RestAll()
#endif
  }
#if BROKEN == MARKED_FIRST
  depth[lower] = depth[lower] + 1;
#endif
  d_step { Fill() }
#if BROKEN != NOT_MARKED && BROKEN != MARKED_FIRST
  depth[lower] = depth[lower] + 1;                             /* StoreWord(At(main).control, ...) */
#endif
  d_step {                                                     /* PublishView */
    splits++;
    RestAll();
    lower = 0; upper = 0; mover = 0
  }
}

#if SLOTS == 1
/* Index::Compact of a chain: the entry of its overflow bucket goes to the main one, or that bucket is unlinked. */
#define MAY_MOVE_UP \
  (word[OVERFLOW] != 0 && rest[OVERFLOW] == 0 && live[word[OVERFLOW]] && \
   HOME(key_of[word[OVERFLOW]], splits) == 0 && word[0] == 0)

inline Compact() {
  if
  :: linked[0] != NO_LINK && MAY_MOVE_UP ->
#if BROKEN == MOVED_NOT_COPIED
    d_step { new = word[OVERFLOW]; word[OVERFLOW] = 0 }
    word[0] = new;
    new = 0
#else
    d_step { word[0] = word[OVERFLOW]; rest[OVERFLOW] = RESTS_FOR }
#endif
  :: linked[0] != NO_LINK && word[OVERFLOW] == 0 ->
    linked[0] = NO_LINK                                          /* UnlinkEmpty */
  :: else ->
    compact = false
  fi
}
#endif

/* Index::Tick: a retired slot may be used again. One after the other, as it is one store each. */
inline Clear(s) {
  d_step {
    word[s] = 0;
    rest[s] = 0;
#if SLOTS == 1
    compact = true
#endif
  }
}

active proctype Writer() {
  byte slot, new, lower, upper, mover;
  byte clear; /* slots, as bits: of the entry that moves */
  do
  :: places <= WRITES -> Put(0)
  :: places <= WRITES -> Put(1)
  :: value[0] != 0 -> Delete(0)
  :: value[1] != 0 -> Delete(1)
  :: splits < SPLITS -> Split()
  :: rest[0] == 1 -> Clear(0)
  :: rest[1] == 1 -> Clear(1)
#if SLOTS == 1
  :: compact -> Compact()
  :: rest[OVERFLOW] == 1 -> Clear(OVERFLOW)
#else
  :: rest[2] == 1 -> Clear(2)
  :: rest[3] == 1 -> Clear(3)
#endif
  od
}

/* --- Time: it goes by wherever it makes a difference ------------------------------------------------------ */

#if SLOTS == 1
#define SOME_REST (rest[0] > 1 || rest[1] > 1 || rest[OVERFLOW] > 1)
#else
#define SOME_REST (rest[0] > 1 || rest[1] > 1 || rest[2] > 1 || rest[3] > 1)
#endif

active proctype Clock() {
  do
  :: d_step {
       SOME_REST || age <= GRACE ->
       s_ = 0;
       do
       :: s_ < ALL_SLOTS -> if :: rest[s_] > 1 -> rest[s_]-- :: else fi; s_++
       :: else -> break
       od;
       if :: age <= GRACE -> age++ :: else fi
     }
  od
}

/* --- The reader ------------------------------------------------------------------------------------------- */

#define P_DEPTH 1
#define P_LINK  2
#define P_PRINT(i) (4 << (i))
#define P_PLACE(i) (16 << (i))
#if SLOTS == 1
#define P_ALL (P_DEPTH + P_LINK + P_PRINT(0) + P_PLACE(0))
#else
#define P_ALL (P_DEPTH + P_PRINT(0) + P_PLACE(0) + P_PRINT(1) + P_PLACE(1)) /* there are no links */
#endif

#if BROKEN == SLOW_TRUSTED
#define IN_TIME true
#else
#define IN_TIME (age <= GRACE) /* ServerView::InTime */
#endif

#define SAME_HOME(k, l, d) ((HASH(k) & ((1 << d) - 1)) == (HASH(l) & ((1 << d) - 1))) /* Belongs */

active proctype Reader() {
  byte bucket, at_depth, pieces, copied_link, copied_depth, i, foreign;
  bool print[2];
  byte place[2];
  bool unsure, overflow;

begin:
  /* A view as old as may be: of any number of splits up to the exact one. */
  atomic {
    age = 0;
    bucket = 0; at_depth = 0; unsure = false; overflow = false; foreign = 0;
    copied_link = 0; copied_depth = 0; i = 0;
    print[0] = false; print[1] = false; place[0] = 0; place[1] = 0;
    if :: searched = 0 :: searched = 1 fi;
    allowed = 1 << value[searched];
    if
    :: at_depth = 0; bucket = 0
    :: splits >= 1 -> at_depth = 1; bucket = searched
    :: splits >= searched + 2 -> at_depth = 2; bucket = HASH(searched)
    fi;
    pieces = P_ALL
  }

read_bucket:
  do
  :: d_step { pieces & P_DEPTH -> copied_depth = depth[bucket]; pieces = pieces & ~P_DEPTH }
#if SLOTS == 1
  :: d_step { pieces & P_LINK -> copied_link = linked[bucket]; pieces = pieces & ~P_LINK }
#endif
  :: d_step { pieces & P_PRINT(0) -> print[0] = WORD(bucket, 0) != 0; pieces = pieces & ~P_PRINT(0) }
  :: d_step { pieces & P_PLACE(0) -> place[0] = WORD(bucket, 0); pieces = pieces & ~P_PLACE(0) }
#if SLOTS == 2
  :: d_step { pieces & P_PRINT(1) -> print[1] = WORD(bucket, 1) != 0; pieces = pieces & ~P_PRINT(1) }
  :: d_step { pieces & P_PLACE(1) -> place[1] = WORD(bucket, 1); pieces = pieces & ~P_PLACE(1) }
#endif
  :: !IN_TIME -> goto begin /* it would discard all that it saw at the end */
  :: pieces == 0 -> break
  od;

  /* TakeBucket: the way to the key's bucket. */
  atomic {
    if
    :: !overflow && copied_depth < at_depth -> goto begin
#if BROKEN != STAYS_AT_HOME
    :: !overflow && copied_depth > at_depth -> /* NextHome */
      if
      :: at_depth == 0 && bucket != searched -> bucket = searched; at_depth = 1; pieces = P_ALL; goto read_bucket
      :: !(at_depth == 0 && bucket != searched) && copied_depth == 2 && HASH(searched) != bucket ->
        bucket = HASH(searched); at_depth = 2; pieces = P_ALL; goto read_bucket
      :: else -> at_depth = copied_depth
      fi
#endif
    :: else
    fi;
    i = 0
  }

  /* Advance: its candidates, one after the other. */
  do
  :: i == SLOTS -> break
  :: i < SLOTS ->
    atomic { /* the record is read, and judged: CheckRecord */
      if
      :: !print[i]
      :: print[i] && (place[i] == 0 || (foreign >> place[i] & 1)) -> unsure = true /* no place; seen before */
      :: print[i] && place[i] != 0 && !(foreign >> place[i] & 1) ->
        if
#if BROKEN == DEAD_IS_FOUND
        :: !live[place[i]] && key_of[place[i]] == searched -> goto found
#endif
        :: live[place[i]] && key_of[place[i]] == searched -> goto found
        :: live[place[i]] && key_of[place[i]] != searched && SAME_HOME(key_of[place[i]], searched, at_depth) ->
          foreign = foreign | (1 << place[i])                  /* kForeign */
        :: else                                                /* kDead, kTorn */
#if BROKEN != DEAD_IS_MISSING
          -> unsure = true
#endif
        fi
      fi;
      i++
    }
  od;
  atomic {
    if
    :: !IN_TIME -> goto begin
    :: IN_TIME && copied_link != NO_LINK ->
      bucket = copied_link; overflow = true; copied_link = 0; i = 0; pieces = P_ALL; goto read_bucket
    :: IN_TIME && copied_link == NO_LINK && unsure -> goto begin
    :: IN_TIME && copied_link == NO_LINK && !unsure ->
      assert(allowed & 1); /* no false miss */
      goto begin
    fi
  }

found:
  atomic {
    assert(!IN_TIME || (allowed >> place[i] & 1)); /* no wrong record */
    goto begin
  }
}
