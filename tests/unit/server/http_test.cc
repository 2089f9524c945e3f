// server/http: answers to any bytes, addresses, readiness. The end-to-end test (tests/endtoend/http_test.py)
// has the sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "rdma/unique_fd.h"
#include "server/http/cpu_allowance.h"
#include "server/http/exposition.h"
#include "server/http/host_check.h"
#include "server/http/http_listener.h"
#include "server/http/http_responder.h"
#include "server/http/http_server.h"
#include "server/http/monitor.h"
#include "server/monitoring/client_activity.h"
#include "store/base/clock.h"
#include "store/format/memory/metric_registry.h"
#include "store/server_store.h"
#include "tests/support/loopback.h"

namespace remora {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// --- Requests -------------------------------------------------------------------------------------------

class HttpResponderTest : public testing::Test {
 protected:
  HttpResponderTest() {
    responder_.Add("/there", [] { return HttpAnswer{200, "text/plain", "the body"}; });
  }
  HttpResponse Respond(std::string_view head) { return responder_.Respond(head); }

  HttpResponder responder_{HostCheck({"db1.example"})};
};

TEST_F(HttpResponderTest, AnswersAGetAndKeepsTheConnection) {
  const HttpResponse response = Respond("GET /there HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(response.text, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(response.text, HasSubstr("Content-Length: 8\r\n"));
  EXPECT_THAT(response.text, testing::EndsWith("\r\n\r\nthe body"));
  EXPECT_FALSE(response.closes);
  EXPECT_TRUE(Respond("GET /there HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").closes);
}

TEST_F(HttpResponderTest, AnswersAHeadWithoutTheBody) {
  const HttpResponse response = Respond("HEAD /there HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(response.text, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(response.text, Not(HasSubstr("the body")));
}

TEST_F(HttpResponderTest, RejectsWhatItDoesNotServe) {
  EXPECT_THAT(Respond("GET /missing HTTP/1.1\r\nHost: localhost\r\n\r\n").text, StartsWith("HTTP/1.1 404"));
  for (const char* const method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PRI"}) {
    const HttpResponse response = Respond(absl::StrCat(method, " /there HTTP/1.1\r\n\r\n"));
    EXPECT_THAT(response.text, StartsWith("HTTP/1.1 405"));
    EXPECT_TRUE(response.closes);
  }
}

TEST_F(HttpResponderTest, ABodyEndsTheConnectionAsItsBytesAreNoRequest) {
  for (const char* const field : {"Content-Length: 40", "content-length:40", "Transfer-Encoding: chunked"}) {
    const HttpResponse response = Respond(absl::StrCat("GET /there HTTP/1.1\r\n", field, "\r\n\r\n"));
    EXPECT_THAT(response.text, StartsWith("HTTP/1.1 413"));
    EXPECT_TRUE(response.closes);
  }
}

// A proxy may read such a line as a field, and take another part of the bytes for the next request.
TEST_F(HttpResponderTest, ANameEndsAtItsColonOnALineOfItsOwn) {
  for (const char* const line :
       {"Content-Length : 40", "Content-Length\t: 40", " Host: localhost", "\tfolded", "X", ": y", "X(y): z",
        "Transfer-Encoding : chunked", "X\x7f: y"}) {
    const HttpResponse response =
        Respond(absl::StrCat("GET /there HTTP/1.1\r\nHost: localhost\r\n", line, "\r\n\r\n"));
    EXPECT_THAT(response.text, StartsWith("HTTP/1.1 400 Bad Request\r\n")) << line;
    EXPECT_TRUE(response.closes);
  }
  EXPECT_THAT(Respond("GET /there HTTP/1.1\r\nHost: localhost\r\nX-1.a_b~!: y: z\r\nEmpty:\r\n\r\n").text,
              StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpResponderTest, ARangeMakesNoCopies) {
  std::string ranges = "0-";
  while (ranges.size() < HttpServer::kMaxHead - 100) ranges += ",0-";
  for (const char* const name : {"Range", "range", "RANGE"}) {
    const HttpResponse response = Respond(
        absl::StrCat("GET /there HTTP/1.1\r\nHost: localhost\r\n", name, ": bytes=", ranges, "\r\n\r\n"));
    EXPECT_THAT(response.text, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_LT(response.text.size(), 400u);
  }
}

TEST_F(HttpResponderTest, ALineEndsForItAsForAllOthers) {
  EXPECT_THAT(Respond("GET /there HTTP/1.1\r\nX: y\nRange: bytes=0-1\r\n\r\n").text,
              StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Respond("GET /there HTTP/1.1\r\nX: y\rz\r\n\r\n").text, StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Respond(std::string_view("GET /there HTTP/1.1\r\nX: \0\r\n\r\n", 29)).text,
              StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpResponderTest, AnyBytesGetOneResponseThatIsBounded) {
  std::mt19937_64 random(1);
  const std::string seed =
      "GET /there?a=b&c=%41 HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nRange: bytes=0-1";
  for (int round = 0; round < 2000; ++round) {
    std::string head = seed.substr(0, random() % (seed.size() + 1));
    for (std::uint64_t changes = random() % 4; changes > 0 && !head.empty(); --changes) {
      head[random() % head.size()] = static_cast<char>(random());
    }
    if (random() % 8 == 0) head.append(random() % HttpServer::kMaxHead, static_cast<char>(random()));
    const HttpResponse response = Respond(head + "\r\n\r\n");
    ASSERT_THAT(response.text, StartsWith("HTTP/1.1 ")) << head;
    ASSERT_LT(response.text.size(), 1000u) << head;
  }
}

TEST_F(HttpResponderTest, AnswersForItsOwnHostsAlone) {
  for (const char* const host :
       {"localhost", "LocalHost:9180", "localhost.", "127.0.0.1", "127.0.0.1:9180", "192.0.2.7:80", "[::1]",
        "[2001:db8::1]:9180", "db1.example", "DB1.Example.:9180", " db1.example "}) {
    EXPECT_THAT(Respond(absl::StrCat("GET /there HTTP/1.1\r\nHost:", host, "\r\n\r\n")).text,
                StartsWith("HTTP/1.1 200 OK\r\n"))
        << host;
  }
  for (const char* const host :
       {"attacker.example", "localhost.attacker.example", "127.0.0.1.attacker.example:9180", "db1",
        "x.db1.example", "", ":9180", "[db1.example]", "[::1]x", "[", "2130706433", "127.1", "localhost..",
        "localhost@attacker.example", "attacker.example/localhost", "attacker.example,localhost", "<b>"}) {
    const HttpResponse response =
        Respond(absl::StrCat("GET /there HTTP/1.1\r\nX: y\r\nhOST: ", host, "\r\n\r\n"));
    EXPECT_THAT(response.text, StartsWith("HTTP/1.1 421 Misdirected Request\r\n")) << host;
    EXPECT_THAT(response.text, HasSubstr("--http_host=NAME")) << host;
    EXPECT_THAT(response.text, Not(HasSubstr("the body"))) << host;
    EXPECT_THAT(response.text, Not(HasSubstr("<b>")));
    EXPECT_TRUE(response.closes) << host;
  }
}

TEST_F(HttpResponderTest, AHostIsThereOnceSaveInVersion10) {
  const std::string none = Respond("GET /there HTTP/1.1\r\nX: y\r\n\r\n").text;
  EXPECT_THAT(none, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(none, HasSubstr("no Host header"));
  EXPECT_THAT(Respond("GET /there HTTP/1.0\r\n\r\n").text, HasSubstr(" 200 OK\r\n"));
  EXPECT_THAT(Respond("GET /there HTTP/1.0\r\nHost: attacker.example\r\n\r\n").text,
              StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(Respond("GET /there HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n").text,
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Respond("GET /there HTTP/1.1\r\nHost : localhost\r\n\r\n").text, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Respond("GET /there HTTP/1.1\r\n Host: localhost\r\n\r\n").text, StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpResponderTest, ARejectionOfAHeadHasNoBody) {
  const std::string text = Respond("HEAD /there HTTP/1.1\r\nHost: attacker.example\r\n\r\n").text;
  EXPECT_THAT(text, StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(text, testing::EndsWith("\r\n\r\n"));
}

// --- Addresses ------------------------------------------------------------------------------------------

absl::Status ListenStatusOf(std::string_view text, bool others_may_reach = false) {
  return ListenForHttp(text, others_may_reach).status();
}

TEST(HttpListenerTest, RejectsAnAddressThatOthersReach) {
  for (const char* const text : {"0.0.0.0:19480", "[::]:19480", "[::ffff:0.0.0.0]:19480"}) {
    const absl::Status status = ListenStatusOf(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--insecure_http")) << text;
  }
}

TEST(HttpListenerTest, RejectsWhatIsNoAddress) {
  for (const char* const text : {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
                                 "127.0.0.1:http", "::1:80", "http://127.0.0.1:80", "127.0.0.1:80/x"}) {
    EXPECT_FALSE(ListenStatusOf(text).ok()) << text;
    EXPECT_THAT(std::string(ListenStatusOf(text).message()), StartsWith(absl::StrCat("--http=", text)));
  }
}

// --- Connections ----------------------------------------------------------------------------------------

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    auto responder = std::make_unique<HttpResponder>(HostCheck({}));
    responder->Add("/hold", [this] {
      holds_.Notify();
      goes_on_.WaitForNotification();
      return HttpAnswer{200, "text/plain", ""};
    });
    for (const char name : {'a', 'b'}) {
      responder->Add({'/', name}, [this, name] {
        order_ += name;
        return HttpAnswer{200, "text/plain", ""};
      });
    }
    LoopbackListener listener(SOCK_NONBLOCK);
    address_ = listener.address;
    server_ = HttpServer::Start(std::move(listener.fd), std::move(responder)).value();
  }

  /// Connects and sends; the requests lie in the server's socket when this returns.
  rdma::UniqueFd Ask(const std::string& requests) const {
    rdma::UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof(address_)), 0);
    EXPECT_EQ(::send(client.get(), requests.data(), requests.size(), 0),
              static_cast<ssize_t>(requests.size()));
    int unacknowledged = 1;
    while (unacknowledged > 0 && ::ioctl(client.get(), SIOCOUTQ, &unacknowledged) == 0)
      std::this_thread::yield();
    return client;
  }

  absl::Notification holds_;
  absl::Notification goes_on_;
  std::string order_;  // of the answers; the server's thread writes it
  sockaddr_in address_{};
  std::unique_ptr<HttpServer> server_;
};

std::string Requests(std::string_view path, std::size_t count) {
  std::string requests;
  for (std::size_t i = 0; i < count; ++i) {
    absl::StrAppend(&requests, "GET ", std::string(path), " HTTP/1.1\r\nHost: localhost\r\n",
                    i + 1 == count ? "Connection: close\r\n\r\n" : "\r\n");
  }
  return requests;
}

/// Reads until the server has shut the connection.
std::size_t BytesUntilTheEnd(const rdma::UniqueFd& client) {
  std::array<char, 4096> bytes;
  std::size_t sum = 0;
  for (ssize_t got = 1; got > 0; sum += static_cast<std::size_t>(std::max<ssize_t>(got, 0))) {
    got = ::recv(client.get(), bytes.data(), bytes.size(), 0);
  }
  return sum;
}

// H5
TEST_F(HttpServerTest, AConnectionHasOneRequestAnsweredInItsTurn) {
  constexpr std::size_t kRequests = 10;
  const rdma::UniqueFd first =
      Ask("GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n" + Requests("/a", kRequests));
  holds_.WaitForNotification();
  const rdma::UniqueFd second = Ask(Requests("/b", kRequests));
  goes_on_.Notify();
  EXPECT_GT(BytesUntilTheEnd(first), 0);
  EXPECT_GT(BytesUntilTheEnd(second), 0);
  server_.reset();
  EXPECT_EQ(std::ranges::count(order_, 'a'), kRequests);
  EXPECT_EQ(std::ranges::count(order_, 'b'), kRequests);
  EXPECT_THAT(order_, Not(AnyOf(HasSubstr("aaa"), HasSubstr("bbb"))));
}

// --- Readiness ------------------------------------------------------------------------------------------

class MonitorTest : public testing::Test {
 protected:
  MonitorTest() {
    StoreOptions options;
    options.memory_size = kMinMemorySize;
    store_ = *ServerStore::Open(options);
  }
  std::string Get(std::string_view path) {
    return responder_
        ->Respond(absl::StrCat("GET ", std::string(path), " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
        .text;
  }

  const SteadyClock clock_;
  std::unique_ptr<ServerStore> store_;
  ClientActivities clients_{3};
  FollowerActivities followers_;
  Monitor monitor_{{.version = "1.2.3", .durability = Durability::kMemory}, clock_};
  const std::unique_ptr<HttpResponder> responder_ = monitor_.MakeResponder(HostCheck({}));
};

TEST_F(MonitorTest, IsReadyOnceTheStoreIsOpenAndLoadedAndTakesWrites) {
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get("/readyz"), HasSubstr("not ready: the store is being opened\n"));
  EXPECT_THAT(Get("/metrics"), HasSubstr("\nremora_ready 0\n"));
  EXPECT_THAT(Get("/metrics"), Not(HasSubstr("remora_puts_total")));
  EXPECT_THAT(Get("/info.json"), HasSubstr("\"ready\":false,\"reason\":\"the store is being opened\""));

  monitor_.Show(*store_, clients_, followers_);
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/metrics"), HasSubstr("\nremora_ready 1\n"));

  store_->Add(Metric::kLoading, 1);
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get("/readyz"), HasSubstr("not ready: the store is loading its keys\n"));
  store_->Add(Metric::kLoading, -1);
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 200"));

  store_->Add(Metric::kDiskRejects, 1);
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get("/readyz"), HasSubstr("not ready: the disk takes no writes"));
  EXPECT_THAT(Get("/metrics"), HasSubstr("\nremora_ready 0\n"));
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200"));
  store_->Add(Metric::kDiskRejects, -1);
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 200"));

  store_->Add(Metric::kMemoryRejects, 1);
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get("/readyz"), HasSubstr("not ready: the system gives the server no memory"));
}

TEST_F(MonitorTest, ShowsTheCountersAndNoKeyOrValue) {
  monitor_.Show(*store_, clients_, followers_);
  ASSERT_TRUE(store_->Put("a secret key", "a secret value").ok());
  EXPECT_THAT(Get("/metrics"), HasSubstr("\nremora_puts_total 1\n"));
  EXPECT_THAT(Get("/info.json"), HasSubstr("\"puts\":1,"));
  for (const char* const path : {"/metrics", "/healthz", "/readyz", "/info.json", "/segments.json",
                                 "/clients.json", "/followers.json"}) {
    EXPECT_THAT(Get(path), Not(HasSubstr("secret"))) << path;
  }
}

TEST_F(MonitorTest, ShowsWhatEachClientAsks) {
  EXPECT_THAT(Get("/clients.json"), HasSubstr("\"clients\":[]}"));
  monitor_.Show(*store_, clients_, followers_);
  ClientActivities::Place* const first = clients_.Begin(Metric::kConnectionsTls, 1'000);
  ClientActivities::Place* const second = clients_.Begin(Metric::kConnectionsVerbs, 2'000);
  first->Count(10);
  first->Count(20);
  EXPECT_THAT(
      Get("/clients.json"),
      HasSubstr("\"clients\":[{\"number\":1,\"transport\":\"tls\",\"since_unix_ms\":1000,\"requests\":2,"
                "\"bytes\":30},{\"number\":2,\"transport\":\"verbs\",\"since_unix_ms\":2000,"
                "\"requests\":0,\"bytes\":0}]}\n"));
  clients_.End(first);
  second->Count(5);
  ClientActivities::Place* const third =
      clients_.Begin(Metric::kConnectionsLocal, 3'000);  // has the first's place
  EXPECT_EQ(third, first);
  EXPECT_THAT(
      Get("/clients.json"),
      HasSubstr("\"clients\":[{\"number\":2,\"transport\":\"verbs\",\"since_unix_ms\":2000,\"requests\":1,"
                "\"bytes\":5},{\"number\":3,\"transport\":\"local\",\"since_unix_ms\":3000,"
                "\"requests\":0,\"bytes\":0}]}\n"));
}

TEST_F(MonitorTest, ShowsTheFollowersOfAPrimary) {
  EXPECT_THAT(Get("/followers.json"), HasSubstr("\"last_group\":0,\"followers\":[]}"));
  monitor_.Show(*store_, clients_, followers_);
  EXPECT_THAT(Get("/followers.json"), HasSubstr("\"followers\":[]}"));
  followers_.Show({{.address = "tcp://one:1"}, {.address = "local:///\"\\\n\xff"}});
  followers_.SetState(1, LinkState::kConnected);
  followers_.SetAcknowledged(1, 7);
  followers_.SetLastGroup(9);
  EXPECT_THAT(Get("/followers.json"),
              HasSubstr("\"last_group\":9,\"followers\":[{\"address\":\"tcp://one:1\",\"state\":\"away\","
                        "\"acknowledged\":0},{\"address\":\"local:///\\u0022\\u005c\\u000a?\",\"state\":"
                        "\"connected\",\"acknowledged\":7}]}\n"));
  followers_.SetState(0, LinkState::kRejected);
  EXPECT_THAT(Get("/followers.json"), HasSubstr("\"state\":\"rejected\""));
}

TEST_F(MonitorTest, TheMapOfSegmentsHasALetterForEach) {
  EXPECT_THAT(Get("/segments.json"), HasSubstr("\"count\":0,"));
  monitor_.Show(*store_, clients_, followers_);
  const std::string text = Get("/segments.json");
  const std::size_t count = store_->SegmentMap().size();
  EXPECT_THAT(text, HasSubstr(absl::StrCat("{\"segment_bytes\":1048576,\"count\":", count, ",")));
  const std::size_t begin = text.find("\"map\":\"") + 7;
  const std::string map = text.substr(begin, text.find('"', begin) - begin);
  EXPECT_EQ(map.size(), count);
  EXPECT_EQ(map[0], 's');
  EXPECT_THAT(text, HasSubstr(absl::StrCat("\"free\":", std::ranges::count(map, 'f'), ",")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("\"index\":", std::ranges::count(map, 'i'), ",")));
  EXPECT_EQ(map.find_first_not_of("sfih0123456789rlc"), std::string::npos) << map;
}

// H5
TEST(CpuAllowanceTest, AThreadPausesUntilItsShareHasMadeGoodWhatItTook) {
  using std::chrono::milliseconds, std::chrono::seconds;
  const TimePoint start{};
  CpuAllowance allowance(20, milliseconds(100), start, seconds(5));
  EXPECT_EQ(allowance.PauseFor(start, seconds(5) + milliseconds(100)), milliseconds(0));  // the burst
  EXPECT_EQ(allowance.PauseFor(start, seconds(5) + milliseconds(101)), milliseconds(20));
  // A part of the pause makes a part good.
  EXPECT_EQ(allowance.PauseFor(start + milliseconds(5), seconds(5) + milliseconds(101)), milliseconds(15));
  EXPECT_EQ(allowance.PauseFor(start + milliseconds(20), seconds(5) + milliseconds(101)), milliseconds(0));
  EXPECT_EQ(allowance.PauseFor(start + milliseconds(20), seconds(5) + milliseconds(102)), milliseconds(20));
}

// H5
TEST(CpuAllowanceTest, TimeWithoutWorkGivesNoMoreThanTheBurst) {
  using std::chrono::hours, std::chrono::milliseconds;
  const TimePoint start{};
  CpuAllowance allowance(20, milliseconds(100), start, milliseconds(0));
  EXPECT_EQ(allowance.PauseFor(start + hours(24), milliseconds(100)), milliseconds(0));
  EXPECT_EQ(allowance.PauseFor(start + hours(24), milliseconds(110)), milliseconds(200));
}

TEST(ExpositionTest, ShowsWhatTheServerHasAndNoMore) {
  std::vector<std::uint64_t> values(kMetricPlaces + 1, 7);
  const std::string most = PrometheusText({.version = "1"}, values);
  for (const MetricEntry& entry : kMetrics) {
    const std::string name = entry.prometheus_name;
    EXPECT_THAT(most, HasSubstr(absl::StrCat("\n# TYPE ", name.substr(0, name.find('{')), " ")));
  }
  values.resize(kMetricPlaces - 1);
  EXPECT_THAT(PrometheusText({.version = "1"}, values),
              Not(HasSubstr(kMetrics[kMetricCount - 1].prometheus_name)));
}

TEST(ExpositionTest, AHistogramIsCumulativeAndInSeconds) {
  std::vector<std::uint64_t> values(kMetricPlaces, 0);
  const auto place = static_cast<std::size_t>(Metric::kCommitTime);
  values[place] = 2;                          // up to 1 us
  values[place + 2] = 3;                      // up to 4 us
  values[place + kHistogramBuckets - 1] = 1;  // above all bounds
  values[place + kHistogramSum] = 20'000'000'000;
  const std::string text = PrometheusText({.version = "1"}, values);
  EXPECT_THAT(text, HasSubstr("\n# TYPE remora_commit_seconds histogram\n"
                              "remora_commit_seconds_count 6\nremora_commit_seconds_sum 20\n"));
  EXPECT_THAT(text, HasSubstr("\nremora_commit_seconds_bucket{le=\"1e-06\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("\nremora_commit_seconds_bucket{le=\"2e-06\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("\nremora_commit_seconds_bucket{le=\"4e-06\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("\nremora_commit_seconds_bucket{le=\"16.777216\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("\nremora_commit_seconds_bucket{le=\"+Inf\"} 6\n"));
}

TEST(ExpositionTest, MetricsThatDifferInALabelShareOneHeadAndItsHelp) {
  std::vector<std::uint64_t> values(kMetricPlaces, 0);
  values[static_cast<std::size_t>(Metric::kRejectedToken)] = 5;
  values[static_cast<std::size_t>(Metric::kCommitLogSlowedTime)] = 1'500'000'000;
  const std::string text = PrometheusText({.version = "1"}, values);
  EXPECT_THAT(text, HasSubstr("\n# HELP remora_refusals_total Connections rejected\n"
                              "# TYPE remora_refusals_total counter\n"
                              "remora_refusals_total{reason=\"version\"} 0\n"
                              "remora_refusals_total{reason=\"full\"} 0\n"
                              "remora_refusals_total{reason=\"token\"} 5\n"
                              "remora_refusals_total{reason=\"token_full\"} 0\n"
                              "remora_refusals_total{reason=\"forgotten\"} 0\n"
                              "remora_refusals_total{reason=\"not_serving\"} 0\n# HELP "));
  EXPECT_THAT(text, HasSubstr("\nremora_commit_log_slowed_seconds_total 1.5\n"));
}

}  // namespace
}  // namespace remora
