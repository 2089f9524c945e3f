/* A slot that moves between two servers, while clients read their memory in place and write through either of them.
 *
 * docs/decisions/0092-a-hit-proves-the-owner.md is the design. No slot moves yet; of the reader, `word` and `known` are
 * implemented (client/session/known_slots.h). One slot with one key stands for all. A server is alone, or it is the
 * primary of a shard. Its log is what all members of the shard have. A start stands for a takeover, too. Reads of a
 * primary that was replaced end with it here; lease.pml has the reason.
 *
 * The model
 *
 *   latest               The number of the last write in any log. Odd numbers put the key, even ones delete it.
 *
 *   owner, revision      The division, and the number of its changes. One compare-and-swap changes it. It compares
 *                        `epoch`, too: the number of the source's start. So a replaced source changes nothing.
 *
 *   role                 The part of a server in a move. OWNER to SURE serve; only OWNER takes writes.
 *
 *   data, shown          The last write that a server's log has, and the one that its memory shows.
 *
 *   memory               A reader finds a HOT record. It asks the server for a COLD one, and finds nothing if GONE.
 *
 *   word                 The number in a server's memory that a reader compares behind a miss.
 *
 *   pending              The last write is logged and not published yet.
 *
 *   promoting, promoted  A thread reads a cold record from the disk, for the memory.
 *
 *   move, since          The number of the move in which a server takes part; the last write before the copy began.
 *
 *   copy                 A message of the copy, in flight: its source, its move, its write, and whether it is the last.
 *
 *   swap                 A change of the division, in flight: its source, and the numbers to compare.
 *
 *   known                The word with which each server told the client that the slot is its own. 0: none. The client
 *                        forgets it with the connection.
 *
 *   reading, writing     The states of the one reader and the one writer. Both use either server at any time, so with
 *                        any topology, however old.
 *
 * Properties
 *   J1  A hit, and a miss, is of a moment behind all writes that were acknowledged, or read, before it began.
 *   J2  A write builds on all writes before it, so none is lost, and no two servers take writes.
 *   J3  A write is done once, also if its answer is lost and its slot moves.
 *
 * Assumptions
 *   - A write that is logged survives the process, or its takeover (commit.pml, members.pml).
 *   - A client counts nothing that it READ from a server that ended meanwhile (0034, lease.pml).
 *
 * CHECK -DWRITES=2 -DMOVES=1 -DSTARTS=1
 * CHECK -DWRITES=2 -DMOVES=2 -DSTARTS=0
 * CHECK -DWRITES=2 -DMOVES=1 -DSTARTS=2
 * CHECK -DWRITES=2 -DMOVES=2 -DSTARTS=1
 * CHECK -DWRITES=3 -DMOVES=2 -DSTARTS=1
 * FAULT SERVES_A_CONFIRMED_COPY in 1 violates two_owners
 * FAULT CLEARS_AFTER_THE_SWAP in 1 violates absent_from
 * FAULT CLEARS_BEFORE_THE_WORD in 1 violates absent_from
 * FAULT MISSES_WITHOUT_A_LOOK in 1 violates >=read_floor
 * FAULT LOOKS_BEFORE_THE_READ in 1 violates absent_from
 * FAULT LEARNS_A_WORD_FROM_A_REJECTION in 1 violates >=read_floor
 * FAULT KEEPS_A_WORD_OVER_A_START in 1 violates absent_from
 * FAULT COPIES_ARE_READABLE in 1 violates >=read_floor
 * FAULT KEEPS_AN_EARLIER_COPY in 2 violates >=read_floor
 * FAULT TAKES_GROUPS_OF_AN_EARLIER_MOVE in 2 violates absent_from
 * FAULT CONFIRMS_BEFORE_THE_LAST_GROUP in 1 violates absent_from
 * FAULT FORGETS_A_CONFIRMED_COPY in 1 violates absent_from
 * FAULT A_REPLACED_SOURCE_SWAPS in 1 violates two_owners
 * FAULT READS_THE_OWNER_BEFORE_ITS_EPOCH in 1 violates two_owners
 * FAULT A_START_TRUSTS_ITS_DATA in 1 violates two_owners
 * FAULT REOPENS_AFTER_A_READ in 1 violates two_owners
 * FAULT PROMOTES_WHAT_WAS_GIVEN in 1 violates >=read_floor
 * FAULT PUBLISHES_WHAT_WAS_GIVEN in 1 violates >=read_floor
 * FAULT REPEATS_WITHOUT_ASKING in 1 violates done_at
 */
