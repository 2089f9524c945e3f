/* Leaves: keys come and go, and the leaves that have them are changed, split, joined, moved and freed. A scan READs
 * leaves wherever it believes them to be, and the records of their keys.
 *
 * The model and the code
 *   Blocks              store/format/memory/leaf_block.h: fences, keys and checksum. Each is stored by itself.
 *   Writer              OrderedKeys::Insert, Erase, Publish (store/ordered/ordered_keys.cc), which the writer calls
 *                       before the hash index gets a key, and after it lost one (store/ordered/ordered_index.cc).
 *   Reader              LeafScan (client/scan/leaf_scan.cc). Hints and links may lead to any block.
 *
 * Property: a scan shows each key that the hash index has from its begin to its end. (It shows no key twice, since it
 * only moves on.)
 *
 * Assumptions
 *   - A checksum is of one content alone.
 *   - There are three keys, in one or two leaves, and three blocks. Each change may divide the keys anew, and put each
 *     leaf into any block: in place, or into one that is freed by that.
 *   - A READ brings the parts of a block in any order, each at a moment of its own.
 * Left out: versions of images, which only make it less likely that two checksums are equal.
 *
 * CHECK
 * CHECK -DCHANGES=2
 * FAULT ERASED_EARLY in 1 violates stayed& ~(shown)
 * FAULT ENTERED_LATE in 1 violates stayed& ~(shown)
 * FAULT FREED_NOT_DEAD in 1 violates stayed& ~(shown)
 * FAULT TORN_BELIEVED in 1 violates stayed& ~(shown)
 * FAULT HINT_BELIEVED in 1 violates stayed& ~(shown)
 * FAULT DIVIDED_BEHIND in 1 violates stayed& ~(shown)
 */
#ifndef BROKEN
#define BROKEN NOTHING
#endif
#define NOTHING        0
#define ERASED_EARLY   1 /* a key leaves its leaf before the hash index */
#define ENTERED_LATE   2 /* a key comes to its leaf after the hash index has it */
#define FREED_NOT_DEAD 3 /* a block that is freed keeps its checksum */
#define TORN_BELIEVED  4 /* a scan checks no checksum */
#define HINT_BELIEVED  5 /* a scan takes a leaf for the one of its position */
#define DIVIDED_BEHIND 6 /* leaves are published after the hash index has the key */

#ifndef CHANGES
#define CHANGES 1
#endif
#define KEYS   3
#define BLOCKS 3

/* A block: its fences (4 * low + high), its keys as bits, and the checksum; 0: it is no leaf. */
byte fences[BLOCKS], keys[BLOCKS], sum[BLOCKS];
#define SUM(f, k) (1 + 8 * (f) + (k))
#define BELOW(n) ((1 << (n)) - 1)

byte hash = 3;         /* keys that the hash index has */
byte tree = 3;         /* keys of the leaves */
byte stayed, shown;    /* of the scan: keys that were there since its begin; keys that it has shown */

/* --- The server -------------------------------------------------------------------------------------------- */

/* The checksum comes last. */
inline Write(block, low, high) {
  fences[block] = 4 * (low) + (high);
  keys[block] = tree & BELOW(high) & ~BELOW(low);
  sum[block] = SUM(fences[block], keys[block])
}

/* Divides the keys anew: one leaf, or two from `border` on. */
inline Publish() {
  atomic {
    if :: border = 0 :: border = 1 :: border = 2 fi;
    if :: first = 0 :: first = 1 :: first = 2 fi;
    if
    :: border == 0 -> second = first
    :: border != 0 -> second = (first + 1) % BLOCKS
    :: border != 0 -> second = (first + 2) % BLOCKS
    fi
  }
  if
  :: border == 0 -> Write(first, 0, KEYS)
  :: border != 0 -> Write(first, 0, border); Write(second, border, KEYS)
  :: border != 0 -> Write(second, border, KEYS); Write(first, 0, border)
  fi;
#if BROKEN != FREED_NOT_DEAD
  if :: first != 0 && second != 0 -> sum[0] = 0 :: else fi;
  if :: first != 1 && second != 1 -> sum[1] = 0 :: else fi;
  if :: first != 2 && second != 2 -> sum[2] = 0 :: else fi;
#endif
  d_step { border = 0; first = 0; second = 0 }
}

inline EnterHash(k) { hash = hash | (1 << k) }
inline LeaveHash(k) { d_step { hash = hash & ~(1 << k); stayed = stayed & ~(1 << k) } }

inline Put(k) {
#if BROKEN == ENTERED_LATE
  EnterHash(k);
  tree = tree | (1 << k);
  Publish()
#elif BROKEN == DIVIDED_BEHIND
  tree = tree | (1 << k);
  EnterHash(k);
  Publish()
#else
  tree = tree | (1 << k);
  Publish();
  EnterHash(k)
#endif
}

inline Delete(k) {
#if BROKEN == ERASED_EARLY
  tree = tree & ~(1 << k);
  Publish();
  LeaveHash(k)
#else
  LeaveHash(k);
  tree = tree & ~(1 << k);
  Publish()
#endif
}

active proctype Writer() {
  byte changes, k, border, first, second;
  atomic { Write(0, 0, KEYS) }
  do
  :: changes < CHANGES ->
    atomic { changes++; if :: k = 0 :: k = 1 :: k = 2 fi }
    if
    :: (hash & (1 << k)) == 0 -> Put(k)
    :: (hash & (1 << k)) != 0 && tree != (1 << k) -> Delete(k)
    :: (hash & (1 << k)) != 0 && tree == (1 << k) -> skip
    fi
  :: changes == CHANGES -> break
  od
}

/* --- The scan ---------------------------------------------------------------------------------------------- */

#if BROKEN == TORN_BELIEVED
#define VERIFIES (got_sum != 0)
#else
#define VERIFIES (got_sum == SUM(got_fences, got_keys))
#endif
#if BROKEN == HINT_BELIEVED
#define COVERS (got_fences % 4 > position)
#else
#define COVERS (got_fences / 4 <= position && got_fences % 4 > position)
#endif

/* Forgets a leaf that does not count. */
inline Judge() {
  if
  :: VERIFIES && COVERS -> got_sum = 0
  :: else -> got_fences = 0; got_keys = 0; got_sum = 0
  fi
}

inline ReadBlock() {
  if
  :: got_fences = fences[block]; got_keys = keys[block]; d_step { got_sum = sum[block]; Judge() }
  :: got_keys = keys[block]; got_sum = sum[block]; d_step { got_fences = fences[block]; Judge() }
  :: got_sum = sum[block]; got_fences = fences[block]; d_step { got_keys = keys[block]; Judge() }
  fi
}

/* The record of a key of the leaf: found, or the key is left out. */
inline Get(k) {
  if
  :: (got_keys & (1 << k)) != 0 && k >= position ->
    d_step { if :: (hash & (1 << k)) != 0 -> shown = shown | (1 << k) :: else fi }
  :: else
  fi
}

active proctype Reader() {
  byte position, block, got_fences, got_keys, got_sum;
  sum[0] != 0; /* the server has started */
  stayed = hash
  do
  :: position < KEYS ->
    if :: block = 0 :: block = 1 :: block = 2 fi;
    ReadBlock();
    block = 0;
    if
    :: got_fences != 0 -> Get(0); Get(1); Get(2); d_step { position = got_fences % 4; got_fences = 0; got_keys = 0 }
    :: else
    fi
  :: position == KEYS -> break
  od;
  assert((stayed & ~shown) == 0)
}
