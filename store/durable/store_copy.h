// The files of a durable tier at one moment, for a copy that goes to another machine while the store is used.
// incoming_copy.h is the other side.
//
//   V1  The files have all groups up to `after`, perhaps some later ones, and each group as a whole.
//   V2  The files stay, and do not change, as long as the object exists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/base/mutex.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace remora {

/// Counts the copies of a database, which deletes no file while there is one.
struct CopyPins {
  Mutex mutex;
  int count ABSL_GUARDED_BY(mutex) = 0;
};

/// Keeps the files of a database, and reads them. Obsolete tables take space on the disk meanwhile.
///
/// Thread safety: none; but any thread may have one, while others use the database, which outlives it.
class StoreCopy {
 public:
  struct File {
    std::string name;
    std::uint64_t size = 0;
    std::string contents{};  // in place of those on the disk, unless it is empty
  };

  /// REQUIRES: the caller has had the database flush all that the copy is to have. Errors are those of
  /// ToStatus.
  static absl::StatusOr<std::unique_ptr<StoreCopy>> Begin(rocksdb::DB& db, std::string dir,
                                                          std::shared_ptr<CopyPins> pins);
  ~StoreCopy();
  StoreCopy(const StoreCopy&) = delete;
  StoreCopy& operator=(const StoreCopy&) = delete;

  const std::vector<File>& files() const { return files_; }
  /// Returns the sum of the sizes.
  std::uint64_t bytes() const;
  /// Reads bytes of a file. REQUIRES: they are within its size.
  ///
  /// - DataLoss: the file has fewer bytes. Unavailable: the disk fails.
  absl::Status Read(const File& file, std::uint64_t offset, std::span<char> out);

  /// The group of V1.
  std::uint64_t after() const { return after_; }
  void set_after(std::uint64_t group) { after_ = group; }

 private:
  StoreCopy(rocksdb::DB& db, std::string dir, std::shared_ptr<CopyPins> pins)
      : db_(db), dir_(std::move(dir)), pins_(std::move(pins)) {}
  absl::Status Pin();
  absl::Status Open(const File& file);

  rocksdb::DB& db_;
  const std::string dir_;
  const std::shared_ptr<CopyPins> pins_;
  bool is_pinned_ = false;
  std::vector<File> files_;
  std::uint64_t after_ = 0;
  std::string opened_;  // name of the file of descriptor_
  int descriptor_ = -1;
};

}  // namespace remora
