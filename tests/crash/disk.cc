#include "disk.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace {

using remora::Fault;

/// The system's own.
template <typename Function>
Function* Next(const char* name, Function* /*type*/) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define REMORA_NEXT(name)                         \
  static auto* const next = Next(#name, &::name); \
  if (next == nullptr) std::abort()

/// Returns the path as the journal writes it: from the root, each slash once, none at the end.
std::string Absolute(const char* path) {
  std::string whole;
  std::array<char, 4096> here;
  if (path[0] != '/' && getcwd(here.data(), here.size()) != nullptr) whole = std::string(here.data()) + "/";
  for (; *path != 0; ++path) {
    if (*path != '/' || whole.empty() || whole.back() != '/') whole += *path;
  }
  if (whole.size() > 1 && whole.back() == '/') whole.pop_back();
  return whole;
}

bool Exists(const std::string& path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0;
}

int Fail(int error) {
  errno = error;
  return -1;
}

/// One for the process; made at its first call, and never destroyed: files are closed until the very end.
class Disk {
 public:
  static Disk& Get() {
    static Disk* const disk = new Disk;
    return *disk;
  }

  bool Watches(const std::string& path) const {
    return !root_.empty() && path.starts_with(root_) &&
           (path.size() == root_.size() || path[root_.size()] == '/');
  }
  bool WatchesFile(int fd) const { return LetterOf(fd) != 0; }

  /// The last letter of its name; 0: it is not watched.
  char LetterOf(int fd) const {
    if (fd < 0 || static_cast<std::size_t>(fd) >= files_.size()) return 0;
    return files_[static_cast<std::size_t>(fd)].load(std::memory_order_relaxed);
  }
  void Opened(int fd, char letter) {
    if (fd < 0) return;
    if (static_cast<std::size_t>(fd) >= files_.size()) std::abort();
    files_[static_cast<std::size_t>(fd)].store(letter, std::memory_order_relaxed);
  }

  int Of(Fault fault) const {
    return faults_ == nullptr ? 0
                              : __atomic_load_n(&faults_[static_cast<std::size_t>(fault)], __ATOMIC_ACQUIRE);
  }
  /// Returns the error of a call on this file; 0: none.
  int Of(Fault fault, int fd) const {
    const char letter = LetterOf(fd);
    const int only = Of(Fault::kOnly);
    return letter != 0 && (only == 0 || only == letter) ? Of(fault) : 0;
  }

  /// A file that says which start of the machine it is; empty: the system says it.
  const std::string& boot() const { return boot_; }

  /// Held while a name is changed and noted, so that the journal has the changes in their order.
  std::mutex& mutex() { return mutex_; }

  bool has_journal() const { return journal_ >= 0; }
  void Note(const std::string& line) {
    if (journal_ < 0) return;
    const std::string text = line + "\n";
    static auto* const next = Next("write", &::write);
    if (next(journal_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
  }

  /// Returns where the image of a file is that is written in place; empty: nowhere.
  std::string ImageOf(int fd) const {
    struct stat status;
    return journal_ < 0 || fstat(fd, &status) != 0 ? "" : saved_ + "/" + remora::ImageName(status.st_ino);
  }

  /// Keeps what has this name, under another one outside; returns that.
  std::string Save(const std::string& path) {
    if (journal_ < 0 || !Exists(path)) return "-";
    static auto* const next = Next("link", &::link);
    std::string saved;
    do {
      saved = saved_ + "/" + std::to_string(++saved_count_);
    } while (next(path.c_str(), saved.c_str()) != 0 && errno == EEXIST);
    return saved;
  }

 private:
  /// Through the system's own calls: ours want a Disk.
  Disk() {
    if (const char* const root = getenv("REMORA_DISK")) root_ = root;
    if (const char* const boot = getenv("REMORA_DISK_BOOT")) boot_ = boot;
    static auto* const next_open = Next("open", static_cast<int (*)(const char*, int, ...)>(&::open));
    static auto* const next_mkdir = Next("mkdir", &::mkdir);
    if (const char* const journal = getenv("REMORA_DISK_JOURNAL")) {
      journal_ = next_open(journal, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
      saved_ = std::string(journal) + ".saved";
      if (journal_ < 0 || (next_mkdir(saved_.c_str(), 0700) != 0 && errno != EEXIST)) std::abort();
    }
    if (const char* const faults = getenv("REMORA_DISK_FAULTS")) {
      const int fd = next_open(faults, O_RDONLY | O_CLOEXEC);
      static auto* const next_mmap = Next("mmap", &::mmap);
      void* const bytes = next_mmap(nullptr, remora::kFaultBytes, PROT_READ, MAP_SHARED, fd, 0);
      if (fd < 0 || bytes == MAP_FAILED) std::abort();
      faults_ = static_cast<const std::uint8_t*>(bytes);
    }
  }

  std::string root_;
  std::string boot_;
  int journal_ = -1;
  std::string saved_;
  std::size_t saved_count_ = 0;
  const std::uint8_t* faults_ = nullptr;
  std::mutex mutex_;
  std::array<std::atomic<char>, 1 << 16> files_{};
};

template <typename Open>
int OpenFile(Open* next, const char* name, int flags, mode_t mode) {
  Disk& disk = Disk::Get();
  const std::string path = Absolute(name);
  if (path == "/proc/sys/kernel/random/boot_id" && !disk.boot().empty()) {
    return next(disk.boot().c_str(), flags, mode);
  }
  if (!disk.Watches(path)) return next(name, flags, mode);
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (const int error = disk.Of(Fault::kChangeErrno); writes && error != 0) return Fail(error);
  const std::lock_guard lock(disk.mutex());
  struct stat status;
  bool exists = stat(name, &status) == 0;
  if (exists && writes && (flags & O_TRUNC) != 0 && status.st_size > 0) {
    // Its bytes are kept: the name goes to another file.
    disk.Note("unlink " + path + " " + disk.Save(path));
    static auto* const next_unlink = Next("unlink", &::unlink);
    if (next_unlink(name) != 0) return -1;
    flags |= O_CREAT;
    mode = status.st_mode & 0777;
    exists = false;
  }
  if (!exists && (flags & O_CREAT) != 0) disk.Note("create " + path);
  const int fd = next(name, flags, mode);
  disk.Opened(fd, path.back());
  return fd;
}

/// Through the system's own calls. Grows the copy, and never shortens it.
void CopyBytes(int from, int to) {
  static auto* const next_pread = Next("pread", &::pread);
  static auto* const next_pwrite = Next("pwrite", &::pwrite);
  std::array<char, 1 << 16> bytes{};
  for (off_t at = 0;;) {
    const ssize_t got = next_pread(from, bytes.data(), bytes.size(), at);
    if (got < 0) std::abort();
    if (got == 0) return;
    if (next_pwrite(to, bytes.data(), static_cast<std::size_t>(got), at) != got) std::abort();
    at += got;
  }
}

/// Copies the file to `path`, which is made if it is missing.
void CopyTo(const std::string& path, int fd) {
  static auto* const next_open = Next("open", static_cast<int (*)(const char*, int, ...)>(&::open));
  static auto* const next_close = Next("close", &::close);
  const int copy = next_open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  // The descriptor may be one that only writes.
  const int file = next_open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC);
  if (copy < 0 || file < 0) std::abort();
  CopyBytes(file, copy);
  next_close(file);
  next_close(copy);
}

/// Before a write elsewhere than at the end: notes the file, and keeps its bytes as the disk has them.
void BeginInPlace(int fd) {
  Disk& disk = Disk::Get();
  if (!disk.has_journal() || !disk.WatchesFile(fd)) return;
  const std::string image = disk.ImageOf(fd);
  const std::lock_guard lock(disk.mutex());
  if (Exists(image)) return;
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (readlink(link.c_str(), path.data(), path.size() - 1) < 0) std::abort();
  CopyTo(image + ".new", fd);
  static auto* const next_rename = Next("rename", &::rename);
  if (next_rename((image + ".new").c_str(), image.c_str()) != 0) std::abort();
  disk.Note("in_place " + std::string(path.data()));
}

/// The disk has all bytes of a file that is written in place, if it is one. A kill meanwhile leaves some of
/// them, as a sync does that has not returned.
void SyncInPlace(int fd) {
  const std::string image = Disk::Get().ImageOf(fd);
  if (!image.empty() && Exists(image)) CopyTo(image, fd);
}

/// Notes what the cut cannot undo.
void NoteInPlace(int fd, const char* call, bool in_place) {
  Disk& disk = Disk::Get();
  if (in_place && disk.WatchesFile(fd)) disk.Note(std::string("unmodelled ") + call + " -");
}

std::size_t SizeOf(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? static_cast<std::size_t>(status.st_size) : 0;
}

template <typename Sync>
int SyncFile(Sync* next, int fd) {
  Disk& disk = Disk::Get();
  if (!disk.WatchesFile(fd)) return next(fd);
  struct stat status;
  if (fstat(fd, &status) != 0) return -1;
  // By its name of this moment. A file without a name has nothing to keep.
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (readlink(link.c_str(), path.data(), path.size() - 1) < 0) return -1;
  if (const int error = disk.Of(Fault::kSyncErrno, fd); error != 0) return Fail(error);
  if (S_ISDIR(status.st_mode)) {
    const std::lock_guard lock(disk.mutex());
    if (disk.Of(Fault::kSyncLies, fd) != 0) return 0;
    if (!disk.has_journal()) return next(fd);
    disk.Note("synced_folder " + std::string(path.data()));
    return 0;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(disk.Of(Fault::kSyncDelayMs)));
  if (disk.Of(Fault::kSyncLies, fd) != 0) return 0;
  // The journal is the disk, and the system needs not be asked.
  if (!disk.has_journal()) return next(fd);
  SyncInPlace(fd);
  // Of what came while it was in progress, nobody was told.
  disk.Note("synced " + std::string(path.data()) + " " + std::to_string(status.st_size));
  return 0;
}

}  // namespace

extern "C" {

int open(const char* name, int flags, ...) {
  static auto* const next = Next("open", static_cast<int (*)(const char*, int, ...)>(&::open));
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return OpenFile(next, name, flags, mode);
}

int open64(const char* name, int flags, ...) {
  static auto* const next = Next("open64", static_cast<int (*)(const char*, int, ...)>(&::open64));
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return OpenFile(next, name, flags, mode);
}

int close(int fd) {
  REMORA_NEXT(close);
  Disk::Get().Opened(fd, 0);
  return next(fd);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  REMORA_NEXT(write);
  if (const int error = Disk::Get().Of(Fault::kWriteErrno, fd); error != 0) return Fail(error);
  return next(fd, bytes, size);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  REMORA_NEXT(pwrite);
  if (const int error = Disk::Get().Of(Fault::kWriteErrno, fd); error != 0) return Fail(error);
  if (Disk::Get().WatchesFile(fd) && static_cast<std::size_t>(offset) < SizeOf(fd)) BeginInPlace(fd);
  return next(fd, bytes, size, offset);
}

ssize_t pread(int fd, void* bytes, size_t size, off_t offset) {
  REMORA_NEXT(pread);
  if (const int error = Disk::Get().Of(Fault::kReadErrno, fd); error != 0) return Fail(error);
  return next(fd, bytes, size, offset);
}

ssize_t preadv2(int fd, const iovec* into, int count, off_t offset, int flags) {
  REMORA_NEXT(preadv2);
  if (const int error = Disk::Get().Of(Fault::kReadErrno, fd); error != 0) return Fail(error);
  return next(fd, into, count, offset, flags);
}

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  REMORA_NEXT(mmap);
  const bool is_file = (flags & (MAP_ANONYMOUS | MAP_PRIVATE)) == 0;
  if (is_file && (protection & PROT_WRITE) != 0) BeginInPlace(fd);
  return next(address, size, protection, flags, fd, offset);
}

int ftruncate(int fd, off_t size) noexcept {
  REMORA_NEXT(ftruncate);
  NoteInPlace(fd, "ftruncate", Disk::Get().WatchesFile(fd) && static_cast<std::size_t>(size) < SizeOf(fd));
  return next(fd, size);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
  REMORA_NEXT(fallocate);
  if (const int error = Disk::Get().Of(Fault::kReserveErrno); error != 0) return Fail(error);
  if (const int error = Disk::Get().Of(Fault::kWriteErrno, fd); error != 0) return Fail(error);
  NoteInPlace(fd, "fallocate", (mode & ~FALLOC_FL_KEEP_SIZE) != 0);
  return next(fd, mode, offset, size);
}

int fsync(int fd) {
  REMORA_NEXT(fsync);
  return SyncFile(next, fd);
}

int fdatasync(int fd) {
  REMORA_NEXT(fdatasync);
  return SyncFile(next, fd);
}

int mkdir(const char* name, mode_t mode) noexcept {
  REMORA_NEXT(mkdir);
  Disk& disk = Disk::Get();
  const std::string path = Absolute(name);
  if (!disk.Watches(path) || Exists(path)) return next(name, mode);
  if (const int error = disk.Of(Fault::kChangeErrno); error != 0) return Fail(error);
  const std::lock_guard lock(disk.mutex());
  disk.Note("mkdir " + path);
  return next(name, mode);
}

int rename(const char* from, const char* to) noexcept {
  REMORA_NEXT(rename);
  Disk& disk = Disk::Get();
  const std::string path = Absolute(to);
  if (!disk.Watches(path)) return next(from, to);
  if (const int error = disk.Of(Fault::kChangeErrno); error != 0) return Fail(error);
  const std::lock_guard lock(disk.mutex());
  disk.Note("rename " + Absolute(from) + " " + path + " " + disk.Save(path));
  return next(from, to);
}

int link(const char* from, const char* to) noexcept {
  REMORA_NEXT(link);
  Disk& disk = Disk::Get();
  if (disk.Watches(Absolute(to))) disk.Note("unmodelled link " + Absolute(to));
  return next(from, to);
}

int unlink(const char* name) noexcept {
  REMORA_NEXT(unlink);
  Disk& disk = Disk::Get();
  const std::string path = Absolute(name);
  if (!disk.Watches(path) || !Exists(path)) return next(name);
  if (const int error = disk.Of(Fault::kChangeErrno); error != 0) return Fail(error);
  const std::lock_guard lock(disk.mutex());
  disk.Note("unlink " + path + " " + disk.Save(path));
  return next(name);
}

}  // extern "C"
