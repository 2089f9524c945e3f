// Reads all strings of a Redis: SCAN, and for the keys that it names TYPE and STRLEN, then GET and PTTL, each
// for many keys in one round trip. A value and its expiry are not read as of one moment.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/base/clock.h"
#include "tools/kvctl/redis/connection.h"

namespace remora::kvctl {

struct RedisRecord {
  std::string key;
  std::string value;
  /// The record expires then, or up to a round trip later. None: never.
  std::optional<TimePoint> end;
};

/// A key that Remora cannot hold, and why: the name of its type, or key_empty, key_too_large,
/// value_too_large.
struct RedisSkipped {
  std::string key;
  std::string why;
};

/// A resume token is CURSOR.DATABASE.RUN: the cursor with which SCAN continues, and the process that knows
/// it. Redis guarantees that such a SCAN shows each key that exists from its start to its end. A restarted
/// Redis has another order of keys, so the token is not valid for it.
///
/// Thread safety: none.
class RedisReader {
 public:
  /// Begins at the first key or, with a resume token, where the token was given. If another run of the
  /// Redis, or one that does not tell its run, gave it, the reader begins at the first key (`begins_anew`).
  ///   InvalidArgument: the token is malformed, or of another database.
  static absl::StatusOr<std::unique_ptr<RedisReader>> Begin(RedisConnection& connection, int database,
                                                            std::string_view resume_token,
                                                            const Clock& clock);

  /// Reads the next records, some MiB of them or one that is larger. There may be none. Keys that have gone
  /// since SCAN named them are left out. A key may come twice, as SCAN may show it twice.
  absl::Status Next(std::vector<RedisRecord>* records, std::vector<RedisSkipped>* skipped);
  /// Returns whether all was read.
  bool is_done() const { return ended_ && strings_.empty(); }
  /// Returns the token with which a reader reads again what came last, at the most, and all that did not
  /// come.
  std::string resume_token() const;
  bool begins_anew() const { return begins_anew_; }
  /// Returns whether the Redis has rejected the place where SCAN was to go on, so that the token is of no
  /// use. A gate does so with the cursors that it has forgotten.
  bool is_rejected() const { return is_rejected_; }
  /// Returns how many keys SCAN has named so far.
  std::uint64_t keys() const { return keys_; }

 private:
  struct String {
    std::string key;
    std::size_t size;  // of its value, when it was asked for
  };
  RedisReader(RedisConnection& connection, const Clock& clock) : connection_(connection), clock_(clock) {}
  absl::Status ReadPage(std::vector<RedisSkipped>* skipped);
  absl::Status Sort(std::vector<std::string> keys, std::vector<RedisSkipped>* skipped);
  absl::Status ReadStrings(std::vector<RedisRecord>* records, std::vector<RedisSkipped>* skipped);

  RedisConnection& connection_;
  const Clock& clock_;
  std::string run_;  // empty: it does not tell
  int database_ = 0;
  std::string cursor_ = "0";       // of the page behind the strings below
  std::string page_cursor_ = "0";  // of their page
  bool ended_ = false;             // there is no further page
  bool begins_anew_ = false;
  bool is_rejected_ = false;
  std::deque<String> strings_;  // of the page, to be read yet
  std::uint64_t keys_ = 0;
};

}  // namespace remora::kvctl
