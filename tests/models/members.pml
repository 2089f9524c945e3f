/* Writes of a shard that several members have, while members take over, leave, join and lose power.
 *
 * The code is in server/cluster/. Members agree on a configuration by compare-and-swap in etcd. Of reads, lease.pml is
 * the model.
 *
 * The model
 *   revision, reign, leader, in_sync, complete
 *                        The configuration in etcd: its number, the epoch, the primary, the members that acknowledge
 *                        each write, and those that left while that set was at its minimum: they have each write, too.
 *   known, agreed        The number of the configuration that a member knows, and its set.
 *   set                  The members for which a primary waits. It has a member before the swap that adds it, and
 *                        until the primary knows of the swap that removes it.
 *   epoch, state         The epoch that a member serves or follows. It serves only in the epoch of its own swap.
 *   seen                 The greatest epoch that a member has read in etcd since its start. Older ones are rejected.
 *   torn                 The member has lost the end of its log. The swap that adds it again ends this.
 *   replicas, minimum    Members that the configuration has, and the smallest set that publishes. An operator changes
 *                        them by a swap of its own. `least` is the minimum that a member knows.
 *   size, groups         The log of each member. Groups of writes have numbers.
 *   acknowledged         The number of groups that a primary knows another member to have. It never falls in an epoch.
 *   published            The number of groups that a primary has answered, and shown to readers. They are its first.
 *   history, committed   All groups that were ever published, in their order.
 *
 * Properties
 *   K1  Configurations form a line: each is swapped in from the one before.
 *   K2  A group is published only when every member of the set has it, and the set has its minimum.
 *   K3  A member counts before the swap that adds it, and until the swap that removes it is known.
 *   K5  A primary serves in its own epoch, with all members of the set at its position.
 *   K7  A member that lost the end of its log does not take over.
 *   K8  Members of `complete` may take over.
 *   K12 An operator's change leaves the primary and the epoch as they are. It adds nobody to the set and to `complete`.
 *   K15 A forced takeover loses nothing that the member has, if no other member leads.
 *   K9  All primaries publish the same groups in the same order, and a new one has all that were published.
 *
 * CHECK -DMEMBERS=2 -DCRASHES=1
 * CHECK -DMEMBERS=3
 * CHECK -DMEMBERS=3 -DMINIMUM=2 -DSTART=3 -DEPOCHS=2
 * CHECK -DMEMBERS=3 -DMINIMUM=2 -DCRASHES=1
 * CHECK -DMEMBERS=3 -DMINIMUM=2 -DCHANGES=2 -DEPOCHS=2
 * CHECK -DMEMBERS=3 -DCRASHES=1 -DFORCES=1 -DEPOCHS=2
 * CHECK -DMEMBERS=3 -DMINIMUM=2 -DSTART=3 -DCHANGES=1 -DEPOCHS=2
 * FAULT PUBLISHES_WITHOUT_ALL in 1 violates >=committed
 * FAULT FORGETS_REMOVED_MEMBERS_EARLY in 1 violates >=committed
 * FAULT NEW_MEMBERS_COUNT_LATE in 1 violates >=committed
 * FAULT OPENS_WITHOUT_THE_OTHERS in 2 violates >=committed
 * FAULT TORN_MEMBERS_TAKE_OVER in 1 violates >=committed
 * FAULT SWAPS_BLINDLY in 1 violates >=committed
 * FAULT FOLLOWS_AN_OLD_PRIMARY in 2 violates >=committed
 * FAULT JOINS_WITHOUT_REWINDING in 2 violates history
 * FAULT COMPLETE_MEMBERS_STAY in 3 violates >=committed
 * FAULT WRITES_BELOW_THE_MINIMUM in 3 violates >=committed
 * FAULT NEW_MEMBERS_MAKE_THE_MINIMUM in 3 violates history
 * FAULT COMPLETE_BEFORE_IT_OPENS in 4 violates >=committed
 * FAULT FOLLOWS_BEFORE_IT_ASKS in 4 violates >=committed
 * FAULT LOWER_MINIMUM_KEEPS_COMPLETE in 7 violates >=committed
 * FAULT REMOVES_FROM_AN_OLD_SET in 5 violates >=committed
 * FAULT FORCES_BESIDE_A_PRIMARY in 6 violates history
 */
