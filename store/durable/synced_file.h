// Small files that are written as a whole, and are on the disk when that is done.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace remora {

/// The step of a write that failed.
struct WriteFault {
  std::string_view step;  // "make", "write" or "replace"
  std::string path;       // of the file
  int error = 0;          // errno
};

/// Writes a file in place of what it had, and waits until the disk has its bytes. Returns the fault, or
/// nothing. SyncDirectory (data_dir.h) has the disk keep its name.
std::optional<WriteFault> WriteSynced(const std::string& path, std::string_view text);

/// Writes a file like WriteSynced, but after a crash it has either the old text or the new one, as a whole.
/// Writes PATH.new first.
std::optional<WriteFault> ReplaceSynced(const std::string& path, std::string_view text);

}  // namespace remora
