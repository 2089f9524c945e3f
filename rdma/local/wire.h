// The contract of the two processes of a local connection: the handshake's bytes and the shared
// memory.
//
//   client                                    server
//   connect(PATH)                             accept; SO_PEERCRED: our user, or root?
//   LocalHello + descriptor: what
//   it offers, if anything         ----->     NextRequest; maps that
//                                  <-----     LocalReply + descriptors: listener page, server side, client
//                                  side,
//                                             then one for each region, in the order of the table
//   maps them
//   READ = copy out of a region; WRITE = copy into a staging buffer; message = a slot of a ring; one byte
//   over the socket, of any value, wakes a peer that sleeps on it; the socket's end is the connection's
//
// Write access (the seals of SharedMemory keep it):
//   listener page, server side, regions to READ    the server alone; clients map them read-only
//   client side, regions to WRITE                  the server and this one client
//   what a client offers                           that client, who made it, and the server
//
// Invariants. The server takes all memory that a client can write for hostile.
//   A1  (A dead server is never read from.) While the server lives, its listening thread holds a
//       robust mutex: `alive` of the listener page. The listener's destructor gives it up, before
//       the memory ends or is used otherwise. When the thread or its process ends in any way,
//       SIGKILL too, the kernel marks the word. It walks the robust futexes in exit_mm, before
//       exit_files closes the process's descriptors.
//
//       A process that opens the data next must first get a lock that one of those descriptors holds.
//       Hence it finds the word marked long since. A client copies, *then* loads the word (AcquireFence
//       between). If the word says alive, the copy ended before the mark, so before any successor could
//       change anything. Then the copied bytes were the server's state at a moment between post and
//       completion (O4 of transport.h).
//
//       The kernel has one gap. If a killed process has not ended two seconds later (Linux 5.18; sooner
//       before), the OOM killer's reaper takes the memory in which the kernel finds the robust futexes.
//       For that case the client checks its socket, too, now and then.
//   A2  (Rings.) Each ring has one writer and one reader, which number its slots from 1 on as they
//       use them, round after round. A message's `head` has its first slot's number and its length.
//       The writer stores it after the bytes, those of all slots of a long message. The reader
//       loads it before them, loads the length once, checks it, and only then uses it. A head with
//       another number than the next one, 0 or one of an earlier round, is no message yet. (So the
//       reader polls only the message, and a short one moves one cache line between CPUs.)
//
//       The reader stores `consumed` after it has copied the bytes out; it only grows. The writer loads
//       it before it writes a slot again. 0 <= slots used - consumed <= slots, else the peer lies, as
//       with a length that no message has, and the connection is broken. Each side stores in memory of
//       its own.
//   A3  (Order.) WRITEs are stored before the `head` of a later message is, and that is a release:
//       O1.
//   A4  (No lost wake-up.) Writer: store `head`, load `sleeping`. Sleeper: store `sleeping`, load
//       the next `head`. All four are seq_cst, so in their one total order one of the loads comes
//       after the other side's store. Either the writer sees the sleeper and sends the byte, or the
//       sleeper sees the message and stays awake (Dekker). `sleeping` is odd while it sleeps, or is
//       about to, and another number each time. So a writer that has woken it from this sleep does
//       not wake it again with later messages. Hence a sleeper leaves the byte in its socket until it is
//       awake again: one that took it before would sleep on while later messages come.
//
//       `sleeping` also says how the sleeper is woken: by a byte over the socket, or, if it sleeps briefly,
//       by the other side's `wakes`. The sleeper loads `wakes` before it stores `sleeping`: a client that
//       waits for one reply the server's, a server those of all its clients. The other side adds 1 to it and
//       then wakes those that sleep on it; a sleeper that comes there later finds another value than it
//       loaded, and does not sleep. A client may do with its `wakes` what it likes: a brief sleep of the
//       server is bounded, and behind one that brought no request it sleeps at the sockets.
//
//       Both stores are exchanges. On x86-64 that is the same instruction. For arm64 it makes no
//       difference to C++, but qemu-user on x86-64 orders no plain store before a load, and these
//       it does (docs/internals/arm64.md).
//   A5  (Nobody waits for a peer.) All of a server's calls on sockets are MSG_DONTWAIT. Hence a
//       byte over the socket wakes a peer, not an eventfd. An eventfd passed to a peer shares its
//       O_NONBLOCK with it. A client could switch that off, fill the counter, and block the
//       server's write for ever.
//   A6  (Parked connections.) A server looks into the rings of busy connections only. It parks a connection
//       that has been idle: it stores `sleeping` of the connection's server side, then loads the next `head`.
//       The client stores `head`, then loads this `sleeping`, too. By the argument of A4, the server sees the
//       message or the client sees the mark; then it sends the byte, once for each mark. The server takes the
//       byte, then unparks the connection, then looks into the ring. Its own sleep needs no further rule: the
//       byte stays in the socket, and ends the sleep, until the server takes it. A byte ends no brief sleep,
//       so a server that has parked a connection does not sleep briefly.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "rdma/transport.h"