#ifndef BROKEN
#define BROKEN NOTHING
#endif
#define NOTHING                       0
#define PUBLISHES_WITHOUT_ALL         1  /* a primary publishes what it alone has */
#define FORGETS_REMOVED_MEMBERS_EARLY 2  /* a primary leaves a member out before the swap that removes it */
#define NEW_MEMBERS_COUNT_LATE        3  /* a primary waits for a new member once it knows of the swap */
#define OPENS_WITHOUT_THE_OTHERS      4  /* a new primary serves before the others are at its position */
#define TORN_MEMBERS_TAKE_OVER        5  /* a member that lost the end of its log takes over */
#define SWAPS_BLINDLY                 6  /* a member takes over from an old configuration that it knows */
#define FOLLOWS_AN_OLD_PRIMARY        7  /* a member takes groups of an epoch before its own */
#define JOINS_WITHOUT_REWINDING       8  /* a member that joins keeps groups that the primary lacks */
#define COMPLETE_MEMBERS_STAY         9  /* a member of `complete` stays there when another joins */
#define WRITES_BELOW_THE_MINIMUM      10 /* a primary publishes though the set is too small */
#define NEW_MEMBERS_MAKE_THE_MINIMUM  11 /* a primary publishes once the set with a new member is large enough */
#define COMPLETE_BEFORE_IT_OPENS      12 /* a member that a new primary has not brought to its position is complete */
#define FOLLOWS_BEFORE_IT_ASKS        13 /* a member that was started anew follows the first that asks */
#define LOWER_MINIMUM_KEEPS_COMPLETE  14 /* members stay complete while writes go on without them */
#define REMOVES_FROM_AN_OLD_SET       15 /* an operator's swap does not compare */
#define FORCES_BESIDE_A_PRIMARY       16 /* a member takes over by force while another one leads */

#ifndef MEMBERS
#define MEMBERS 2
#endif
#ifndef START
#define START (BIT(MEMBERS) - 1) /* the set at first */
#endif
#ifndef EPOCHS
#define EPOCHS 3
#endif
#ifndef REVISIONS
#define REVISIONS 4
#endif
#ifndef LENGTH
#define LENGTH 2 /* of a log */
#endif
#ifndef WRITES
#define WRITES 3
#endif
#ifndef CRASHES
#define CRASHES 0 /* that lose the end of a log, the most */
#endif
#ifndef MINIMUM
#define MINIMUM 1
#endif
#ifndef CHANGES
#define CHANGES 0 /* of the members by an operator, the most */
#endif
#ifndef FORCES
#define FORCES 0 /* takeovers by force, the most */
#endif

#define BIT(member)      (1 << (member))
#define HAS(set, member) (((set) >> (member)) & 1)
#if MEMBERS == 2
#define SIZE(set) (HAS((set), 0) + HAS((set), 1))
#else
#define SIZE(set) (HAS((set), 0) + HAS((set), 1) + HAS((set), 2))
#endif

#define BACKUP 0
#define WAITS  1 /* its swap succeeded; it does not serve yet */
#define OPEN   2

byte revision = 1, reign = 1, leader;
byte in_sync = START;
byte complete;
byte replicas = BIT(MEMBERS) - 1;
byte minimum = MINIMUM;

byte known[MEMBERS], agreed[MEMBERS], set[MEMBERS];
byte epoch[MEMBERS], seen[MEMBERS], state[MEMBERS], won[MEMBERS];
bit torn[MEMBERS];
byte least[MEMBERS];
byte size[MEMBERS], groups[MEMBERS * LENGTH], acknowledged[MEMBERS * MEMBERS], published[MEMBERS];
byte history[LENGTH], committed, written, crashes, changes, forces;
byte asked; /* the set when the operator read the configuration, of the fault that does not compare */
byte other, all, at;

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

/* The primary publishes its groups before `end`. */
inline publish(me, end) {
  at = published[me];
  do
  :: at < end ->
     if
     :: at < committed -> assert(groups[me * LENGTH + at] == history[at])
     :: else -> history[at] = groups[me * LENGTH + at]; committed++
     fi;
     at++
  :: else -> break
  od;
  published[me] = end;
  at = 0
}

/* A member takes the log of the primary for its own. */
inline copy_log(you, me) {
  at = 0;
  do
  :: at < LENGTH -> groups[you * LENGTH + at] = groups[me * LENGTH + at]; at++
  :: else -> break
  od;
  size[you] = size[me];
  at = 0
}

