// remora.h against a real server: each function's outcomes, and what may be passed to it.
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/c/remora.h"
#include "tests/conformance/c_fixture.h"
#include "tests/support/server_thread.h"
#include "tests/support/tls_files.h"

namespace remora {
namespace {

INSTANTIATE_TEST_SUITE_P(Over, CInterface,
                         testing::Values(rdma::TransportKind::kLocal, rdma::TransportKind::kTcp),
                         [](const auto& kind) { return NameOf(kind.param); });

TEST_P(CInterface, PutsGetsAndDeletes) {
  EXPECT_EQ(Get("key"), "NOT_FOUND");
  EXPECT_STREQ(remora_message(), "no such key");
  EXPECT_EQ(Put("key", "value"), REMORA_OK);
  EXPECT_EQ(Get("key"), "value");
  EXPECT_EQ(Put("key", ""), REMORA_OK);
  EXPECT_EQ(Get("key"), "");
  EXPECT_EQ(remora_delete(client_, "key", 3, nullptr), REMORA_OK);
  EXPECT_EQ(remora_delete(client_, "key", 3, nullptr), REMORA_NOT_FOUND);
  EXPECT_EQ(remora_ping(client_), REMORA_OK);
}

TEST_P(CInterface, CopiesAValueThatFits) {
  ASSERT_EQ(Put("key", "value"), REMORA_OK);
  char buffer[5] = {};
  size_t size = 0;
  EXPECT_EQ(remora_get_copy(client_, "key", 3, buffer, 4, &size, nullptr), REMORA_OUT_OF_RANGE);
  EXPECT_EQ(size, 5u);
  EXPECT_EQ(std::string(buffer, 5), std::string(5, '\0'));
  EXPECT_EQ(remora_get_copy(client_, "key", 3, buffer, 5, &size, nullptr), REMORA_OK);
  EXPECT_EQ(std::string(buffer, 5), "value");
  EXPECT_EQ(remora_get_copy(client_, "none", 4, nullptr, 0, &size, nullptr), REMORA_NOT_FOUND);
}

TEST_P(CInterface, ReadsIntoABuffer) {
  const std::string value(std::size_t{1} << 20, 'v');
  ASSERT_EQ(Put("large", value), REMORA_OK);
  std::vector<char> memory(value.size());
  remora_buffer* buffer = nullptr;
  ASSERT_EQ(remora_buffer_register(client_, memory.data(), memory.size(), &buffer), REMORA_OK);
  size_t size = 0;
  EXPECT_EQ(remora_get_into(client_, "large", 5, buffer, &size, nullptr), REMORA_OK);
  EXPECT_EQ(size, value.size());
  EXPECT_EQ(std::string(memory.data(), size), value);
  ASSERT_EQ(Put("large", value + "v"), REMORA_OK);
  EXPECT_EQ(remora_get_into(client_, "large", 5, buffer, &size, nullptr), REMORA_OUT_OF_RANGE);
  EXPECT_EQ(remora_get_into(client_, "none", 4, buffer, &size, nullptr), REMORA_NOT_FOUND);
  memory[0] = 'w';
  EXPECT_EQ(remora_put_from(client_, "from", 4, buffer, 0, 5000, nullptr), REMORA_OK);
  EXPECT_TRUE(Get("from") == "w" + std::string(4999, 'v'));
  EXPECT_EQ(remora_put_from(client_, "from", 4, buffer, 1, memory.size(), nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_put_from(client_, "from", 4, nullptr, 0, 0, nullptr), REMORA_INVALID_ARGUMENT);
  remora_buffer_release(buffer);
  remora_buffer_release(nullptr);
  EXPECT_EQ(remora_buffer_register(client_, memory.data(), 0, &buffer), REMORA_INVALID_ARGUMENT);
}

TEST_P(CInterface, KnowsHowLong) {
  int64_t ttl_ms = 0;
  ASSERT_EQ(Put("key", "value"), REMORA_OK);
  EXPECT_EQ(remora_ttl(client_, "key", 3, &ttl_ms), REMORA_OK);
  EXPECT_EQ(ttl_ms, REMORA_TTL_FOREVER);
  remora_write_options options;
  remora_write_options_init(&options);
  options.ttl_ms = 3'600'000;
  EXPECT_EQ(remora_put(client_, "key", 3, "value", 5, &options), REMORA_OK);
  EXPECT_EQ(remora_ttl(client_, "key", 3, &ttl_ms), REMORA_OK);
  EXPECT_GT(ttl_ms, 0);
  EXPECT_LE(ttl_ms, 3'600'000);
  EXPECT_EQ(remora_touch(client_, "key", 3, REMORA_TTL_FOREVER, nullptr), REMORA_OK);
  EXPECT_EQ(remora_ttl(client_, "key", 3, &ttl_ms), REMORA_OK);
  EXPECT_EQ(ttl_ms, REMORA_TTL_FOREVER);
  options.ttl_ms = -2;
  EXPECT_EQ(remora_put(client_, "key", 3, "value", 5, &options), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_touch(client_, "key", 3, 0, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_touch(client_, "none", 4, 1000, nullptr), REMORA_NOT_FOUND);
  EXPECT_EQ(remora_ttl(client_, "none", 4, &ttl_ms), REMORA_NOT_FOUND);
}

TEST_P(CInterface, TakesTheMomentAtWhichARecordExpires) {
  remora_write_options options;
  remora_write_options_init(&options);
  const auto in_an_hour = static_cast<uint64_t>(SteadyClock().UnixMillis()) + 3'600'000;
  options.ttl_ms = REMORA_TTL_UNTIL(in_an_hour);
  ASSERT_EQ(remora_put(client_, "key", 3, "value", 5, &options), REMORA_OK) << remora_message();
  const auto expiry = [&] {
    remora_scan_options wanted;
    remora_scan_options_init(&wanted);
    wanted.any_order = 1;
    remora_scan* scan = nullptr;
    EXPECT_EQ(remora_scan_begin(client_, &wanted, &scan), REMORA_OK) << remora_message();
    remora_bytes key;
    uint64_t expiry_ms = 0;
    EXPECT_EQ(remora_scan_next(scan, &key, nullptr, nullptr), REMORA_OK);
    EXPECT_EQ(remora_scan_expiry(scan, &expiry_ms), REMORA_OK);
    remora_scan_end(scan);
    return expiry_ms;
  };
  EXPECT_EQ(expiry(), in_an_hour);
  EXPECT_EQ(remora_touch(client_, "key", 3, REMORA_TTL_UNTIL(in_an_hour + 1), nullptr), REMORA_OK);
  EXPECT_EQ(expiry(), in_an_hour + 1);
  options.ttl_ms = REMORA_TTL_UNTIL(1);  // long ago
  EXPECT_EQ(remora_put(client_, "key", 3, "other", 5, &options), REMORA_OUT_OF_RANGE);
  for (const uint64_t wrong : {uint64_t{0}, (uint64_t{1} << 60) + 1, uint64_t{1} << 63, ~uint64_t{0}}) {
    options.ttl_ms = REMORA_TTL_UNTIL(wrong);
    EXPECT_EQ(remora_put(client_, "key", 3, "other", 5, &options), REMORA_INVALID_ARGUMENT) << wrong;
    EXPECT_EQ(remora_touch(client_, "key", 3, options.ttl_ms, nullptr), REMORA_INVALID_ARGUMENT) << wrong;
  }
  EXPECT_EQ(Get("key"), "value");
}

TEST_P(CInterface, ShowsAllInAnyOrderThoughItIsOnlyInMemory) {
  std::set<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.insert("key " + std::to_string(i));
  for (const std::string& key : keys) ASSERT_EQ(Put(key, "of " + key), REMORA_OK);
  remora_scan_options options;
  remora_scan_options_init(&options);
  remora_scan* scan = nullptr;
  EXPECT_EQ(remora_scan_begin(client_, &options, &scan), REMORA_FAILED_PRECONDITION);
  EXPECT_NE(std::strstr(remora_message(), "any_order"), nullptr) << remora_message();
  options.any_order = 1;
  options.reverse = 1;
  EXPECT_EQ(remora_scan_begin(client_, &options, &scan), REMORA_INVALID_ARGUMENT);
  options.reverse = 0;
  options.limit = 30;
  std::set<std::string> shown;
  std::string token;
  for (bool more = true; more;) {
    ASSERT_EQ(remora_scan_begin(client_, &options, &scan), REMORA_OK) << remora_message();
    remora_bytes key, value;
    more = false;
    for (; remora_scan_next(scan, &key, &value, nullptr) == REMORA_OK; more = true) {
      const std::string shown_key(static_cast<const char*>(key.data), key.size);
      EXPECT_EQ(std::string(static_cast<const char*>(value.data), value.size), "of " + shown_key);
      EXPECT_TRUE(shown.insert(shown_key).second) << "twice: " << shown_key;
    }
    const char* next = nullptr;
    ASSERT_EQ(remora_scan_resume_token(scan, &next), REMORA_OK);
    token = next;
    remora_scan_end(scan);
    options.any_order = 0;  // the token says it
    options.resume_token = token.c_str();
  }
  EXPECT_EQ(shown, keys);
  const remora_range range = {{"key 1", 5}, {}, {}};
  uint64_t count = 0;
  EXPECT_EQ(remora_count(client_, &range, &count), REMORA_OK) << remora_message();
  EXPECT_EQ(count, 11u);
}

TEST_P(CInterface, WritesOnConditions) {
  remora_write_options options;
  remora_write_options_init(&options);
  uint64_t written = 0;
  options.version = &written;
  options.condition = REMORA_IF_PRESENT;
  EXPECT_EQ(remora_put(client_, "key", 3, "a", 1, &options), REMORA_NOT_FOUND);
  options.condition = REMORA_IF_ABSENT;
  EXPECT_EQ(remora_put(client_, "key", 3, "a", 1, &options), REMORA_OK);
  EXPECT_EQ(remora_put(client_, "key", 3, "b", 1, &options), REMORA_ALREADY_EXISTS);
  const void* value = nullptr;
  size_t size = 0;
  uint64_t version = 0;
  EXPECT_EQ(remora_get(client_, "key", 3, &value, &size, &version), REMORA_OK);
  EXPECT_EQ(version, written);
  options.condition = version;
  EXPECT_EQ(remora_put(client_, "key", 3, "c", 1, &options), REMORA_OK);
  EXPECT_GT(written, version);
  EXPECT_EQ(remora_put(client_, "key", 3, "d", 1, &options), REMORA_FAILED_PRECONDITION);
  EXPECT_EQ(remora_touch(client_, "key", 3, 1000, &options), REMORA_FAILED_PRECONDITION);
  EXPECT_EQ(remora_delete(client_, "key", 3, &options), REMORA_FAILED_PRECONDITION);
  EXPECT_EQ(Get("key"), "c");
  options.condition = written;
  EXPECT_EQ(remora_delete(client_, "key", 3, &options), REMORA_OK);
  options.condition = REMORA_IF_PRESENT - 1;  // no write has it
  EXPECT_EQ(remora_put(client_, "key", 3, "e", 1, &options), REMORA_INVALID_ARGUMENT);
}

TEST_P(CInterface, AddsAndAppends) {
  int64_t sum = 0;
  EXPECT_EQ(remora_increment(client_, "n", 1, 5, &sum, nullptr), REMORA_OK);
  EXPECT_EQ(remora_increment(client_, "n", 1, -7, &sum, nullptr), REMORA_OK);
  EXPECT_EQ(sum, -2);
  EXPECT_EQ(remora_increment(client_, "n", 1, 2, nullptr, nullptr), REMORA_OK);
  EXPECT_EQ(Get("n"), "0");
  size_t size = 0;
  EXPECT_EQ(remora_append(client_, "n", 1, "x", 1, &size, nullptr), REMORA_OK);
  EXPECT_EQ(size, 2u);
  EXPECT_EQ(remora_append(client_, "n", 1, nullptr, 0, nullptr, nullptr), REMORA_OK);
  EXPECT_EQ(Get("n"), "0x");
  EXPECT_EQ(remora_increment(client_, "n", 1, 1, &sum, nullptr), REMORA_FAILED_PRECONDITION);
  ASSERT_EQ(Put("n", "9223372036854775807"), REMORA_OK);
  EXPECT_EQ(remora_increment(client_, "n", 1, 1, &sum, nullptr), REMORA_OUT_OF_RANGE);
  EXPECT_EQ(remora_append(client_, "n", 1, nullptr, 1, nullptr, nullptr), REMORA_INVALID_ARGUMENT);
}

TEST_P(CInterface, WritesAllOrNone) {
  remora_batch* const batch = remora_batch_new();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(remora_batch_put(batch, "a", 1, "1", 1, nullptr), REMORA_OK);
  EXPECT_EQ(remora_batch_put(batch, "b", 1, "2", 1, nullptr), REMORA_OK);
  EXPECT_EQ(remora_batch_delete(batch, "c", 1, nullptr), REMORA_OK);
  EXPECT_EQ(remora_batch_count(batch), 3u);
  uint64_t version = 0;
  remora_write_options all;
  remora_write_options_init(&all);
  all.version = &version;
  EXPECT_EQ(remora_apply(client_, batch, &all), REMORA_NOT_FOUND);
  EXPECT_NE(std::strstr(remora_message(), "write 3"), nullptr) << remora_message();
  EXPECT_EQ(Get("a"), "NOT_FOUND");
  ASSERT_EQ(Put("c", "3"), REMORA_OK);
  all.durability = REMORA_DURABILITY_LOGGED;  // of a server without a disk
  EXPECT_EQ(remora_apply(client_, batch, &all), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(Get("a"), "NOT_FOUND");
  all.durability = REMORA_DURABILITY_MEMORY;
  EXPECT_EQ(remora_apply(client_, batch, &all), REMORA_OK);
  EXPECT_GT(version, 0u);
  EXPECT_EQ(Get("a") + Get("b") + Get("c"), "12NOT_FOUND");
  remora_batch_clear(batch);
  EXPECT_EQ(remora_batch_count(batch), 0u);
  EXPECT_EQ(remora_apply(client_, batch, nullptr), REMORA_OK);
  remora_write_options options;
  remora_write_options_init(&options);
  options.condition = REMORA_IF_ABSENT;
  EXPECT_EQ(remora_batch_put(batch, "a", 1, "9", 1, &options), REMORA_OK);
  EXPECT_EQ(remora_apply(client_, batch, nullptr), REMORA_ALREADY_EXISTS);
  EXPECT_EQ(remora_batch_put(batch, nullptr, 1, "9", 1, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_batch_put(batch, "", 0, "9", 1, nullptr), REMORA_OK);
  EXPECT_EQ(remora_apply(client_, batch, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_apply(client_, nullptr, nullptr), REMORA_INVALID_ARGUMENT);
  remora_batch_free(batch);
  remora_batch_free(nullptr);
}

TEST_P(CInterface, LooksForManyKeys) {
  ASSERT_EQ(Put("one", "1"), REMORA_OK);
  ASSERT_EQ(Put("three", "333"), REMORA_OK);
  const remora_bytes keys[] = {{"one", 3}, {"two", 3}, {"three", 5}, {"", 0}};
  remora_result results[4] = {};
  EXPECT_EQ(remora_multi_get(client_, keys, results, 4), REMORA_OK);
  EXPECT_EQ(results[0].code, REMORA_OK);
  EXPECT_EQ(std::string(static_cast<const char*>(results[0].value.data), results[0].value.size), "1");
  EXPECT_EQ(results[1].code, REMORA_NOT_FOUND);
  EXPECT_STREQ(results[1].message, "no such key");
  EXPECT_EQ(std::string(static_cast<const char*>(results[2].value.data), results[2].value.size), "333");
  EXPECT_GT(results[2].version, results[0].version);
  EXPECT_EQ(results[3].code, REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_multi_get(client_, nullptr, nullptr, 0), REMORA_OK);
  EXPECT_EQ(remora_multi_get(client_, nullptr, results, 1), REMORA_INVALID_ARGUMENT);
  int exists = -1;
  EXPECT_EQ(remora_exists(client_, "one", 3, &exists), REMORA_OK);
  EXPECT_EQ(exists, 1);
  EXPECT_EQ(remora_exists(client_, "two", 3, &exists), REMORA_OK);
  EXPECT_EQ(exists, 0);
  EXPECT_EQ(remora_exists(client_, "", 0, &exists), REMORA_INVALID_ARGUMENT);
}

TEST_P(CInterface, PutsManyKeys) {
  uint64_t version = 0;
  remora_write_options absent;
  remora_write_options_init(&absent);
  absent.condition = REMORA_IF_ABSENT;
  absent.version = &version;
  const std::string large(std::size_t{300} << 10, 'l');
  const remora_put_request requests[] = {{{"a", 1}, {"1", 1}, nullptr},
                                         {{"b", 1}, {"2", 1}, &absent},
                                         {{"a", 1}, {"3", 1}, &absent},
                                         {{"", 0}, {"4", 1}, nullptr},
                                         {{"c", 1}, {large.data(), large.size()}, nullptr}};
  remora_result results[5] = {};
  EXPECT_EQ(remora_multi_put(client_, requests, results, 5), REMORA_OK) << remora_message();
  EXPECT_EQ(results[0].code, REMORA_OK);
  EXPECT_EQ(results[1].code, REMORA_OK);
  EXPECT_EQ(results[1].version, version);
  EXPECT_GT(results[1].version, results[0].version);
  EXPECT_EQ(results[2].code, REMORA_ALREADY_EXISTS);
  EXPECT_EQ(results[3].code, REMORA_INVALID_ARGUMENT);
  EXPECT_THAT(results[3].message, testing::HasSubstr("key: it has 0 bytes"));
  EXPECT_STREQ(results[4].message, "");
  EXPECT_EQ(results[4].code, REMORA_OK);
  EXPECT_EQ(Get("a") + Get("b"), "12");
  EXPECT_EQ(Get("c"), large);
  EXPECT_EQ(remora_multi_put(client_, nullptr, nullptr, 0), REMORA_OK);
  EXPECT_EQ(remora_multi_put(client_, requests, nullptr, 1), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_multi_put(nullptr, requests, results, 1), REMORA_INVALID_ARGUMENT);
  absent.durability = REMORA_DURABILITY_SYNCED + 1;
  EXPECT_EQ(remora_multi_put(client_, requests, results, 2), REMORA_INVALID_ARGUMENT);
}

TEST_P(CInterface, CountsWhatItDid) {
  std::map<std::string, uint64_t> counters;
  const auto each = [](void* context, const char* name, uint64_t value) {
    (*static_cast<std::map<std::string, uint64_t>*>(context))[name] = value;
  };
  ASSERT_EQ(Put("key", "value"), REMORA_OK);
  EXPECT_EQ(Get("key"), "value");
  EXPECT_EQ(remora_counters(client_, each, &counters), REMORA_OK);
  EXPECT_EQ(counters["requests"], 1u);
  // Without the looks at the index's generation, which a client with a cache of locations makes.
  EXPECT_EQ(counters["reads"] - counters["generation_reads"], 2u);
  EXPECT_EQ(counters.count("reconnects"), 1u);
  EXPECT_EQ(remora_counters(nullptr, each, &counters), REMORA_INVALID_ARGUMENT);
  std::map<std::string, uint64_t> metrics;
  EXPECT_EQ(remora_client_metrics(client_, each, &metrics), REMORA_OK);
  EXPECT_EQ(metrics["requests"], 1u);
  EXPECT_EQ(metrics["get_time_count"], 0u);
  EXPECT_EQ(remora_client_metrics(nullptr, each, &metrics), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_client_metrics(client_, nullptr, &metrics), REMORA_INVALID_ARGUMENT);
}

TEST_P(CInterface, ShowsTheServersCounters) {
  ASSERT_EQ(Put("key", "value"), REMORA_OK);
  std::map<std::string, uint64_t> stats;
  const auto each = [](void* context, const char* name, uint64_t value) {
    (*static_cast<std::map<std::string, uint64_t>*>(context))[name] = value;
  };
  EXPECT_EQ(remora_stats(client_, each, &stats), REMORA_OK);
  EXPECT_EQ(stats["puts"], 1u);
  EXPECT_EQ(stats["keys"], 1u);
}

TEST_P(CInterface, AServerWithoutSettingsSaysSo) {
  const char* json = nullptr;
  EXPECT_EQ(remora_settings(client_, &json), REMORA_FAILED_PRECONDITION);
  EXPECT_EQ(json, nullptr);
  EXPECT_EQ(remora_settings(client_, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_settings(nullptr, &json), REMORA_INVALID_ARGUMENT);
}

TEST_P(CInterface, RejectsWhatCannotBe) {
  const void* value = nullptr;
  size_t size = 0;
  EXPECT_EQ(remora_get(client_, "", 0, &value, &size, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_get(client_, nullptr, 3, &value, &size, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_get(nullptr, "key", 3, &value, &size, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_get(client_, "key", 3, nullptr, &size, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_put(client_, "key", 3, nullptr, 1, nullptr), REMORA_INVALID_ARGUMENT);
  const std::string long_key(4097, 'k');
  EXPECT_EQ(Put(long_key, "value"), REMORA_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(remora_message(), "4097"), nullptr) << remora_message();
  EXPECT_EQ(remora_stats(client_, nullptr, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_ping(nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_ping(client_), REMORA_OK);
  remora_close(nullptr);
}

TEST_P(CInterface, TakesOptionsOfOtherVersions) {
  struct Later {
    remora_write_options known;
    int64_t unknown;
  } later = {};
  remora_write_options_init(&later.known);
  later.known.struct_size = sizeof(later);
  EXPECT_EQ(remora_put(client_, "key", 3, "value", 5, &later.known), REMORA_OK);
  later.unknown = 1;
  EXPECT_EQ(remora_put(client_, "key", 3, "value", 5, &later.known), REMORA_UNIMPLEMENTED);
  remora_write_options earlier;
  remora_write_options_init(&earlier);
  earlier.struct_size = offsetof(remora_write_options, ttl_ms);
  earlier.ttl_ms = -5;  // not there, as far as that version knows
  EXPECT_EQ(remora_put(client_, "key", 3, "value", 5, &earlier), REMORA_OK);
  earlier.struct_size = 0;
  EXPECT_EQ(remora_put(client_, "key", 3, "value", 5, &earlier), REMORA_INVALID_ARGUMENT);
}

TEST_P(CInterface, SaysWhyItDoesNotConnect) {
  remora_client* client = nullptr;
  EXPECT_EQ(remora_connect("nowhere", nullptr, &client), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_connect(nullptr, nullptr, &client), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_connect("local:///none/such", nullptr, &client), REMORA_UNAVAILABLE);
  EXPECT_NE(std::strstr(remora_message(), "/none/such"), nullptr) << remora_message();
  EXPECT_EQ(client, nullptr);
  remora_options options;
  remora_options_init(&options);
  options.location_cache_bytes = std::int64_t{1} << 20;
  ASSERT_EQ(remora_connect(server_->address().c_str(), &options, &client), REMORA_OK);
  EXPECT_EQ(remora_ping(client), REMORA_OK);
  remora_close(client);
  options.index_mirror_bytes = std::int64_t{1} << 20;
  ASSERT_EQ(remora_connect(server_->address().c_str(), &options, &client), REMORA_OK);
  EXPECT_EQ(remora_ping(client), REMORA_OK);
  remora_close(client);
  options.location_cache_bytes = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(remora_connect(server_->address().c_str(), &options, &client), REMORA_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(remora_message(), "the most is 68719476736"), nullptr) << remora_message();
}

TEST_P(CInterface, EachThreadHasItsOwnMessage) {
  EXPECT_EQ(Get("key"), "NOT_FOUND");
  std::thread([] { EXPECT_STREQ(remora_message(), ""); }).join();
  EXPECT_STREQ(remora_message(), "no such key");
}

TEST_P(CInterface, SaysThatTheServerIsGone) {
  server_.reset();
  EXPECT_EQ(Get("key"), "UNAVAILABLE");
  EXPECT_EQ(Put("key", "value"), REMORA_UNAVAILABLE);
}

TEST_P(CInterface, FindsTheServerAgainUnlessItIsToldNotTo) {
  remora_options options;
  remora_options_init(&options);
  options.reconnect = 0;
  remora_client* only_one = nullptr;
  ASSERT_EQ(remora_connect(server_->address().c_str(), &options, &only_one), REMORA_OK) << remora_message();
  ASSERT_EQ(Put("key", "before"), REMORA_OK);
  server_.reset();
  ServerOptions server;
  server.store.memory_size = std::size_t{32} << 20;
  server_ = *ServerThread::Start(server, address_);
  EXPECT_EQ(Get("key"), "NOT_FOUND");
  EXPECT_EQ(Put("key", "after"), REMORA_OK);
  EXPECT_EQ(remora_ping(only_one), REMORA_UNAVAILABLE);
  remora_close(only_one);
}

TEST(CInterfaceTls, ThePathsOfFilesAreOptions) {
  const TlsFolder folder;
  folder.Sign("server", "IP:127.0.0.1");
  folder.Sign("client", "DNS:client");
  ServerOptions options;
  options.store.memory_size = std::size_t{32} << 20;
  options.tls = rdma::ServerTls::Create(folder.Files("server", /*with_ca=*/true)).value();
  rdma::Address address = FreshAddress(rdma::TransportKind::kTcp, "");
  address.tls = true;
  const auto server = *ServerThread::Start(options, address);
  remora_options wanted;
  remora_options_init(&wanted);
  const std::string ca = folder.ca();
  const std::string cert = folder.cert("client");
  const std::string key = folder.key("client");
  remora_client* client = nullptr;
  EXPECT_EQ(remora_connect(server->address().c_str(), &wanted, &client), REMORA_INVALID_ARGUMENT);
  wanted.tls_ca = ca.c_str();
  wanted.tls_cert = cert.c_str();
  EXPECT_EQ(remora_connect(server->address().c_str(), &wanted, &client), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(client, nullptr);
  wanted.tls_key = key.c_str();
  ASSERT_EQ(remora_connect(server->address().c_str(), &wanted, &client), REMORA_OK) << remora_message();
  EXPECT_EQ(remora_put(client, "key", 3, "value", 5, nullptr), REMORA_OK) << remora_message();
  const void* value = nullptr;
  size_t size = 0;
  ASSERT_EQ(remora_get(client, "key", 3, &value, &size, nullptr), REMORA_OK) << remora_message();
  EXPECT_EQ(std::string(static_cast<const char*>(value), size), "value");
  remora_close(client);
}

TEST(CInterfaceNames, AreThere) {
#define EXPECT_NAME(name) EXPECT_STREQ(remora_code_name(REMORA_##name), #name)
  EXPECT_NAME(OK);
  EXPECT_NAME(NOT_FOUND);
  EXPECT_NAME(INVALID_ARGUMENT);
  EXPECT_NAME(UNAVAILABLE);
  EXPECT_NAME(DEADLINE_EXCEEDED);
  EXPECT_NAME(RESOURCE_EXHAUSTED);
  EXPECT_NAME(OUT_OF_RANGE);
  EXPECT_NAME(PERMISSION_DENIED);
  EXPECT_NAME(FAILED_PRECONDITION);
  EXPECT_NAME(ALREADY_EXISTS);
  EXPECT_NAME(DATA_LOSS);
  EXPECT_NAME(UNIMPLEMENTED);
  EXPECT_NAME(INTERNAL);
  EXPECT_NAME(ABORTED);
  EXPECT_NAME(UNKNOWN);
  EXPECT_NAME(CANCELLED);
  EXPECT_STRNE(remora_version(), "");
}

}  // namespace
}  // namespace remora
