/* Reads of a primary's memory under a lease, and rejections by it, while other members take over.
 *
 * store/format/memory/lease_line.h is the code, with fixed members, a promotion by hand, and rejections that the client
 * checks by its lease. Here, members of a shard agree on a configuration by compare-and-swap in etcd. The primary
 * commits a write once all members of its set have it; members.pml is the model of that. Here it is one step.
 *
 * The model
 *   wait                 Ticks of the members' clock until a member may serve in a new epoch. Its last answer to a
 *                        round, its joining and its start set it.
 *   look_age, lease      Ticks of the client's clock, which may lose one of four: since the client's last look at a
 *                        lease line, and until its lease ends.
 *   revision, reign, leader, in_sync, complete
 *                        The configuration in etcd: its number, the epoch, the primary, the members that acknowledge
 *                        each write, and those that left while that set was at its minimum: they have each write, too.
 *   known, gone          The number of the configuration that a member knows, and its `complete`.
 *   set                  The members for which a primary waits. It has a member before the swap that adds it, and
 *                        until the primary knows of the swap that removes it.
 *   epoch, state         The epoch that a member serves or follows. It serves only in the epoch of its own swap.
 *   begun, done          The lease line in the memory of a primary: numbers of rounds. A round has ended when all
 *                        other members of the set have answered it.
 *   own, visible         The last write that a primary has committed, and that its memory shows.
 *   look_begun, look_epoch
 *                        The round and the epoch that the client saw in its last look.
 *
 * Properties
 *   K4  A read, and a rejection by a primary, is of a moment behind all writes that were acknowledged, or read, before
 *       it began.
 *
 * Assumptions
 *   - Memory answers READs as long as its process lives, also while the process is stopped or cut off.
 *   - A member with all committed writes takes over (members.pml).
 *
 * CHECK -DREJECTS=0 -DRESTARTS=0
 * CHECK -DREJECTS=0 -DRESTARTS=0 -DALONE=1
 * CHECK -DREJECTS=0 -DRESTARTS=0 -DMINIMUM=2
 * CHECK -DREADS=0
 * CHECK -DREJECTS=0
 * FAULT OPENS_AT_ONCE in 1 violates >=read_floor
 * FAULT LEASE_FROM_THE_SECOND_LOOK in 1 violates >=read_floor
 * FAULT COUNTS_AN_EARLIER_ROUND in 1 violates >=read_floor
 * FAULT LEASE_AS_LONG_AS_THE_WAIT in 1 violates >=read_floor
 * FAULT ANSWERS_AFTER_ITS_SWAP in 1 violates >=read_floor
 * FAULT ENDS_A_ROUND_WITHOUT_ANSWERS in 1 violates >=read_floor
 * FAULT A_START_IS_NO_BOUND in 5 violates >=read_floor
 * FAULT REJECTS_WITHOUT_A_ROUND in 4 violates >=rejection_floor
 * FAULT NEW_MEMBERS_DO_NOT_WAIT in 2 violates >=read_floor
 * FAULT FORGETS_REMOVED_MEMBERS_EARLY in 1 violates >=read_floor
 * FAULT ROUNDS_WITHOUT_ETCD in 3 violates >=read_floor
 * FAULT COMPLETE_MEMBERS_DO_NOT_WAIT in 3 violates >=read_floor
 */
#ifndef BROKEN
#define BROKEN NOTHING
#endif
#define NOTHING                       0
#define OPENS_AT_ONCE                 1  /* a new primary serves without waiting */
#define LEASE_FROM_THE_SECOND_LOOK    2  /* a lease begins at the look that shows the end of the round */
#define COUNTS_AN_EARLIER_ROUND       3  /* a round that had begun before the first look counts */
#define LEASE_AS_LONG_AS_THE_WAIT     4  /* nothing is subtracted for a slow clock of the client */
#define ANSWERS_AFTER_ITS_SWAP        5  /* a new primary still answers the rounds of the one before */
#define ENDS_A_ROUND_WITHOUT_ANSWERS  6  /* a primary ends rounds by itself */
#define A_START_IS_NO_BOUND           7  /* a member that was started anew takes over without waiting */
#define REJECTS_WITHOUT_A_ROUND       8  /* a primary rejects a write by what it knows */
#define NEW_MEMBERS_DO_NOT_WAIT       9  /* a member that has just joined takes over without waiting */
#define FORGETS_REMOVED_MEMBERS_EARLY 10 /* a primary leaves a member out before the swap that removes it */
#define ROUNDS_WITHOUT_ETCD           11 /* below the minimum, a primary ends rounds without asking etcd */
#define COMPLETE_MEMBERS_DO_NOT_WAIT  12 /* a member that left at the minimum takes over without waiting */

