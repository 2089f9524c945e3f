// The keeper of a member: a thread that reads the configuration in etcd. It has the server lead or follow as
// that says, and changes it when a member fails or comes back.
//
//   start ──configuration read──▶ follows ──primary silent for D, swap──▶ leads ──another leads──▶ the
//   process ends
//
//   K2   A primary publishes a group once all members in sync have it, min_in_sync at least. A group that it
//        had when it opened needs the members in sync alone.
//   K3   A member counts before the swap that adds it, and until the swap that removes it is known. While the
//        outcome of a swap is unknown, the members of both configurations count. To count means: groups are
//        published, and rounds of the lease line end, once the member has answered.
//   K5   A member leads only in an epoch that a swap of this process created.
//   K6   Writes and reads never wait for etcd while the members in sync answer.
//   K7   A member follows nobody before it has read the configuration, and no epoch before one that it has
//        read. Once it has asked for a takeover, it answers nothing to an earlier primary.
//   K10  A member is added once it has answered a round that began after it counted. While there are complete
//        members, which do not count, a round ends once etcd was read after it began, and has no change. A
//        complete member that takes over serves T after its swap.
//   K11  A member gives up its data, for a copy of the primary's, once it has read a configuration without
//        its life. Then nobody counts on it for a takeover. It reads that after the whole copy has come.
//        The copy has no life, so the member joins anew.
//   K14  A primary follows an operator's change of the members before it makes one of its own. A member
//        that the configuration does not have any more ends its process: a primary at once, another one
//        once its primary has had the time to read that, too.
//   K15  A forced takeover needs a primary that is silent, and no other member that answers with more
//        groups. It is a takeover in all else: sealed, by one swap, and T passes before it serves.
//   K16  A primary whose disk takes no more writes until it is opened again ends its process, so that a
//        member takes over. It stays if no member in sync follows it, or too few would be in sync without it.
//   K17  A member writes a first configuration only if it is empty, and has never read one. So a shard does
//        not begin anew beside its data after etcd has lost its own.
//   K18  A member begins a shard, or takes over, only if no other server answers at its address.
//   K19  A primary whose slots are in etcd begins its epoch, and then reads the division. It serves the slots
//        that are its own there. Without a division, it serves nobody. A member that was not told to read one
//        serves nobody if etcd has one.
//   K20 to K22 are in division_swap.h: the swap that gives slots away.
//   K23  If the division gives a primary more slots, these are the ones whose copy it has confirmed in its
//        epoch. Any other change that is not its own ends its process. So its successor begins with the slots
//        of the division, and with data from which nothing is missing.
//
// Why readers of a replaced primary P are fenced (store/format/memory/lease_line.h): let X take over from P,
// and take a round of P that has ended. If X counted when it ended, X answered it. If X was added later, it
// answered a round that began later still. Either way X serves T after that answer at the earliest (Q5). If X
// was complete, its swap is behind the read that confirmed the round, and X serves T after it. The model is
// tests/models/lease.pml, where a member that joins waits T in place of that answer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cluster/config_store.h"
#include "server/cluster/shard_configuration.h"
#include "server/monitoring/operator_log.h"
#include "server/replication/follower_connection.h"
#include "server/replication/membership.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"

