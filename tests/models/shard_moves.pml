/* A slot that moves between two shards that fail over: each has a primary, and members that take over from it.
 *
 * docs/decisions/0102-slots-of-replicated-shards.md is the decision. The code is server/cluster/division_swap.h (the
 * swap, K20 to K22), keeper.h (a takeover, K19, and slots that come, K23), slot_source.h and slot_destination.h. There,
 * a destination may have several sources, so it keeps what each may still give (M10 of slot_moves.h). One slot with one
 * key stands for all.
 *
 * Other models have the parts of this one. In moves.pml, readers compare a word in a server's memory. In lease.pml, they
 * leave a primary that was replaced; here a read is one step at the present primary. In members.pml, a set of members
 * keeps a log.
 *
 * The model
 *
 *   latest               The number of the last write in any log.
 *   owner, revision      The division, and the number of its changes.
 *   epoch                The configuration of a shard. A takeover changes it.
 *   role                 The part of a shard's primary. OWNER to SURE serve; only OWNER takes writes.
 *   data, kept           The last write that the primary's log has, and the one that all members in sync have. A copy is
 *                        in the same log. A takeover goes on from `kept`.
 *   shown                Readers of the primary find the records of the slot.
 *
 * Properties
 *   -  A read that begins after a write was acknowledged, or shown, shows that write or a later one.
 *   -  No two shards serve the slot, and one that begins to serve has each write that was acknowledged or shown.
 *
 * CHECK -DWRITES=2 -DMOVES=1 -DFAILOVERS=1
 * CHECK -DWRITES=2 -DMOVES=2 -DFAILOVERS=1
 * CHECK -DWRITES=2 -DMOVES=2 -DFAILOVERS=2
 * CHECK -DWRITES=3 -DMOVES=2 -DFAILOVERS=3
 * FAULT SWAPS_PAST_A_NEW_SOURCE in 1 violates two_owners
 * FAULT SWAPS_PAST_A_NEW_DESTINATION in 1 violates lost
 * FAULT CONFIRMS_BEFORE_ITS_MEMBERS in 1 violates >=floor
 * FAULT CONFIRMS_BEFORE_THE_LAST_WRITE in 1 violates lost
 * FAULT READS_THE_DIVISION_BEFORE_ITS_EPOCH in 1 violates two_owners
 * FAULT A_TAKEOVER_TRUSTS_ITS_DATA in 1 violates two_owners
 * FAULT SHOWS_LEFTOVERS in 1 violates >=floor
 * FAULT SHOWS_A_COPY in 1 violates >=floor
 * FAULT SHOWS_WHAT_WAS_GIVEN in 1 violates >=floor
 * FAULT REOPENS_AFTER_A_READ in 1 violates two_owners
 * FAULT ACKNOWLEDGES_BEFORE_ITS_MEMBERS in 1 violates lost
 * FAULT KEEPS_AN_EARLIER_COPY in 2 violates lost
 * FAULT TAKES_AN_EARLIER_COPY in 2 violates lost
 */
#ifndef BROKEN
#define BROKEN NOTHING
#endif
#define NOTHING                             0
#define SWAPS_PAST_A_NEW_SOURCE             1  /* the swap does not compare the configuration of the source */
#define SWAPS_PAST_A_NEW_DESTINATION        2  /* nor that of the destination */
#define CONFIRMS_BEFORE_ITS_MEMBERS         3  /* the destination confirms a copy that its members lack */
#define CONFIRMS_BEFORE_THE_LAST_WRITE      4  /* the source takes writes until the swap */
#define READS_THE_DIVISION_BEFORE_ITS_EPOCH 5  /* a member reads the division, and then takes over */
#define A_TAKEOVER_TRUSTS_ITS_DATA          6  /* a new primary serves the slot because it has data of it */
#define SHOWS_LEFTOVERS                     7  /* a new primary leaves records of slots of others in its index */
#define SHOWS_A_COPY                        8  /* a destination has the records of a copy in its index */
#define SHOWS_WHAT_WAS_GIVEN                9  /* a source takes its records out of its index once it knows of the swap */
#define REOPENS_AFTER_A_READ                10 /* a source whose swap has no answer serves again without a second swap */
#define ACKNOWLEDGES_BEFORE_ITS_MEMBERS     11 /* a write is answered and shown while members lack it */
#define KEEPS_AN_EARLIER_COPY               12 /* a destination confirms what an earlier move has left behind */
#define TAKES_AN_EARLIER_COPY               13 /* a destination does not compare the move of a message */

