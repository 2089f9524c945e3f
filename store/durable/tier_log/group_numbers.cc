#include "store/durable/tier_log/group_numbers.h"

#include <cstring>

#include "store/base/random_id.h"
#include "store/durable/commit_log/group_codec.h"

namespace remora {
namespace {

// Bytes of an encoded group whose memory the next one may use again.
constexpr std::size_t kKeptBytes = std::size_t{1} << 20;

std::string_view BytesOf(const std::uint64_t& number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

}  // namespace

std::optional<std::uint64_t> ReadGroupNumber(std::string_view stored) {
  std::uint64_t number = 0;
  if (stored.size() != sizeof(number)) return std::nullopt;
  std::memcpy(&number, stored.data(), sizeof(number));
  if (number == 0) return std::nullopt;
  return number;
}

void GroupNumbers::Restore(std::uint64_t last) {
  last_ = last;
  is_on_ = last_ != 0;
}

void GroupNumbers::Begin(GroupSink* sink) {
  sink_ = sink;
  incarnation_ = RandomId();
  is_on_ = true;
}

void GroupNumbers::End() {
  sink_ = nullptr;
  unacknowledged_.clear();
  is_on_ = last_ != 0;
}

void GroupNumbers::Follow(std::uint64_t number) {
  followed_ = number;
  is_on_ = number != 0 || last_ != 0;
}

void GroupNumbers::Add(GroupBuilder* group) const {
  if (followed_ != 0) return;
  const std::uint64_t next = last_ + 1;
  group->PutMeta(kGroupNumberKey, sink_ != nullptr ? BytesOf(next) : std::string_view());
}

void GroupNumbers::NoteWritten(std::span<const LogEntry> entries, Lsn before) {
  if (sink_ != nullptr) {
    ++last_;
    unacknowledged_.push_back({last_, before});
    Ship(entries);
    return;
  }
  last_ = followed_;  // 0: the store has left its history
  followed_ = 0;
  is_on_ = last_ != 0;
}

void GroupNumbers::Ship(std::span<const LogEntry> entries) {
  const std::uint64_t size = LogGroupSize(entries);
  const std::size_t words = size / sizeof(std::uint64_t);  // a group has whole words
  if (encoded_.size() < words) encoded_.resize(words);
  char* const bytes = reinterpret_cast<char*>(encoded_.data());
  const LogGroupPlace place = {
      .lsn = Lsn{last_}, .incarnation = incarnation_, .previous = 0, .synced_to = {}};
  EncodeLogGroup(entries, size, place, bytes);
  sink_->Take(last_, {bytes, size});
  if (size > kKeptBytes) encoded_ = {};
}

void GroupNumbers::Acknowledge(std::uint64_t number) {
  while (!unacknowledged_.empty() && unacknowledged_.front().number <= number) unacknowledged_.pop_front();
}

}  // namespace remora
