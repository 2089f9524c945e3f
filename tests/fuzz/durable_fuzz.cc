// Bytes that the durable tier reads out of RocksDB, where a disk, or a hand, may have changed them: entries,
// and the project's files beside them. An entry that is out of bounds is none; a result lies in the bytes
// that it was read from.
#include <rocksdb/write_batch.h>

#include <string>
#include <vector>

#include "store/durable/format.h"
#include "store/durable/wal/wal_change_feed.h"
#include "store/format/wire/resume_token.h"
#include "tests/fuzz/input.h"

namespace remora {
namespace {

bool IsInside(std::string_view part, std::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void ReadOneEntry(Input& input) {
  const auto limit = input.Take<std::uint64_t>();
  const std::string key(input.Text());
  const std::string_view stored = input.rest();
  StoredEntry entry;
  if (!ReadEntry(key, stored, limit, &entry)) return;
  FUZZ_CHECK(entry.key == key && key.size() >= kMinKeySize && key.size() <= kMaxKeySize);
  FUZZ_CHECK(entry.header.version > 0 && entry.header.version < limit);
  FUZZ_CHECK(IsInside(entry.value, stored) && entry.value.size() + sizeof(StoredHeader) == stored.size());
}

void ReadClients(Input& input) {
  std::vector<ClientCompletions> clients;
  std::size_t writes = 0;
  while (!input.empty()) {
    const std::string_view key = input.Text();
    const std::string_view stored = input.Text();
    const std::size_t before = clients.size();
    if (ReadCompletion(key, stored, &clients)) {
      // A client, or one of its writes, or one of nobody's.
      FUZZ_CHECK(key.size() == 8 ? clients.size() == before + 1
                                 : key.size() == 9 && clients.size() == before);
    } else {
      FUZZ_CHECK(clients.size() == before);
    }
    std::size_t now = 0;
    for (const ClientCompletions& client : clients) now += client.completions.size();
    FUZZ_CHECK(now >= writes && now <= writes + 1);
    writes = now;
  }
}

void ReadPosition(Input& input) {
  const auto position = input.Take<ChangePosition>();
  const std::uint64_t end = input.Take<std::uint64_t>() & kMaxSequence;
  const auto openings = ReadOpenings(input.rest());
  FUZZ_CHECK(openings.has_value() == (input.rest().size() % sizeof(Opening) == 0));
  if (!openings) return;
  const auto next = Continue(*openings, position, end);
  if (!next.ok()) return;
  // Behind what was shown, and no further than what there is.
  FUZZ_CHECK(position.sequence != 0 && *next >= position.sequence && *next <= end + 1);
  FUZZ_CHECK(*next - position.sequence <= openings->size());
}

/// Returns a group as RocksDB writes it down: it has checked the bytes that it reads back, and aborts where
/// they are no group of its own.
std::string GroupBytes(Input& input) {
  std::string writes;
  std::uint32_t count = 0;
  const auto add = [&] {
    const std::string_view text = input.Text().substr(0, 127);
    writes += static_cast<char>(text.size());
    writes += text;
  };
  for (; !input.empty(); ++count) {
    // A deletion, a put, and each in another family; a deletion of a range there.
    const auto what = input.Take<std::uint8_t>();
    writes += "\0\1\4\5\xe"[what % 5];
    if (what % 5 >= 2) writes += static_cast<char>(1 + (what >> 4));
    add();
    if (what % 5 != 0 && what % 5 != 2) add();
  }
  return std::string(8, '\0').append(reinterpret_cast<const char*>(&count), sizeof(count)) + writes;
}

void ReadGroup(Input& input) {
  const std::uint64_t sequence = input.Take<std::uint64_t>() & kMaxSequence;
  const rocksdb::WriteBatch group(GroupBytes(input));
  std::vector<Change> changes;
  std::uint64_t end = 0;
  const rocksdb::Status status = ReadChanges(group, sequence, &changes, &end);
  FUZZ_CHECK(!status.ok() || end - sequence == group.Count());
  FUZZ_CHECK(end >= sequence && end - sequence >= changes.size());
  std::uint64_t next = sequence;
  for (const Change& change : changes) {
    FUZZ_CHECK(change.sequence >= next && change.sequence < end);
    next = change.sequence + 1;
    FUZZ_CHECK(change.key.size() >= kMinKeySize && change.key.size() <= kMaxKeySize);
    FUZZ_CHECK(IsInside(change.key, group.Data()) && IsInside(change.value, group.Data()));
    FUZZ_CHECK((change.kind == ChangeKind::kPut) == (change.version > 0) && change.version < kMaxVersion);
  }
}

}  // namespace
}  // namespace remora

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace remora;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  switch (input.Take<std::uint8_t>() % 5) {
    case 0:
      ReadOneEntry(input);
      break;
    case 1:
      if (const auto limit = ReadVersionLimit(input.rest())) FUZZ_CHECK(*limit > 0 && *limit <= kMaxVersion);
      break;
    case 2:
      ReadClients(input);
      break;
    case 3:
      ReadPosition(input);
      break;
    default:
      ReadGroup(input);
  }
  return 0;
}
