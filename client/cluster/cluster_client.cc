#include "client/cluster/cluster_client.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/cluster/cluster_shard.h"
#include "client/cluster/parts.h"
#include "client/cluster/side_by_side.h"
#include "client/session/argument_checks.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/cluster/slot.h"

namespace remora {
namespace {

const absl::Status& StatusIn(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusIn(const absl::StatusOr<T>& result) {
  return result.status();
}

/// Returns a key for an error: in quotes, and not too long.
std::string Shown(std::string_view key) {
  constexpr std::size_t kMostShown = 60;
  return absl::StrCat("'", absl::CHexEscape(AbslView(key.substr(0, kMostShown))),
                      key.size() > kMostShown ? "...'" : "'");
}

bool IsGone(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

/// Checks that all keys of a batch have the same slot. REQUIRES: the batch has no fault.
absl::Status CheckOneSlot(const WriteBatch& batch) {
  std::string_view rest = batch.bytes(), first;
  std::uint32_t slot = kSlots;
  while (const std::optional<BatchWrite> write = TakeBatchWrite(&rest)) {
    if (slot == kSlots) {
      first = write->key;
      slot = SlotOf(first);
    }
    if (SlotOf(write->key) == slot) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("batch: the keys ", Shown(first), " and ", Shown(write->key),
                     " have different slots, and a batch stays in one; give both the same {tag}"));
  }
  return absl::OkStatus();
}

absl::Status FaultOf(std::string_view key) { return CheckKey(key); }
absl::Status FaultOf(const PutRequest& request) {
  return CheckPut(request.key, request.value, request.options);
}

}  // namespace

/// The calls with several keys.
class ClusterClient::Parts {
 public:
  explicit Parts(ClusterClient& client)
      : client_(client), gets_(client.shards_.size()), puts_(client.shards_.size()) {}

  absl::Status Get(std::span<const std::string_view> keys, std::span<GetResult> results) {
    const auto key_of = [](std::string_view key) { return key; };
    if (const auto only = gets_.OnlyShard(client_.topology_, keys, key_of)) {
      return DoAlone(*only, keys, results, [&](Client& client) { return client.MultiGet(keys, results); });
    }
    Begin();
    gets_.Divide(client_.topology_, keys, key_of);
    // A READ of mapped memory is a copy: nothing to wait for, and Client's way is the shorter one.
    const bool is_mapped = std::ranges::all_of(gets_.used(), [&](std::size_t shard) {
      return client_.clients_[shard] == nullptr || client_.shards_[shard]->is_mapped();
    });
    if (is_mapped) {
      for (const std::size_t shard : gets_.used()) GetAlone(shard);
    } else {
      RunLanes(gets_, [&](const ShardLane& lane, std::size_t i) {
        BeginGet(*lane.client, gets_[lane.shard].elements[i], &gets_[lane.shard].results[i]);
      });
      for (const std::size_t shard : alone_) GetAlone(shard);
      GetAgain();
    }
    return Finish(gets_, results);
  }

  absl::Status Put(std::span<const PutRequest> requests, std::span<PutResult> results) {
    const auto key_of = [](const PutRequest& request) { return request.key; };
    if (const auto only = puts_.OnlyShard(client_.topology_, requests, key_of)) {
      return DoAlone(*only, requests, results,
                     [&](Client& client) { return client.MultiPut(requests, results); });
    }
    Begin();
    puts_.Divide(client_.topology_, requests, key_of);
    RunLanes(puts_, [&](const ShardLane& lane, std::size_t i) {
      BeginPut(*lane.client, puts_[lane.shard].elements[i], &puts_[lane.shard].results[i]);
    });
    for (const std::size_t shard : alone_) PutAlone(shard);
    return Finish(puts_, results);
  }

 private:
  /// Does a call whose keys are all one shard's by its client, without dividing them.
  template <typename Element, typename Result, typename Call>
  absl::Status DoAlone(std::size_t shard, std::span<const Element> elements, std::span<Result> results,
                       const Call& call) {
    const absl::StatusOr<Client*> client = client_.shard(shard);
    if (!client.ok()) {
      for (std::size_t i = 0; i < elements.size(); ++i) {
        results[i].status = FaultOf(elements[i]);
        if (results[i].status.ok()) results[i].status = client.status();
      }
      return client.status();
    }
    const absl::Status status = call(**client);
    for (Result& result : results) {
      if (!result.status.ok()) result.status = client_.shards_[shard]->Named(result.status);
    }
    return client_.shards_[shard]->Named(status);
  }

  static void BeginGet(AsyncClient& client, std::string_view key, GetResult* result) {
    const auto begun = client.Get(key, [result](const AsyncResult& got) {
      result->status = got.status;
      if (!got.status.ok()) return;
      result->value.assign(got.value);
      result->version = got.version;
    });
    if (!begun.ok()) result->status = begun.status();
  }