#ifndef BROKEN
#define BROKEN NOTHING
#endif
#define NOTHING                          0
#define SERVES_A_CONFIRMED_COPY          1  /* the destination serves before the swap */
#define CLEARS_AFTER_THE_SWAP            2  /* the source takes its records out of memory when it knows of the swap */
#define CLEARS_BEFORE_THE_WORD           3  /* the source takes its records out of memory, and then raises its word */
#define MISSES_WITHOUT_A_LOOK            4  /* a client returns a miss without comparing the word */
#define LOOKS_BEFORE_THE_READ            5  /* a client READs the word before the bucket */
#define LEARNS_A_WORD_FROM_A_REJECTION   6  /* a client takes the word of a server that said that it has not the slot */
#define KEEPS_A_WORD_OVER_A_START        7  /* a client keeps the word of a server that was started anew */
#define COPIES_ARE_READABLE              8  /* the destination shows the records of a copy */
#define KEEPS_AN_EARLIER_COPY            9  /* a copy begins upon what another one left behind */
#define TAKES_GROUPS_OF_AN_EARLIER_MOVE  10 /* the destination does not compare the move of a message */
#define CONFIRMS_BEFORE_THE_LAST_GROUP   11 /* the source takes writes until the swap */
#define FORGETS_A_CONFIRMED_COPY         12 /* a destination that was started anew deletes a copy that it confirmed */
#define A_REPLACED_SOURCE_SWAPS          13 /* the swap compares the division alone, not the source's epoch */
#define READS_THE_OWNER_BEFORE_ITS_EPOCH 14 /* a server reads the division, and then begins its epoch */
#define A_START_TRUSTS_ITS_DATA          15 /* a server that was started anew serves the slots that it has data of */
#define REOPENS_AFTER_A_READ             16 /* a source whose swap has no answer serves again without a second swap */
#define PROMOTES_WHAT_WAS_GIVEN          17 /* a record read from the disk goes into memory behind the clearing */
#define PUBLISHES_WHAT_WAS_GIVEN         18 /* a pending write is published behind the clearing */
#define REPEATS_WITHOUT_ASKING           19 /* a client repeats a write without asking the server it was sent to */

#ifndef WRITES
#define WRITES 3
#endif
#ifndef MOVES
#define MOVES 2
#endif
#ifndef STARTS
#define STARTS 1
#endif

#define IDLE      0 /* has nothing of the slot */
#define COPYING   1 /* gets a copy */
#define CONFIRMED 2 /* has told the source that it has all writes */
#define OWNER     3
#define CLOSED    4 /* takes no writes any more */
#define SURE      5 /* knows that the destination has all writes */
#define RAISED    6 /* has raised its word */
#define CLEARED   7 /* has taken its records out of memory */
#define ASKED     8 /* has sent the swap */
#define DOWN      9

#define GONE 0
#define COLD 1
#define HOT  2

#define IS_PUT(write)   ((write) & 1)
#define SAME(a, b)      ((a) == (b) || !IS_PUT(a) && !IS_PUT(b))
#define LATEST(a, b)    ((a) > (b) -> (a) : (b))
#define SERVES(server)  (role[server] >= OWNER && role[server] <= SURE)
#define HAS_NOT(server) (role[server] <= CONFIRMED)

byte latest, acknowledged, returned;
byte owner, revision;

byte epoch[2], role[2], data[2], shown[2], memory[2], word[2], promoted[2], move[2], since[2], seen_owner[2];
bit pending[2], promoting[2], moving[2];
byte moves, starts;

