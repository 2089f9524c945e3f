// The data directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/memory/system_memory.h"
#include "tools/kvctl/doctor/check.h"

namespace remora::doctor {

struct DiskFacts {
  std::string data_dir;      // the data directory, which need not exist; empty: `directory` is it
  std::string directory;     // that was looked at: the data directory, or the nearest above it that exists
  std::string failure;       // why it cannot be looked at; empty: the rest holds
  std::string type;          // of the file system, as ext4
  bool maps_log = false;     // a commit log there would map its files
  bool is_directory = true;  // `directory` is one
  bool is_read_only = false;
  bool may_write = true;             // this user
  std::uint64_t free = 0;            // bytes, for users
  std::uint64_t commit_log = 0;      // bytes: of a server there that is told no other size
  std::optional<bool> rotational{};  // nothing: the system does not tell, as for a network's file system
};

/// Returns what is known of the disk for `data_dir`, and of the memory `system`, which bounds a commit log.
/// May wait as long as the file system does. Changes nothing.
DiskFacts ReadDisk(const std::string& data_dir, const SystemMemory& system);

/// Adds data_dir, disk_free, file_system and disk. `facts`: nothing if the file system did not answer.
void JudgeDisk(const std::optional<DiskFacts>& facts, const Plan& plan, Checks* checks);

/// Returns the type of the file system on the device MAJOR:MINOR, by the lines of /proc/self/mountinfo.
/// Empty: it is not mounted.
std::string FileSystemType(const std::string& mountinfo, const std::string& device);

}  // namespace remora::doctor
