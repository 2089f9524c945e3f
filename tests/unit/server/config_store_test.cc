// The configuration in etcd: K1 and K6, with a real etcd, and with servers that are none.
#include "server/cluster/config_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tests/support/etcd_process.h"
#include "tests/support/loopback.h"
#include "tests/support/tls_files.h"

namespace remora {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kKey = "/remora/shards/one";
// Longer than an etcd that runs ever needs here, however busy the machine is.
constexpr std::chrono::milliseconds kPatience{30'000};

std::unique_ptr<ConfigStore> Open(std::vector<std::string> endpoints, ConfigStoreOptions options = {},
                                  std::chrono::milliseconds timeout = kPatience) {
  options.endpoints = std::move(endpoints);
  options.timeout = timeout;
  absl::StatusOr<std::unique_ptr<ConfigStore>> store = ConfigStore::Create(std::move(options));
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::string NobodyThere() { return absl::StrCat("http://127.0.0.1:", FreePort()); }

/// A server that answers each connection with bytes, whatever it is asked.
class SayingServer {
 public:
  /// The answer to request number `request`, from 0 on. Empty: it says nothing, and keeps the connection.
  using Answer = std::function<std::string(int request)>;

  explicit SayingServer(Answer answer) : answer_(std::move(answer)) {
    thread_ = std::thread([this] { Run(); });
  }
  explicit SayingServer(const std::string& bytes) : SayingServer([bytes](int) { return bytes; }) {}
  ~SayingServer() {
    ::shutdown(listener_.fd.get(), SHUT_RDWR);
    thread_.join();
    for (const int fd : kept_) ::close(fd);
  }
  SayingServer(const SayingServer&) = delete;
  SayingServer& operator=(const SayingServer&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  int requests() const { return requests_.load(); }

 private:
  void Run() {
    for (;;) {
      const int fd = ::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      std::string request(1 << 16, '\0');
      // A request of these tests comes in one piece, or two.
      if (::recv(fd, request.data(), request.size(), 0) <= 0) {
        ::close(fd);
        continue;
      }
      const std::string bytes = answer_(requests_++);
      if (bytes.empty()) {
        kept_.push_back(fd);
        continue;
      }
      SendAll(fd, bytes);
      ::shutdown(fd, SHUT_WR);
      while (::recv(fd, request.data(), request.size(), 0) > 0) {
      }
      ::close(fd);
    }
  }

  const Answer answer_;
  const LoopbackListener listener_;
  const std::string endpoint_ = absl::StrCat("http://127.0.0.1:", listener_.port());
  std::atomic<int> requests_ = 0;
  std::vector<int> kept_;
  std::thread thread_;
};

std::string Http(std::string_view body, int status = 200) {
  return absl::StrCat("HTTP/1.1 ", status,
                      " Any\r\nContent-Type: application/json\r\nContent-Length: ", body.size(), "\r\n\r\n",
                      std::string(body));
}

// --- A real etcd ----------------------------------------------------------------------------------------

TEST(ConfigStoreTest, AValueIsReplacedByItsRevision) {  // K1
  const EtcdProcess etcd;
  const auto one = Open({etcd.endpoint()}), two = Open({etcd.endpoint()});
  const absl::StatusOr<ConfigStore::Value> none = one->Read(kKey);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->revision, 0);
  EXPECT_EQ(none->text, "");

  const absl::StatusOr<std::int64_t> first = one->Swap(kKey, 0, "first");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsAborted(two->Swap(kKey, 0, "also first").status()));
  EXPECT_EQ(two->Read(kKey)->text, "first");
  EXPECT_EQ(two->Read(kKey)->revision, *first);

  const absl::StatusOr<std::int64_t> second = two->Swap(kKey, *first, "second");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GT(*second, *first);
  EXPECT_TRUE(absl::IsAborted(one->Swap(kKey, *first, "another second").status()));
  EXPECT_EQ(one->Read(kKey)->text, "second");
  EXPECT_EQ(one->Read("/remora/shards/other")->revision, 0);
}

TEST(ConfigStoreTest, ASwapMayDependOnOtherKeys) {
  const EtcdProcess etcd;
  const auto store = Open({etcd.endpoint()});
  const std::string other = "/remora/shards/other", none = "/remora/shards/none";
  const std::int64_t before = *store->Swap(other, 0, "1");
  const std::vector<ConfigStore::Revision> both = {{other, before}, {none, 0}};
  const std::int64_t first = *store->Swap(kKey, 0, "first", both);
  const std::int64_t after = *store->Swap(other, before, "2");
  EXPECT_TRUE(absl::IsAborted(store->Swap(kKey, first, "second", both).status()));
  EXPECT_EQ(store->Read(kKey)->text, "first");
  ASSERT_TRUE(store->Swap(none, 0, "1").ok());
  EXPECT_TRUE(absl::IsAborted(
      store->Swap(kKey, first, "second", std::vector<ConfigStore::Revision>{{other, after}, {none, 0}})
          .status()));
  EXPECT_TRUE(store->Swap(kKey, first, "second", std::vector<ConfigStore::Revision>{{other, after}}).ok());
  std::vector<ConfigStore::Revision> most;
  for (std::size_t i = 0; i < ConfigStore::kMaxOthers; ++i) most.push_back({absl::StrCat("/none/", i), 0});
  EXPECT_TRUE(store->Swap("/remora/new", 0, "x", most).ok());
}

TEST(ConfigStoreTest, OneOfManySwapsSucceeds) {  // K1
  const EtcdProcess etcd;
  std::int64_t revision = 0;
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> succeeded = 0, aborted = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        const auto swapped = Open({etcd.endpoint()})->Swap(kKey, revision, absl::StrCat(round, " ", i));
        succeeded += swapped.ok();
        aborted += absl::IsAborted(swapped.status());
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(succeeded, 1);
    EXPECT_EQ(aborted, 7);
    revision = Open({etcd.endpoint()})->Read(kKey)->revision;
  }
}

TEST(ConfigStoreTest, ValuesOfAnyBytesAndSizeComeBack) {
  const EtcdProcess etcd;
  const auto store = Open({etcd.endpoint()});
  std::string text(kMaxConfigValue, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  const std::string key("\x00\xff\"key\n", 7);
  ASSERT_TRUE(store->Swap(key, 0, text).ok());
  EXPECT_EQ(store->Read(key)->text, text);
  EXPECT_TRUE(absl::IsInvalidArgument(store->Swap(key, 0, text + "x").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store->Swap(key, 0, "").status()));
}

TEST(ConfigStoreTest, TheNextEndpointAnswersForOneThatDoesNot) {
  const EtcdProcess etcd;
  const SayingServer other(Http("{}"));
  for (const std::string& bad : {NobodyThere(), other.endpoint()}) {
    const auto store = Open({bad, etcd.endpoint()});
    const auto value = store->Read(kKey);
    ASSERT_TRUE(value.ok()) << value.status();
    // From then on it is the first.
    const auto swapped = store->Swap(kKey, value->revision, "by " + bad);
    EXPECT_TRUE(swapped.ok()) << swapped.status();
  }
}

TEST(ConfigStoreTest, AnEtcdThatComesBackIsFound) {
  EtcdProcess etcd;
  const auto store = Open({etcd.endpoint()});
  const auto revision = store->Swap(kKey, 0, "kept");
  ASSERT_TRUE(revision.ok()) << revision.status();
  etcd.Kill();
  EXPECT_TRUE(absl::IsUnavailable(store->Read(kKey).status()));
  // It was not sent to anybody, so its outcome is known.
  EXPECT_TRUE(absl::IsUnavailable(store->Swap(kKey, *revision, "lost").status()));
  etcd.Start();
  absl::StatusOr<ConfigStore::Value> value = store->Read(kKey);
  while (absl::IsUnavailable(value.status())) value = store->Read(kKey);  // it chooses a leader first
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->text, "kept");
}

TEST(ConfigStoreTest, AStoppedEtcdLeavesASwapUnknown) {  // K1
  const EtcdProcess etcd;
  const auto patient = Open({etcd.endpoint()});
  const auto revision = patient->Swap(kKey, 0, "before");
  ASSERT_TRUE(revision.ok()) << revision.status();
  const auto hasty = Open({etcd.endpoint()}, {}, std::chrono::seconds(1));
  etcd.Signal(SIGSTOP);
  EXPECT_TRUE(absl::IsUnavailable(hasty->Read(kKey).status()));
  const auto swapped = hasty->Swap(kKey, *revision, "after");
  EXPECT_TRUE(absl::IsUnknown(swapped.status())) << swapped.status();
  EXPECT_TRUE(absl::IsUnknown(hasty->Settle(kKey, *revision, "after").status()));
  etcd.Signal(SIGCONT);
  const auto settled = patient->Settle(kKey, *revision, "after");
  ASSERT_TRUE(settled.ok()) << settled.status();
  EXPECT_EQ(patient->Read(kKey)->text, "after");
  EXPECT_EQ(patient->Read(kKey)->revision, *settled);
  const auto again = patient->Settle(kKey, *revision, "after");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *settled);
  EXPECT_TRUE(absl::IsAborted(patient->Settle(kKey, *revision, "another").status()));
}

