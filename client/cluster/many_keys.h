// The calls of a cluster's client with several keys: which shards have them, and how their parts run.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/async_client.h"
#include "client/client.h"
#include "client/cluster/cluster_client.h"
#include "client/cluster/cluster_shard.h"
#include "client/cluster/parts.h"
#include "client/cluster/side_by_side.h"
#include "client/session/argument_checks.h"
#include "store/base/results.h"
#include "store/format/cluster/slot.h"
#include "store/format/types/write_options.h"

namespace remora {

/// Returns whether a status says that a server cannot be reached.
inline bool IsServerGone(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

/// Returns what is wrong with an element of a call, which concerns no server.
inline absl::Status FaultIn(std::string_view key) { return CheckKey(key); }
inline absl::Status FaultIn(const PutRequest& request) {
  return CheckPut(request.key, request.value, request.options);
}

/// The calls with several keys. Reused by later calls, so that they allocate little.
///
/// Thread safety: none. Ownership: the client owns it.
class ClusterClient::Parts {
 public:
  explicit Parts(ClusterClient& client)
      : client_(client), gets_(client.shards_.size()), puts_(client.shards_.size()) {}

  absl::Status Get(std::span<const std::string_view> keys, std::span<GetResult> results) {
    const auto key_of = [](std::string_view key) { return key; };
    if (const auto only = gets_.OnlyShard(client_.topology_, keys, key_of)) {
      return DoAlone(*only, keys, results, [&](Client& client) { return client.MultiGet(keys, results); });
    }
    GetFast(keys, results);
    if (left_.empty()) return absl::OkStatus();
    Begin();
    gets_.DivideSome(
        client_.topology_, keys, left_.size(), [&](std::size_t i) { return left_[i]; }, key_of);
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
      for (const std::size_t shard : without_async_) GetAlone(shard);
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
    for (const std::size_t shard : without_async_) PutAlone(shard);
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
        results[i].status = FaultIn(elements[i]);
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

  /// Gets the keys that the fast paths of the shards' clients find, in the caller's order, so that their
  /// READs overlap as those of one client do. Leaves the places of the others in left_.
  void GetFast(std::span<const std::string_view> keys, std::span<GetResult> results) {
    left_.clear();
    std::array<Client::HashedKey, Client::kMaxFastBatch> hashed;
    for (std::size_t begin = 0; begin < keys.size(); begin += hashed.size()) {
      const std::size_t count = std::min(keys.size() - begin, hashed.size());
      for (std::size_t i = 0; i < count; ++i) {
        const HashedSlot of_key = HashedSlotOf(keys[begin + i]);
        hashed[i] = {client_.clients_[client_.topology_.ShardOfSlot(of_key.slot)], of_key.key_hash};
      }
      std::uint32_t left = Client::FastMultiGet(std::span(hashed).first(count), keys.subspan(begin, count),
                                                results.subspan(begin, count));
      for (; left != 0; left &= left - 1) {
        left_.push_back(begin + static_cast<std::size_t>(std::countr_zero(left)));
      }
    }
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
    to_connect_.clear();
    without_async_.clear();
  }

  /// Runs the parts of all shards that are connected side by side, then those that must be connected first.
  /// So no shard waits for one that is down. Leaves those in without_async_ that are not begun, because they
  /// have no second connection.
  template <typename Divided>
  void RunLanes(Divided& parts, SideBySide::Begin begin) {
    for (const std::size_t shard : parts.used()) AddLane(parts, shard, &to_connect_);
    if (!side_by_side_.Run(lanes_, begin)) return EndInterrupted(parts);
    const std::size_t run = lanes_.size();
    for (const std::size_t shard : to_connect_) {
      absl::Status connected = client_.shard(shard).status();  // also checks which server is there
      if (!connected.ok()) {
        Fail(parts, shard, connected);
        continue;
      }
      connected = client_.shards_[shard]->ConnectAsync();
      if (absl::IsDeadlineExceeded(connected)) {
        Fail(parts, shard, connected);
      } else {
        AddLane(parts, shard, &without_async_);
      }
    }
    if (!side_by_side_.Run(std::span(lanes_).subspan(run), begin)) return EndInterrupted(parts);
    for (const ShardLane& lane : lanes_) NameResults(parts, lane.shard);
  }

  /// Ends the call, which the caller has interrupted. Operations that have no outcome yet get Cancelled, and
  /// a connection with such an operation is dropped.
  template <typename Divided>
  void EndInterrupted(Divided& parts) {
    const absl::Status interrupted = absl::CancelledError(kInterrupted);
    for (const std::size_t shard : parts.used()) {
      const auto lane = std::ranges::find(lanes_, shard, &ShardLane::shard);
      if (lane == lanes_.end()) {
        Fail(parts, shard, interrupted);
        continue;
      }
      for (std::size_t i = lane->begun; i < lane->count; ++i) parts[shard].results[i].status = interrupted;
      if (lane->client->in_flight() > 0) client_.shards_[shard]->DropAsync();  // calls the callbacks
    }
    without_async_.clear();
    lanes_.clear();
    failed_ = 0;
    failure_ = interrupted;
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
      part.results[i].status = FaultIn(part.elements[i]);
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
        if (IsServerGone(result.status)) Note(shard, result.status);
      }
    }
    parts.Return(results);
    return failed_ < client_.shards_.size() ? failure_ : absl::OkStatus();
  }

  ClusterClient& client_;
  CallParts<std::string_view, GetResult> gets_;
  CallParts<PutRequest, PutResult> puts_;
  // State of the present call:
  std::vector<std::size_t> left_;  // places of keys that no fast path found
  std::vector<ShardLane> lanes_;
  std::vector<std::size_t> to_connect_;     // shards without a second connection
  std::vector<std::size_t> without_async_;  // those that did not get one
  std::size_t failed_ = 0;                  // the first shard that failed; the number of shards: none
  absl::Status failure_;
  SideBySide side_by_side_;
};

}  // namespace remora
