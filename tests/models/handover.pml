/* The event loop is handed to a transport's threads while the server thread sleeps.
 *
 * The model and the code
 *   queued             TcpEvents::links_: reports that nobody has taken yet (rdma/tcp/server/events.h).
 *   armed, signalled   The same class: whether a report signals the eventfd, and whether it is readable. Its mutex makes
 *                      each of its functions one step.
 *   woken              WakeSignals: another eventfd, which ServeForSleeper signals.
 *   state              LoopHandover (server/loop_handover.h).
 *   Server             EventLoop::Run and Sleep.
 *   Nic                NicThread::HandleLink and ServeForSleeper (rdma/tcp/server/nic_thread.cc). It may also report and
 *                      signal without trying to serve, as it does where several links have events.
 *
 * Serving is one step here: it takes what is queued. Whether a thread looks once or more often is left open.
 *
 * Properties
 *   L1  One thread at a time runs the loop.
 *   L2  No request is lost: nobody sleeps for ever while a report is queued.
 *
 * CHECK -DTHREADS=1 -DREPORTS=3
 * CHECK -DTHREADS=2 -DREPORTS=2
 * FAULT SERVES_AT_ONCE in 1 violates running
 * FAULT TAKES_WITHOUT_WAIT in 1 violates running
 * FAULT NEVER_WAKES in 1 violates served
 * FAULT GIVES_BEFORE_ARM in 1 violates served
 * FAULT LOOKS_BEFORE_ARM in 2 violates served
 * FAULT STAYS_DISARMED in 2 violates served
 */
#ifndef BROKEN
#define BROKEN NOTHING
#endif
#define NOTHING            0
#define SERVES_AT_ONCE     1 /* TryServe looks at the state, and takes the loop without comparing again */
#define TAKES_WITHOUT_WAIT 2 /* TakeBack does not wait for a thread that serves */
#define NEVER_WAKES        3 /* a thread that may not serve does not signal */
#define GIVES_BEFORE_ARM   4 /* the server thread gives the loop, and does not look again after Arm */
#define LOOKS_BEFORE_ARM   5 /* ServeForSleeper does not look again behind its Arm */
#define STAYS_DISARMED     6 /* ServeForSleeper does not arm again */

#ifndef THREADS
#define THREADS 1
#endif
#ifndef REPORTS
#define REPORTS 2
#endif

#define OWNED   0
#define FREE    1
#define SERVING 2

byte queued, served, running;
bool armed, signalled, woken;
byte state = OWNED;

inline enter() { running++; assert(running == 1) }
inline leave() { running-- }
inline look() { atomic { served = served + queued; any = (queued > 0); queued = 0 } }
inline arm() { armed = 1 }
inline disarm() { atomic { armed = 0; signalled = 0 } }

proctype Nic() {
  byte reports;
  bool must_wake, any, may_serve;
  do
  :: reports == REPORTS -> break
  :: reports < REPORTS ->
    reports++;
    if
    :: atomic { queued++; signalled = signalled || armed } /* Report */
    :: atomic { queued++; must_wake = armed }              /* ReportWithoutWake */
      if
      :: !must_wake
      :: must_wake ->
        /* TryServe. */
#if BROKEN == SERVES_AT_ONCE
        may_serve = (state == FREE);
        if :: may_serve -> state = SERVING :: else fi;
#else
        atomic { may_serve = (state == FREE); if :: may_serve -> state = SERVING :: else fi };
#endif
        if
        :: may_serve ->
          enter();
          disarm();
          look();
#if BROKEN != STAYS_DISARMED
          arm();
#endif
#if BROKEN != LOOKS_BEFORE_ARM
          look();
#endif
          if :: any -> woken = 1 :: else fi; /* is_busy */
          leave();
          state = FREE
        :: else ->
#if BROKEN == NEVER_WAKES
          skip
#else
          atomic { signalled = signalled || armed } /* Wake */
#endif
        fi
      fi
    fi
  od
}

active proctype Server() {
  bool any;
  enter();
end:
  do
  :: look();
    if
    :: any
    :: else ->
#if BROKEN == GIVES_BEFORE_ARM
      leave();
      state = FREE;
      arm();
#else
      arm();
      look();
      leave();
      state = FREE;
#endif
      if
      :: any /* the last look found something: no sleep */
      :: else -> end_sleep: (signalled || woken); woken = 0
      fi;
#if BROKEN == TAKES_WITHOUT_WAIT
      state = OWNED;
#else
      atomic { state == FREE -> state = OWNED };
#endif
      enter();
      disarm()
    fi
  od
}

/* Nobody can go on: then all reports are served. */
active proctype Watch() {
  timeout -> assert(served == THREADS * REPORTS)
}

init {
  atomic {
    run Nic();
#if THREADS > 1
    run Nic()
#endif
  }
}
