// Beats: a server of --shards, or the gate of --redis, shows its parent that its threads work.
//
//   parent                                    server, or gate
//   REMORA_BEAT=PID:MS in the environment ──▶ sends a beat every MS milliseconds, if PID is its parent
//   BeatWatch ◀────────────────────────────── a byte on standard output, which is a pipe
//
// The server thread of a server sends it. The main thread of a gate sends it once all threads that serve
// clients have answered. A child that does not serve yet sends none. The parent counts looks, and not time: a
// look counts once in an interval in which the parent has worked itself. So nobody hangs for the time in
// which the machine was suspended, or the parent got no CPU either.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "store/base/clock.h"

namespace remora {

/// Name of the environment variable by which a process asks its children for beats.
inline constexpr const char* kBeatVariable = "REMORA_BEAT";

/// Has the programs that this process starts from now on send beats, for a BeatWatch of this limit. It
/// changes the environment: no other thread may read that meanwhile.
void AskForBeats(std::chrono::milliseconds limit);
/// Returns the value of the variable. `parent`: the process that asks.
std::string BeatVariable(pid_t parent, std::chrono::milliseconds interval);
/// Returns the interval that the value asks for; 0: none, as it is missing, has another form, or is of
/// another process than `parent`.
std::chrono::milliseconds AskedBeats(const char* value, pid_t parent);
/// Sends one beat. It waits for nothing: a full pipe has beats enough.
void BeatToParent();

/// Decides that a child hangs, as it has sent no beat for long.
///
/// Thread safety: none.
class BeatWatch {
 public:
  /// Looks without a beat, of which the last one shows that the child hangs.
  static constexpr int kLooks = 8;

  /// `limit`: time without a beat, about; 0: any.
  explicit BeatWatch(std::chrono::milliseconds limit) : interval_(IntervalOf(limit)) {}

  /// Returns the time between two beats, and between two looks; 0: there are none.
  static std::chrono::milliseconds IntervalOf(std::chrono::milliseconds limit) {
    return limit.count() == 0 ? limit : std::max(limit / kLooks, std::chrono::milliseconds(1));
  }
  bool is_on() const { return interval_.count() > 0; }

  /// Begins with a child that serves from now on.
  void Begin(TimePoint now);
  void TakeBeat() { has_beaten_ = true; }
  /// Returns the time until the next look. REQUIRES: is_on.
  std::chrono::milliseconds UntilLook(TimePoint now) const;
  /// Looks, if it is time, and returns whether the child hangs. Then it begins anew.
  bool Hangs(TimePoint now);
  /// Returns whether a beat has come since the last look.
  bool has_beaten() const { return has_beaten_; }

 private:
  const std::chrono::milliseconds interval_;
  TimePoint next_look_{};
  bool has_beaten_ = false;  // since the last look
  int looks_without_ = 0;
};

/// Returns the reason for which a process that sends no beats is not to be ended, for a text; nothing: there
/// is none.
///   a thread of it waits for a disk (state D): it may go on once the disk does, and cannot end before
///   a debugger holds it
std::optional<std::string_view> ReasonToSpare(pid_t pid);

}  // namespace remora
