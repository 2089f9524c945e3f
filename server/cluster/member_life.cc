#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/cluster/keeper.h"
#include "store/base/random_id.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"
#include "store/durable/synced_file.h"

namespace remora {
namespace {

/// Returns the number of this start of the machine. Empty: the system does not tell.
std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

absl::Status FaultOf(const WriteFault& fault) {
  const std::string text = absl::StrCat("cluster: cannot ", std::string(fault.step), " ", fault.path, ": ",
                                        std::strerror(fault.error), "; see to the disk, and start again");
  return fault.error == EACCES ? absl::PermissionDeniedError(text) : absl::UnavailableError(text);
}

}  // namespace

absl::StatusOr<std::uint64_t> MemberLife(const std::string& data_dir, bool is_synced) {
  const std::string path = data_dir + "/REMORA-MEMBER";
  const std::string boot = BootId();
  std::uint64_t life = 0;
  if (::access(path.c_str(), F_OK) == 0) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() != 3 || words[0] != "life" || !absl::SimpleHexAtoi(words[1], &life) || life == 0) {
      return absl::DataLossError(
          absl::StrCat("cluster: ", path, " is damaged; remove it, and the member joins anew"));
    }
    const bool is_same_boot = !boot.empty() && words[2] == boot;
    if (is_same_boot) return life;
    if (!is_synced) life = 0;  // the end of the log may be lost
  }
  if (life == 0) life = RandomId();
  const std::string text = absl::StrCat("life ", absl::Hex(life, absl::kZeroPad16), " ", boot, "\n");
  if (const std::optional<WriteFault> fault = ReplaceSynced(path, text)) return FaultOf(*fault);
  REMORA_RETURN_IF_ERROR(SyncDirectory(data_dir));
  return life;
}

}  // namespace remora