namespace remora::rdma {

// --- Handshake: one packet each way, over SOCK_SEQPACKET --------------------------------------------

inline constexpr std::uint64_t kLocalMagic = 0x6c61636f6c6d6572;  // "remlocal"
inline constexpr std::uint32_t kLocalVersion = 7;

/// Regions to READ have the keys 1 to kLocalMaxReads; regions to WRITE those behind.
inline constexpr std::uint32_t kLocalMaxReads = 8;
inline constexpr std::uint32_t kLocalMaxWrites = 4;
inline constexpr std::uint32_t kLocalMaxRegions = kLocalMaxReads + kLocalMaxWrites;

/// The key of what a client offers its server to WRITE: one memory, so the first of its own keys.
inline constexpr std::uint32_t kLocalOfferedKey = 1;

/// Descriptors that come with an acceptance before those of the regions.
inline constexpr std::size_t kLocalOwnDescriptors = 3;
inline constexpr std::size_t kLocalMaxDescriptors = kLocalOwnDescriptors + kLocalMaxRegions;

struct LocalHello {
  std::uint64_t magic = kLocalMagic;
  std::uint32_t version = kLocalVersion;
  std::uint32_t data_size = 0;
  std::byte data[kMaxConnectData] = {};
};
static_assert(sizeof(LocalHello) == 72);
static_assert(std::has_unique_object_representations_v<LocalHello>);

enum class LocalAnswer : std::uint32_t {
  kAccepted = 1,
  kRejected = 2,
  kWrongUser = 3,     // the server does not admit this process
  kWrongVersion = 4,  // LocalReply::version is the server's
  kNoSpace = 5,       // the server has no descriptor, or no memory, for this client
};

struct LocalRegion {
  std::uint64_t size = 0;
  std::uint32_t key = 0;
  std::uint32_t writable = 0;
};

/// The fields behind `data` are set for kAccepted only.
struct LocalReply {
  std::uint64_t magic = kLocalMagic;
  std::uint32_t version = kLocalVersion;
  LocalAnswer answer{};
  std::uint32_t data_size = 0;
  std::byte data[kMaxAcceptData] = {};
  std::uint32_t ring_slots = 0;  // of each ring; a power of two
  std::uint32_t region_count = 0;
  LocalRegion regions[kLocalMaxRegions] = {};
};
static_assert(sizeof(LocalReply) == 224 + kLocalMaxRegions * 16);
static_assert(offsetof(LocalReply, regions) == 224);
static_assert(std::has_unique_object_representations_v<LocalReply>);
static_assert(kMaxRejectData <= kMaxAcceptData);

// --- Shared memory -----------------------------------------------------------------------------
//
// All zeros is the initial state of each. A field that one process writes and the other polls has a cache
// line of its own.

inline constexpr std::size_t kCacheLine = 64;

/// The way to wake a sleeping side.
enum class WakeBy : std::uint32_t {
  kByte = 0b01,   // over the socket
  kFutex = 0b11,  // on `wakes` in the memory of the side that wakes
};

/// State of one side's sleep, in memory that it alone writes (A4). The lower two bits are 0, or how it is
/// woken.
class SleepMark {
 public:
  /// Announces sleep, before the last poll.
  void FallAsleep(WakeBy wake_by = WakeBy::kByte) {
    mark_.exchange(Next() | static_cast<std::uint32_t>(wake_by), std::memory_order_seq_cst);
  }
  /// Relaxed: if the other side still sees the old mark, it sends one needless wake-up.
  void WakeUp() { mark_.store(Next(), std::memory_order_relaxed); }

