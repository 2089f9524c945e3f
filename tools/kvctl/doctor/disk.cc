#include "tools/kvctl/doctor/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/main/commit_log_size.h"
#include "store/durable/commit_log/log_file.h"

namespace remora::doctor {
namespace {

namespace fs = std::filesystem;

// A server's files begin with logs of some 64 MiB each, and with the first tables.
constexpr std::uint64_t kLeastFree = std::uint64_t{256} << 20;

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<bool> IsRotational(const std::string& device) {
  const std::string folder = absl::StrCat("/sys/dev/block/", device, "/");
  for (const char* const queue :
       {"queue/rotational", "../queue/rotational"}) {  // of a disk, of its partition
    const std::string line = ReadLine(folder + queue);
    if (!line.empty()) return line == "1";
  }
  return std::nullopt;
}

/// Returns whether the directory above the data directory is there, too. kvserver does not make that.
bool LacksParent(const DiskFacts& facts) {
  if (facts.data_dir.empty() || facts.data_dir == facts.directory) return false;
  fs::path path(facts.data_dir);
  if (!path.has_filename()) path = path.parent_path();  // "data/"
  return path.has_parent_path() && path.parent_path() != facts.directory;
}

Check JudgeDirectory(const DiskFacts& facts) {
  Check check = PassedCheck("data_dir", absl::StrCat(facts.directory, " can be written"));
  if (!facts.is_directory) {
    check.verdict = Verdict::kProblem;
    check.found = absl::StrCat(facts.directory, " is no directory");
    check.remedy = "name a directory, or one that is to be made: --data_dir";
  } else if (facts.is_read_only) {
    check.verdict = Verdict::kProblem;
    check.found = absl::StrCat(facts.directory, " is on a file system that is mounted read-only");
    check.remedy = absl::StrCat("mount it for writing: mount -o remount,rw $(findmnt -no TARGET -T ",
                                facts.directory, ")");
  } else if (facts.may_write && LacksParent(facts)) {
    check.verdict = Verdict::kProblem;
    check.found = absl::StrCat("of ", facts.data_dir, ", only ", facts.directory,
                               " exists, and kvserver makes no more than one directory");
    check.remedy = absl::StrCat(
        "make it, and give it to the server's user, here remora: "
        "sudo install -d -m 700 -o remora ",
        facts.data_dir);
  } else if (!facts.may_write && !facts.data_dir.empty() && facts.data_dir != facts.directory) {
    check.verdict = Verdict::kWarning;
    check.found =
        absl::StrCat(facts.data_dir, " does not exist, and this user may not make it in ", facts.directory);
    check.remedy = absl::StrCat(
        "make it, and give it to the server's user, here remora: "
        "sudo install -d -m 700 -o remora ",
        facts.data_dir);
  } else if (!facts.may_write) {
    check.verdict = Verdict::kWarning;
    check.found = absl::StrCat("this user may not write to ", facts.directory);
    check.remedy = absl::StrCat("run kvserver and this command as its owner: sudo -u $(stat -c %U ",
                                facts.directory, ") kvctl doctor");
  }
  return check;
}

Check JudgeFree(const DiskFacts& facts, const Plan& plan) {
  const std::uint64_t commit_log = plan.commit_log.value_or(facts.commit_log);
  // Memory is a cache of the disk: all of it is there, too, and once more while tables are merged.
  const std::uint64_t wanted = 2 * plan.memory + commit_log;
  Check check = PassedCheck("disk_free",
                            absl::StrFormat("%s are free; twice --memory%s are %s", BytesText(facts.free),
                                            commit_log == 0 ? "" : " and the commit log", BytesText(wanted)));
  check.value = facts.free;
  check.limit = facts.free < kLeastFree ? kLeastFree : wanted;
  if (facts.free >= wanted && facts.free >= kLeastFree) return check;
  check.verdict = facts.free < kLeastFree ? Verdict::kProblem : Verdict::kWarning;
  check.remedy = absl::StrCat(
      "writes are rejected when the disk is full; free space, or choose another --data_dir: du -xh ",
      facts.directory, " | sort -h | tail");
  return check;
}

Check JudgeFileSystem(const DiskFacts& facts) {
  Check check = PassedCheck(
      "file_system", absl::StrFormat("%s; a commit log (kvserver --commit_log) will %s",
                                     facts.type.empty() ? "of an unknown type" : facts.type,
                                     facts.maps_log ? "map its files"
                                                    : "write its files, which takes a call for each group"));
  if (facts.type == "tmpfs" || facts.type == "ramfs") {
    check.verdict = Verdict::kWarning;
    check.remedy = "it is memory: all data are lost with the machine's power; choose a --data_dir on a disk";
  } else if (!facts.maps_log) {
    check.verdict = Verdict::kWarning;
    check.remedy = "ext4 and XFS on a disk of this machine are faster; df -T shows what there is";
  }
  return check;
}

Check JudgeRotation(const DiskFacts& facts) {
  Check check = PassedCheck("disk", "does not rotate");
  if (!facts.rotational) check.found = "the system does not tell which kind it is";
  if (facts.rotational.value_or(false)) {
    check.verdict = Verdict::kWarning;
    check.found = "rotates, or says so, as virtual disks do";
    check.remedy =
        "if it is a hard disk, a synced write takes some 10 ms; lsblk -d -o NAME,ROTA,MODEL shows all disks";
  }
  return check;
}

}  // namespace

std::string FileSystemType(const std::string& mountinfo, const std::string& device) {
  // 36 35 98:0 /root /mount/point options [optional]... - type source options
  std::istringstream lines(mountinfo);
  std::string type;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id, parent, number, word;
    words >> id >> parent >> number;
    if (number != device) continue;
    while (words >> word && word != "-") continue;
    if (words >> word) type = word;
  }
  return type;
}