  static void BeginPut(AsyncClient& client, const PutRequest& request, PutResult* result) {
    const auto begun =
        client.Put(request.key, request.value, request.options, [result](const AsyncResult& put) {
          result->status = put.status;
          if (put.status.ok()) result->version = put.version;
        });
    if (!begun.ok()) result->status = begun.status();
  }

  void Begin() {
    failed_ = client_.shards_.size();
    lanes_.clear();
    late_.clear();
    alone_.clear();
  }

  /// Runs the parts of all shards that are connected side by side, then those that must be connected first.
  /// So no shard waits for one that is down. Leaves those in alone_ that are not begun, because they have no
  /// second connection.
  template <typename Divided>
  void RunLanes(Divided& parts, SideBySide::Begin begin) {
    for (const std::size_t shard : parts.used()) AddLane(parts, shard, &late_);
    side_by_side_.Run(lanes_, begin);
    const std::size_t run = lanes_.size();
    for (const std::size_t shard : late_) {
      absl::Status connected = client_.shard(shard).status();  // also checks which server is there
      if (!connected.ok()) {
        Fail(parts, shard, connected);
        continue;
      }
      connected = client_.shards_[shard]->ConnectAsync();
      if (absl::IsDeadlineExceeded(connected)) {
        Fail(parts, shard, connected);
      } else {
        AddLane(parts, shard, &alone_);
      }
    }
    side_by_side_.Run(std::span(lanes_).subspan(run), begin);
    for (const ShardLane& lane : lanes_) NameResults(parts, lane.shard);
  }

  /// Adds a lane for the shard's part or, if the shard has no second connection, puts it on the list.
  template <typename Divided>
  void AddLane(Divided& parts, std::size_t shard, std::vector<std::size_t>* without) {
    AsyncClient* const client = client_.shards_[shard]->async();
    if (client == nullptr) {
      without->push_back(shard);
    } else {
      lanes_.push_back({client, shard, parts[shard].elements.size()});
    }
  }

  /// Gives all keys of a shard this status, unless they have faults of their own.
  template <typename Divided>
  void Fail(Divided& parts, std::size_t shard, const absl::Status& status) {
    auto& part = parts[shard];
    for (std::size_t i = 0; i < part.elements.size(); ++i) {
      part.results[i].status = FaultOf(part.elements[i]);
      if (part.results[i].status.ok()) part.results[i].status = status;
    }
    Note(shard, status);
  }

  /// Keeps the failure of the first shard, in the order of the topology.
  void Note(std::size_t shard, const absl::Status& status) {
    if (status.ok() || shard >= failed_) return;
    failed_ = shard;
    failure_ = status;
  }

  void GetAlone(std::size_t shard) {
    const absl::StatusOr<Client*> client = client_.shard(shard);
    if (!client.ok()) return Fail(gets_, shard, client.status());
    static_cast<void>((*client)->MultiGet(gets_[shard].elements, gets_.ResultsOf(shard)));
    NameResults(gets_, shard);
  }

  /// Gets the keys again whose connection broke, over the shards' own clients, which make others.
  void GetAgain() {
    for (const ShardLane& lane : lanes_) {
      const bool is_broken = std::ranges::any_of(gets_.ResultsOf(lane.shard), [](const GetResult& result) {
        return absl::IsUnavailable(result.status);
      });
      if (is_broken) GetAlone(lane.shard);
    }
  }

  void PutAlone(std::size_t shard) {
    const absl::StatusOr<Client*> client = client_.shard(shard);
    if (!client.ok()) return Fail(puts_, shard, client.status());
    static_cast<void>((*client)->MultiPut(puts_[shard].elements, puts_.ResultsOf(shard)));
    NameResults(puts_, shard);
  }

  template <typename Divided>
  void NameResults(Divided& parts, std::size_t shard) {
    for (auto& result : parts.ResultsOf(shard)) {
      if (!result.status.ok()) result.status = client_.shards_[shard]->Named(result.status);
    }
  }

  /// Returns the results to the caller, and the status of the call.
  template <typename Divided, typename Result>
  absl::Status Finish(Divided& parts, std::span<Result> results) {
    for (const std::size_t shard : parts.used()) {
      for (const Result& result : parts.ResultsOf(shard)) {
        if (IsGone(result.status)) Note(shard, result.status);
      }
    }
    parts.Return(results);
    return failed_ < client_.shards_.size() ? failure_ : absl::OkStatus();
  }

