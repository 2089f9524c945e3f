#include "tools/kvgate/pubsub/subscriptions.h"

namespace remora::kvgate {

bool Subscriptions::Subscribe(NameKind kind, std::string_view name) {
  Names& names = names_[static_cast<std::size_t>(kind)];
  if (names.contains(name)) return true;
  if (size() >= kMostNames || name.size() > kLongestName || name_bytes_ + name.size() > kMostNameBytes) {
    return false;
  }
  names.emplace(name);
  name_bytes_ += name.size();
  hub_.Subscribe(kind, name, mailbox_);
  return true;
}

void Subscriptions::Unsubscribe(NameKind kind, std::string_view name) {
  Names& names = names_[static_cast<std::size_t>(kind)];
  const auto found = names.find(name);
  if (found == names.end()) return;
  hub_.Unsubscribe(kind, name, mailbox_);
  name_bytes_ -= found->size();
  names.erase(found);
}

void Subscriptions::Reset() {
  for (const NameKind kind : {NameKind::kChannel, NameKind::kPattern, NameKind::kShardChannel}) {
    while (!names(kind).empty()) Unsubscribe(kind, std::string(*names(kind).begin()));
  }
  mailbox_->Clear();
}

}  // namespace remora::kvgate