TEST(ConfigStoreTest, UserAndPasswordAreChecked) {
  const EtcdProcess etcd;
  for (const std::string_view step :
       {"user add root:secret", "user grant-role root root", "role add shards",
        "role grant-permission shards readwrite --prefix=true /remora/", "user add remora:pass\\\"word",
        "user grant-role remora shards", "auth enable"}) {
    ASSERT_EQ(etcd.Control(std::string(step)), 0) << step;
  }
  const auto store = Open({etcd.endpoint()}, {.user = "remora", .password = "pass\"word"});
  const auto revision = store->Swap(kKey, 0, "first");
  ASSERT_TRUE(revision.ok()) << revision.status();
  EXPECT_EQ(store->Read(kKey)->text, "first");

  const auto denied = [&](const std::string& user, const std::string& password, std::string_view key) {
    return Open({etcd.endpoint()}, {.user = user, .password = password})->Read(key).status();
  };
  for (const absl::Status& status : {denied("remora", "wrong", kKey), denied("nobody", "wrong", kKey),
                                     denied("", "", kKey), denied("remora", "pass\"word", "/other")}) {
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("etcd: http"), HasSubstr("; check user")));
  }
  EXPECT_TRUE(absl::IsPermissionDenied(store->Swap("/other", 0, "x").status()));

  // A token that etcd has forgotten is replaced.
  ASSERT_EQ(etcd.Control("--user root:secret role revoke-permission shards --prefix=true /remora/"), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(store->Read(kKey).status()));
  ASSERT_EQ(etcd.Control("--user root:secret role grant-permission shards readwrite --prefix=true /remora/"),
            0);
  const auto again = store->Read(kKey);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->text, "first");
}