namespace remora {

class ClusterSlots;
class DivisionFormat;
class DivisionReader;
class DivisionSwap;
class KeptDivision;

struct KeeperOptions {
  ConfigStoreOptions store{};
  std::string key;                                 // of the configuration in etcd
  ShardConfiguration first{};                      // written where there is none; without replicas: none is
  std::string member;                              // ID of this one
  std::string data_dir;                            // has the member's life
  bool is_synced = false;                          // the store's level is synced
  std::chrono::milliseconds failover_after{1000};  // D
  std::chrono::milliseconds lease_time{1000};      // T
  FollowerAddress credentials{};  // with which it is a client of other members; without an address
  std::shared_ptr<const DivisionFormat> division{};  // of the slots in etcd; null: the shard has all slots
  std::shared_ptr<KeptDivision> kept{};              // for moves of these slots; null: they do not move
};

/// Returns the key of a shard's configuration in etcd.
std::string ShardKey(std::string_view shard);

/// Returns the life of the member whose data are in this directory. A file there has it. If the data may have
/// lost something since, it is a new one. Where `is_synced`, they lose nothing when the machine stops.
///
/// - DataLoss: the file is damaged. PermissionDenied, Unavailable: it cannot be read or written.
absl::StatusOr<std::uint64_t> MemberLife(const std::string& data_dir, bool is_synced);

/// The reason for which a keeper ends its process.
enum class KeeperEnd : std::uint8_t {
  kStartsAgain = 1,  // started again, the server is of use
  kRemoved,          // the shard does not have this member any more
};

/// Runs the thread.
///
/// The class has more than 15 fields, because the configuration, the orders that follow from it, and the
/// links to the other members change together.
///
/// Thread safety: one thread makes and destroys it.
class Keeper {
 public:
  using OnEnd = std::function<void(KeeperEnd end, std::string why)>;
  /// `on_end` is called in the thread, once, when this process must not go on, with the reason. The
  /// references outlive this. Errors as ConfigStore::Create and MemberLife. ResourceExhausted: the system
  /// starts no thread.
  static absl::StatusOr<std::unique_ptr<Keeper>> Start(KeeperOptions options, Membership& membership,
                                                       const OperatorLog& log, const Clock& clock,
                                                       OnEnd on_end);
  /// Ends the thread, which may take as long as a request to etcd.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

 private:
  /// A swap whose outcome is unknown.
  struct Pending {
    ShardConfiguration next;
    std::string text;
    std::int64_t revision = 0;  // that it replaces
    bool was_unasked = false;   // this member is not in sync in that
  };
  /// Another member, as this primary sees it.
  struct Peer {
    std::string id;
    std::string address;
    std::optional<TimePoint> away_since{};
    std::optional<std::uint64_t> joining{};  // it counts, from rounds after this one on
  };
  /// The state of another member, as it tells.
  struct Position {
    std::uint64_t last = 0;
    std::uint64_t epoch = 0;
    bool is_primary = false;
  };