DiskFacts ReadDisk(const std::string& data_dir, const SystemMemory& system) {
  DiskFacts facts;
  std::error_code error;
  fs::path path = fs::absolute(data_dir, error);
  const std::string data_dir_path = path.string();
  while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  facts.directory = path.string();
  facts.data_dir = data_dir_path;
  struct stat status = {};
  struct statfs file_system = {};
  struct statvfs volume = {};
  if (stat(path.c_str(), &status) != 0 || statfs(path.c_str(), &file_system) != 0 ||
      statvfs(path.c_str(), &volume) != 0) {
    facts.failure = std::strerror(errno);
    return facts;
  }
  facts.is_directory = S_ISDIR(status.st_mode);
  const std::string device = absl::StrFormat("%d:%d", major(status.st_dev), minor(status.st_dev));
  facts.type = FileSystemType(Contents("/proc/self/mountinfo"), device);
  // ext2 and ext3 cannot allocate blocks ahead, and have the number of ext4.
  facts.maps_log = OverwritesInPlace(static_cast<std::uint64_t>(file_system.f_type)) &&
                   facts.type != "ext2" && facts.type != "ext3";
  facts.is_read_only = (volume.f_flag & ST_RDONLY) != 0;
  facts.may_write = faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
  facts.free = std::uint64_t{volume.f_bavail} * volume.f_frsize;
  facts.commit_log = DefaultCommitLogSize(data_dir, system);
  facts.rotational = IsRotational(device);
  return facts;
}

void JudgeDisk(const std::optional<DiskFacts>& facts, const Plan& plan, Checks* checks) {
  if (!facts || !facts->failure.empty()) {
    Check check = PassedCheck("data_dir", facts ? absl::StrCat(facts->directory, ": ", facts->failure)
                                                : "its file system does not answer");
    check.verdict = Verdict::kProblem;
    check.remedy = facts ? "run this command as the server's user, for example sudo -u remora kvctl doctor"
                         : "see dmesg for the disk, or the network that it is behind; findmnt lists all";
    checks->push_back(check);
    return;
  }
  checks->push_back(JudgeDirectory(*facts));
  checks->push_back(JudgeFree(*facts, plan));
  checks->push_back(JudgeFileSystem(*facts));
  checks->push_back(JudgeRotation(*facts));
}

}  // namespace remora::doctor