/* After a start, a member first asks etcd for the configuration. It follows no epoch before one that it has seen. */
#define MAY_FOLLOW(you, me) \
  (known[you] != 0 && seen[you] <= epoch[me] || BROKEN == FOLLOWS_BEFORE_IT_ASKS)

#define STEPS(me) \
  :: d_step { state[me] == OPEN && size[me] < LENGTH && written < WRITES -> \
       written++; groups[me * LENGTH + size[me]] = written; size[me]++ } \
  :: d_step { state[me] == OPEN && published[me] < size[me] && \
              (SIZE(BROKEN == NEW_MEMBERS_MAKE_THE_MINIMUM -> set[me] : agreed[me]) >= least[me] || \
               BROKEN == WRITES_BELOW_THE_MINIMUM) -> \
       for_all_others(me, acknowledged[me * MEMBERS + other] > published[me]); \
       if \
       :: all || BROKEN == PUBLISHES_WITHOUT_ALL -> publish(me, published[me] + 1) \
       :: else \
       fi; \
       all = 0 } \
  :: d_step { won[me] != 0 -> /* it learns that its swap succeeded */ \
       epoch[me] = won[me]; won[me] = 0; state[me] = WAITS; published[me] = 0; \
       other = 0; \
       do \
       :: other < MEMBERS -> acknowledged[me * MEMBERS + other] = 0; other++ \
       :: else -> break \
       od; \
       other = 0 } \
  :: d_step { state[me] == WAITS -> \
       for_all_others(me, state[other] == BACKUP && epoch[other] == epoch[me]); \
       if \
       :: all || BROKEN == OPENS_WITHOUT_THE_OTHERS -> \
          state[me] = OPEN; \
          assert(size[me] >= committed); \
          publish(me, size[me]) \
       :: else \
       fi; \
       all = 0 } \
  :: d_step { state[me] != BACKUP && reign > epoch[me] && won[me] == 0 -> state[me] = BACKUP } \
  :: d_step { known[me] != revision && won[me] == 0 && (state[me] != BACKUP -> reign == epoch[me] : 1) -> \
       known[me] = revision; seen[me] = reign; agreed[me] = in_sync; set[me] = in_sync; least[me] = minimum } \
  :: d_step { state[me] == BACKUP && won[me] == 0 && leader != me && reign < EPOCHS && revision < REVISIONS && \
              (known[me] == revision && (HAS(in_sync, me) || HAS(complete, me)) || \
               BROKEN == SWAPS_BLINDLY && HAS(set[me], me)) && \
              (!torn[me] || BROKEN == TORN_MEMBERS_TAKE_OVER) -> \
       in_sync = ((known[me] == revision -> in_sync : set[me]) | BIT(me)) & ~BIT(leader); \
       revision++; reign++; complete = 0; leader = me; \
       won[me] = reign; known[me] = revision; agreed[me] = in_sync; set[me] = in_sync; least[me] = minimum } \
  FORCE(me) \
  :: d_step { crashes < CRASHES -> crashes++; \
       state[me] = BACKUP; epoch[me] = 0; known[me] = 0; won[me] = 0; published[me] = 0; torn[me] = 1; \
       size[me] = 0; at = 0; \
       do \
       :: at < LENGTH -> groups[me * LENGTH + at] = 0; at++ \
       :: else -> break \
       od; \
       at = 0 }

/* A member takes over that need not be in the set. Groups that it lacks are lost; here it lacks none. */
#if FORCES > 0
#define FORCE(me) \
  :: d_step { forces < FORCES && state[me] == BACKUP && won[me] == 0 && known[me] == revision && \
              HAS(replicas, me) && size[me] >= committed && reign < EPOCHS && revision < REVISIONS -> \
       all = 1; \
       other = 0; \
       do \
       :: other < MEMBERS -> all = (state[other] == BACKUP && won[other] == 0 -> all : 0); other++ \
       :: else -> break \
       od; \
       other = 0; \
       if \
       :: all || BROKEN == FORCES_BESIDE_A_PRIMARY -> \
          forces++; torn[me] = 0; in_sync = BIT(me); complete = 0; leader = me; revision++; reign++; \
          won[me] = reign; known[me] = revision; agreed[me] = in_sync; set[me] = in_sync; least[me] = minimum \
       :: else \
       fi; \
       all = 0 }
#else
#define FORCE(me)
#endif