bit copy_sent, copy_from, copy_is_last, copy_is_change;
byte copy_move, copy_write;
bit swap_sent, swap_from;
byte swap_revision, swap_epoch;

byte known[2];
byte reading, read_floor, read_word, absent_from;
bit read_from;
#define REQUESTED 1 /* a request is at the server */
#define LOGGED    2
#define LOST      3 /* the connection ended before the answer */
byte writing, done_at; /* done_at: 1 + the server that logged the write; 0: none did */
bit write_to;
bit missing, two_owners;

inline end_read() { reading = 0; read_floor = 0; read_word = 0; read_from = 0 }
inline end_write() { writing = 0; done_at = 0; write_to = 0 }
inline drop_copy() { copy_sent = 0; copy_from = 0; copy_is_last = 0; copy_is_change = 0; copy_move = 0; copy_write = 0 }
inline drop_swap() { swap_sent = 0; swap_from = 0; swap_revision = 0; swap_epoch = 0 }
inline clear(me) {
  memory[me] = GONE; shown[me] = 0;
  if
  :: BROKEN != PROMOTES_WHAT_WAS_GIVEN -> promoting[me] = 0; promoted[me] = 0
  :: else
  fi
}
/* The server has given the slot away, or has nothing of it to keep. */
inline leave(me) { role[me] = IDLE; moving[me] = 0; move[me] = 0; since[me] = 0; data[me] = 0; clear(me) }
inline serve(me) {
  two_owners = SERVES(1 - me); assert(two_owners == 0);
  role[me] = OWNER; moving[me] = 0; move[me] = 0; since[me] = 0; memory[me] = COLD; shown[me] = 0
}
inline return_hit(value) {
  assert(value >= read_floor);
  returned = LATEST(returned, value);
  end_read()
}
inline return_miss() {
  absent_from = read_floor + IS_PUT(read_floor);
  assert(absent_from <= latest);
  returned = LATEST(returned, absent_from);
  absent_from = 0;
  end_read()
}

/* Steps of a server with its own records. */
#define STORE(me) \
  :: d_step { writing == REQUESTED && write_to == me && latest < WRITES && \
              (role[me] == OWNER || BROKEN == CONFIRMS_BEFORE_THE_LAST_GROUP && SERVES(me)) -> \
       missing = !SAME(data[me], latest); assert(missing == 0); assert(done_at == 0); \
       latest++; data[me] = latest; pending[me] = 1; done_at = 1 + me; writing = LOGGED } \
  :: d_step { writing == REQUESTED && write_to == me && HAS_NOT(me) -> end_write() /* Moved */ } \
  :: d_step { pending[me] && role[me] != DOWN -> \
       pending[me] = 0; shown[me] = data[me]; memory[me] = HOT; promoting[me] = 0; promoted[me] = 0 } \
  :: d_step { writing == LOGGED && write_to == me && !pending[me] && role[me] != DOWN -> \
       acknowledged = latest; end_write() } \
  :: d_step { SERVES(me) && memory[me] == HOT && !pending[me] -> memory[me] = COLD; shown[me] = 0 } \
  :: d_step { SERVES(me) && memory[me] == COLD && !promoting[me] && !pending[me] -> \
       promoting[me] = 1; promoted[me] = data[me] } \
  :: d_step { promoting[me] && (memory[me] == COLD || memory[me] == GONE && BROKEN == PROMOTES_WHAT_WAS_GIVEN) -> \
       memory[me] = HOT; shown[me] = promoted[me]; promoting[me] = 0; promoted[me] = 0 }

