/* Sleeping and waking over the local transport: clients that wait for answers, and the server that waits for requests.
 *
 * The model and the code
 *   requests, answers    The message rings of each connection: how many messages were published, and how many were
 *                        taken (rdma/local/wire.h, A2).
 *   mark                 SleepMark (rdma/local/wire.h): odd while its owner sleeps or is about to, another number for
 *                        each sleep. The lower two bits are 1 for a sleep that a byte ends, and 3 for a brief sleep on a
 *                        futex.
 *   wakes                LocalSide::wakes of each client: it ends a brief sleep of the server. The server sleeps while all
 *                        words are as it saw them (FutexWaitAny, rdma/local/futex.h).
 *   to_server, to_client The bytes in the socket of each connection, which wake the other side.
 *   Client               PostSend (rdma/local/connection.cc), then PollUntil (rdma/adaptive_poll.h) with Wait
 *                        (rdma/local/client.cc), which is a brief sleep and then one that a byte ends. The brief one
 *                        may end at any time, so the server's `wakes`, which ends it soon, is a matter of speed alone.
 *                        With DEPTH, an AsyncClient in an event loop instead: Arm, Poll until it finds nothing, sleep,
 *                        Disarm. Between Arm and Disarm, Poll takes answers and leaves the bytes.
 *   Server               EventLoop::Run, with Arm, ArmBriefly, Poll, SleepBriefly and Disarm (rdma/local/listener.cc). Here
 *                        a brief sleep of the server has no end of its own. So no request waits for that end.
 *   parked               SleepMark of the server's side of a connection: odd while the server does not look into its
 *                        ring (rdma/local/polled_connections.h). The server parks and looks at sockets whenever it
 *                        likes, also while it is armed. It ends a parking by itself when it posts to the connection.
 *
 * A side looks as often as it likes before it sleeps: how long it spins is a matter of speed alone. So a rule that
 * decides whether spinning pays, right or wrong, changes nothing here.
 *
 * Properties
 *   A4  No lost wake-up: a side never sleeps for ever while a message waits for it.
 *   A6  No lost message of a parked connection.
 *   -   At most one byte is sent for each sleep.
 *
 * Assumptions
 *   - The store of a message or a mark, and the load of the other, are in one total order (seq_cst).
 *   - Both sides live, and the socket is never full. Deaths are A1's.
 *
 * CHECK -DCLIENTS=1 -DREQUESTS=3
 * CHECK -DCLIENTS=2 -DREQUESTS=1
 * CHECK -DCLIENTS=1 -DREQUESTS=2 -DPARKS=3
 * CHECK -DCLIENTS=2 -DREQUESTS=1 -DPARKS=1 -DBRIEF=0
 * CHECK -DCLIENTS=2 -DREQUESTS=1 -DPARKS=2 -DPARKED_AT_FIRST=1 -DBRIEF=0
 * CHECK -DCLIENTS=1 -DREQUESTS=3 -DBRIEF_SERVER=1
 * CHECK -DCLIENTS=2 -DREQUESTS=1 -DBRIEF=0 -DBRIEF_SERVER=1
 * CHECK -DCLIENTS=1 -DREQUESTS=2 -DPARKS=2 -DBRIEF=0 -DBRIEF_SERVER=1
 * CHECK -DCLIENTS=1 -DREQUESTS=4 -DDEPTH=3
 * CHECK -DCLIENTS=1 -DREQUESTS=2 -DDEPTH=2 -DPARKS=1 -DBRIEF_SERVER=1
 * FAULT MARKS_BEHIND_LOOK in 1 violates finished==
 * FAULT LOADS_BEFORE_STORE in 1 violates finished==
 * FAULT SAME_MARK in 1 violates finished==
 * FAULT DRAINS_WHILE_ARMED in 2 violates finished==
 * FAULT WAKES_ALWAYS in 1 violates sent_for
 * FAULT LOOKS_AT_ONE in 2 violates finished==
 * FAULT PARKS_BEHIND_LOOK in 3 violates finished==
 * FAULT STAYS_PARKED in 3 violates finished==
 * FAULT SAME_PARK_MARK in 3 violates finished==
 * FAULT NEVER_RINGS in 3 violates finished==
 * FAULT UNPARKS_FIRST in 5 violates finished==
 * FAULT COUNTS_BEHIND_LOOK in 6 violates finished==
 * FAULT MARKS_BRIEF_BEHIND_LOOK in 6 violates finished==
 * FAULT ALWAYS_A_BYTE in 6 violates finished==
 * FAULT WAITS_FOR_ONE in 7 violates finished==
 * FAULT BRIEF_BESIDE_PARKED in 8 violates finished==
 * FAULT CLIENT_DRAINS_WHILE_ARMED in 9 violates finished==
 */
