// Counters of one client.
#pragma once

#include <cstdint>

namespace remora {

/// What one client did, since it was made. For tests and tuning.
struct ClientCounters {
  std::uint64_t reads = 0;     // one-sided READs posted, or what came in their place where one is a copy
  std::uint64_t requests = 0;  // messages sent, each one round trip
  std::uint64_t retries = 0;   // GETs begun again because what they read was torn or dead
  // GETs that asked the server in the end: disturbed, in doubt of an expiry, or in vain while it loads; and
  // those whose record was known not to be in the server's memory.
  std::uint64_t locates = 0;
  std::uint64_t cold = 0;
  // Of the reads, those that remembered places account for:
  std::uint64_t location_hits = 0;    // the one READ of a GET: the value was where it was before
  std::uint64_t location_wasted = 0;  // it was not, and the GET went the cold way; at most 1 of 12, about
  std::uint64_t location_looks = 0;  // whether memory was used again: one per 4 GiB and grace period, at most
  std::uint64_t reconnects = 0;      // connections made after the first
  std::uint64_t outcomes = 0;        // writes whose answer was lost, and of which the server was asked

  ClientCounters& operator+=(const ClientCounters& other) {
    reads += other.reads;
    requests += other.requests;
    retries += other.retries;
    locates += other.locates;
    cold += other.cold;
    location_hits += other.location_hits;
    location_wasted += other.location_wasted;
    location_looks += other.location_looks;
    reconnects += other.reconnects;
    outcomes += other.outcomes;
    return *this;
  }
  /// What was done between two looks.
  friend ClientCounters operator-(const ClientCounters& later, const ClientCounters& earlier) {
    return {later.reads - earlier.reads,
            later.requests - earlier.requests,
            later.retries - earlier.retries,
            later.locates - earlier.locates,
            later.cold - earlier.cold,
            later.location_hits - earlier.location_hits,
            later.location_wasted - earlier.location_wasted,
            later.location_looks - earlier.location_looks,
            later.reconnects - earlier.reconnects,
            later.outcomes - earlier.outcomes};
  }
};

}  // namespace remora
