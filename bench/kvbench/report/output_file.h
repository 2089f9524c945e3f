// A file that a run writes at its end, and that is known to be writable before it begins.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remora::bench {

/// The text comes to its place as a whole: it is written to a file beside it, which is renamed. Where that
/// cannot be, as for a device, or in a folder that takes no new files, it is written there. Until Commit,
/// what stood there is left alone, and nothing new is there, however the process ends. Thread safety: none.
class OutputFile {
 public:
  /// The system's error, with the path: nothing can be written there. Unavailable: it is a pipe that nobody
  /// reads.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Open(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Once. The system's error, with the path: the disk is full, ...
  absl::Status Commit(const std::string& text);

 private:
  OutputFile(std::string path, std::string place, int descriptor, std::optional<mode_t> mode);

  const std::string path_;            // as it was said
  const std::string place_;           // where its links lead
  int descriptor_;                    // -1: the text is written beside the place
  const std::optional<mode_t> mode_;  // of the file that is replaced
};

}  // namespace remora::bench
