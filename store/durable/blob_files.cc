#include "store/durable/blob_files.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace remora {
namespace {

// Eight values of 1 MiB. A shorter file dies sooner, but each takes a descriptor while it is open, and an
// entry of the manifest.
constexpr std::uint64_t kBlobFileBytes = std::uint64_t{8} << 20;

// The share of dead bytes from which on live values are copied, in hundredths. If all keys are written
// equally often, this copies about one byte for nine that are written.
constexpr std::uint64_t kMostGarbage = 60;
// Bytes of the files that one compaction may empty. A compaction comes after four flushes of a write buffer,
// 256 MiB by default, so that these are enough while half of the bytes in the oldest files are dead.
constexpr double kCopiedBytes = double{512 << 20};

}  // namespace

void UseBlobFiles(rocksdb::ColumnFamilyOptions* options) {
  options->enable_blob_files = true;
  options->min_blob_size = kMinBlobBytes;
  options->blob_file_size = kBlobFileBytes;
  options->blob_compression_type = options->compression;
  options->enable_blob_garbage_collection = false;
}

BlobBytes BlobFiles::bytes() const {
  BlobBytes bytes;
  db_->GetIntProperty(family_, rocksdb::DB::Properties::kLiveBlobFileSize, &bytes.all);
  db_->GetIntProperty(family_, rocksdb::DB::Properties::kLiveBlobFileGarbageSize, &bytes.dead);
  return bytes;
}

void BlobFiles::Decide() {
  const BlobBytes now = bytes();
  const bool has_much = now.all >= worth_copying_ && now.dead * 100 > now.all * kMostGarbage;
  if (has_much == copies_) return;
  const double share = std::min(0.5, kCopiedBytes / static_cast<double>(std::max<std::uint64_t>(now.all, 1)));
  const rocksdb::Status changed =
      db_->SetOptions(family_, {{"enable_blob_garbage_collection", has_much ? "true" : "false"},
                                {"blob_garbage_collection_age_cutoff", absl::StrCat(share)}});
  if (changed.ok()) copies_ = has_much;
}

}  // namespace remora
