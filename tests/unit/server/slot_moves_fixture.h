// Two servers that move slots between them (server/cluster/slot_moves.h): each has a store, and both have the
// same division, which is text in this process.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/cluster/slot_moves.h"
#include "store/base/moved.h"
#include "store/format/cluster/slot.h"
#include "store/region/atomic_word.h"
#include "store/scan.h"
#include "store/watch.h"
#include "tests/support/manual_clock.h"
#include "tests/support/server_thread.h"

namespace remora {

inline constexpr std::uint64_t kCluster = 0x9f86d081884c7d65;
inline constexpr std::uint32_t kHalf = kSlots / 2;
inline constexpr char kMove[] = "00000000000000a1";

inline ClusterSlots SlotsFrom(std::uint32_t first, std::uint32_t last) {
  ClusterSlots slots;
  slots.Add(first, last);
  return slots;
}

/// The text that the divisions of all servers read and change.
struct Text {
  std::map<std::string, ClusterSlots> slots = {
      {"0", SlotsFrom(0, kHalf - 1)}, {"1", SlotsFrom(kHalf, kSlots - 1)}, {"2", {}}};
  bool is_locked = false;
  bool is_unreadable = false;
  // A swap that fails: it was done, or not.
  std::optional<bool> fails_done{};
};

class TextDivision final : public SlotDivision {
 public:
  TextDivision(Text& text, std::string folder, std::string name)
      : text_(text), folder_(std::move(folder)), self_(IdentityOf(kCluster, name)) {}
  const ShardIdentity& self() const override { return self_; }
  absl::StatusOr<ShardIdentity> Find(std::string_view shard) override {
    if (shard == self_.name() || !text_.slots.contains(std::string(shard)))
      return absl::NotFoundError("none");
    return IdentityOf(kCluster, shard);
  }
  absl::StatusOr<ClusterSlots> Own() override {
    if (text_.is_unreadable) return absl::UnavailableError("cannot be read");
    return text_.slots[std::string(self_.name())];
  }
  absl::Status Prepare(const ClusterSlots& slots, const ShardIdentity& to) override {
    if (text_.is_locked) return absl::AbortedError("another one");
    next_ = text_.slots;
    ClusterSlots& own = next_[std::string(self_.name())];
    const ClusterSlots before = std::exchange(own, {});
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      if (slots.Has(slot) && !before.Has(slot)) return absl::FailedPreconditionError("not its own");
      if (slots.Has(slot)) {
        next_[std::string(to.name())].Add(slot, slot);
      } else if (before.Has(slot)) {
        own.Add(slot, slot);
      }
    }
    return absl::OkStatus();
  }
  absl::Status Swap() override {
    if (text_.fails_done == false) return absl::UnavailableError("the disk fails");
    text_.slots = next_;
    return text_.fails_done ? absl::UnavailableError("the disk fails") : absl::OkStatus();
  }
  void GiveUp() override {}
  std::string CopyPrefix(const ShardIdentity& to) const override {
    return absl::StrCat(folder_, "/topology.copy-", std::string(to.name()), "-");
  }

 private:
  Text& text_;
  const std::string folder_;
  const ShardIdentity self_;
  std::map<std::string, ClusterSlots> next_;
};