#ifndef BROKEN
#define BROKEN NOTHING
#endif
#define NOTHING            0
#define MARKS_BEHIND_LOOK  1 /* a sleeper looks first, and then marks itself as asleep */
#define LOADS_BEFORE_STORE 2 /* a sender looks at the mark before it publishes the message */
#define SAME_MARK          3 /* each sleep has the same number */
#define DRAINS_WHILE_ARMED 4 /* the server takes bytes from the sockets between its last look and its sleep */
#define WAKES_ALWAYS       5 /* a sender sends a byte with each message to a sleeper */
#define LOOKS_AT_ONE       6 /* the last look is at the first connection alone */
#define PARKS_BEHIND_LOOK  7 /* the server looks into a ring, and then marks the connection as parked */
#define STAYS_PARKED       8 /* the server takes a client's byte and does not unpark the connection */
#define SAME_PARK_MARK     9 /* each parking has the same number */
#define NEVER_RINGS        10 /* a client looks at the mark of the server alone */
#define UNPARKS_FIRST      11 /* the server takes all clients' bytes and unparks the first connection alone */
#define COUNTS_BEHIND_LOOK      12 /* the server looks at `wakes` behind its last look into the rings */
#define MARKS_BRIEF_BEHIND_LOOK 13 /* it looks into the rings, and then marks itself as briefly asleep */
#define ALWAYS_A_BYTE           14 /* a client sends a byte to a server that sleeps briefly */
#define WAITS_FOR_ONE           15 /* the server sleeps on the word of the first client alone */
#define BRIEF_BESIDE_PARKED     16 /* the server sleeps briefly although a connection is parked */
#define CLIENT_DRAINS_WHILE_ARMED 17 /* a client takes bytes from its socket between Arm and its last look */

#ifndef CLIENTS
#define CLIENTS 1
#endif
#ifndef REQUESTS
#define REQUESTS 4
#endif
#ifndef PARKS
#define PARKS 0 /* the most */
#endif
#ifndef PARKED_AT_FIRST
#define PARKED_AT_FIRST 0 /* 1: all connections are */
#endif
#ifndef BRIEF
#define BRIEF 1 /* clients sleep briefly first */
#endif
#ifndef BRIEF_SERVER
#define BRIEF_SERVER 0 /* 1: the server sleeps briefly, or at the sockets, as it likes */
#endif
#ifndef DEPTH
#define DEPTH 0 /* not 0: clients are event loops with at most so many requests in flight */
#endif

byte requests[CLIENTS], requests_taken[CLIENTS];
byte answers[CLIENTS], answers_taken[CLIENTS];
byte server_mark, client_mark[CLIENTS];
byte to_server[CLIENTS], to_client[CLIENTS];
#if BRIEF_SERVER
byte wakes[CLIENTS], wakes_seen[CLIENTS];
#endif
byte sent_for[CLIENTS]; /* bytes sent to a client since it fell asleep */
byte parked[CLIENTS] = PARKED_AT_FIRST;
byte parks = PARKED_AT_FIRST * CLIENTS; /* so far */
byte finished;

#if BROKEN == SAME_MARK
#define ASLEEP(mark) 1
#define BRIEFLY(mark) 3
#define AWAKE(mark)  0
#else
#define AWAKE(mark)  (((mark | 3) + 1) & 255)
#define ASLEEP(mark) (AWAKE(mark) | 1)
#define BRIEFLY(mark) (AWAKE(mark) | 3)
#endif

/* Publishes a message, and then looks whether its reader sleeps. */
inline publish(ring, mark) {
#if BROKEN == LOADS_BEFORE_STORE
  seen = mark;
  ring++
#else
  ring++;
  seen = mark
#endif
}
inline fall_asleep_at_server() { server_mark = ASLEEP(server_mark) }
inline fall_asleep_at_client() { atomic { client_mark[me] = ASLEEP(client_mark[me]); sent_for[me] = 0 } }
#if BROKEN == SAME_PARK_MARK
#define PARKED(mark)   1
#define UNPARKED(mark) 0
#else
#define PARKED(mark)   ASLEEP(mark)
#define UNPARKED(mark) AWAKE(mark)
#endif

