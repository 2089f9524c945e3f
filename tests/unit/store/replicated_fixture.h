// A store that ships its groups, and stores that follow it, at a time that the test sets.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "patient_writes.h"
#include "store/durable/group_sink.h"
#include "store/durable/tier_log/shipped_group.h"
#include "store/server_store.h"
#include "synced_fixture.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"

namespace remora {

/// Keeps the groups that it gets.
class KeptGroups final : public GroupSink {
 public:
  /// `first`: the number of the first group.
  explicit KeptGroups(std::uint64_t first = 1) : first_(first) {}

  void Take(std::uint64_t number, std::string_view bytes) override {
    EXPECT_EQ(number, first_ + groups_.size()) << "numbers without a gap";
    groups_.emplace_back(bytes);
  }
  std::uint64_t first() const { return first_; }
  /// Returns the number of the last group.
  std::uint64_t last() const { return first_ + groups_.size() - 1; }
  const std::string& group(std::uint64_t number) const { return groups_.at(number - first_); }
  /// Decodes a group.
  ShippedGroup Read(std::uint64_t number) const { return ReadShippedGroup(number, group(number)).value(); }

 private:
  const std::uint64_t first_;
  std::vector<std::string> groups_;
};

/// An entry of a store, as a scan shows it.
struct SeenEntry {
  std::string key;
  std::string value;
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;
  friend bool operator==(const SeenEntry&, const SeenEntry&) = default;
};

class ReplicatedTest : public testing::Test {
 protected:
  /// `in_order`: the stores have an ordered index.
  explicit ReplicatedTest(bool in_order = false) : in_order_(in_order) {}
  StoreOptions Options(const std::string& name, std::size_t memory_size = kMinMemorySize) {
    StoreOptions options = LoggedIn(temp_ / name, memory_size);
    options.syncing = Syncing::kInSteps;
    options.clock = &clock_;
    options.commit_log_bytes = std::uint64_t{64} << 20;
    options.ordered_index = in_order_;
    return options;
  }
  StoreOptions FollowerOptions(const std::string& name, std::size_t memory_size = kMinMemorySize) {
    StoreOptions options = Options(name, memory_size);
    options.follows = true;
    return options;
  }
  static std::unique_ptr<ServerStore> Open(const StoreOptions& options) {
    auto store = ServerStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return std::move(store).value();  // throws, and that ends the test
  }

  /// Submits a write, and repeats it while there is no space.
  void SubmitPatiently(ServerStore& store, Write& write) {
    for (;;) {
      store.Submit(std::span(&write, 1));
      if (write.ticket != 0 || !absl::IsAborted(write.status)) return;
      clock_.Advance(kPatience);
    }
  }
  /// Applies the groups up to this number that the follower lacks.
  void Deliver(ServerStore& follower, const KeptGroups& groups, std::uint64_t to) {
    while (follower.last_group() < to) {
      const std::uint64_t next = follower.last_group() + 1;
      absl::Status applied = follower.ApplyGroup(next, groups.group(next));
      for (; absl::IsAborted(applied); applied = follower.ApplyGroup(next, groups.group(next))) {
        clock_.Advance(kPatience);
      }
      ASSERT_TRUE(applied.ok()) << next << " " << applied;
    }
  }
  static std::string Get(ServerStore& store, std::string_view key) {
    std::string value;
    const absl::Status status = store.Get(key, &value);
    return status.ok() ? value : absl::StatusCodeToString(status.code());
  }
  static std::vector<SyncedWrite> Outcomes(ServerStore& store) {
    std::vector<SyncedWrite> outcomes;
    store.TakeSynced(&outcomes);
    return outcomes;
  }
  /// Returns all entries that have not expired, by a scan.
  static std::vector<SeenEntry> Contents(ServerStore& store) {
    auto scan = store.Scan({});
    EXPECT_TRUE(scan.ok()) << scan.status();
    std::vector<SeenEntry> entries;
    while (scan.ok() && (*scan)->Next()) {
      const StoreScan& at = **scan;
      entries.push_back({std::string(at.key()), std::string(at.value()), at.version(), at.expiry_ms()});
    }
    if (scan.ok()) {
      EXPECT_TRUE((*scan)->status().ok()) << (*scan)->status();
    }
    return entries;
  }

  const bool in_order_;
  const TempDir temp_;
  ManualClock clock_;
};

}  // namespace remora
