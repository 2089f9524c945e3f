// Scans, counts, drops, watches and backups of remora.h, and what needs a server with a disk.
#include <map>
#include <string>
#include <vector>

#include "client/c/remora.h"
#include "tests/conformance/c_fixture.h"

namespace remora {
namespace {

class CScans : public CInterface {
 protected:
  CScans() { Restart(""); }
  /// With a disk; an empty `backups`: and no place for backups.
  void Restart(const std::string& backups) {
    remora_close(client_);
    client_ = nullptr;
    server_.reset();
    ServerOptions options;
    options.store.memory_size = std::size_t{32} << 20;
    options.store.durability = Durability::kLogged;
    options.store.data_dir = sockets_.path() + "/data";
    options.backup_dir = backups;
    server_ = *ServerThread::Start(options, address_);
    ASSERT_EQ(remora_connect(server_->address().c_str(), nullptr, &client_), REMORA_OK) << remora_message();
  }
  /// Steps to the end; "key=value" of each entry.
  std::vector<std::string> Rest(remora_scan* scan) {
    std::vector<std::string> entries;
    remora_bytes key, value;
    remora_code code;
    while ((code = remora_scan_next(scan, &key, &value, nullptr)) == REMORA_OK) {
      entries.push_back(Text(key) + "=" + Text(value));
    }
    EXPECT_EQ(code, REMORA_NOT_FOUND) << remora_message();
    return entries;
  }
  static std::string Text(const remora_bytes& bytes) {
    return {static_cast<const char*>(bytes.data), bytes.size};
  }
};

INSTANTIATE_TEST_SUITE_P(Over, CScans,
                         testing::Values(rdma::TransportKind::kLocal, rdma::TransportKind::kTcp),
                         [](const auto& kind) { return NameOf(kind.param); });

TEST_P(CScans, ShowKeysInOrder) {
  for (const char* key : {"b/2", "a", "b/1", "c"}) ASSERT_EQ(Put(key, std::string("of ") + key), REMORA_OK);
  remora_scan* scan = nullptr;
  ASSERT_EQ(remora_scan_begin(client_, nullptr, &scan), REMORA_OK) << remora_message();
  EXPECT_THAT(Rest(scan), testing::ElementsAre("a=of a", "b/1=of b/1", "b/2=of b/2", "c=of c"));
  remora_scan_end(scan);

  remora_scan_options options;
  remora_scan_options_init(&options);
  options.range.prefix = {"b/", 2};
  options.reverse = 1;
  options.keys_only = 1;
  options.limit = 1;
  ASSERT_EQ(remora_scan_begin(client_, &options, &scan), REMORA_OK) << remora_message();
  remora_bytes key;
  uint64_t version = 0;
  ASSERT_EQ(remora_scan_next(scan, &key, nullptr, &version), REMORA_OK);
  EXPECT_EQ(Text(key), "b/2");
  EXPECT_GT(version, 0u);
  EXPECT_EQ(remora_scan_next(scan, &key, nullptr, &version), REMORA_NOT_FOUND);
  const char* token = nullptr;
  ASSERT_EQ(remora_scan_resume_token(scan, &token), REMORA_OK);
  const std::string kept = token;
  remora_scan_end(scan);

  remora_scan_options next;
  remora_scan_options_init(&next);
  next.resume_token = kept.c_str();
  ASSERT_EQ(remora_scan_begin(client_, &next, &scan), REMORA_OK) << remora_message();
  EXPECT_THAT(Rest(scan), testing::ElementsAre("b/1=of b/1"));
  remora_scan_end(scan);
  scan = nullptr;
  for (const char* none : {"no token", ""}) {
    next.resume_token = none;
    EXPECT_EQ(remora_scan_begin(client_, &next, &scan), REMORA_INVALID_ARGUMENT) << none;
    EXPECT_EQ(scan, nullptr);
  }
  EXPECT_THAT(remora_message(), testing::HasSubstr("the resume token is empty"));
  remora_scan_end(nullptr);
}

TEST_P(CScans, WritesSayHowDurable) {
  std::map<std::string, uint64_t> stats;
  const auto each = [](void* context, const char* name, uint64_t value) {
    (*static_cast<std::map<std::string, uint64_t>*>(context))[name] = value;
  };
  remora_write_options options;
  remora_write_options_init(&options);
  for (const uint32_t durability : {REMORA_DURABILITY_MEMORY, REMORA_DURABILITY_LOGGED}) {
    options.durability = durability;
    EXPECT_EQ(remora_put(client_, "key", 3, "value", 5, &options), REMORA_OK) << remora_message();
  }
  ASSERT_EQ(remora_stats(client_, each, &stats), REMORA_OK);
  const uint64_t before = stats["synced_writes"];
  options.durability = REMORA_DURABILITY_SYNCED;
  EXPECT_EQ(remora_put(client_, "key", 3, "value", 5, &options), REMORA_OK) << remora_message();
  EXPECT_EQ(remora_delete(client_, "key", 3, &options), REMORA_OK) << remora_message();
  ASSERT_EQ(remora_stats(client_, each, &stats), REMORA_OK);
  EXPECT_EQ(stats["synced_writes"], before + 2);
  options.durability = REMORA_DURABILITY_SYNCED + 1;
  EXPECT_EQ(remora_put(client_, "key", 3, "value", 5, &options), REMORA_INVALID_ARGUMENT);
}

TEST_P(CScans, SayWhenAnEntryExpires) {
  remora_write_options options;
  remora_write_options_init(&options);
  options.ttl_ms = 3'600'000;
  ASSERT_EQ(remora_put(client_, "a", 1, "value", 5, &options), REMORA_OK);
  ASSERT_EQ(Put("b", "value"), REMORA_OK);
  remora_scan* scan = nullptr;
  ASSERT_EQ(remora_scan_begin(client_, nullptr, &scan), REMORA_OK) << remora_message();
  remora_bytes key;
  uint64_t expiry_ms = 0;
  ASSERT_EQ(remora_scan_next(scan, &key, nullptr, nullptr), REMORA_OK);
  EXPECT_EQ(remora_scan_expiry(scan, &expiry_ms), REMORA_OK);
  EXPECT_GT(expiry_ms, 0u);
  ASSERT_EQ(remora_scan_next(scan, &key, nullptr, nullptr), REMORA_OK);
  EXPECT_EQ(remora_scan_expiry(scan, &expiry_ms), REMORA_OK);
  EXPECT_EQ(expiry_ms, 0u);
  EXPECT_EQ(remora_scan_expiry(scan, nullptr), REMORA_INVALID_ARGUMENT);
  remora_scan_end(scan);
}

TEST_P(CScans, CountAndDrop) {
  for (int i = 0; i < 30; ++i) ASSERT_EQ(Put("key " + std::to_string(i), "value"), REMORA_OK);
  uint64_t count = 0;
  EXPECT_EQ(remora_count(client_, nullptr, &count), REMORA_OK);
  EXPECT_EQ(count, 30u);
  const remora_range range{{"key 1", 5}, {nullptr, 0}, {"key 15", 6}};
  EXPECT_EQ(remora_count(client_, &range, &count), REMORA_OK);
  EXPECT_EQ(count, 6u);  // 1, 10 to 14
  EXPECT_EQ(remora_delete_range(client_, &range, &count), REMORA_OK);
  EXPECT_EQ(count, 6u);
  const remora_range all{};
  EXPECT_EQ(remora_delete_range(client_, &all, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_delete_all(client_, &count), REMORA_OK);
  EXPECT_EQ(count, 24u);
  EXPECT_EQ(remora_delete_all(client_, nullptr), REMORA_OK);
}

TEST_P(CScans, NullPointersAreRejected) {
  remora_scan* scan = nullptr;
  remora_bytes key;
  const char* token = nullptr;
  uint64_t count = 0;
  const remora_range broken{{nullptr, 3}, {nullptr, 0}, {nullptr, 0}};
  EXPECT_EQ(remora_scan_begin(nullptr, nullptr, &scan), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_scan_begin(client_, nullptr, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_scan_next(nullptr, &key, nullptr, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_scan_resume_token(nullptr, &token), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_count(client_, nullptr, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_count(client_, &broken, &count), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_delete_range(client_, nullptr, &count), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_delete_all(nullptr, &count), REMORA_INVALID_ARGUMENT);
}

TEST_P(CInterface, AStoreInMemoryIsNotScanned) {
  remora_scan* scan = nullptr;
  EXPECT_EQ(remora_scan_begin(client_, nullptr, &scan), REMORA_FAILED_PRECONDITION);
  EXPECT_THAT(remora_message(), testing::HasSubstr("logged"));
}

TEST_P(CScans, WatchesShowWhatIsWritten) {
  remora_watch_options options;
  remora_watch_options_init(&options);
  options.prefix = {"k", 1};
  remora_watch* watch = nullptr;
  ASSERT_EQ(remora_watch_begin(client_, &options, &watch), REMORA_OK) << remora_message();
  remora_change change;
  EXPECT_EQ(remora_watch_next(watch, 0, &change), REMORA_NOT_FOUND);
  ASSERT_EQ(Put("k1", "one"), REMORA_OK);
  ASSERT_EQ(Put("other", "not asked for"), REMORA_OK);
  remora_write_options write;
  remora_write_options_init(&write);
  uint64_t version = 0;
  write.version = &version;
  write.ttl_ms = 3'600'000;
  ASSERT_EQ(remora_put(client_, "k2", 2, "two", 3, &write), REMORA_OK);
  ASSERT_EQ(remora_delete(client_, "k1", 2, nullptr), REMORA_OK);

  ASSERT_EQ(remora_watch_next(watch, -1, &change), REMORA_OK) << remora_message();
  EXPECT_EQ(change.kind, REMORA_CHANGE_PUT);
  EXPECT_EQ(Text(change.key) + "=" + Text(change.value), "k1=one");
  EXPECT_EQ(change.expiry_ms, 0u);
  const uint64_t first = change.sequence;
  const char* token = nullptr;
  ASSERT_EQ(remora_watch_resume_token(watch, &token), REMORA_OK);
  const std::string kept = token;
  ASSERT_EQ(remora_watch_next(watch, 20'000, &change), REMORA_OK) << remora_message();
  EXPECT_EQ(Text(change.key) + "=" + Text(change.value), "k2=two");
  EXPECT_EQ(change.version, version);
  EXPECT_GT(change.expiry_ms, 0u);
  EXPECT_GT(change.sequence, first);
  ASSERT_EQ(remora_watch_next(watch, 20'000, &change), REMORA_OK) << remora_message();
  EXPECT_EQ(change.kind, REMORA_CHANGE_DELETE);
  EXPECT_EQ(Text(change.key) + "=" + Text(change.value), "k1=");
  EXPECT_EQ(remora_watch_next(watch, 1, &change), REMORA_NOT_FOUND);
  remora_watch_end(watch);

  options.resume_token = kept.c_str();
  ASSERT_EQ(remora_watch_begin(client_, &options, &watch), REMORA_OK) << remora_message();
  ASSERT_EQ(remora_watch_next(watch, 20'000, &change), REMORA_OK) << remora_message();
  EXPECT_EQ(Text(change.key), "k2");
  remora_watch_end(watch);
  remora_watch_end(nullptr);
}

// Their ends may come in any order.
TEST_P(CScans, OutliveTheirClient) {
  for (const char* key : {"a", "b"}) ASSERT_EQ(Put(key, "value"), REMORA_OK);
  remora_client* other = nullptr;
  ASSERT_EQ(remora_connect(server_->address().c_str(), nullptr, &other), REMORA_OK) << remora_message();
  remora_scan* scan = nullptr;
  remora_watch* watch = nullptr;
  remora_buffer* buffer = nullptr;
  char memory[8];
  ASSERT_EQ(remora_scan_begin(other, nullptr, &scan), REMORA_OK) << remora_message();
  ASSERT_EQ(remora_watch_begin(other, nullptr, &watch), REMORA_OK) << remora_message();
  ASSERT_EQ(remora_buffer_register(other, memory, sizeof(memory), &buffer), REMORA_OK) << remora_message();
  remora_bytes key;
  ASSERT_EQ(remora_scan_next(scan, &key, nullptr, nullptr), REMORA_OK);
  remora_close(other);
  remora_change change;
  EXPECT_EQ(remora_scan_next(scan, &key, nullptr, nullptr), REMORA_FAILED_PRECONDITION);
  EXPECT_THAT(remora_message(), testing::HasSubstr("client of this scan is gone"));
  EXPECT_EQ(remora_watch_next(watch, -1, &change), REMORA_FAILED_PRECONDITION);
  EXPECT_THAT(remora_message(), testing::HasSubstr("client of this watch is gone"));
  const char* token = nullptr;
  EXPECT_EQ(remora_scan_resume_token(scan, &token), REMORA_OK);
  EXPECT_EQ(remora_watch_resume_token(watch, &token), REMORA_OK);
  remora_scan_end(scan);
  remora_watch_end(watch);
  remora_buffer_release(buffer);
}

TEST_P(CScans, WatchesThatCannotBe) {
  remora_watch* watch = nullptr;
  remora_change change;
  EXPECT_EQ(remora_watch_begin(nullptr, nullptr, &watch), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_watch_begin(client_, nullptr, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_watch_next(nullptr, 0, &change), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_watch_resume_token(nullptr, nullptr), REMORA_INVALID_ARGUMENT);
  remora_watch_options options;
  remora_watch_options_init(&options);
  for (const char* none : {"no token", ""}) {
    options.resume_token = none;
    EXPECT_EQ(remora_watch_begin(client_, &options, &watch), REMORA_INVALID_ARGUMENT) << none;
  }
  options.resume_token = nullptr;
  options.prefix = {nullptr, 1};
  EXPECT_EQ(remora_watch_begin(client_, &options, &watch), REMORA_INVALID_ARGUMENT);
  const std::string long_prefix(5000, 'p');
  options.prefix = {long_prefix.data(), long_prefix.size()};
  EXPECT_EQ(remora_watch_begin(client_, &options, &watch), REMORA_INVALID_ARGUMENT);
  options.struct_size = 0;
  EXPECT_EQ(remora_watch_begin(client_, &options, &watch), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(watch, nullptr);
}

TEST_P(CScans, BackupsAreAskedForUntilTheyAreDone) {
  remora_backup_progress progress;
  EXPECT_EQ(remora_backup(nullptr, 1, &progress), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_backup(client_, 1, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_backup(client_, 1, &progress), REMORA_FAILED_PRECONDITION) << "it has no place for them";
  ASSERT_NO_FATAL_FAILURE(Restart(sockets_.path() + "/backups"));
  uint64_t version = 0;
  remora_write_options write;
  remora_write_options_init(&write);
  write.version = &version;
  ASSERT_EQ(remora_put(client_, "key", 3, "value", 5, &write), REMORA_OK);
  EXPECT_EQ(remora_backup(client_, 0, &progress), REMORA_INVALID_ARGUMENT);
  do {
    ASSERT_EQ(remora_backup(client_, 77, &progress), REMORA_OK) << remora_message();
  } while (progress.done == 0);
  EXPECT_GT(progress.id, 0u);
  EXPECT_GE(progress.version, version);
  EXPECT_GT(progress.new_bytes, 0u);
  EXPECT_GE(progress.bytes, progress.new_bytes);
}

}  // namespace
}  // namespace remora
