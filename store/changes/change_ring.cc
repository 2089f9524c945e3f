#include "store/changes/change_ring.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace remora {

absl::StatusOr<std::unique_ptr<ChangeRing>> ChangeRing::Create(std::uint64_t size) {
  absl::StatusOr<std::unique_ptr<AnonymousMemory>> memory = AnonymousMemory::Map(size);
  if (!memory.ok()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "open: ", memory.status().message(), "; give the change log fewer bytes (kvserver --change_log)"));
  }
  return std::unique_ptr<ChangeRing>(new ChangeRing(*std::move(memory)));
}

ChangeRing::ChangeRing(std::unique_ptr<AnonymousMemory> memory)
    : memory_(std::move(memory)),
      entries_(reinterpret_cast<Entry*>(memory_->bytes().data()), memory_->bytes().size() / kBytesPerEntry),
      bytes_(reinterpret_cast<char*>(memory_->bytes().data()) + entries_.size_bytes(),
             memory_->bytes().size() - entries_.size_bytes()) {}

void ChangeRing::Append(const Change& change) {
  const bool has_bytes = change.key.size() + change.value.size() <= bytes_.size();
  entries_[next_entry_] = {.begin = appended_,
                           .version = change.version,
                           .expiry_ms = change.expiry_ms,
                           .value_size = static_cast<std::uint32_t>(change.value.size()),
                           .key_size = static_cast<std::uint16_t>(change.key.size()),
                           .kind = change.kind,
                           .has_bytes = has_bytes};
  if (++next_entry_ == entries_.size()) next_entry_ = 0;
  ++last_;
  if (!has_bytes) return;
  AppendBytes(change.key);
  AppendBytes(change.value);
}

void ChangeRing::AppendMark() {
  entries_[next_entry_] = {.begin = appended_};
  if (++next_entry_ == entries_.size()) next_entry_ = 0;
  ++last_;
}

void ChangeRing::AppendBytes(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::size_t until_end = bytes_.size() - next_byte_;
  const std::size_t first = std::min(bytes.size(), until_end);
  std::memcpy(bytes_.data() + next_byte_, bytes.data(), first);
  std::memcpy(bytes_.data(), bytes.data() + first, bytes.size() - first);
  next_byte_ = bytes.size() < until_end ? next_byte_ + bytes.size() : bytes.size() - until_end;
  appended_ += bytes.size();
}

ChangeRing::State ChangeRing::StateOf(std::uint64_t number) const {
  if (last_ - number >= entries_.size()) return State::kOverwritten;
  const Entry& entry = EntryOf(number);
  if (appended_ - entry.begin > bytes_.size()) return State::kOverwritten;
  if (entry.kind == ChangeKind{}) return State::kMark;
  return entry.has_bytes ? State::kKept : State::kTooLarge;
}

std::size_t ChangeRing::SizeOf(std::uint64_t number) const {
  const Entry& entry = EntryOf(number);
  return entry.key_size + std::size_t{entry.value_size};
}

ChangeRing::Kept ChangeRing::FindKept() {
  if (last_ == 0) return {};
  // Entries that were overwritten hold later changes, and need no look.
  if (last_ >= entries_.size()) oldest_ = std::max<std::uint64_t>(oldest_, last_ - entries_.size() + 1);
  while (StateOf(oldest_) == State::kOverwritten) ++oldest_;  // it ends: the last change is not (R2)
  return {.begin = oldest_,
          .bytes = (last_ - oldest_ + 1) * sizeof(Entry) + (appended_ - EntryOf(oldest_).begin)};
}

Change ChangeRing::Copy(std::uint64_t number, std::span<char> to) const {
  const Entry& entry = EntryOf(number);
  const std::size_t size = SizeOf(number);
  const std::size_t from = entry.begin % bytes_.size();
  const std::size_t first = std::min(size, bytes_.size() - from);
  std::memcpy(to.data(), bytes_.data() + from, first);
  std::memcpy(to.data() + first, bytes_.data(), size - first);
  return {.kind = entry.kind,
          .sequence = number,
          .version = entry.version,
          .expiry_ms = entry.expiry_ms,
          .key = {to.data(), entry.key_size},
          .value = {to.data() + entry.key_size, entry.value_size}};
}

}  // namespace remora