  /// Returns 0 if the owner is awake, and otherwise a number that differs for each of its sleeps. The other
  /// side calls this after it has published a message.
  std::uint32_t Sleep() const {
    const std::uint32_t mark = mark_.load(std::memory_order_seq_cst);
    return (mark & 1) != 0 ? mark : 0;
  }
  /// Returns how the sleeper is woken. REQUIRES: `sleep` is what Sleep returned, and not 0.
  static WakeBy WakeByOf(std::uint32_t sleep) { return static_cast<WakeBy>(sleep & kWakeBy); }

 private:
  static constexpr std::uint32_t kWakeBy = 0b11;

  std::uint32_t Next() const { return (mark_.load(std::memory_order_relaxed) | kWakeBy) + 1; }

  std::atomic<std::uint32_t> mark_;
};

/// The CPU on which one side's thread was last seen, in memory that it alone writes. It decides how
/// long the other side polls, and nothing else: it may be wrong.
class CpuMark {
 public:
  /// Publishes the caller's CPU, if it is another one than before.
  void Publish() {
    const std::uint32_t here = Here();
    if (mark_.load(std::memory_order_relaxed) != here) mark_.store(here, std::memory_order_relaxed);
  }
  /// Returns whether the side was last seen on the caller's CPU.
  bool IsHere() const {
    const std::uint32_t mark = mark_.load(std::memory_order_relaxed);
    return mark != 0 && mark == Here();
  }

 private:
  /// Returns the number of the caller's CPU, from 1; 0: the system does not say.
  static std::uint32_t Here() { return static_cast<std::uint32_t>(sched_getcpu() + 1); }

  std::atomic<std::uint32_t> mark_;
};

/// One for all connections of a listener.
struct LocalListenerPage {
  alignas(kCacheLine) pthread_mutex_t alive;  // A1
  alignas(kCacheLine) SleepMark sleeping;     // A4: of the server
  CpuMark cpu;                                // of the server's thread
};
static_assert(sizeof(LocalListenerPage) == 2 * kCacheLine);

struct alignas(kCacheLine) LocalSlot {
  std::atomic<std::uint64_t> head;  // A2: LocalHead
  std::byte data[kMaxShortMessage];
};
static_assert(sizeof(LocalSlot) == 5 * kCacheLine && offsetof(LocalSlot, data) == 8);

/// Returns a head: the lower 48 bits of the first slot's number, above 16 bits of the length. The
/// numbers come again after 2^48 slots, years later, when the old head has long been overwritten.
constexpr std::uint64_t LocalHead(std::uint64_t number, std::size_t length) { return number << 16 | length; }
constexpr std::uint32_t LengthOf(std::uint64_t head) { return head & 0xffff; }
/// Returns whether `head` belongs to the message that begins in slot `number`.
constexpr bool IsHeadOf(std::uint64_t head, std::uint64_t number) { return (head ^ number << 16) >> 16 == 0; }
static_assert(kMaxMessageSize <= 0xffff);

/// The memory that one side of a connection writes. The slots of the ring to the peer follow.
struct LocalSide {
  alignas(kCacheLine) std::atomic<std::uint64_t> consumed;  // slots of messages from the peer
  alignas(kCacheLine) SleepMark sleeping;                   // the client's: A4; the server's: A6
  CpuMark cpu;                                              // the client's only
  std::atomic<std::uint32_t> closed;                        // not 0: this side wants no more
  alignas(kCacheLine) std::atomic<std::uint32_t> wakes;     // A4: of the other side

  LocalSlot* slots() { return reinterpret_cast<LocalSlot*>(this + 1); }
  const LocalSlot* slots() const { return reinterpret_cast<const LocalSlot*>(this + 1); }
};
static_assert(sizeof(LocalSide) == 3 * kCacheLine);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::uint32_t kLocalMaxRingSlots = 1 << 16;

/// Slots that a message takes, one behind the other; its head stands in the first.
constexpr std::uint64_t LocalSlotsOf(std::size_t message_size) {
  return message_size <= kMaxShortMessage ? 1 : (message_size + kMaxShortMessage - 1) / kMaxShortMessage;
}

constexpr std::size_t LocalSideBytes(std::uint32_t ring_slots) {
  return sizeof(LocalSide) + ring_slots * sizeof(LocalSlot);
}

}  // namespace remora::rdma
