// Files of the commit log that a crash, a disk or a hand has changed. The reader shows the first groups that
// were written, whole, and Open finds the same end again. Groups with a forged checksum may say anything, but
// stay within their bounds.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "store/durable/commit_log/log_reader.h"
#include "store/durable/commit_log/recovery.h"
#include "store/format/memory/hash.h"
#include "tests/fuzz/input.h"

namespace remora {
namespace {

constexpr std::size_t kFuzzedFiles = 2;

/// Made once; removed at the end.
class FuzzedLogDir {
 public:
  FuzzedLogDir() {
    // In memory where there is such a folder: the log syncs.
    const std::filesystem::path memory = "/dev/shm";
    std::string name =
        (std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path()) /
        "remora-commit-log-fuzz-XXXXXX";
    FUZZ_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~FuzzedLogDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FuzzedLogDir(const FuzzedLogDir&) = delete;
  FuzzedLogDir& operator=(const FuzzedLogDir&) = delete;

  const std::string& path() const { return path_; }
  void Write(std::size_t file, const std::string& bytes) const {
    const std::string path = path_ + "/" + LogFileName(Lsn{file * kMinLogFileSize});
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_CHECK(fd >= 0 && pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    FUZZ_CHECK(ftruncate(fd, kMinLogFileSize) == 0);
    close(fd);
  }

 private:
  std::string path_;
};

void CheckGroup(const LogGroup& group) {
  LogEntries entries = group.entries();
  LogEntry entry;
  std::uint32_t count = 0;
  while (entries.Next(&entry)) {
    ++count;
    FUZZ_CHECK(entry.key.size() <= kMaxKeySize && entry.value.size() <= kMaxValueSize);
    FUZZ_CHECK(entry.value.empty() ||
               (entry.value.data() >= group.bytes.data() && entry.value.end() <= group.bytes.end()));
  }
  FUZZ_CHECK(entries.empty() && count == group.header.count);
}

void Seal(std::string* file, std::size_t at) {
  LogGroupHeader header;
  if (at + sizeof(header) > file->size()) return;
  std::memcpy(&header, file->data() + at, sizeof(header));
  if (header.size < sizeof(header) || header.size > file->size() - at) return;
  const std::uint64_t checksum = HashBytes(file->data() + at + 8, header.size - 8);
  std::memcpy(file->data() + at, &checksum, sizeof(checksum));
}

/// A log as a writer leaves it; groups have the versions 1, 2, ...
class FuzzedLog {
 public:
  FuzzedLog() { Begin(); }

  void Append(Input* input) {
    if ((input->Take<std::uint8_t>() & 15) == 0 && files_.size() < kFuzzedFiles) Begin();
    std::vector<LogEntry> entries(1 + input->Take<std::uint8_t>() % 3);
    for (LogEntry& entry : entries) {
      const auto how = input->Take<std::uint8_t>();
      entry = {.version = count_ + 1, .expiry_ms = how & 8u, .key = input->Text()};
      if (entry.key.empty()) entry.key = "key";
      if ((how & 1) != 0) entry.kind = LogEntryKind::kDelete;
      if ((how & 1) == 0) entry.value = input->Text();
      if ((how & 2) != 0) entry.request = {how, 1};
    }
    const std::uint64_t size = LogGroupSize(entries);
    std::string& file = files_.back();
    if (file.size() + size > kMinLogFileSize) return;
    places_.emplace_back(files_.size() - 1, file.size());
    std::vector<std::uint64_t> words(size / 8);
    const Lsn lsn = Lsn{(files_.size() - 1) * kMinLogFileSize} + file.size();
    checksum_ = EncodeLogGroup(
        entries, size,
        {.lsn = lsn, .incarnation = 1, .previous = checksum_, .synced_to = Lsn{input->Take<std::uint8_t>()}},
        reinterpret_cast<char*>(words.data()));
    file.append(reinterpret_cast<const char*>(words.data()), size);
    ++count_;
  }
  void Change(Input* input, bool seal) {
    std::string& file = files_[input->Take<std::uint8_t>() % files_.size()];
    const std::size_t at = input->Take<std::uint16_t>();
    const auto by = input->Take<std::uint8_t>();
    file[at % file.size()] = static_cast<char>(file[at % file.size()] ^ by);
    for (const auto& [number, place] : places_) {
      if (seal) Seal(&files_[number], place);
    }
  }
  void Store(const FuzzedLogDir& dir) const {
    for (std::size_t i = 0; i < kFuzzedFiles; ++i) dir.Write(i, i < files_.size() ? files_[i] : "");
  }
  std::uint64_t count() const { return count_; }

 private:
  void Begin() {
    const LogFileHeader header =
        MakeLogFileHeader(Lsn{files_.size() * kMinLogFileSize}, kMinLogFileSize, 1, checksum_);
    files_.emplace_back(reinterpret_cast<const char*>(&header), sizeof(header));
  }

  std::vector<std::string> files_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;
  std::uint64_t checksum_ = 0;
  std::uint64_t count_ = 0;
};

void ReadChanged(Input input, std::uint8_t how) {
  static const FuzzedLogDir dir;
  FuzzedLog log;
  for (int groups = input.Take<std::uint8_t>() % 16; groups > 0; --groups) log.Append(&input);
  const bool seal = (how & 2) != 0;
  const bool changed = !input.empty();
  while (!input.empty()) log.Change(&input, seal);
  log.Store(dir);

  const auto reader = CommitLogReader::Open(dir.path(), {});
  FUZZ_CHECK(reader.ok());
  std::uint64_t shown = 0;
  for (;;) {
    const absl::StatusOr<bool> next = (*reader)->Next();
    FUZZ_CHECK(next.ok());
    if (!*next) break;
    ++shown;
    CheckGroup((*reader)->group());
    FUZZ_CHECK(seal || (*reader)->group().header.first_version == shown);
  }
  FUZZ_CHECK(changed || shown == log.count());
  FUZZ_CHECK((*reader)->end() <= Lsn{kFuzzedFiles * kMinLogFileSize});

  std::uint64_t replayed = 0;
  const auto count = [&](const LogGroup&) {
    ++replayed;
    return absl::OkStatus();
  };
  const auto first = RecoverCommitLog({.dir = dir.path(), .is_of_this_boot = (how & 4) != 0}, count);
  FUZZ_CHECK(replayed == shown);
  FUZZ_CHECK(first.ok() || absl::IsDataLoss(first.status()));
  if (!first.ok()) return;
  replayed = 0;
  const auto again = RecoverCommitLog({.dir = dir.path(), .is_of_this_boot = true}, count);
  FUZZ_CHECK(again.ok() && again->end == first->end && again->checksum == first->checksum);
  FUZZ_CHECK(replayed == shown);
}

}  // namespace
}  // namespace remora

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  remora::Input input(data, size);
  const auto how = input.Take<std::uint8_t>();
  if ((how & 1) == 0) {
    remora::ReadChanged(input, how);
    return 0;
  }
  const remora::Lsn lsn{input.Take<std::uint64_t>()};
  std::string bytes(input.rest());
  if ((how & 2) != 0) remora::Seal(&bytes, 0);
  if (const auto group = remora::VerifyLogGroup(bytes, lsn)) remora::CheckGroup(*group);
  return 0;
}
