// Counters of one client.
#pragma once

#include <cstdint>

namespace remora {

/// Counters of one client's work since it was made, for tests and tuning.
struct ClientCounters {
  std::uint64_t reads = 0;     // one-sided READs posted, or the copies in their place through a mapping
  std::uint64_t requests = 0;  // messages sent, each one round trip
  std::uint64_t retries = 0;   // GETs begun again because they read a torn or dead record
  // GETs that asked the server in the end: writers disturbed them, an expiry was in doubt, or they found
  // nothing while the server loads.
  std::uint64_t locates = 0;
  std::uint64_t cold = 0;     // GETs that asked the server because the record is not in its memory
  std::uint64_t chunked = 0;  // reads of a value in pieces: of a large one, or into the caller's memory
  // READs, among `reads`, that the location cache caused:
  std::uint64_t location_hits = 0;  // READs of a cached location that had the value: the only one of a GET
  std::uint64_t location_false_hits = 0;  // of one that had not; at most about 1 in 12. The GET began anew
  std::uint64_t generation_reads = 0;  // READs of segment generations: at most one per 4 GiB and grace period
  // With a mirror of the index:
  std::uint64_t mirror_hits = 0;        // among `location_hits`: the place came from the mirror
  std::uint64_t mirror_false_hits = 0;  // among `location_false_hits`: the place came from the mirror
  std::uint64_t mirror_reads = 0;       // READs, among `reads`, that made the mirror or kept it fresh
  std::uint64_t mirror_read_bytes = 0;  // their bytes
  std::uint64_t reconnects = 0;         // connections made after the first
  std::uint64_t completion_queries =
      0;  // writes whose answer was lost, so the client asked the server for it

  /// Adds the counters of another client.
  ClientCounters& operator+=(const ClientCounters& other) {
    reads += other.reads;
    requests += other.requests;
    retries += other.retries;
    locates += other.locates;
    cold += other.cold;
    chunked += other.chunked;
    location_hits += other.location_hits;
    location_false_hits += other.location_false_hits;
    generation_reads += other.generation_reads;
    mirror_hits += other.mirror_hits;
    mirror_false_hits += other.mirror_false_hits;
    mirror_reads += other.mirror_reads;
    mirror_read_bytes += other.mirror_read_bytes;
    reconnects += other.reconnects;
    completion_queries += other.completion_queries;
    return *this;
  }
  /// Returns what the client did between two readings of its counters.
  friend ClientCounters operator-(const ClientCounters& later, const ClientCounters& earlier) {
    return {later.reads - earlier.reads,
            later.requests - earlier.requests,
            later.retries - earlier.retries,
            later.locates - earlier.locates,
            later.cold - earlier.cold,
            later.chunked - earlier.chunked,
            later.location_hits - earlier.location_hits,
            later.location_false_hits - earlier.location_false_hits,
            later.generation_reads - earlier.generation_reads,
            later.mirror_hits - earlier.mirror_hits,
            later.mirror_false_hits - earlier.mirror_false_hits,
            later.mirror_reads - earlier.mirror_reads,
            later.mirror_read_bytes - earlier.mirror_read_bytes,
            later.reconnects - earlier.reconnects,
            later.completion_queries - earlier.completion_queries};
  }
};

}  // namespace remora