TEST(ConfigStoreTest, AUserWhereEtcdHasNoneIsAnError) {
  const EtcdProcess etcd;
  const auto status = Open({etcd.endpoint()}, {.user = "remora", .password = "x"})->Read(kKey).status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("not enabled"));
}

TEST(ConfigStoreTest, TlsChecksTheCertificate) {
  const TlsFolder folder, other("another authority");
  folder.Sign("etcd", "IP:127.0.0.1");
  const EtcdProcess etcd({.cert = folder.cert("etcd"), .key = folder.key("etcd")});
  const auto store = Open({etcd.endpoint()}, {.ca_file = folder.ca()});
  const auto swapped = store->Swap(kKey, 0, "secret");
  ASSERT_TRUE(swapped.ok()) << swapped.status();
  for (const std::string& ca : {other.ca(), folder.path() + "/missing", std::string()}) {
    const auto denied = Open({etcd.endpoint()}, {.ca_file = ca});
    EXPECT_TRUE(absl::IsUnavailable(denied->Read(kKey).status())) << denied->Read(kKey).status();
    EXPECT_TRUE(absl::IsUnavailable(denied->Swap(kKey, 0, "x").status()));
  }
}

// --- Servers that are no etcd ---------------------------------------------------------------------------

TEST(ConfigStoreTest, NobodyThereIsUnavailable) {
  const auto store = Open({NobodyThere(), NobodyThere()});
  const auto status = store->Read(kKey).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("etcd: http://127"), HasSubstr("; start it")));
  EXPECT_TRUE(absl::IsUnavailable(store->Swap(kKey, 0, "x").status()));
}