  Keeper(KeeperOptions options, Membership& membership, const OperatorLog& log, const Clock& clock,
         OnEnd on_end);
  void Run();
  void Tick();
  /// Returns true if the configuration has this member. Else it is told, or ends (K14).
  bool IsMember();
  /// Settles the pending swap, if there is one. Returns whether there is none any more.
  bool Settle();
  /// Reads the configuration if that is due. Returns whether one is known.
  bool Read(bool is_due);
  /// Takes note that etcd has no configuration. Writes the first one, if this member may (K17). Returns as
  /// Read.
  bool TakeNone();
  void Take(ShardConfiguration configuration, std::int64_t revision, std::string text);
  /// Returns whether this value is the configuration that was taken last. Its revision does not tell: an etcd
  /// that lost its data counts from 1 on again.
  bool IsTaken(const ConfigStore::Value& value) const;
  /// Swaps in the next configuration, or notes that the outcome is unknown. Returns whether it is in place.
  bool Swap(absl::StatusOr<ShardConfiguration> next, std::string_view why);
  /// The members that count: of the configuration, and those that are to be added. While the outcome of a
  /// swap is unknown, that does not change (K3).
  void Count();
  /// Has the orders follow the members of the configuration, and those that count, unless another member
  /// leads by now (K14).
  void Relink();
  void Follow(const MemberReport& report);
  /// Returns whether another member shall take over in place of this one.
  bool IsAnotherAhead(const MemberReport& report, Duration silence);
  /// `why`: for the log.
  void TakeOverFrom(std::string_view why);
  /// Takes over, as an operator asked, if the primary yields.
  void Switch();
  absl::Status AskToYield();
  /// Takes over though it may lack acknowledged writes, as an operator asked (K15).
  void Force(const MemberReport& report);
  absl::Status CheckForce(const MemberReport& report);
  /// Tells the operator why this member does not do what was asked.
  void RejectWish(std::string why);
  /// Has the next start go on with the copy of the primary's data that has come (K11).
  void TakeCopy();
  /// `was_unasked`: as in MemberOrders.
  void BeginToLead(bool was_unasked);
  bool IsLeaderOf(const ShardConfiguration& configuration) const;
  void Lead(const MemberReport& report);
  /// Returns whether the others can go on without this primary (K16).
  bool IsDispensable(const MemberReport& report) const;
  /// Has rounds end, as far as etcd has this primary still, while there are complete members (K10).
  void Confirm();
  void LeadFollower(const MemberReport& report, std::size_t at);
  /// Has a member that is not in sync count, and adds it once it has what it needs (K3, K10).
  void Add(const MemberReport& report, std::size_t at);
  absl::StatusOr<Position> Ask(const std::string& id);
  /// Sends a request kFollow of this condition to a member, and returns its reply. FailedPrecondition: it
  /// rejects that. Others: it does not answer.
  absl::StatusOr<Reply> Call(const std::string& id, std::uint64_t condition, TimePoint deadline,
                             std::uint64_t number = 0);
  /// Returns true, and logs that, if another server answers at this member's address (K18).
  bool IsAnotherHere();
  /// Reads the division of the slots if that is due. Returns whether this member may lead, or go on to lead.
  bool ReadDivision();
  /// Returns whether etcd has no division of the cluster, as this member was told. If it has one, this ends.
  bool HasNoDivision();
  /// Returns the slots of a primary whose epoch has begun; null: all (K19). Errors as of
  /// DivisionReader::Read.
  ///   FailedPrecondition: also, it was not told that etcd has a division.
  absl::StatusOr<std::shared_ptr<const ClusterSlots>> SlotsToServe();
  /// Takes note of the slots of this shard, as they were read in its epoch (K23).
  void TakeSlots();
  /// Goes on with the swap that the server thread asks for, if there is one.
  void StepSwap();
  void Wake();
  std::optional<MemberReport> Order();
  void End(std::string why, KeeperEnd end = KeeperEnd::kStartsAgain);
  /// Logs a line, unless it is the last one again.
  void Say(LogEvent event, std::string line);

  Member self() const { return {.id = options_.member, .life = orders_.life}; }

  const KeeperOptions options_;
  Membership& membership_;
  const OperatorLog& log_;
  const Clock& clock_;
  const OnEnd on_end_;
  std::unique_ptr<ConfigStore> store_;
  std::unique_ptr<DivisionReader> division_;  // null: the shard has all slots
  TimePoint next_division_{};                 // when it is to be read
  bool has_no_division_ = false;              // etcd had none, once this process had begun
  std::unique_ptr<DivisionSwap> swap_;        // null: none is in progress
  TimePoint swap_ends_{};                     // if it was not sent by then
  MemberOrders orders_;
  std::optional<ShardConfiguration> now_;  // as read or swapped last
  std::int64_t revision_ = 0;
  std::string text_;         // of now_, in etcd
  std::uint64_t begun_ = 0;  // the last round in a report
  std::optional<Pending> pending_;
  TimePoint next_read_{};
  TimePoint last_heard_{};  // of the primary
  bool has_ended_ = false;
  bool was_member_ = false;           // the configuration had this member
  bool is_alone_here_ = false;        // no other server answered at this member's address, at the start
  std::optional<TimePoint> ends_at_;  // it was removed
  bool hurries_ = false;              // the primary yields, so the configuration is about to change
  std::vector<Peer> peers_;           // of a primary, in the order of the orders
  std::map<std::string, std::unique_ptr<FollowerConnection>> connections_;
  std::uint64_t last_request_ = 0;
  std::string last_line_;

  Mutex mutex_;
  std::condition_variable stops_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_woken_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace remora