#define MEMBERS 2
#ifndef ALONE
#define ALONE 0 /* 1: the second member joins later */
#endif
#ifndef EPOCHS
#define EPOCHS 2
#endif
#ifndef REVISIONS
#define REVISIONS 3
#endif
#ifndef ROUNDS
#define ROUNDS 1 /* of one primary in one epoch */
#endif
#ifndef WRITES
#define WRITES 1
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#ifndef REJECTS
#define REJECTS 1 /* 1: primaries may reject writes */
#endif
#ifndef READS
#define READS 1 /* 1: a client reads */
#endif
#ifndef MINIMUM
#define MINIMUM 1 /* members of the set without which nothing is written */
#endif
#define WAIT 4
#if BROKEN == LEASE_AS_LONG_AS_THE_WAIT
#define LEASE 4
#else
#define LEASE 3
#endif

#define BIT(member)      (1 << (member))
#define HAS(set, member) (((set) >> (member)) & 1)
#define LATEST(a, b)     ((a) > (b) -> (a) : (b))
#define SIZE(set) (HAS(set, 0) + HAS(set, 1))

#define BACKUP 0
#define WAITS  1 /* its swap succeeded; it does not serve yet */
#define OPEN   2

byte since_lost = 3; /* ticks since the client's clock lost one */

byte revision = 1, reign = 1, leader;
byte in_sync = (ALONE -> 1 : 3);
byte complete;

byte known[MEMBERS], set[MEMBERS], gone[MEMBERS];
byte epoch[MEMBERS], state[MEMBERS], won[MEMBERS];
byte wait[MEMBERS];
byte begun[MEMBERS], done[MEMBERS], answered[MEMBERS * MEMBERS];
byte own[MEMBERS], visible[MEMBERS];
byte committed, acknowledged, returned; /* numbers of writes; returned: the last one that a client has seen */
byte restarts;

bit looked;
byte target, look_age, look_begun, look_epoch, lease;
byte reading, read_floor, read_value;
byte rejecting, rejecter, rejection_epoch, rejection_round, rejection_floor, rejection_value;

byte other, all;

/* all: `condition` holds for each other member of the set of `me`. */
inline for_all_others(me, condition) {
  all = 1;
  other = 0;
  do
  :: other < MEMBERS ->
     if
     :: other != me && HAS(set[me], other) && !(condition) -> all = 0
     :: else
     fi;
     other++
  :: else -> break
  od;
  other = 0
}

inline members_tick() {
  other = 0;
  do
  :: other < MEMBERS -> wait[other] = (wait[other] > 0 -> wait[other] - 1 : 0); other++
  :: else -> break
  od;
  other = 0
}
inline clients_tick() {
  lease = (lease > 0 -> lease - 1 : 0);
  if
  :: looked && look_age + 1 < LEASE -> look_age++
  :: else -> looked = 0; look_age = 0; look_begun = 0; look_epoch = (lease > 0 -> look_epoch : 0)
  fi
}

