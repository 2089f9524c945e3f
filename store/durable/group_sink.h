// The groups of a store that has followers: the owner of the store ships each one to other stores, which
// apply it (store/write/group_follower.h).
//
// A group is what one write to the commit log appends. Its bytes are those of the log's own codec
// (store/durable/commit_log/group_codec.h), with the number of the group in place of the LSN. So a group
// verifies under its own number alone. Its entries are the puts, deletions, completion records, registrations
// of clients and version limits of the group, and the number, as an entry that each member stores.
//
// These invariants hold while a sink is set:
//   G1  Each group that changes what the durable tier holds goes to the sink. The durable tier's Write hands
//       it over, and nothing else writes to the log then. So puts, deletions, expired keys and clients all
//       come to it.
//   G2  Groups go to the sink in the order of the log, under the store's lock, with numbers that have no gap.
//   G3  A write becomes visible, is answered, and is shown to a scan or a watch only after Acknowledge of its
//       group, and only once its own level of durability holds. S1 to S6 of store/write/sync_queue.h hold as
//       without a sink.
//   G4  A write that is rejected because of a pending one ends after that one (S6).
//   G5  The tier stores the number of the last group together with the group. A write that is in no group of
//       the history removes the number. So a store that knows its number has exactly the groups up to it.
// And of a store that follows:
//   G6  It applies the groups in their order, each once and as a whole, also over restarts. A group that is
//       damaged, or not the next one, changes nothing.
//   G7  It has the versions and expiries of the groups. It decides nothing: it takes no writes, gives no
//       versions, and removes no expired key. Its readers miss an expired key all the same.
//   G8  Once it is promoted, its versions exceed all that it has applied.
#pragma once

#include <cstdint>
#include <string_view>

namespace remora {

/// Takes the groups of a store. The owner of the store implements it.
///
/// Thread safety: one thread at a time calls Take.
class GroupSink {
 public:
  virtual ~GroupSink() = default;

  /// Takes a group. The number is one more than that of the call before. `bytes` are valid until Take
  /// returns. The caller holds the store's lock. So Take must not block, and must not call the store: the
  /// owner acknowledges the group later, by ServerStore::Acknowledge.
  virtual void Take(std::uint64_t number, std::string_view bytes) = 0;
};

}  // namespace remora
