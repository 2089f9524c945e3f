// For tests of the client for many operations at once.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/async_client.h"
#include "tests/conformance/conformance_fixture.h"

namespace remora {

/// Result of an operation, copied out of its callback.
struct AsyncOutcome {
  int calls = 0;
  absl::Status status = absl::UnknownError("not ended");
  std::string value;
  std::uint64_t version = 0;
  std::int64_t number = 0;
  std::optional<std::chrono::milliseconds> ttl;

  /// The value, or the status' code in words.
  std::string text() const { return status.ok() ? value : absl::StatusCodeToString(status.code()); }
  AsyncClient::Done Taker() {
    return [this](const AsyncResult& result) {
      ++calls;
      status = result.status;
      value = std::string(result.value);
      version = result.version;
      number = result.number;
      ttl = result.ttl;
    };
  }
};

class Async : public Behaviour {
 protected:
  void ConnectAsync(const AsyncOptions& async = {}, const ClientOptions& options = {}) {
    async_ = NewAsync(async, options);
    ASSERT_NE(async_, nullptr);
  }
  std::unique_ptr<AsyncClient> NewAsync(const AsyncOptions& async = {}, const ClientOptions& options = {}) {
    auto connection = deployment_->Dial();
    EXPECT_TRUE(connection.ok()) << connection.status();
    if (!connection.ok()) return nullptr;
    auto client = AsyncClient::Connect(*std::move(connection), options, async, deployment_->clock());
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }

  using Outcome = AsyncOutcome;
  static AsyncClient::Done Into(Outcome& outcome) { return outcome.Taker(); }
  TimePoint Soon() const { return deployment_->clock().Now() + std::chrono::minutes(1); }
  void WaitAll() {
    const absl::Status all = async_->WaitAll(Soon());
    ASSERT_TRUE(all.ok()) << all;
  }
  /// One operation, begun and waited for.
  template <typename Begin>
  Outcome Do(Begin begin) {
    Outcome outcome;
    const AsyncClient::Begun begun = begin(Into(outcome));
    EXPECT_TRUE(begun.ok()) << begun.status();
    if (!begun.ok()) {
      outcome.status = begun.status();
      return outcome;
    }
    WaitAll();
    EXPECT_EQ(outcome.calls, 1);
    return outcome;
  }
  Outcome AsyncGet(std::string_view key) {
    return Do([&](AsyncClient::Done done) { return async_->Get(key, std::move(done)); });
  }
  Outcome AsyncPut(std::string_view key, std::string_view value, const PutOptions& options = {}) {
    return Do([&](AsyncClient::Done done) { return async_->Put(key, value, options, std::move(done)); });
  }

  std::unique_ptr<AsyncClient> async_;
};

#define EXPECT_OUTCOME(code, expression) EXPECT_TRUE(HasCode(absl::StatusCode::code, (expression).status))
#define ASSERT_OUTCOME(code, expression) ASSERT_TRUE(HasCode(absl::StatusCode::code, (expression).status))

}  // namespace remora