/* The move, by its source. */
#define SOURCE(me, you) \
  :: d_step { role[me] == OWNER && !moving[me] && HAS_NOT(you) && moves < MOVES -> \
       moves++; moving[me] = 1; move[me] = moves; since[me] = data[me]; \
       role[you] = COPYING; move[you] = moves; \
       if \
       :: BROKEN != KEEPS_AN_EARLIER_COPY -> data[you] = 0 \
       :: else \
       fi; \
       if \
       :: BROKEN == COPIES_ARE_READABLE -> memory[you] = HOT; shown[you] = data[you] \
       :: else \
       fi } \
  :: d_step { moving[me] && (role[me] == OWNER || role[me] == CLOSED) && !copy_sent && \
              role[you] == COPYING && move[you] == move[me] -> \
       copy_sent = 1; copy_from = me; copy_move = move[me]; copy_write = data[me]; \
       copy_is_change = (data[me] > since[me]); \
       copy_is_last = (role[me] == CLOSED || BROKEN == CONFIRMS_BEFORE_THE_LAST_GROUP) } \
  :: d_step { role[me] == OWNER && moving[me] -> role[me] = CLOSED } \
  :: d_step { role[me] == CLOSED && role[you] == CONFIRMED && move[you] == move[me] -> role[me] = SURE } \
  :: d_step { role[me] == SURE && (!pending[me] || BROKEN == PUBLISHES_WHAT_WAS_GIVEN) && \
              BROKEN != CLEARS_AFTER_THE_SWAP -> \
       role[me] = RAISED; \
       if \
       :: BROKEN == CLEARS_BEFORE_THE_WORD -> clear(me) \
       :: else -> word[me]++ \
       fi } \
  :: d_step { role[me] == RAISED -> \
       role[me] = CLEARED; \
       if \
       :: BROKEN == CLEARS_BEFORE_THE_WORD -> word[me]++ \
       :: else -> clear(me) \
       fi } \
  :: d_step { (role[me] == CLEARED || role[me] == SURE && BROKEN == CLEARS_AFTER_THE_SWAP) && !swap_sent -> \
       role[me] = ASKED; \
       swap_sent = 1; swap_from = me; swap_revision = revision; swap_epoch = epoch[me] } \
  :: d_step { role[me] == ASKED && owner == you -> leave(me) } \
  :: d_step { role[me] == ASKED && owner == me -> /* it gives up: a second swap, from the same revision, settles it */ \
       if \
       :: BROKEN != REOPENS_AFTER_A_READ -> revision++ \
       :: else \
       fi; \
       serve(me) } \
  :: d_step { moving[me] && role[me] >= OWNER && role[me] <= CLEARED -> /* it gives up before the swap */ \
       role[me] = OWNER; moving[me] = 0; move[me] = 0; since[me] = 0; \
       memory[me] = (memory[me] == GONE -> COLD : memory[me]) }

/* The move, by its destination. */
#define DESTINATION(me, you) \
  :: d_step { copy_sent && copy_from == you && role[me] != DOWN -> \
       if \
       :: role[me] == COPYING && (move[me] == copy_move || BROKEN == TAKES_GROUPS_OF_AN_EARLIER_MOVE) -> \
          if \
          :: copy_is_change || IS_PUT(copy_write) -> data[me] = copy_write \
          :: else \
          fi; \
          if \
          :: copy_is_last -> role[me] = CONFIRMED \
          :: else \
          fi; \
          if \
          :: BROKEN == COPIES_ARE_READABLE -> shown[me] = data[me] \
          :: else \
          fi \
       :: else \
       fi; \
       drop_copy() } \
  :: d_step { HAS_NOT(me) && (owner == me || role[me] == CONFIRMED && BROKEN == SERVES_A_CONFIRMED_COPY) -> serve(me) }