#define IDLE      0
#define COPYING   1
#define STAGED    2 /* its log has the whole copy */
#define CONFIRMED 3
#define OWNER     4
#define CLOSED    5 /* takes no writes any more */
#define SURE      6 /* knows that the destination has confirmed, and in which epoch */
#define CLEARED   7 /* has taken the records out of its memory */
#define ASKED     8 /* has sent the swap */
#define TAKING    9 /* a member has taken over, and has not read the division */

#define SERVES(me)  (role[me] >= OWNER && role[me] <= SURE)
#define HAS_NOT(me) (role[me] <= CONFIRMED)
#define LATEST(a, b) ((a) > (b) -> (a) : (b))

byte latest, acknowledged, returned;
byte owner, revision;
byte epoch[2], role[2], data[2], kept[2], move[2], seen_owner[2], sure_of[2];
bit shown[2], moving[2], has_seen[2];
byte moves, failovers;

bit copy_sent, copy_from, copy_is_last;
byte copy_move, copy_write;
bit swap_sent, swap_from;
byte swap_revision, swap_epoch, swap_other;

byte floor;
bit reading, read_from;
byte writing; /* the number of a write without an answer; 0: none */
bit write_to;
bit two_owners, lost;

inline drop_copy() { copy_sent = 0; copy_from = 0; copy_is_last = 0; copy_move = 0; copy_write = 0 }
inline drop_swap() { swap_sent = 0; swap_from = 0; swap_revision = 0; swap_epoch = 0; swap_other = 0 }
inline send_swap(me) {
  swap_sent = 1; swap_from = me; swap_revision = revision; swap_epoch = epoch[me]; swap_other = sure_of[me]
}
inline serve(me) {
  two_owners = SERVES(1 - me); assert(two_owners == 0);
  lost = (data[me] < acknowledged || data[me] < returned); assert(lost == 0);
  role[me] = OWNER; shown[me] = 1; moving[me] = 0; move[me] = 0; sure_of[me] = 0
}
inline rest(me) { role[me] = IDLE; moving[me] = 0; move[me] = 0; sure_of[me] = 0 }

/* A primary with its members. It shows and acknowledges writes that all members in sync have. */
#define STORE(me) \
  :: d_step { writing == 0 && latest < WRITES && \
              (role[me] == OWNER || BROKEN == CONFIRMS_BEFORE_THE_LAST_WRITE && SERVES(me)) -> \
       latest++; data[me] = latest; writing = latest; write_to = me } \
  :: d_step { role[me] != TAKING && kept[me] != data[me] -> kept[me] = data[me] } \
  :: d_step { writing != 0 && write_to == me && SERVES(me) && \
              (kept[me] == writing || BROKEN == ACKNOWLEDGES_BEFORE_ITS_MEMBERS) -> \
       acknowledged = writing; writing = 0; write_to = 0 }

#define SOURCE(me, you) \
  :: d_step { role[me] == OWNER && !moving[me] && HAS_NOT(you) && moves < MOVES -> \
       moves++; moving[me] = 1; move[me] = moves; role[you] = COPYING; move[you] = moves; \
       shown[you] = (BROKEN == SHOWS_A_COPY); \
       if \
       :: BROKEN != KEEPS_AN_EARLIER_COPY -> data[you] = 0 \
       :: else -> \
          if \
          :: data[you] != 0 -> role[you] = STAGED \
          :: else \
          fi \
       fi } \
  :: d_step { moving[me] && (role[me] == OWNER || role[me] == CLOSED) && !copy_sent && \
              role[you] == COPYING && move[you] == move[me] -> \
       copy_sent = 1; copy_from = me; copy_move = move[me]; copy_write = data[me]; \
       copy_is_last = (role[me] == CLOSED || BROKEN == CONFIRMS_BEFORE_THE_LAST_WRITE) } \
  :: d_step { role[me] == OWNER && moving[me] -> role[me] = CLOSED } \
  :: d_step { role[me] == CLOSED && kept[me] == data[me] && role[you] == CONFIRMED && move[you] == move[me] -> \
       role[me] = SURE; sure_of[me] = epoch[you] } \
  :: d_step { role[me] == SURE -> \
       role[me] = CLEARED; \
       if \
       :: BROKEN != SHOWS_WHAT_WAS_GIVEN -> shown[me] = 0 \
       :: else \
       fi } \
  :: d_step { role[me] == CLEARED && !swap_sent -> role[me] = ASKED; send_swap(me) } \
  :: d_step { role[me] == ASKED && owner == you -> rest(me); shown[me] = 0 } \
  :: d_step { role[me] == ASKED && owner == me -> /* it gives up: a second swap, from the same revision, settles it */ \
       if \
       :: BROKEN != REOPENS_AFTER_A_READ -> revision++ \
       :: else \
       fi; \
       serve(me) } \
  :: d_step { moving[me] && role[me] >= OWNER && role[me] <= CLEARED -> /* it gives up before the swap */ \
       role[me] = OWNER; shown[me] = 1; moving[me] = 0; move[me] = 0; sure_of[me] = 0 } \
  :: d_step { role[me] == IDLE && owner != me && data[me] != 0 -> data[me] = 0; shown[me] = 0 /* it forgets */ }

