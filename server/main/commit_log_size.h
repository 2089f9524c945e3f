// The size of a server's commit log: --commit_log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/memory/system_memory.h"

namespace remora {

/// Returns the size of the commit log of a server that is told none. It is 1 GiB, an eighth of the disk or a
/// quarter of the system's memory, the least of them, and at least kMinTierLogBytes. The disk is the file
/// system of `data_dir`, or of the nearest folder above it that exists.
std::uint64_t DefaultCommitLogSize(const std::string& data_dir, const SystemMemory& system);

/// Reads the value of --commit_log: a size, or "off", which is 0. Returns nothing if it is neither, or no
/// size that is allowed.
std::optional<std::uint64_t> ReadCommitLogSize(const std::string& text);

/// Writes a size as ReadCommitLogSize reads it.
std::string CommitLogSizeText(std::uint64_t size);

/// Returns what is wrong with the value of --commit_log; empty: nothing.
std::string FaultOfCommitLogSize(const std::string& text);

}  // namespace remora