/* HandleEvents: takes the byte of each client, and then unparks its connection. */
#if PARKS
inline take_bytes() {
  i = 0;
  do
  :: atomic { i == CLIENTS -> break }
  :: atomic { i < CLIENTS && to_server[i] == 0 -> i++ }
  :: atomic { i < CLIENTS && to_server[i] > 0 -> to_server[i] = 0 };
    atomic {
      if
      :: (parked[i] & 1) && BROKEN != STAYS_PARKED && (BROKEN != UNPARKS_FIRST || i == 0) -> parked[i] = UNPARKED(parked[i])
      :: else
      fi;
      i++
    }
  od
}
#else
inline take_bytes() { atomic { i = 0; do :: i == CLIENTS -> break :: else -> to_server[i] = 0; i++ od } }
#endif
/* Park: marks a connection, then looks into its ring. */
inline park(which) {
#if BROKEN != PARKS_BEHIND_LOOK
  parked[which] = PARKED(parked[which]);
#endif
  if
  :: requests[which] > requests_taken[which] -> parked[which] = UNPARKED(parked[which])
  :: requests[which] == requests_taken[which] ->
#if BROKEN == PARKS_BEHIND_LOOK
    parked[which] = PARKED(parked[which])
#else
    skip
#endif
  fi
}
/* The connections that may be parked now. */
#define MAY_PARK(which) (parks < PARKS && !(parked[which] & 1))

/* PostSend. */
inline send_request() {
  publish(requests[me], server_mark);
#if PARKS
  seen_parked = (BROKEN == NEVER_RINGS -> 0 : parked[me]);
#endif
  atomic {
    if
    :: (seen_parked & 1) && seen_parked != rung -> to_server[me]++; rung = seen_parked; woken = seen
    :: else ->
      if
      :: (seen & 1) && seen != woken ->
        woken = seen;
#if BRIEF_SERVER
        if
        :: (seen & 3) == 3 && BROKEN != ALWAYS_A_BYTE -> wakes[me]++
        :: else -> to_server[me]++
        fi
#else
        to_server[me]++
#endif
      :: else
      fi
    fi
  }
}

#if DEPTH
proctype Client(byte me) {
  byte seen, seen_parked, woken, rung;
  do
  :: atomic { answers_taken[me] == REQUESTS -> finished++; break }
  :: requests[me] < REQUESTS && requests[me] - answers_taken[me] < DEPTH -> send_request()
  :: atomic { answers[me] > answers_taken[me] -> answers_taken[me]++ } /* a Poll while nobody sleeps */
  :: requests[me] > answers_taken[me] ->
    fall_asleep_at_client(); /* Arm */
    do
    :: atomic { answers[me] > answers_taken[me] -> answers_taken[me]++ }
#if BROKEN == CLIENT_DRAINS_WHILE_ARMED
    :: to_client[me] > 0 -> to_client[me] = 0
#endif
    :: answers[me] == answers_taken[me] -> break
    od;
    if
    :: requests[me] > answers_taken[me] -> atomic { to_client[me] > 0 -> to_client[me] = 0 } /* sleeps; Disarm */
    :: requests[me] == answers_taken[me]
    fi;
    client_mark[me] = AWAKE(client_mark[me]);
    atomic { to_client[me] = 0 } /* Disarm */
  od
}
#else
proctype Client(byte me) {
  byte seen, seen_parked, woken, rung;
  do
  :: atomic { requests[me] == REQUESTS -> finished++; break }
  :: requests[me] < REQUESTS ->
    send_request();
    /* The wait for the answer. */
    do
    :: atomic { answers[me] > answers_taken[me] -> answers_taken[me]++; break }
    :: answers[me] == answers_taken[me] ->
#if BRIEF
      /* The brief sleep. The next look finds again all that it finds. */
      client_mark[me] = BRIEFLY(client_mark[me]);
      client_mark[me] = AWAKE(client_mark[me]);
#endif
#if BROKEN != MARKS_BEHIND_LOOK
      fall_asleep_at_client();
#endif
      if
      :: answers[me] == answers_taken[me] ->
#if BROKEN == MARKS_BEHIND_LOOK
        fall_asleep_at_client();
#endif
        atomic { to_client[me] > 0 -> to_client[me] = 0 } /* sleeps; then takes the bytes */
      :: answers[me] > answers_taken[me]
      fi;
      client_mark[me] = AWAKE(client_mark[me])
    od
  od
}
#endif

#define HAS_REQUEST(which) (requests[which] > requests_taken[which] && !(parked[which] & 1))

#if BRIEF_SERVER
#define MAY_SLEEP_BRIEFLY (BROKEN == BRIEF_BESIDE_PARKED || !((parked[0] | parked[CLIENTS - 1]) & 1))
#define IS_WOKEN \
  (wakes[0] != wakes_seen[0] || (BROKEN != WAITS_FOR_ONE && wakes[CLIENTS - 1] != wakes_seen[CLIENTS - 1]))