  ClusterClient& client_;
  CallParts<std::string_view, GetResult> gets_;
  CallParts<PutRequest, PutResult> puts_;
  // State of the present call:
  std::vector<ShardLane> lanes_;
  std::vector<std::size_t> late_;   // shards without a second connection
  std::vector<std::size_t> alone_;  // those that did not get one
  std::size_t failed_ = 0;          // the first shard that failed; the number of shards: none
  absl::Status failure_;
  SideBySide side_by_side_;
};

// --- Connections ------------------------------------------------------------------------------------------

ClusterClient::ClusterClient(const Topology& topology, const ClientOptions& options, const Clock& clock)
    : topology_(topology), timeout_(options.timeout) {
  for (std::size_t i = 0; i < topology_.shards().size(); ++i) {
    ClientOptions of_shard = options;
    of_shard.expected_shard = topology_.IdentityOfShard(i);
    shards_.push_back(std::make_unique<ClusterShard>(topology_.shards()[i], of_shard, clock));
  }
  clients_.resize(shards_.size());
  parts_ = std::make_unique<Parts>(*this);
}

ClusterClient::~ClusterClient() = default;

absl::StatusOr<std::unique_ptr<ClusterClient>> ClusterClient::Connect(const Topology& topology,
                                                                      const ClientOptions& options,
                                                                      const Clock& clock) {
  std::unique_ptr<ClusterClient> client(new ClusterClient(topology, options, clock));
  REMORA_RETURN_IF_ERROR(client->ConnectAll(options, clock));
  return client;
}

absl::Status ClusterClient::ConnectAll(const ClientOptions& options, const Clock& clock) {
  const TimePoint deadline = clock.Now() + options.connect_timeout;
  absl::Status gone;
  std::size_t connected = 0;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto left = std::chrono::floor<std::chrono::milliseconds>(deadline - clock.Now());
    const auto part = left / static_cast<std::int64_t>(shards_.size() - i);
    const absl::Status status = ConnectShard(i, std::max(part, std::chrono::milliseconds(1))).status();
    connected += status.ok() ? 1 : 0;
    if (status.ok()) continue;
    if (!IsGone(status)) return status;
    if (gone.ok()) gone = status;
  }
  return connected > 0 ? absl::OkStatus() : gone;
}

absl::StatusOr<Client*> ClusterClient::ConnectShard(std::size_t index, std::chrono::milliseconds timeout) {
  ClusterShard& shard = *shards_[index];
  REMORA_RETURN_IF_ERROR(shard.Connect(timeout));
  for (const std::unique_ptr<ClusterShard>& other : shards_) {
    if (other.get() == &shard || other->incarnation() == 0) continue;
    if (other->incarnation() != shard.incarnation()) continue;
    shard.Drop();
    return shard.Named(absl::FailedPreconditionError(
        absl::StrCat("the server there is that of shard ", other->place().name, " (",
                     other->place().addresses, "); correct the address of one of them in the topology")));
  }
  clients_[index] = shard.client();
  return clients_[index];
}

absl::StatusOr<Client*> ClusterClient::shard(std::size_t index) {
  if (clients_[index] != nullptr) return clients_[index];
  return ConnectShard(index, timeout_);
}

template <typename Call>
auto ClusterClient::On(std::string_view key, const Call& call) {
  using Result = std::invoke_result_t<const Call&, Client&>;
  const std::size_t index = topology_.ShardOfSlot(SlotOf(key));
  if (clients_[index] == nullptr) [[unlikely]] {
    if (absl::Status fault = CheckKey(key); !fault.ok()) return Result(std::move(fault));
    if (absl::Status status = shard(index).status(); !status.ok()) return Result(std::move(status));
  }
  Result result = call(*clients_[index]);
  if (result.ok()) [[likely]]
    return result;
  return Result(shards_[index]->Named(StatusIn(result)));
}

// --- Calls of one key -------------------------------------------------------------------------------------

absl::Status ClusterClient::Get(std::string_view key, std::string* value, std::uint64_t* version) {
  return On(key, [&](Client& client) { return client.Get(key, value, version); });
}

absl::StatusOr<std::string> ClusterClient::Get(std::string_view key) {
  return On(key, [&](Client& client) { return client.Get(key); });
}

absl::StatusOr<bool> ClusterClient::Exists(std::string_view key) {
  return On(key, [&](Client& client) { return client.Exists(key); });
}

absl::StatusOr<std::optional<std::chrono::milliseconds>> ClusterClient::Ttl(std::string_view key) {
  return On(key, [&](Client& client) { return client.Ttl(key); });
}

absl::Status ClusterClient::Put(std::string_view key, std::string_view value) { return Put(key, value, {}); }

absl::Status ClusterClient::Put(std::string_view key, std::string_view value, const PutOptions& options) {
  return On(key, [&](Client& client) { return client.Put(key, value, options); });
}

absl::Status ClusterClient::Delete(std::string_view key, const WriteOptions& options) {
  return On(key, [&](Client& client) { return client.Delete(key, options); });
}

absl::Status ClusterClient::Touch(std::string_view key, std::chrono::milliseconds ttl,
                                  const WriteOptions& options) {
  return On(key, [&](Client& client) { return client.Touch(key, ttl, options); });
}

absl::Status ClusterClient::Persist(std::string_view key, const WriteOptions& options) {
  return On(key, [&](Client& client) { return client.Persist(key, options); });
}

absl::StatusOr<std::int64_t> ClusterClient::Increment(std::string_view key, std::int64_t delta,
                                                      const PutOptions& options) {
  return On(key, [&](Client& client) { return client.Increment(key, delta, options); });
}

absl::StatusOr<std::size_t> ClusterClient::Append(std::string_view key, std::string_view bytes,
                                                  const PutOptions& options) {
  return On(key, [&](Client& client) { return client.Append(key, bytes, options); });
}

// --- Calls of several keys --------------------------------------------------------------------------------

absl::Status ClusterClient::MultiGet(std::span<const std::string_view> keys, std::span<GetResult> results) {
  if (keys.size() != results.size()) {
    return absl::InvalidArgumentError(absl::StrCat(keys.size(), " keys, but ", results.size(), " results"));
  }
  return keys.empty() ? absl::OkStatus() : parts_->Get(keys, results);
}

absl::Status ClusterClient::MultiPut(std::span<const PutRequest> requests, std::span<PutResult> results) {
  if (requests.size() != results.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(requests.size(), " requests, but ", results.size(), " results"));
  }
  return requests.empty() ? absl::OkStatus() : parts_->Put(requests, results);
}