#define DESTINATION(me, you) \
  :: d_step { copy_sent && copy_from == you && role[me] != TAKING -> \
       if \
       :: role[me] == COPYING && (move[me] == copy_move || BROKEN == TAKES_AN_EARLIER_COPY) -> \
          data[me] = copy_write; \
          if \
          :: copy_is_last -> role[me] = STAGED \
          :: else \
          fi \
       :: else \
       fi; \
       drop_copy() } \
  :: d_step { role[me] == STAGED && (kept[me] == data[me] || BROKEN == CONFIRMS_BEFORE_ITS_MEMBERS) -> \
       role[me] = CONFIRMED } \
  :: d_step { role[me] == CONFIRMED && owner == me -> serve(me) }

/* Another member takes over, at any step. Its predecessor may have sent a swap, which arrives later. */
#define FAILOVER(me) \
  :: d_step { BROKEN == READS_THE_DIVISION_BEFORE_ITS_EPOCH && !has_seen[me] -> has_seen[me] = 1; seen_owner[me] = owner } \
  :: d_step { failovers < FAILOVERS && role[me] != TAKING && \
              (has_seen[me] || BROKEN != READS_THE_DIVISION_BEFORE_ITS_EPOCH) -> \
       failovers++; \
       if \
       :: role[me] == CLEARED && !swap_sent -> send_swap(me) \
       :: else \
       fi; \
       epoch[me]++; role[me] = TAKING; moving[me] = 0; move[me] = 0; sure_of[me] = 0; \
       data[me] = kept[me]; shown[me] = 0; \
       if \
       :: writing != 0 && write_to == me -> writing = 0; write_to = 0 /* its client does not learn of it */ \
       :: else \
       fi; \
       if \
       :: reading && read_from == me -> reading = 0; read_from = 0; floor = 0 \
       :: else \
       fi } \
  :: d_step { role[me] == TAKING && (has_seen[me] || BROKEN != READS_THE_DIVISION_BEFORE_ITS_EPOCH) -> \
       if \
       :: (BROKEN == READS_THE_DIVISION_BEFORE_ITS_EPOCH -> seen_owner[me] : owner) == me || \
          BROKEN == A_TAKEOVER_TRUSTS_ITS_DATA && data[me] > 0 -> serve(me) \
       :: else -> rest(me); shown[me] = (BROKEN == SHOWS_LEFTOVERS && data[me] > 0) \
       fi; \
       seen_owner[me] = 0; has_seen[me] = 0 } \
  :: d_step { role[me] < CONFIRMED && owner == me -> rest(me); shown[me] = 0; role[me] = TAKING /* it starts anew */ }

#define READER(you) \
  :: d_step { !reading && role[you] != TAKING -> reading = 1; read_from = you; floor = LATEST(acknowledged, returned) } \
  :: d_step { reading && read_from == you -> \
       if \
       :: shown[you] -> \
          assert((BROKEN == ACKNOWLEDGES_BEFORE_ITS_MEMBERS -> data[you] : kept[you])>=floor); \
          returned = LATEST(returned, (BROKEN == ACKNOWLEDGES_BEFORE_ITS_MEMBERS -> data[you] : kept[you])) \
       :: else /* Moved */ \
       fi; \
       reading = 0; read_from = 0; floor = 0 }

init {
  d_step { role[0] = OWNER; shown[0] = 1; epoch[0] = 1; epoch[1] = 1 }
  do
  STORE(0) STORE(1) SOURCE(0, 1) SOURCE(1, 0) DESTINATION(0, 1) DESTINATION(1, 0) FAILOVER(0) FAILOVER(1)
  READER(0) READER(1)
  :: d_step { swap_sent -> /* it arrives */
       if
       :: revision == swap_revision && (epoch[swap_from] == swap_epoch || BROKEN == SWAPS_PAST_A_NEW_SOURCE) &&
          (epoch[1 - swap_from] == swap_other || BROKEN == SWAPS_PAST_A_NEW_DESTINATION) ->
          owner = 1 - swap_from; revision++
       :: else
       fi;
       drop_swap() }
  od
}