TEST(ConfigStoreTest, ProcessesThatAreNoEtcdAreSaidToBeNone) {
  for (const std::string& bytes :
       {Http("<html>hello</html>"), Http(""), Http("[]"), Http("null"), Http("{\"header\":7}"),
        Http("{\"header\":{\"revision\":-1}}"), Http("{\"header\":{\"revision\":\"x\"}}"),
        Http("nothing", 404), Http("{\"error\":7,\"code\":\"x\"}", 400), Http(std::string(1000, '[')),
        Http("\xff\xfe"), Http("{\"header\":{\"revision\":\"1\"},\"kvs\":7}"),
        Http("{\"header\":{\"revision\":\"1\"},\"kvs\":[]}"),
        Http("{\"header\":{\"revision\":\"1\"},\"kvs\":[{\"mod_revision\":\"1\",\"value\":\"!\"}]}"),
        Http("{\"header\":{\"revision\":\"1\"},\"kvs\":[{\"mod_revision\":\"0\",\"value\":\"\"}]}"),
        Http("{\"header\":{\"revision\":\"1\"},\"kvs\":[{\"mod_revision\":\"1\"},{\"mod_revision\":\"1\"}]"
             "}")}) {
    const SayingServer server(bytes);
    const auto status = Open({server.endpoint()})->Read(kKey).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << bytes << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("answers as no etcd does; correct its address"));
  }
}

TEST(ConfigStoreTest, BrokenConnectionsAreUnavailable) {
  for (const std::string& bytes :
       {std::string("SSH-2.0-OpenSSH_9.2\r\n"), std::string("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"),
        std::string("\0\0\0", 3), Http("busy", 503),
        Http("{\"error\":\"etcdserver: no leader\",\"code\":14}", 503),
        Http(std::string(std::size_t{8} << 20, ' '))}) {  // huge
    const SayingServer server(bytes);
    const auto status = Open({server.endpoint()})->Read(kKey).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << bytes.substr(0, 80) << status;
  }
}

TEST(ConfigStoreTest, ASwapIsSentToOneEndpoint) {  // K1
  for (const std::string& bytes :
       {Http("busy", 503), Http("{\"error\":\"etcdserver: request timed out\",\"code\":14}", 503), Http("{}"),
        Http("x", 404), Http("{\"header\":{\"revision\":\"1\"},\"succeeded\":7}"), std::string("\0", 1)}) {
    const SayingServer server(bytes), next(bytes);
    const auto status = Open({server.endpoint(), next.endpoint()})->Swap(kKey, 0, "x").status();
    EXPECT_TRUE(absl::IsUnknown(status)) << bytes << status;
    EXPECT_EQ(server.requests() + next.requests(), 1) << bytes;
  }
}

TEST(ConfigStoreTest, ASilentServerIsLeftAfterTheTimeout) {
  const SayingServer silent([](int) { return std::string(); });
  const EtcdProcess etcd;
  const auto store = Open({silent.endpoint(), etcd.endpoint()}, {}, std::chrono::milliseconds(500));
  absl::StatusOr<ConfigStore::Value> value = store->Read(kKey);
  while (absl::IsUnavailable(value.status()))
    value = store->Read(kKey);  // on a busy machine etcd is late, too
  EXPECT_TRUE(value.ok()) << value.status();
  EXPECT_GE(silent.requests(), 1);
}

TEST(ConfigStoreTest, AnAnswerThatNamesATokenIsChecked) {
  for (const std::string_view token : {"", "a b", "a\\r\\nHost: x", "\\u00e9"}) {
    const SayingServer server(
        Http(absl::StrCat("{\"header\":{\"revision\":\"1\"},\"token\":\"", std::string(token), "\"}")));
    const auto status = Open({server.endpoint()}, {.user = "u", .password = "p"})->Read(kKey).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << token << status;
  }
}

TEST(ConfigStoreTest, EndpointsAreChecked) {
  for (const std::string_view good :
       {"http://127.0.0.1:2379", "https://etcd-1.example:1", "http://[::1]:65535"}) {
    EXPECT_TRUE(CheckEndpoint(good).ok()) << good;
  }
  for (const std::string_view bad :
       {"", "127.0.0.1:2379", "http://host", "http://:2379", "http://host:0", "http://host:65536",
        "http://host:2379/", "http://user@host:2379", "ftp://host:2379", "http://host:2379?x",
        "http://ho st:2379", "file:///etc/passwd"}) {
    const absl::Status status = CheckEndpoint(bad);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("; give http://HOST:PORT"));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ConfigStore::Create({}).status()));
}

}  // namespace
}  // namespace remora
