// A log file that a crash, a disk or a hand has changed. It is read to its end or it is not, and no record is
// shown whose parts do not have their checksums.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "store/durable/wal/wal_scan.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = memfd_create("log", 0);
  static const std::string path = absl::StrCat("/proc/self/fd/", file);
  FUZZ_CHECK(file >= 0 && ftruncate(file, 0) == 0);
  FUZZ_CHECK(pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  std::size_t bytes = 0;
  std::size_t records = 0;
  const bool read = remora::ScanLog(path, [&](const std::string& record) {
    ++records;
    bytes += record.size();
  });
  FUZZ_CHECK(bytes <= size && records <= size);
  const auto state = remora::CheckLog(path);
  FUZZ_CHECK(state.has_value() == read);
  if (state && state->damaged_at) FUZZ_CHECK(*state->damaged_at <= size);
  return 0;
}