/* An operator removes a member, with the same minimum or a lower one, or adds it again. */
#define MAY_CHANGE (changes < CHANGES && revision < REVISIONS)
#define REMOVE(you, less) \
  :: d_step { MAY_CHANGE && HAS(replicas, you) && leader != you && minimum > less && \
              minimum - less <= SIZE(replicas & ~BIT(you)) -> \
       changes++; revision++; replicas = replicas & ~BIT(you); minimum = minimum - less; \
       in_sync = (BROKEN == REMOVES_FROM_AN_OLD_SET -> (asked | BIT(leader)) & replicas : in_sync & ~BIT(you)); \
       complete = complete & ~BIT(you); \
       if \
       :: SIZE(in_sync) >= minimum && BROKEN != LOWER_MINIMUM_KEEPS_COMPLETE -> complete = 0 \
       :: else \
       fi }
#if CHANGES > 0
#define CHANGE(you) \
  REMOVE(you, 0) REMOVE(you, 1) \
  :: d_step { MAY_CHANGE && !HAS(replicas, you) -> changes++; revision++; replicas = replicas | BIT(you) } \
  :: d_step { BROKEN == REMOVES_FROM_AN_OLD_SET && asked == 0 -> asked = in_sync }
#else
#define CHANGE(you)
#endif

#define PAIR(me, you) \
  :: d_step { state[me] == OPEN && state[you] == BACKUP && size[you] < size[me] && \
              (epoch[you] == epoch[me] || BROKEN == FOLLOWS_AN_OLD_PRIMARY && epoch[you] > epoch[me]) -> \
       groups[you * LENGTH + size[you]] = groups[me * LENGTH + size[you]]; size[you]++; \
       acknowledged[me * MEMBERS + you] = size[you] } \
  :: d_step { state[me] == WAITS && HAS(set[me], you) && epoch[you] < epoch[me] && won[you] == 0 && \
              MAY_FOLLOW(you, me) -> \
       state[you] = BACKUP; epoch[you] = epoch[me]; copy_log(you, me); \
       acknowledged[me * MEMBERS + you] = size[me] } \
  :: d_step { state[me] != BACKUP && HAS(in_sync, you) && leader == me && known[me] == revision && \
              revision < REVISIONS && (SIZE(in_sync) > minimum || complete == 0) -> \
       if \
       :: SIZE(in_sync) <= minimum && (state[me] == OPEN || BROKEN == COMPLETE_BEFORE_IT_OPENS) -> \
          complete = complete | BIT(you) \
       :: else \
       fi; \
       in_sync = in_sync & ~BIT(you); revision++ } \
  :: d_step { BROKEN == FORGETS_REMOVED_MEMBERS_EARLY && state[me] == OPEN && HAS(set[me], you) -> \
       set[me] = set[me] & ~BIT(you) } \
  :: d_step { state[me] == OPEN && !HAS(agreed[me], you) && !HAS(set[me], you) && \
              state[you] == BACKUP && won[you] == 0 && epoch[you] <= epoch[me] && MAY_FOLLOW(you, me) -> \
       epoch[you] = epoch[me]; \
       if \
       :: BROKEN == JOINS_WITHOUT_REWINDING && size[you] > 0 \
       :: else -> copy_log(you, me) \
       fi; \
       acknowledged[me * MEMBERS + you] = size[you]; \
       if \
       :: BROKEN == NEW_MEMBERS_COUNT_LATE \
       :: else -> set[me] = set[me] | BIT(you) \
       fi } \
  :: d_step { state[me] == OPEN && leader == me && known[me] == revision && !HAS(in_sync, you) && \
              (HAS(set[me], you) || BROKEN == NEW_MEMBERS_COUNT_LATE) && epoch[you] == epoch[me] && \
              HAS(replicas, you) && revision < REVISIONS -> \
       torn[you] = 0; in_sync = in_sync | BIT(you); revision++; \
       complete = (BROKEN == COMPLETE_MEMBERS_STAY -> complete & ~BIT(you) : 0) }

init {
  d_step {
    other = 0;
    do
    :: other < MEMBERS ->
       known[other] = 1; agreed[other] = in_sync; set[other] = in_sync; least[other] = MINIMUM; epoch[other] = 1;
       other++
    :: else -> break
    od;
    other = 0;
    state[0] = OPEN
  }
  do
  STEPS(0) STEPS(1) PAIR(0, 1) PAIR(1, 0) CHANGE(0) CHANGE(1)
#if MEMBERS == 3
  STEPS(2) PAIR(0, 2) PAIR(2, 0) PAIR(1, 2) PAIR(2, 1) CHANGE(2)
#endif
  od
}
