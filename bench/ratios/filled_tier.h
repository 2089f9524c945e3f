// A durable tier that a program fills for its measurement, and removes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tools/command_line/command_line.h"

namespace remora::bench {

struct TierFlags {
  std::string directory;  // where to make the tier
  std::uint64_t keys = 1'000'000;
  std::size_t value_size = 64;  // bytes
  std::uint32_t rounds = 9;
};

/// Adds --directory, --keys, --value_size and --rounds. `flags` outlives the line.
void AddTierFlags(command_line::CommandLine& line, TierFlags& flags);

/// A directory for this run, removed with what is in it.
class RunDirectory {
 public:
  /// `program`: its name begins that of the directory, which is made in `parent`.
  RunDirectory(const std::string& parent, const std::string& program);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// Error: InvalidArgument; it could not be made.
  absl::Status status() const { return status_; }
  const std::string& path() const { return path_; }
  /// Returns the data directory of the tier.
  std::string data() const { return path_ + "/data"; }

 private:
  std::string path_;
  absl::Status status_;
};

/// Fills the tier at `data`, in an order that is not that of the keys, so that tables overlap until they are
/// compacted. Then opens it once, so that writes that were in memory only become tables.
absl::Status FillTier(const std::string& data, const TierFlags& flags);

}  // namespace remora::bench
