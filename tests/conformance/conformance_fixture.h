// The language of the behaviour suite.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "store/format/wire/scan_messages.h"
#include "tests/conformance/deployment.h"

namespace remora {

/// Compares a status' code; a failure shows the whole status.
inline testing::AssertionResult HasCode(absl::StatusCode code, const absl::Status& status) {
  if (status.code() == code) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "expected " << absl::StatusCodeToString(code) << ", got " << status;
}
#define EXPECT_CODE(code, expression) EXPECT_TRUE(HasCode(absl::StatusCode::code, (expression)))
#define ASSERT_CODE(code, expression) ASSERT_TRUE(HasCode(absl::StatusCode::code, (expression)))

/// The least window of scans and watches there may be: pages of 4 KiB.
inline const ClientOptions kSmallWindow{.scan_window_bytes = 2 * kMinPageSize};

/// Where a test's store runs. Converts from and to its kind, since few tests have a log or an ordered index.
struct TestedDeployment {
  TestedDeployment(DeploymentKind where, bool has_log = false,  // NOLINT(google-explicit-constructor)
                   bool has_order = false, bool has_changes = false)
      : kind(where), has_commit_log(has_log), has_ordered_index(has_order), has_change_log(has_changes) {}
  operator DeploymentKind() const { return kind; }  // NOLINT(google-explicit-constructor)

  DeploymentKind kind;
  bool has_commit_log;     // if the test's store is logged
  bool has_ordered_index;  // without a commit log: the tests of scans have a store that is only in memory
  bool has_change_log;     // instead of a logged store, the test has one that is only in memory
};
inline TestedDeployment WithCommitLog(DeploymentKind kind) { return {kind, /*has_log=*/true}; }
inline TestedDeployment WithOrderedIndex(DeploymentKind kind) {
  return {kind, /*has_log=*/false, /*has_order=*/true};
}
inline TestedDeployment WithOrderedIndexAndDisk(DeploymentKind kind) {
  return {kind, /*has_log=*/true, /*has_order=*/true};
}
inline TestedDeployment WithChangeLog(DeploymentKind kind) {
  return {kind, /*has_log=*/false, /*has_order=*/false, /*has_changes=*/true};
}
inline void PrintTo(const TestedDeployment& tested, std::ostream* out) {
  *out << NameOf(tested) << (tested.has_commit_log ? " with a commit log" : "")
       << (tested.has_ordered_index ? " with an ordered index" : "")
       << (tested.has_change_log ? " with a change log" : "");
}

/// A fixture's test runs on every kind of deployment.
class Behaviour : public testing::TestWithParam<TestedDeployment> {
 protected:
  /// Starts with `options`, or skips: only where the kind is verbs and there is no device. Where verbs are
  /// required, that is a failure. `client`: of the first client.
  void Start(const Deployment::Options& options = {}, const ClientOptions& client = {}) {
    std::string why_not;
    Deployment::Options tested = options;
    // In files of 4 MiB, each of which holds the values of most tests.
    const bool is_logged = options.durability != Durability::kMemory;
    if (GetParam().has_commit_log && is_logged) tested.commit_log_bytes = std::uint64_t{64} << 20;
    if (GetParam().has_change_log && is_logged) {
      tested.durability = Durability::kMemory;
      tested.change_log_bytes = std::uint64_t{16} << 20;
    }
    deployment_ = Deployment::Create(GetParam(), tested, &why_not);
    if (deployment_ == nullptr) {
      ASSERT_EQ(std::getenv("REMORA_REQUIRE_VERBS"), nullptr) << why_not;
      GTEST_SKIP() << why_not;
    }
    kv_ = Connect(client);
  }

  std::unique_ptr<KeyValue> Connect(const ClientOptions& options = {}) {
    absl::StatusOr<std::unique_ptr<KeyValue>> kv = deployment_->Connect(options);
    EXPECT_TRUE(kv.ok()) << kv.status();
    return kv.ok() ? *std::move(kv) : nullptr;
  }

  void Restart() {
    kv_.reset();
    const absl::Status restarted = deployment_->Restart();
    ASSERT_TRUE(restarted.ok()) << restarted;
    kv_ = Connect();
  }

  absl::Status Put(std::string_view key, std::string_view value) { return kv_->Put(key, value); }
  absl::Status Delete(std::string_view key) { return kv_->Delete(key); }
  absl::Status GetStatus(std::string_view key) {
    std::string value;
    return kv_->Get(key, &value);
  }
  /// The value, or the status in words.
  std::string Get(std::string_view key) { return Get(*kv_, key); }
  static std::string Get(KeyValue& kv, std::string_view key) {
    std::string value;
    const absl::Status status = kv.Get(key, &value);
    return status.ok() ? value : status.ToString();
  }

  /// Nobody waits until the server has heard of reads, nor for its housekeeping; so this does, for a minute
  /// at most. Where the server runs beside its clients, what counts sizes is behind what they were answered.
  template <typename Condition>
  static bool Await(const Condition& condition) {
    for (int i = 0; i < 60'000 && !condition(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return condition();
  }

  /// For tests that do less over an emulated device.
  bool slow() const {
    return GetParam() == DeploymentKind::kVerbs || GetParam() == DeploymentKind::kVerbsAndLocal;
  }
  bool remote() const { return GetParam() != DeploymentKind::kEmbedded; }
  ServerStore& store() { return deployment_->store(); }

  std::unique_ptr<Deployment> deployment_;
  std::unique_ptr<KeyValue> kv_;
};

/// For tests of what only a client and a server have.
class RemoteBehaviour : public Behaviour {};

// Start may skip, which ends only the function that it stands in.
#define START(...)    \
  Start(__VA_ARGS__); \
  if (IsSkipped() || HasFatalFailure()) return

}  // namespace remora
