#include "server/main/topology_division.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"
#include "store/durable/synced_file.h"

namespace remora {
namespace {

absl::Status DivisionFault(const WriteFault& fault) {
  return MarkedByErrno(fault.error,
                       absl::UnavailableError(absl::StrCat("topology: cannot ", AbslView(fault.step), " ",
                                                           fault.path, ": ", std::strerror(fault.error))));
}

std::string FolderOfTopology(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

const ShardPlace* PlaceOf(const Topology& topology, std::string_view shard) {
  const auto found = std::ranges::find(topology.shards(), shard, &ShardPlace::name);
  return found == topology.shards().end() ? nullptr : &*found;
}

}  // namespace

absl::StatusOr<rdma::UniqueFd> LockSwaps(const std::string& path) {
  const std::string lock = path + ".swap";
  rdma::UniqueFd fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!fd) return DivisionFault({"make", lock, errno});
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  return absl::AbortedError(absl::StrCat("topology: another process changes ", path, " now; try again"));
}

absl::StatusOr<std::unique_ptr<TopologyDivision>> TopologyDivision::Open(const std::string& path,
                                                                         const ShardIdentity& self) {
  REMORA_ASSIGN_OR_RETURN(Topology topology, Topology::Read(path));
  if (topology.cluster() != self.cluster || PlaceOf(topology, self.name()) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("topology: ", path, " has no shard ",
                                                      IdentityText(self),
                                                      "; start the server with --shard of one of its lines"));
  }
  return std::unique_ptr<TopologyDivision>(new TopologyDivision(path, self, std::move(topology)));
}

absl::Status ReadDivision(Flags* flags) {
  if (flags->shards.number < 0) return absl::OkStatus();
  REMORA_ASSIGN_OR_RETURN(flags->server.division,
                          TopologyDivision::Open(flags->shards.topology, flags->server.store.shard));
  return absl::OkStatus();
}

absl::StatusOr<Topology> TopologyDivision::Read() const {
  REMORA_ASSIGN_OR_RETURN(Topology topology, Topology::Read(path_));
  if (topology.HasShardsOf(first_)) return topology;
  return absl::FailedPreconditionError(absl::StrCat(
      "topology: ", path_, " has other shards than when the server started; start all servers again"));
}

absl::StatusOr<ShardIdentity> TopologyDivision::Find(std::string_view shard) {
  if (shard != self_.name() && PlaceOf(first_, shard) != nullptr) return IdentityOf(self_.cluster, shard);
  return absl::NotFoundError(absl::StrCat("move: shard ", AbslView(shard), " is not another one of ", path_,
                                          "; name one of its lines"));
}

absl::StatusOr<ClusterSlots> TopologyDivision::Own() {
  REMORA_ASSIGN_OR_RETURN(const Topology topology, Read());
  ClusterSlots slots;
  for (const SlotRange range : PlaceOf(topology, self_.name())->slots) slots.Add(range.first, range.last);
  return slots;
}

absl::Status TopologyDivision::Prepare(const ClusterSlots& slots, const ShardIdentity& to) {
  REMORA_ASSIGN_OR_RETURN(rdma::UniqueFd lock, LockSwaps(path_));
  REMORA_ASSIGN_OR_RETURN(const Topology topology, Read());
  REMORA_ASSIGN_OR_RETURN(const Topology next, topology.WithMoved(slots, self_.name(), to.name()));
  // The text is on the disk before anything is given away; a rename is left to be done.
  const std::optional<WriteFault> fault = WriteSynced(path_ + ".next", next.ToText());
  if (fault) return DivisionFault(*fault);
  // Users who could read the file still can.
  struct stat status;
  if (::stat(path_.c_str(), &status) == 0) ::chmod((path_ + ".next").c_str(), status.st_mode & 0777);
  lock_ = std::move(lock);
  return absl::OkStatus();
}

absl::Status TopologyDivision::Swap() {
  const rdma::UniqueFd lock = std::move(lock_);
  const std::string next = path_ + ".next";
  if (std::rename(next.c_str(), path_.c_str()) != 0) return DivisionFault({"replace", path_, errno});
  return SyncDirectory(FolderOfTopology(path_));
}

void TopologyDivision::GiveUp() {
  ::unlink((path_ + ".next").c_str());
  lock_ = rdma::UniqueFd();
}

std::string TopologyDivision::CopyPrefix(const ShardIdentity& to) const {
  return absl::StrCat(path_, ".copy-", AbslView(to.name()), "-");
}

}  // namespace remora
