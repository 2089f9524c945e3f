// Settings of a simulated world.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "client/client.h"
#include "server/server.h"
#include "tests/linearizability/recorder.h"

namespace remora {

/// Settings that the seed chooses.
struct SimSettings {
  ServerOptions server;
  ClientOptions client;
  linear::WorkloadOptions workload;
  std::uint32_t clients = 4;
  std::uint32_t async_clients = 1;  // of them, with many operations in flight at once
  std::uint32_t watchers = 0;       // of the others
  std::int64_t drift_ppm = 0;       // of the server's clock; each client has its own
  std::size_t piece_size = 8;
  std::uint32_t gap = 100;
  bool grants = true;
  std::uint64_t pace_ns = 3000;    // between two turns, on average
  std::uint64_t fault_gap = 3000;  // turns between two faults, on average; 0: none
  bool crashes = false;
};

/// Returns bytes of an index mirror: too few for a frame, or for all buckets, or enough.
std::size_t MirrorBytes(std::uint64_t draw);

/// Has the server keep an ordered index, and all scans be one-sided. The leaves are of more keys or fewer.
void ScanOneSided(std::uint64_t draw, SimSettings* settings);

SimSettings Choose(std::mt19937_64& random);
std::string Text(const SimSettings& settings);

}  // namespace remora
