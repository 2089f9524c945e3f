// The lease line: 64 bytes at the end of the superblock, by which clients of a primary with followers notice
// that another server may have taken its place. Without followers, nothing writes or reads it.
//
// A *round* asks all followers whether they still follow this primary. T is the lease time.
//
//   Q1 A reader takes a line only if its checksum holds. So it takes no mixture of two states, and no line of
//      another incarnation.
//   Q2 The primary stores `begun` = r before it asks the first follower in round r, and r increases by one.
//   Q3 It stores `done` = r after all its followers have answered round r. In a cluster, those are the ones
//      that count (K3 and K10 of server/cluster/keeper.h).
//   Q4 A follower answers only the primary from which it takes groups (R7), and keeps the time of its last
//      answer. From the beginning of its promotion on, it answers nobody.
//   Q5 A follower becomes a primary no sooner than T after its last answer, after it began to follow, and
//      after its start. Its T is at least its primary's.
//   Q6 A client's lease begins before a look at the line, or before a request, and lasts 3/4 T. It is a lease
//      once the client knows that a round has ended that began after that.
//   Q7 A result counts if the client's clock, read after the last READ or reply of which it is made,
//      is before the end of a lease. That holds for values, for misses, and for rejected writes. A write
//      that succeeded needs no lease: all followers have it.
//
// Why that fences: let X be a follower that becomes a primary in place of P, and take a result of P under a
// lease. A round began after the lease (Q2, Q6), and X answered it, since all followers did (Q3). So X
// answered after the beginning of the lease, and X serves T after that at the earliest (Q4, Q5). The READs of
// the result were over 3/4 T after the same moment (Q7). So no write was acknowledged by X before them, and
// P's memory had all acknowledged writes. If X began to follow after that round, it waits T from then on, and
// so later still.
//
// The proof compares durations of two clocks, the client's and X's, whose rates may differ by a quarter. It
// needs no clock of P: a frozen P, or a device that answers for a dead kernel, does no harm. One hazard
// is left: the clock of a client stops for more than T/4 between its look and its READ, as when a machine is
// suspended. tests/models/lease.pml is the model.
//
// The result need not be read under a lease that was there before: a lease that the client takes later, and
// that ends after the READs, proves the same. So nothing is read twice for it.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "store/format/memory/hash.h"
#include "store/format/memory/layout.h"

namespace remora {

struct LeaseLine {
  std::uint64_t epoch;     // of the primary's reign; 0: the server is no primary with followers
  std::uint64_t begun;     // number of the last round that has begun
  std::uint64_t done;      // number of the last round that has ended
  std::uint64_t lease_ms;  // T
  std::uint64_t reserved[3];
  std::uint64_t checksum;  // of the incarnation of the store, and the fields before it

  friend bool operator==(const LeaseLine&, const LeaseLine&) = default;
};
static_assert(sizeof(LeaseLine) == 64 && offsetof(LeaseLine, checksum) == 56);
static_assert(std::has_unique_object_representations_v<LeaseLine>);

/// Offset of the line in the region: the last cache line of the superblock.
inline constexpr std::size_t kLeaseLineOffset = kSuperblockSize - sizeof(LeaseLine);
static_assert(kLeaseLineOffset % 64 == 0 && kLeaseLineOffset >= sizeof(Superblock));

/// Bounds of T. The lower one leaves a coarse clock enough of a lease; the upper one fits FollowStart.
inline constexpr std::chrono::milliseconds kMinLeaseTime{200};
inline constexpr std::chrono::milliseconds kMaxLeaseTime{10'000};
inline constexpr std::chrono::milliseconds kDefaultLeaseTime{1000};

/// Returns the checksum that belongs to the other fields.
inline std::uint64_t LeaseChecksum(const LeaseLine& line, std::uint64_t incarnation) {
  const std::uint64_t covered[] = {incarnation,   line.epoch,       line.begun,       line.done,
                                   line.lease_ms, line.reserved[0], line.reserved[1], line.reserved[2]};
  return XXH3_64bits(covered, sizeof(covered));
}

/// Stores a line into the region, with its checksum. READs may find a mixture, whose checksum does not hold.
inline void StoreLeaseLine(LeaseLine line, std::uint64_t incarnation, std::span<std::byte> region) {
  line.checksum = LeaseChecksum(line, incarnation);
  using Words = std::array<std::uint64_t, sizeof(LeaseLine) / sizeof(std::uint64_t)>;
  const auto words = std::bit_cast<Words>(line);
  auto* const to = reinterpret_cast<std::uint64_t*>(region.data() + kLeaseLineOffset);
  // Release: a request for an answer, which another thread sends after this, is behind all of it (Q2).
  for (std::size_t i = 0; i < words.size(); ++i) __atomic_store_n(to + i, words[i], __ATOMIC_RELEASE);
}

}  // namespace remora
