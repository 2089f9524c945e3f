#include "bench/kvbench/floor/floor_disk.h"

#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace remora::bench {

DiskFloor::DiskFloor(std::string directory) : directory_(std::move(directory)) {}

DiskFloor::~DiskFloor() {
  db_.reset();
  if (file_ >= 0) close(file_);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

absl::StatusOr<std::unique_ptr<DiskFloor>> DiskFloor::Open(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directory(directory, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make ", directory, ": ", error.message()));
  if (!std::filesystem::is_empty(directory, error) || error) {
    return absl::AlreadyExistsError(
        absl::StrCat("floor: ", directory, " is not empty; name another directory"));
  }
  std::unique_ptr<DiskFloor> floor(new DiskFloor(directory));
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* db = nullptr;
  if (const rocksdb::Status status = rocksdb::DB::Open(options, directory + "/rocksdb", &db); !status.ok()) {
    return absl::UnavailableError(status.ToString());
  }
  floor->db_.reset(db);
  floor->file_ = open((directory + "/file").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (floor->file_ < 0) return absl::UnavailableError(std::strerror(errno));
  return floor;
}

absl::Status DiskFloor::Write(std::string_view key, std::string_view value) {
  rocksdb::WriteBatch batch;
  batch.Put({key.data(), key.size()}, {value.data(), value.size()});
  const rocksdb::Status status = db_->Write({}, &batch);
  return status.ok() ? absl::OkStatus() : absl::UnavailableError(status.ToString());
}

absl::Status DiskFloor::AppendAndSync(std::string_view bytes) {
  if (write(file_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
      fdatasync(file_) != 0) {
    return absl::UnavailableError(absl::StrCat(directory_, "/file: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace remora::bench