/* ArmBriefly: looks at the words. */
inline count_wakes() {
  wakes_seen[0] = wakes[0];
#if CLIENTS > 1
  wakes_seen[1] = wakes[1]
#endif
}
/* EventLoop::SleepBriefly. */
inline sleep_briefly() {
#if BROKEN != COUNTS_BEHIND_LOOK
  count_wakes();
#endif
#if BROKEN != MARKS_BRIEF_BEHIND_LOOK
  server_mark = BRIEFLY(server_mark);
#endif
#if PARKS
  if
  :: MAY_PARK(0) -> parks++; park(0)
#if CLIENTS > 1
  :: MAY_PARK(1) -> parks++; park(1)
#endif
  :: skip
  fi;
#endif
  do
  :: atomic { i == CLIENTS -> i = 0; break }
  :: atomic { i < CLIENTS -> any = any || HAS_REQUEST(i); i++ }
  od;
#if BROKEN == MARKS_BRIEF_BEHIND_LOOK
  server_mark = BRIEFLY(server_mark);
#endif
#if BROKEN == COUNTS_BEHIND_LOOK
  count_wakes();
#endif
  if
  :: any
  :: else ->
    if
    :: MAY_SLEEP_BRIEFLY -> IS_WOKEN /* sleeps */
    :: else
    fi
  fi;
  server_mark = AWAKE(server_mark)
}
#endif

#define HAS_BYTE           (to_server[0] > 0 || to_server[CLIENTS - 1] > 0)

active proctype Server() {
  byte i, woken[CLIENTS], seen, any;
end:
  do
#if PARKS
  :: MAY_PARK(0) -> parks++; park(0) /* ParkIdle, for one connection */
#if CLIENTS > 1
  :: MAY_PARK(1) -> parks++; park(1)
#endif
  :: parks > 0 && HAS_BYTE -> take_bytes()
  :: parked[0] & 1 -> parked[0] = UNPARKED(parked[0]) /* the server posts something: PostSend, PostRecv */
#if CLIENTS > 1
  :: parked[1] & 1 -> parked[1] = UNPARKED(parked[1])
#endif
#endif
  :: atomic { i = 0; any = 0 }; /* Step: serves each connection. */
    do
    :: atomic { i == CLIENTS -> i = 0; break }
    :: atomic { i < CLIENTS && !HAS_REQUEST(i) -> i++ }
    :: atomic { i < CLIENTS && HAS_REQUEST(i) -> requests_taken[i]++; any = 1 };
      publish(answers[i], client_mark[i]);
      atomic {
        if
        :: (seen & 1) && (seen != woken[i] || BROKEN == WAKES_ALWAYS) ->
          woken[i] = seen;
          if
          :: (seen & 3) == 1 ->
            to_client[i]++;
            if
            :: client_mark[i] == seen -> sent_for[i]++; assert(sent_for[i] <= 1)
            :: else
            fi
          :: else /* by `wakes` */
          fi
        :: else
        fi;
        i++
      }
    od;
    if
    :: any
#if BRIEF_SERVER
    :: !any && MAY_SLEEP_BRIEFLY -> sleep_briefly()
#endif
    :: !any ->
      /* Arm, and the last look, before which a connection may be parked. */
#if BROKEN != MARKS_BEHIND_LOOK
      fall_asleep_at_server();
#endif
#if PARKS
      if
      :: MAY_PARK(0) -> parks++; park(0)
#if CLIENTS > 1
      :: MAY_PARK(1) -> parks++; park(1)
#endif
      :: skip
      fi;
#endif
      do
      :: atomic { i == CLIENTS || (BROKEN == LOOKS_AT_ONE && i == 1) -> i = 0; break }
      :: atomic { i < CLIENTS && (BROKEN != LOOKS_AT_ONE || i == 0) -> any = any || HAS_REQUEST(i); i++ }
      od;
#if BROKEN == MARKS_BEHIND_LOOK
      fall_asleep_at_server();
#endif
#if BROKEN == DRAINS_WHILE_ARMED
      take_bytes();
#endif
      if
      :: any
      :: else -> HAS_BYTE /* sleeps */
      fi;
      /* Disarm. */
      server_mark = AWAKE(server_mark);
      take_bytes()
    fi
  od
}

/* Nobody can go on: then nobody may wait. */
active proctype Watch() {
  timeout -> assert(finished == CLIENTS)
}

init {
  atomic {
    run Client(0);
#if CLIENTS > 1
    run Client(1)
#endif
  }
}