/* The steps of one member. */
#define STEPS(me) \
  :: d_step { state[me] == OPEN && begun[me] == done[me] && begun[me] < ROUNDS -> begun[me]++ } \
  :: d_step { state[me] == OPEN && begun[me] > done[me] -> \
       for_all_others(me, answered[me * MEMBERS + other] >= begun[me]); \
       if \
       :: (all || BROKEN == ENDS_A_ROUND_WITHOUT_ANSWERS) && \
          (gone[me] == 0 || BROKEN == ROUNDS_WITHOUT_ETCD || revision == known[me]) -> done[me] = begun[me] \
       :: else \
       fi; \
       all = 0 } \
  :: d_step { state[me] == OPEN && own[me] == committed && committed < WRITES && SIZE(set[me]) >= MINIMUM -> \
       for_all_others(me, state[other] == BACKUP && epoch[other] == epoch[me]); \
       if \
       :: all -> committed++; own[me] = committed \
       :: else \
       fi; \
       all = 0 } \
  :: d_step { state[me] == OPEN && visible[me] < own[me] -> visible[me] = own[me] } \
  :: d_step { visible[me] == own[me] && acknowledged < own[me] -> acknowledged = own[me] } \
  :: d_step { state[me] == WAITS && (wait[me] == 0 || BROKEN == OPENS_AT_ONCE) -> \
       for_all_others(me, state[other] == BACKUP && epoch[other] == epoch[me]); \
       if \
       :: all -> state[me] = OPEN; own[me] = committed; visible[me] = committed \
       :: else \
       fi; \
       all = 0 } \
  :: d_step { won[me] != 0 -> /* it learns that its swap succeeded */ \
       epoch[me] = won[me]; won[me] = 0; state[me] = WAITS; begun[me] = 0; done[me] = 0; \
       other = 0; \
       do \
       :: other < MEMBERS -> answered[me * MEMBERS + other] = 0; other++ \
       :: else -> break \
       od; \
       other = 0 } \
  :: d_step { state[me] != BACKUP && reign > epoch[me] && won[me] == 0 -> state[me] = BACKUP } \
  :: d_step { known[me] != revision && won[me] == 0 && (state[me] != BACKUP -> reign == epoch[me] : 1) -> \
       known[me] = revision; set[me] = in_sync; gone[me] = complete } \
  :: d_step { state[me] == BACKUP && won[me] == 0 && known[me] == revision && (leader != me || epoch[me] == 0) && \
              (HAS(in_sync, me) || HAS(complete, me)) && reign < EPOCHS && revision < REVISIONS -> \
       revision++; reign++; \
       if \
       :: HAS(complete, me) && BROKEN != COMPLETE_MEMBERS_DO_NOT_WAIT -> wait[me] = WAIT \
       :: else \
       fi; \
       in_sync = (leader == me -> in_sync : (in_sync | BIT(me)) & ~BIT(leader)); complete = 0; leader = me; \
       won[me] = reign; known[me] = revision; set[me] = in_sync; gone[me] = 0 } \
  :: d_step { restarts < RESTARTS -> restarts++; \
       state[me] = BACKUP; epoch[me] = 0; known[me] = 0; won[me] = 0; visible[me] = 0; own[me] = 0; \
       if \
       :: BROKEN != A_START_IS_NO_BOUND -> wait[me] = WAIT \
       :: else -> wait[me] = 0 \
       fi; \
       if \
       :: target == me -> looked = 0; lease = 0; reading = 0; read_value = 0; read_floor = 0 \
       :: else \
       fi; \
       if \
       :: rejecter == me -> rejecting = 0; rejection_value = 0; rejection_floor = 0; rejection_round = 0; rejection_epoch = 0 \
       :: else \
       fi }