absl::Status ClusterClient::Apply(const WriteBatch& batch, std::uint64_t* version,
                                  std::optional<Durability> durability) {
  if (const std::string why = batch.fault(); !why.empty()) return absl::InvalidArgumentError(why);
  REMORA_RETURN_IF_ERROR(CheckOneSlot(batch));
  if (batch.count() == 0) return CheckDurability(durability);
  std::string_view rest = batch.bytes();
  const std::string_view key = TakeBatchWrite(&rest)->key;
  return On(key, [&](Client& client) { return client.Apply(batch, version, durability); });
}

template <typename Call>
absl::StatusOr<std::uint64_t> ClusterClient::Sum(const Call& call) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    REMORA_ASSIGN_OR_RETURN(Client* const client, shard(i));
    const absl::StatusOr<std::uint64_t> count = call(*client);
    if (!count.ok()) return shards_[i]->Named(count.status());
    sum += *count;
  }
  return sum;
}

absl::StatusOr<std::uint64_t> ClusterClient::Count() {
  return Sum([](Client& client) { return client.Count(); });
}

absl::StatusOr<std::uint64_t> ClusterClient::Count(const RangeOptions& range) {
  return Sum([&](Client& client) { return client.Count(range); });
}

template <typename Call>
absl::StatusOr<std::uint64_t> ClusterClient::DeleteIn(const Call& call) {
  std::uint64_t deleted = 0;
  absl::Status failed;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const absl::StatusOr<Client*> client = shard(i);
    const absl::StatusOr<std::uint64_t> part =
        client.ok() ? call(**client) : absl::StatusOr<std::uint64_t>(client.status());
    if (part.ok()) {
      deleted += *part;
    } else if (absl::IsInvalidArgument(part.status())) {
      return part.status();
    } else if (failed.ok()) {
      failed = client.ok() ? shards_[i]->Named(part.status()) : part.status();
    }
  }
  if (failed.ok()) return deleted;
  return absl::Status(failed.code(),
                      absl::StrCat(failed.message(), "; the other shards deleted ", deleted, " keys"));
}

absl::StatusOr<std::uint64_t> ClusterClient::DeleteRange(const RangeOptions& range) {
  return DeleteIn([&](Client& client) { return client.DeleteRange(range); });
}

absl::StatusOr<std::uint64_t> ClusterClient::DropAll() {
  return DeleteIn([](Client& client) { return client.DropAll(); });
}

absl::StatusOr<std::unique_ptr<ClusterScan>> ClusterClient::Scan(const ScanOptions& options) {
  std::unique_ptr<ClusterScan> scan(new ClusterScan(*this, options));
  REMORA_RETURN_IF_ERROR(scan->Begin(options.resume_token));
  return scan;
}

ClientCounters ClusterClient::counters() const {
  ClientCounters sum;
  for (const std::unique_ptr<ClusterShard>& shard : shards_) shard->AddTo(&sum);
  return sum;
}

ClientMetrics ClusterClient::metrics() const {
  ClientMetrics sum;
  for (const std::unique_ptr<ClusterShard>& shard : shards_) shard->AddTo(&sum);
  return sum;
}

}  // namespace remora