/* The end of a server, and its start or its successor's. Its last swap may arrive later. */
#define START(me, you) \
  :: d_step { starts < STARTS && role[me] != DOWN -> \
       starts++; seen_owner[me] = owner; \
       if \
       :: role[me] >= SURE && role[me] <= CLEARED && !swap_sent -> /* replaced, and does not know it yet */ \
          swap_sent = 1; swap_from = me; swap_revision = revision; swap_epoch = epoch[me] \
       :: else \
       fi; \
       if \
       :: role[me] == CONFIRMED && BROKEN != FORGETS_A_CONFIRMED_COPY -> moving[me] = 1 /* its log says so */ \
       :: else -> moving[me] = 0; move[me] = 0 \
       fi; \
       role[me] = DOWN; memory[me] = GONE; shown[me] = 0; since[me] = 0; word[me] = 0; \
       pending[me] = 0; promoting[me] = 0; promoted[me] = 0; \
       if \
       :: BROKEN != KEEPS_A_WORD_OVER_A_START -> known[me] = 0 \
       :: else \
       fi; \
       if \
       :: reading && read_from == me -> end_read() \
       :: else \
       fi; \
       if \
       :: writing && write_to == me -> writing = LOST \
       :: else \
       fi } \
  :: d_step { role[me] == DOWN -> \
       epoch[me]++; word[me] = 1; \
       if \
       :: (BROKEN == READS_THE_OWNER_BEFORE_ITS_EPOCH -> seen_owner[me] : owner) == me || \
          BROKEN == A_START_TRUSTS_ITS_DATA && data[me] > 0 -> serve(me) \
       :: else -> \
          if \
          :: moving[me] -> role[me] = CONFIRMED; moving[me] = 0 \
          :: else -> leave(me) \
          fi \
       fi; \
       seen_owner[me] = 0 }

/* A client that reads in place. */
#define READER(you) \
  :: d_step { reading == 0 && role[you] != DOWN -> \
       reading = 1; read_from = you; read_floor = LATEST(acknowledged, returned); \
       read_word = (BROKEN == LOOKS_BEFORE_THE_READ -> word[you] : 0) } \
  :: d_step { reading == 1 && read_from == you -> \
       if \
       :: memory[you] == HOT && IS_PUT(shown[you]) -> return_hit(shown[you]) \
       :: memory[you] == COLD -> reading = 3 \
       :: else -> reading = 2 \
       fi } \
  :: d_step { reading == 2 && read_from == you -> \
       if \
       :: (BROKEN == LOOKS_BEFORE_THE_READ -> read_word : word[you]) == known[you] || \
          BROKEN == MISSES_WITHOUT_A_LOOK -> return_miss() \
       :: else -> reading = 3 \
       fi } \
  :: d_step { reading == 3 && read_from == you && \
              (SERVES(you) && (memory[you] == HOT || !pending[you]) || HAS_NOT(you)) -> /* it asks the server */ \
       if \
       :: SERVES(you) -> \
          known[you] = word[you]; \
          if \
          :: memory[you] == HOT && IS_PUT(shown[you]) -> return_hit(shown[you]) \
          :: memory[you] == COLD && IS_PUT(data[you]) -> return_hit(data[you]) \
          :: else -> return_miss() \
          fi \
       :: else -> /* Moved */ \
          known[you] = (BROKEN == LEARNS_A_WORD_FROM_A_REJECTION -> word[you] : 0); \
          end_read() \
       fi }

#define WRITER(you) \
  :: d_step { writing == 0 && latest < WRITES && role[you] != DOWN -> writing = REQUESTED; write_to = you } \
  :: d_step { writing == LOST && write_to == you && role[you] != DOWN && !pending[you] -> \
       if \
       :: BROKEN == REPEATS_WITHOUT_ASKING -> writing = REQUESTED; write_to = 1 - you \
       :: else -> \
          if \
          :: done_at == 1 + you -> acknowledged = latest \
          :: else \
          fi; \
          end_write() \
       fi }

init {
  d_step { role[0] = OWNER; memory[0] = COLD; word[0] = 1; word[1] = 1; known[0] = 1 }
  do
  STORE(0) STORE(1) SOURCE(0, 1) SOURCE(1, 0) DESTINATION(0, 1) DESTINATION(1, 0) START(0, 1) START(1, 0)
  READER(0) READER(1) WRITER(0) WRITER(1)
  :: d_step { swap_sent -> /* it arrives */
       if
       :: revision == swap_revision && (epoch[swap_from] == swap_epoch || BROKEN == A_REPLACED_SOURCE_SWAPS) ->
          owner = 1 - swap_from; revision++
       :: else
       fi;
       drop_swap() }
  :: d_step { (writing == REQUESTED || writing == LOGGED) -> writing = LOST /* the connection breaks */ }
  od
}