/* Steps of a primary and another member. */
#define PAIR(me, you) \
  :: d_step { state[me] == OPEN && answered[me * MEMBERS + you] < begun[me] && \
              (state[you] == BACKUP && epoch[you] == epoch[me] || \
               BROKEN == ANSWERS_AFTER_ITS_SWAP && state[you] != BACKUP) -> \
       answered[me * MEMBERS + you] = begun[me]; \
       if \
       :: state[you] == BACKUP -> wait[you] = WAIT \
       :: else \
       fi } \
  :: d_step { state[me] == WAITS && HAS(set[me], you) && epoch[you] < epoch[me] && won[you] == 0 -> \
       state[you] = BACKUP; epoch[you] = epoch[me]; wait[you] = WAIT } \
  :: d_step { state[me] != BACKUP && HAS(in_sync, you) && leader == me && known[me] == revision && \
              revision < REVISIONS && (SIZE(in_sync) > MINIMUM || complete == 0) -> \
       if \
       :: SIZE(in_sync) <= MINIMUM -> complete = complete | BIT(you) \
       :: else \
       fi; \
       in_sync = in_sync & ~BIT(you); revision++ } \
  :: d_step { BROKEN == FORGETS_REMOVED_MEMBERS_EARLY && state[me] == OPEN && HAS(set[me], you) -> \
       set[me] = set[me] & ~BIT(you) } \
  :: d_step { state[me] == OPEN && reign == epoch[me] && !HAS(in_sync, you) && !HAS(set[me], you) && \
              known[me] == revision && state[you] == BACKUP && won[you] == 0 && epoch[you] <= epoch[me] -> \
       epoch[you] = epoch[me]; set[me] = set[me] | BIT(you); \
       if \
       :: BROKEN != NEW_MEMBERS_DO_NOT_WAIT -> wait[you] = WAIT \
       :: else \
       fi } \
  :: d_step { state[me] == OPEN && leader == me && known[me] == revision && HAS(set[me], you) && \
              !HAS(in_sync, you) && revision < REVISIONS -> \
       in_sync = in_sync | BIT(you); complete = 0; revision++ }

/* A look at the lease line of a member that serves. */
#define LOOK(you) \
  :: d_step { READS && reading == 0 && state[you] == OPEN -> \
       if \
       :: looked && target == you && look_epoch == epoch[you] && \
          (done[you] > look_begun || BROKEN == COUNTS_AN_EARLIER_ROUND && done[you] > 0 && done[you] >= look_begun) -> \
          lease = LEASE - (BROKEN == LEASE_FROM_THE_SECOND_LOOK -> 0 : look_age) \
       :: else -> \
          if \
          :: target != you || look_epoch != epoch[you] -> lease = 0 \
          :: else \
          fi \
       fi; \
       looked = 1; target = you; look_age = 0; look_begun = begun[you]; look_epoch = epoch[you] }

#define REJECTION(you) \
  :: d_step { REJECTS && rejecting == 0 && state[you] == OPEN -> \
       rejecting = 1; rejecter = you; rejection_floor = LATEST(acknowledged, returned) } \
  :: d_step { rejecting == 1 && rejecter == you && state[you] == OPEN -> \
       rejecting = 2; rejection_value = visible[you]; rejection_round = begun[you]; rejection_epoch = epoch[you] } \
  :: d_step { rejecting == 2 && rejecter == you && state[you] == OPEN && rejection_epoch == epoch[you] && \
              (done[you] > rejection_round || BROKEN == REJECTS_WITHOUT_A_ROUND) -> \
       assert(rejection_value >= rejection_floor); \
       rejecting = 0; rejection_value = 0; rejection_floor = 0; rejection_round = 0; rejection_epoch = 0 } \
  :: d_step { rejecting != 0 && rejecter == you && (state[you] != OPEN || rejecting == 2 && rejection_epoch != epoch[you]) -> \
       rejecting = 0; rejection_value = 0; rejection_floor = 0; rejection_round = 0; rejection_epoch = 0 }

init {
  d_step {
    known[0] = 1; known[1] = 1;
    set[0] = in_sync; set[1] = in_sync;
    epoch[0] = 1; epoch[1] = 1;
    state[0] = OPEN
  }
  do
  :: d_step { members_tick(); clients_tick(); since_lost = (since_lost < 3 -> since_lost + 1 : 3) }
  :: d_step { since_lost == 3 -> members_tick(); since_lost = 0 }
  STEPS(0) STEPS(1) PAIR(0, 1) PAIR(1, 0) LOOK(0) LOOK(1) REJECTION(0) REJECTION(1)
  :: d_step { reading == 0 && lease > 0 ->
       reading = 1; read_floor = LATEST(acknowledged, returned) }
  :: d_step { reading == 1 -> reading = 2; read_value = visible[target] }
  :: d_step { reading == 2 ->
       if
       :: lease > 0 ->
          assert(read_value >= read_floor);
          returned = LATEST(returned, read_value)
       :: else
       fi;
       reading = 0; read_value = 0; read_floor = 0 }
  od
}
