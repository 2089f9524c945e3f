// The part of remora.h for many operations at once, against a real server over each transport.
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/c/remora.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/random_bytes.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

class CAsync : public testing::TestWithParam<rdma::TransportKind> {
 protected:
  void Open(size_t depth = 0) {
    if (GetParam() == rdma::TransportKind::kVerbs && !VerbsHost().ok()) {
      ASSERT_EQ(std::getenv("REMORA_REQUIRE_VERBS"), nullptr) << VerbsHost().status();
      GTEST_SKIP() << VerbsHost().status();
    }
    ServerOptions options;
    options.store.memory_size = std::size_t{32} << 20;
    server_ = *ServerThread::Start(options, FreshAddress(GetParam(), sockets_.path()));
    ASSERT_EQ(remora_async_open(server_->address().c_str(), nullptr, depth, &async_), REMORA_OK)
        << remora_message();
  }
  ~CAsync() override { remora_async_close(async_); }

  /// Result of an operation, copied out of its callback.
  struct Outcome {
    int calls = 0;
    std::string code = "not ended";
    std::string message;
    std::string value;
    uint64_t version = 0;
    int64_t number = 0;
  };
  static void Done(void* context, const remora_async_result* result) {
    auto& outcome = *static_cast<Outcome*>(context);
    ++outcome.calls;
    outcome.code = remora_code_name(result->code);
    outcome.message = result->message;
    if (result->code != REMORA_OK) return;
    outcome.value = std::string(static_cast<const char*>(result->value.data), result->value.size);
    outcome.version = result->version;
    outcome.number = result->number;
  }
  void WaitAll() {
    while (remora_async_in_flight(async_) > 0) {
      ASSERT_EQ(remora_async_poll(async_, 60'000, nullptr), REMORA_OK) << remora_message();
    }
  }
  /// One operation, begun and waited for.
  template <typename Begin>
  Outcome Do(const Begin& begin) {
    Outcome outcome;
    const remora_code code = begin(&outcome);
    EXPECT_EQ(code, REMORA_OK) << remora_message();
    if (code == REMORA_OK) {
      WaitAll();
      EXPECT_EQ(outcome.calls, 1);
    }
    return outcome;
  }
  /// Metrics of the client by their names.
  std::map<std::string, uint64_t> Metrics() {
    std::map<std::string, uint64_t> metrics;
    const auto each = [](void* context, const char* name, uint64_t value) {
      (*static_cast<std::map<std::string, uint64_t>*>(context))[name] = value;
    };
    EXPECT_EQ(remora_async_metrics(async_, each, &metrics), REMORA_OK) << remora_message();
    return metrics;
  }
  Outcome Get(const std::string& key) {
    return Do(
        [&](Outcome* into) { return remora_async_get(async_, key.data(), key.size(), Done, into, nullptr); });
  }
  Outcome Put(const std::string& key, const std::string& value,
              const remora_write_options* options = nullptr) {
    return Do([&](Outcome* into) {
      return remora_async_put(async_, key.data(), key.size(), value.data(), value.size(), options, Done, into,
                              nullptr);
    });
  }

  const TempDir sockets_;
  std::unique_ptr<ServerThread> server_;
  remora_async* async_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Over, CAsync,
                         testing::Values(rdma::TransportKind::kLocal, rdma::TransportKind::kTcp,
                                         rdma::TransportKind::kVerbs),
                         [](const auto& kind) { return NameOf(kind.param); });

#define OPEN(...)    \
  Open(__VA_ARGS__); \
  if (IsSkipped() || HasFatalFailure()) return

/// Values that a visit has shown, and its outcome.
struct Visited {
  static void Show(void* context, const void* value, size_t value_size) {
    static_cast<Visited*>(context)->shown.emplace_back(static_cast<const char*>(value), value_size);
  }
  static void Done(void* context, const remora_async_result* result) {
    auto& visited = *static_cast<Visited*>(context);
    visited.code = remora_code_name(result->code);
    visited.value_size = result->value.size;
    visited.version = result->version;
  }

  std::vector<std::string> shown;
  std::string code = "not ended";
  size_t value_size = 1;
  uint64_t version = 0;
};

TEST_P(CAsync, VisitsAValue) {
  OPEN();
  const Outcome put = Put("key", "value");
  ASSERT_EQ(Get("key").value, "value");  // from here on, the client knows the index
  const auto visit = [&](const char* key, Visited* visited) {
    uint64_t operation = 0;
    EXPECT_EQ(
        remora_async_visit(async_, key, std::strlen(key), Visited::Show, Visited::Done, visited, &operation),
        REMORA_OK)
        << remora_message();
    EXPECT_NE(operation, 0u);
    EXPECT_EQ(visited->code, "not ended");
    EXPECT_EQ(visited->shown.empty(), GetParam() != rdma::TransportKind::kLocal || key[0] != 'k');
    WaitAll();
  };
  Visited visited, missed;
  visit("key", &visited);
  EXPECT_EQ(visited.code, "OK");
  EXPECT_EQ(visited.shown, std::vector<std::string>{"value"});
  EXPECT_EQ(visited.value_size, 0u);
  EXPECT_EQ(visited.version, put.version);
  visit("none", &missed);
  EXPECT_EQ(missed.code, "NOT_FOUND");
  EXPECT_TRUE(missed.shown.empty());

  Visited none;
  const auto begin = [&](remora_async* async, const void* key, size_t size, bool has_show) {
    return remora_async_visit(async, key, size, has_show ? Visited::Show : nullptr, Visited::Done, &none,
                              nullptr);
  };
  EXPECT_EQ(begin(async_, "", 0, true), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(begin(async_, nullptr, 3, true), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(begin(async_, "key", 3, false), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(begin(nullptr, "key", 3, true), REMORA_INVALID_ARGUMENT);
  WaitAll();
  EXPECT_EQ(none.code, "not ended");
}

TEST_P(CAsync, EveryOperation) {
  OPEN();
  EXPECT_EQ(Get("key").code, "NOT_FOUND");
  EXPECT_EQ(Get("key").message, "no such key");
  const Outcome put = Put("key", "value");
  EXPECT_EQ(put.code, "OK");
  EXPECT_EQ(Get("key").value, "value");
  EXPECT_EQ(Get("key").version, put.version);
  EXPECT_EQ(
      Do([&](Outcome* into) { return remora_async_exists(async_, "key", 3, Done, into, nullptr); }).code,
      "OK");
  EXPECT_EQ(Do([&](Outcome* into) { return remora_async_exists(async_, "no", 2, Done, into, nullptr); }).code,
            "NOT_FOUND");
  const auto ttl = [&](Outcome* into) { return remora_async_ttl(async_, "key", 3, Done, into, nullptr); };
  EXPECT_EQ(Do(ttl).number, REMORA_TTL_FOREVER);
  EXPECT_EQ(Do([&](Outcome* into) {
              return remora_async_touch(async_, "key", 3, 3'600'000, nullptr, Done, into, nullptr);
            }).code,
            "OK");
  const int64_t left = Do(ttl).number;
  EXPECT_GT(left, 0);
  EXPECT_LE(left, 3'600'000);
  EXPECT_EQ(Do([&](Outcome* into) {
              return remora_async_increment(async_, "n", 1, -7, nullptr, Done, into, nullptr);
            }).number,
            -7);
  EXPECT_EQ(Do([&](Outcome* into) {
              return remora_async_append(async_, "n", 1, "00", 2, nullptr, Done, into, nullptr);
            }).number,
            4);
  EXPECT_EQ(Get("n").value, "-700");
  EXPECT_EQ(Do([&](Outcome* into) {
              return remora_async_delete(async_, "n", 1, nullptr, Done, into, nullptr);
            }).code,
            "OK");
  EXPECT_EQ(Get("n").code, "NOT_FOUND");
  EXPECT_EQ(Do([&](Outcome* into) { return remora_async_ping(async_, Done, into, nullptr); }).code, "OK");
}

TEST_P(CAsync, ABufferIsReadIntoAndPutFrom) {
  OPEN();
  for (const std::size_t size : {std::size_t{5000}, std::size_t{1} << 20}) {
    const std::string value = RandomBytes(size, size);
    std::string memory = "0123456789" + value + std::string(size + 10, '-');
    remora_buffer* buffer = nullptr;
    ASSERT_EQ(remora_async_buffer_register(async_, memory.data(), memory.size(), &buffer), REMORA_OK);
    const Outcome put = Do([&](Outcome* into) {
      return remora_async_put_from(async_, "key", 3, buffer, 10, size, nullptr, Done, into, nullptr);
    });
    EXPECT_EQ(put.code, "OK");
    EXPECT_TRUE(Get("key").value == value);
    const auto get = [&](size_t space) {
      return Do([&](Outcome* into) {
        return remora_async_get_into(async_, "key", 3, buffer, 15 + size, space, Done, into, nullptr);
      });
    };
    EXPECT_EQ(get(size - 1).code, "OUT_OF_RANGE");
    const Outcome got = get(size + 5);
    EXPECT_EQ(got.version, put.version);
    EXPECT_TRUE(got.value == value);
    EXPECT_TRUE(memory.substr(15 + size, size) == value);
    EXPECT_EQ(memory.substr(0, 10), "0123456789");
    EXPECT_EQ(remora_async_get_into(async_, "key", 3, buffer, 1, memory.size(), Done, nullptr, nullptr),
              REMORA_INVALID_ARGUMENT);
    EXPECT_EQ(remora_async_put_from(async_, "key", 3, buffer, ~size_t{0}, 2, nullptr, Done, nullptr, nullptr),
              REMORA_INVALID_ARGUMENT);
    EXPECT_EQ(remora_async_get_into(async_, "key", 3, nullptr, 0, 0, Done, nullptr, nullptr),
              REMORA_INVALID_ARGUMENT);
    remora_buffer_release(buffer);
    EXPECT_EQ(remora_async_buffer_register(async_, memory.data(), 0, &buffer), REMORA_INVALID_ARGUMENT);
  }
}

TEST_P(CAsync, ATokenIsRightWrongOrMissing) {
  OPEN();
  const std::string file = sockets_.path() + "/tokens";
  const std::string secret = "000102030405060708090a0b0c0d0e0f";
  std::ofstream(file) << "writer read-write " << secret << "\n";
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  ServerOptions wanted;
  wanted.store.memory_size = std::size_t{16} << 20;
  wanted.tokens_file = file;
  const auto server = ServerThread::Start(wanted, FreshAddress(GetParam(), sockets_.path()));
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();

  remora_options options;
  remora_options_init(&options);
  const std::string line = "writer read-write " + secret;
  for (const std::string& token : {secret, line}) {
    options.token = token.c_str();
    remora_client* client = nullptr;
    ASSERT_EQ(remora_connect(address.c_str(), &options, &client), REMORA_OK) << remora_message();
    EXPECT_EQ(remora_put(client, "key", 3, "value", 5, nullptr), REMORA_OK);
    remora_close(client);
    remora_async* async = nullptr;
    ASSERT_EQ(remora_async_open(address.c_str(), &options, 0, &async), REMORA_OK) << remora_message();
    Outcome got;
    EXPECT_EQ(remora_async_get(async, "key", 3, Done, &got, nullptr), REMORA_OK);
    while (remora_async_in_flight(async) > 0) {
      ASSERT_EQ(remora_async_poll(async, 60'000, nullptr), REMORA_OK) << remora_message();
    }
    EXPECT_EQ(got.value, "value");
    remora_async_close(async);
  }
  const std::string other = "404142434445464748494a4b4c4d4e4f";
  struct Rejected {
    const char* token;
    remora_code code;
    const char* why;
  };
  for (const Rejected& rejected : {Rejected{nullptr, REMORA_PERMISSION_DENIED, "has none"},
                                   Rejected{other.c_str(), REMORA_PERMISSION_DENIED, "does not accept"},
                                   Rejected{"short", REMORA_INVALID_ARGUMENT, ""}}) {
    options.token = rejected.token;
    remora_client* client = nullptr;
    EXPECT_EQ(remora_connect(address.c_str(), &options, &client), rejected.code);
    EXPECT_THAT(remora_message(), testing::HasSubstr(rejected.why));
    EXPECT_EQ(client, nullptr);
    remora_async* async = nullptr;
    EXPECT_EQ(remora_async_open(address.c_str(), &options, 0, &async), rejected.code);
    EXPECT_THAT(remora_message(), testing::HasSubstr(rejected.why));
    EXPECT_EQ(async, nullptr);
  }
}

TEST_P(CAsync, WritesWithOptions) {
  OPEN();
  remora_write_options options;
  remora_write_options_init(&options);
  uint64_t version = 0;
  options.version = &version;
  options.condition = REMORA_IF_ABSENT;
  options.durability = REMORA_DURABILITY_MEMORY;
  const Outcome put = Put("key", "value", &options);
  EXPECT_EQ(put.code, "OK");
  EXPECT_EQ(version, put.version);
  EXPECT_EQ(Put("key", "other", &options).code, "ALREADY_EXISTS");
  options.condition = REMORA_IF_ANY;
  options.durability = REMORA_DURABILITY_SYNCED;  // it has no disk
  EXPECT_EQ(Put("key", "other", &options).code, "INVALID_ARGUMENT");
  EXPECT_EQ(Get("key").value, "value");

  remora_batch* const batch = remora_batch_new();
  ASSERT_EQ(remora_batch_put(batch, "a", 1, "1", 1, nullptr), REMORA_OK);
  ASSERT_EQ(remora_batch_delete(batch, "key", 3, nullptr), REMORA_OK);
  const auto apply = [&](Outcome* into) {
    return remora_async_apply(async_, batch, &options, Done, into, nullptr);
  };
  EXPECT_EQ(Do(apply).code, "INVALID_ARGUMENT");
  options.durability = REMORA_DURABILITY_DEFAULT;
  const Outcome applied = Do(apply);
  EXPECT_EQ(applied.code, "OK");
  EXPECT_EQ(version, applied.version);
  EXPECT_EQ(Get("a").version, applied.version);
  EXPECT_EQ(Do(apply).code, "NOT_FOUND");
  remora_batch_free(batch);
}

TEST_P(CAsync, ManyAreInFlightUpToTheDepth) {
  OPEN(8);
  EXPECT_EQ(remora_async_free_slots(async_), 8u);
  std::vector<Outcome> outcomes(8);
  std::map<uint64_t, int> names;
  for (Outcome& outcome : outcomes) {
    uint64_t name = 0;
    ASSERT_EQ(remora_async_increment(async_, "n", 1, 1, nullptr, Done, &outcome, &name), REMORA_OK);
    ++names[name];
  }
  EXPECT_EQ(names.size(), 8u);
  EXPECT_EQ(names.count(0), 0u);
  EXPECT_EQ(remora_async_in_flight(async_), 8u);
  EXPECT_EQ(remora_async_free_slots(async_), 0u);
  EXPECT_EQ(remora_async_ping(async_, Done, &outcomes[0], nullptr), REMORA_RESOURCE_EXHAUSTED);
  EXPECT_NE(std::strstr(remora_message(), "8 operations"), nullptr) << remora_message();
  WaitAll();
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(outcomes[static_cast<std::size_t>(i)].number, i + 1);
    EXPECT_EQ(outcomes[static_cast<std::size_t>(i)].calls, 1);
  }
  EXPECT_EQ(remora_async_free_slots(async_), 8u);
}

TEST_P(CAsync, ACallbackBeginsTheNext) {
  OPEN();
  struct Chain {
    remora_async* async;
    int left = 100;
    remora_code polled = REMORA_OK;
  } chain{.async = async_};
  struct Next {
    static void Do(void* context, const remora_async_result* result) {
      auto& chain = *static_cast<Chain*>(context);
      EXPECT_EQ(result->code, REMORA_OK);
      if (chain.polled == REMORA_OK) chain.polled = remora_async_poll(chain.async, 0, nullptr);
      if (--chain.left == 0) return;
      EXPECT_EQ(remora_async_increment(chain.async, "n", 1, 1, nullptr, Do, context, nullptr), REMORA_OK);
    }
  };
  ASSERT_EQ(remora_async_ping(async_, Next::Do, &chain, nullptr), REMORA_OK);
  WaitAll();
  EXPECT_EQ(chain.left, 0);
  EXPECT_EQ(chain.polled, REMORA_FAILED_PRECONDITION);
  EXPECT_EQ(Get("n").value, "99");
}

TEST_P(CAsync, AnEventLoopSleepsOnTheDescriptor) {
  OPEN();
  ASSERT_EQ(Put("key", "value").code, "OK");
  EXPECT_EQ(remora_async_wait_ms(async_), -1);
  Outcome outcomes[4];
  for (Outcome& outcome : outcomes) {
    ASSERT_EQ(remora_async_get(async_, "key", 3, Done, &outcome, nullptr), REMORA_OK);
  }
  size_t all = 0;
  while (all < 4) {
    EXPECT_GT(remora_async_wait_ms(async_), 0);
    size_t ended = 0;
    remora_async_arm(async_);
    ASSERT_EQ(remora_async_poll(async_, 0, &ended), REMORA_OK);
    all += ended;
    pollfd sleep{.fd = remora_async_wait_fd(async_), .events = POLLIN, .revents = 0};
    if (all < 4) {
      ASSERT_EQ(poll(&sleep, 1, 60'000), 1);
    }
    remora_async_disarm(async_);
    ASSERT_EQ(remora_async_poll(async_, 0, &ended), REMORA_OK);
    all += ended;
  }
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.value, "value");
}

TEST_P(CAsync, ACancelledOperationEndsAsCancelled) {
  OPEN();
  Outcome outcome;
  uint64_t name = 0;
  ASSERT_EQ(remora_async_get(async_, "key", 3, Done, &outcome, &name), REMORA_OK);
  EXPECT_EQ(remora_async_cancel(async_, name), REMORA_OK);
  EXPECT_EQ(remora_async_cancel(async_, name), REMORA_NOT_FOUND);
  EXPECT_EQ(remora_async_cancel(async_, 0), REMORA_NOT_FOUND);
  EXPECT_EQ(outcome.calls, 0);
  WaitAll();
  EXPECT_EQ(outcome.code, "CANCELLED");
  EXPECT_EQ(outcome.calls, 1);

  Outcome closed;
  ASSERT_EQ(remora_async_get(async_, "key", 3, Done, &closed, nullptr), REMORA_OK);
  remora_async_close(async_);
  async_ = nullptr;
  EXPECT_EQ(closed.code, "CANCELLED");
  EXPECT_EQ(closed.calls, 1);
  remora_async_close(nullptr);
}

TEST_P(CAsync, RejectsWhatCannotBe) {
  OPEN();
  Outcome never;
  EXPECT_EQ(remora_async_get(async_, "", 0, Done, &never, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_async_get(async_, nullptr, 3, Done, &never, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_async_get(nullptr, "key", 3, Done, &never, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_async_put(async_, "key", 3, nullptr, 1, nullptr, Done, &never, nullptr),
            REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_async_touch(async_, "key", 3, 0, nullptr, Done, &never, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_async_apply(async_, nullptr, nullptr, Done, &never, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_async_poll(nullptr, 0, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_async_cancel(nullptr, 1), REMORA_INVALID_ARGUMENT);
  remora_write_options options;
  remora_write_options_init(&options);
  options.durability = 4;
  EXPECT_EQ(remora_async_put(async_, "key", 3, "", 0, &options, Done, &never, nullptr),
            REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_async_in_flight(async_), 0u);
  EXPECT_EQ(never.calls, 0);
  remora_async* other = nullptr;
  EXPECT_EQ(remora_async_open("nowhere", nullptr, 0, &other), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_async_open(server_->address().c_str(), nullptr, 1025, &other), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_async_open(nullptr, nullptr, 0, &other), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(other, nullptr);
  const auto each = [](void*, const char*, uint64_t) {};
  EXPECT_EQ(remora_async_metrics(nullptr, each, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_async_metrics(async_, nullptr, nullptr), REMORA_INVALID_ARGUMENT);
  // Nobody needs to be told.
  EXPECT_EQ(remora_async_put(async_, "key", 3, "v", 1, nullptr, nullptr, nullptr, nullptr), REMORA_OK);
  WaitAll();
  EXPECT_EQ(Get("key").value, "v");
}

TEST_P(CAsync, CountsWhatItDidAndTimesItIfAsked) {
  Open();
  if (IsSkipped()) return;
  EXPECT_EQ(Put("key", "value").code, "OK");
  EXPECT_EQ(Metrics()["requests"], 1u);
  EXPECT_EQ(Metrics()["put_time_count"], 0u);
  remora_async_close(std::exchange(async_, nullptr));
  remora_options options;
  remora_options_init(&options);
  options.metrics = 1;
  ASSERT_EQ(remora_async_open(server_->address().c_str(), &options, 0, &async_), REMORA_OK)
      << remora_message();
  EXPECT_EQ(Put("key", "longer").code, "OK");
  EXPECT_EQ(Get("key").value, "longer");
  EXPECT_EQ(Metrics()["put_time_count"], 1u);
  EXPECT_EQ(Metrics()["get_time_count"], 1u);
  EXPECT_EQ(Metrics()["value_bytes_read"], 6u);
  EXPECT_EQ(Metrics()["value_bytes_written"], 6u);
}

}  // namespace
}  // namespace remora