/// A server of the cluster: its store, and its part in moves.
class Shard {
 public:
  Shard(Text& text, const std::string& folder, const std::string& name, Durability durability, bool ordered,
        ManualClock& clock)
      : folder_(folder), division_(text, folder, name), clock_(clock) {
    options_.memory_size = std::size_t{16} << 20;
    options_.durability = durability;
    options_.ordered_index = ordered;
    options_.clock = &clock;
    options_.grace = std::chrono::milliseconds(kMinGraceMs);
    options_.syncing = Syncing::kInSteps;
    if (durability == Durability::kMemory) {
      options_.change_log_bytes = std::size_t{1} << 20;
    } else {
      options_.data_dir = folder + "/data" + name;
      options_.commit_log_bytes = std::size_t{64} << 20;
    }
    Start();
  }
  void Stop() {
    moves_.reset();
    store_.reset();
  }
  void Start() {
    Stop();
    absl::StatusOr<SlotsAtStart> slots = ReadSlotsAtStart(division_);
    ASSERT_TRUE(slots.ok()) << slots.status();
    options_.slots = std::make_shared<const ClusterSlots>(slots->own);
    auto store = ServerStore::Open(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    moves_ = std::make_unique<SlotMoves>(*store_, division_, log_, options_.durability != Durability::kMemory,
                                         *std::move(slots));
  }

  ServerStore& store() { return *store_; }
  SlotMoves& moves() { return *moves_; }
  std::string Do(const std::string& command) {
    const absl::StatusOr<std::string> answer = moves_->Do(command);
    return answer.ok() ? *answer : absl::StatusCodeToString(answer.status().code());
  }
  /// Steps until the state of the move is this one.
  void Await(const std::string& state) {
    for (int i = 0; i < 10'000; ++i) {
      if (absl::StartsWith(Do(absl::StrCat("state ", kMove)), state)) return;
      moves_->Step();
      clock_.Advance(std::chrono::milliseconds(1));
    }
    FAIL() << "the state is " << Do(absl::StrCat("state ", kMove)) << ", not " << state;
  }
  void StepOn(int steps = 100) {
    for (int i = 0; i < steps; ++i) {
      moves_->Step();
      clock_.Advance(std::chrono::milliseconds(1));
    }
  }
  /// Returns the value as a client gets it: by a request, and not from what memory has. Else the status.
  std::string Get(std::string_view key) {
    absl::StatusOr<Location> location = store_->Locate(key);
    for (; absl::IsAborted(location.status()); location = store_->Locate(key)) {
      clock_.Advance(std::chrono::milliseconds(1));
    }
    if (IsMoved(location.status())) return "moved";
    std::string value;
    const absl::Status got = location.ok() ? store_->Get(key, &value) : location.status();
    return got.ok() ? value : absl::StatusCodeToString(got.code());
  }
  std::string Put(std::string_view key, std::string_view value, const PutOptions& options = {}) {
    const absl::Status put = store_->Put(key, value, options);
    return IsMoved(put) ? "moved" : absl::StatusCodeToString(put.code());
  }
  /// Returns whether a reader of the store's memory finds a record of the key.
  bool IsInMemory(std::string_view key) {
    std::string value;
    return store_->Get(key, &value).ok();
  }

  const std::string folder_;
  TextDivision division_;
  ManualClock& clock_;
  OperatorLog log_{nullptr};
  StoreOptions options_;
  std::unique_ptr<ServerStore> store_;
  std::unique_ptr<SlotMoves> moves_;
};

struct Level {
  const char* name;
  Durability durability;
  bool ordered;
};
inline constexpr Level kLevels[] = {{"Memory", Durability::kMemory, false},
                                    {"OrderedMemory", Durability::kMemory, true},
                                    {"Logged", Durability::kLogged, false},
                                    {"OrderedLogged", Durability::kLogged, true},
                                    {"Synced", Durability::kSynced, true}};
inline std::string NameOfLevel(const testing::TestParamInfo<Level>& test) { return test.param.name; }

class SlotMovesTest : public testing::TestWithParam<Level> {
 protected:
  Shard MakeShard(const std::string& name) {
    return Shard(text_, temp_.path(), name, GetParam().durability, GetParam().ordered, clock_);
  }
  static std::string KeyIn(std::uint32_t first, std::uint32_t last, const std::string& name) {
    for (int i = 0;; ++i) {
      std::string key = absl::StrCat(name, i);
      if (const std::uint32_t slot = SlotOf(key); slot >= first && slot <= last) return key;
    }
  }
  /// A key of the slots that move, 0 to 4095, and one of those that stay.
  static std::string Moving(const std::string& name) { return KeyIn(0, 4095, name); }
  static std::string Staying(const std::string& name) { return KeyIn(4096, kHalf - 1, name); }

  void Begin() {
    ASSERT_EQ(a_.Do(absl::StrCat("begin ", kMove, " 0-4095 1 0")), "ok");
    ASSERT_EQ(b_.Do(absl::StrCat("take ", kMove, " 0-4095 0")), "ok");
  }
  void Copy() {
    a_.Await("ready");
    b_.Await("prepared");
  }
  void Seal() {
    ASSERT_EQ(a_.Do(absl::StrCat("close ", kMove)), "ok");
    a_.Await("sealed");
  }
  void Confirm() {
    Begin();
    Copy();
    Seal();
    ASSERT_EQ(b_.Do(absl::StrCat("confirm ", kMove)), "ok");
  }
  void MoveAll() {
    Confirm();
    ASSERT_EQ(a_.Do(absl::StrCat("give ", kMove)), "given");
    Serve();
  }
  void Serve() {
    b_.Do(absl::StrCat("serve ", kMove));
    b_.Await("own");
  }
  bool HasDisk() const { return GetParam().durability != Durability::kMemory; }
  std::vector<std::string> Scanned(Shard& shard) {
    auto scan = shard.store().Scan({.any_order = true});
    EXPECT_TRUE(scan.ok()) << scan.status();
    std::vector<std::string> keys;
    while (scan.ok() && (*scan)->Next()) keys.emplace_back((*scan)->key());
    return keys;
  }
  std::vector<std::string> Copies() const { return FilesWithPrefix(temp_.path() + "/topology.copy-"); }

  TempDir temp_;
  ManualClock clock_;
  Text text_;
  Shard a_ = MakeShard("0");
  Shard b_ = MakeShard("1");
};

}  // namespace remora
