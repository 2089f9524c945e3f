#include "history.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace remora {
namespace {

using Outcome = HistoryWrite::Outcome;

/// Knowledge of a key, as a lower bound of the version that a reader is to see: twice its number. It is one
/// more if that version, or one behind it, was seen to be deleted.
using Floor = std::uint64_t;
constexpr Floor Seen(std::uint64_t version) { return 2 * version; }
constexpr Floor Deleted(std::uint64_t version) { return 2 * version + 1; }
constexpr bool IsDeleted(Floor floor) { return floor % 2 == 1; }

constexpr std::size_t kLevels = static_cast<std::size_t>(Durability::kSynced) + 1;
std::size_t Number(Durability level) { return static_cast<std::size_t>(level); }

/// Knowledge of one key, at one level, since one crash: at the end of each of its events, in their order.
class Knowledge {
 public:
  void Add(HistoryTime at, Floor floor) {
    if (!floors_.empty()) floor = std::max(floor, floors_.back().second);
    floors_.emplace_back(at, floor);
  }
  /// Before `time`.
  Floor Before(HistoryTime time) const {
    const auto after = std::lower_bound(floors_.begin(), floors_.end(), std::pair(time, Floor{0}));
    return after == floors_.begin() ? 0 : std::prev(after)->second;
  }

 private:
  std::vector<std::pair<HistoryTime, Floor>> floors_;
};

class Judgement {
 public:
  explicit Judgement(const History& history) : history_(history) {
    for (const HistoryWrite& write : history.writes) {
      by_id_.emplace(write.id, &write);
      for (std::size_t i = 0; i < write.parts.size(); ++i) {
        const HistoryWrite::Part& part = write.parts[i];
        if (part.is_delete) deletes_[part.key].push_back({&write, i});
      }
    }
  }

  std::vector<std::string> Run() {
    std::vector<Event> events;
    for (const HistoryWrite& write : history_.writes) {
      if (write.outcome == Outcome::kDone) events.push_back({write.ended, &write, nullptr});
    }
    for (const HistoryRead& read : history_.reads) events.push_back({read.ended, nullptr, &read});
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.at < b.at; });
    for (const Event& event : events) event.read != nullptr ? See(*event.read) : Learn(*event.write);
    JudgeOrder();
    for (const auto& [key, unused] : counters_) JudgeCounter(key);
    return std::move(faults_);
  }

 private:
  struct Event {
    HistoryTime at;
    const HistoryWrite* write;
    const HistoryRead* read;
  };
  struct Part {
    const HistoryWrite* write;
    std::size_t number;
  };
  /// A counter's number.
  struct Told {
    HistoryTime begun;
    HistoryTime ended;
    std::int64_t number;
    bool is_increment;
  };
  struct Sighting {
    std::uint64_t version;  // of the write's first part
    HistoryTime begun;
    HistoryTime ended;
  };

  void Fault(std::string text) { faults_.push_back(std::move(text)); }

  /// How many crashes above this level were over before.
  std::size_t CrashesBefore(HistoryTime begun, Durability level) const {
    return static_cast<std::size_t>(std::ranges::count_if(history_.crashes, [&](const HistoryCrash& crash) {
      return crash.survives > level && crash.ended < begun;
    }));
  }
  /// How many of them may have been by then.
  std::size_t CrashesBy(HistoryTime ended, Durability level) const {
    return static_cast<std::size_t>(std::ranges::count_if(history_.crashes, [&](const HistoryCrash& crash) {
      return crash.survives > level && crash.begun <= ended;
    }));
  }
  /// Returns true if the state of then may have been taken back later.
  bool MayBeLost(HistoryTime begun, HistoryTime ended, Durability level) const {
    return CrashesBy(ended, level) > CrashesBefore(begun, level);
  }

  /// No reader who begins later sees it. A write that is rejected may have been done all the same: a crash
  /// took it back, its client sent it once more, and then its condition did not hold.
  HistoryTime VisibleUntil(const HistoryWrite& write) const {
    if (write.outcome != Outcome::kRejected) return kNeverEnded;
    HistoryTime until = 0;
    for (const HistoryCrash& crash : history_.crashes) {
      const bool is_within = crash.ended >= write.begun && crash.begun <= write.ended;
      if (crash.survives > write.level && is_within) until = std::max(until, crash.ended);
    }
    return until;
  }

  void Know(const std::string& key, Durability level, HistoryTime begun, HistoryTime ended, Floor floor) {
    knowledge_[key][Number(level)][CrashesBefore(begun, level)].Add(ended, floor);
  }

  Floor KnownBefore(const HistoryRead& read) const {
    const auto key = knowledge_.find(read.key);
    if (key == knowledge_.end()) return 0;
    Floor floor = 0;
    for (std::size_t level = 1; level < kLevels; ++level) {
      const auto found = key->second[level].find(CrashesBy(read.ended, static_cast<Durability>(level)));
      if (found != key->second[level].end()) floor = std::max(floor, found->second.Before(read.begun));
    }
    return floor;
  }

  /// H2, and H3 of what was told.
  void Sight(const HistoryWrite& write, std::uint64_t version, HistoryTime begun, HistoryTime ended) {
    std::vector<Sighting>& sightings = sightings_[write.id];
    for (const Sighting& other : sightings) {
      if (other.version == version) return;
      if (!MayBeLost(std::min(begun, other.begun), std::max(ended, other.ended), write.level)) {
        Fault(absl::StrCat("H2: write ", write.id, " was done twice, as versions ", other.version, " and ",
                           version));
      }
    }
    sightings.push_back({version, begun, ended});
    for (std::size_t i = 0; i < write.parts.size(); ++i) {
      const auto [owner, is_first] = owners_.emplace(version + i, write.id);
      if (!is_first) {
        Fault(absl::StrCat("H3: version ", version + i, " is that of writes ", owner->second, " and ",
                           write.id));
      }
      done_[write.parts[i].key][version + i] = &write;
    }
  }

  void Learn(const HistoryWrite& write) {
    Sight(write, write.version, write.begun, write.ended);
    if (write.is_increment) {
      counters_.try_emplace(write.parts.front().key);
      return;
    }
    for (std::size_t i = 0; i < write.parts.size(); ++i) {
      const std::uint64_t version = write.version + i;
      Know(write.parts[i].key, write.level, write.begun, write.ended,
           write.parts[i].is_delete ? Deleted(version) : Seen(version));
    }
    conditional_.push_back(&write);
  }

  void See(const HistoryRead& read) {
    if (read.is_counter) {
      counters_.try_emplace(read.key);
      return;
    }
    if (read.id == 0) return SeeNothing(read);
    const auto found = by_id_.find(read.id);
    if (found == by_id_.end()) return Fault(absl::StrCat("H1: key ", read.key, " has a value of nobody"));
    const HistoryWrite& write = *found->second;
    const auto part = std::ranges::find_if(
        write.parts, [&](const HistoryWrite::Part& some) { return some.key == read.key && !some.is_delete; });
    if (part == write.parts.end() || write.begun > read.ended) {
      return Fault(
          absl::StrCat("H1: key ", read.key, " has a value that write ", read.id, " did not put there"));
    }
    if (read.begun > VisibleUntil(write)) {
      return Fault(
          absl::StrCat("H1: key ", read.key, " has the value of write ", read.id, ", which was rejected"));
    }
    if (const Floor floor = KnownBefore(read); Seen(read.version) < floor) {
      Fault(absl::StrCat("H4: key ", read.key, " has version ", read.version, " of write ", read.id,
                         IsDeleted(floor) ? "; it was deleted behind version " : "; it had version ",
                         floor / 2));
    }
    const std::size_t number = static_cast<std::size_t>(part - write.parts.begin());
    const std::uint64_t first = read.version - number;
    Sight(write, first, read.begun, read.ended);
    for (std::size_t i = 0; i <= number; ++i) {
      Know(write.parts[i].key, write.level, read.begun, read.ended,
           write.parts[i].is_delete ? Deleted(first + i) : Seen(first + i));
    }
  }

  void SeeNothing(const HistoryRead& read) {
    const Floor floor = KnownBefore(read);
    if (floor == 0 || IsDeleted(floor)) return;
    // Any delete may have done it: the level is the least of them all.
    std::optional<Durability> level;
    for (const Part& part : deletes_[read.key]) {
      const bool may_be =
          part.write->begun < read.ended && read.begun <= VisibleUntil(*part.write) &&
          (part.write->outcome != Outcome::kDone || Seen(part.write->version + part.number) > floor);
      if (may_be) level = level ? std::min(*level, part.write->level) : part.write->level;
    }
    if (!level) {
      return Fault(absl::StrCat("H4: key ", read.key, " is missing; it had version ", floor / 2,
                                ", and nobody deleted it"));
    }
    Know(read.key, *level, read.begun, read.ended, floor + 1);
  }

  /// H3 in time, and H6.
  void JudgeOrder() {
    std::vector<std::pair<HistoryTime, std::uint64_t>> told;
    std::vector<const HistoryWrite*> done;
    for (const HistoryWrite& write : history_.writes) {
      if (write.outcome != Outcome::kDone) continue;
      told.emplace_back(write.ended, write.version + write.parts.size() - 1);
      done.push_back(&write);
    }
    for (const HistoryRead& read : history_.reads) told.emplace_back(read.ended, read.version);
    std::sort(told.begin(), told.end());
    std::ranges::sort(done, {}, &HistoryWrite::begun);
    std::uint64_t highest = 0;
    auto next = told.begin();
    for (const HistoryWrite* const write : done) {
      for (; next != told.end() && next->first < write->begun; ++next)
        highest = std::max(highest, next->second);
      if (write->version <= highest) {
        Fault(absl::StrCat("H3: write ", write->id, " got version ", write->version, " when version ",
                           highest, " had been told"));
      }
    }
    for (const HistoryWrite* const write : conditional_) {
      if (write->replaced) JudgeCondition(*write);
    }
  }

  void JudgeCondition(const HistoryWrite& write) {
    const std::string& key = write.parts.front().key;
    const auto& versions = done_[key];
    for (auto between = versions.upper_bound(*write.replaced);
         between != versions.end() && between->first < write.version; ++between) {
      const HistoryWrite& other = *between->second;
      if (MayBeLost(std::min(other.begun, write.begun), write.ended, other.level)) continue;
      Fault(absl::StrCat("H6: write ", write.id, " replaced version ", *write.replaced, " of key ", key,
                         ", but write ", other.id, " had come between, as version ", between->first));
    }
  }

  void JudgeCounter(const std::string& key) {
    std::vector<const HistoryWrite*> done;
    std::vector<HistoryTime> begun;
    std::vector<HistoryTime> ended;
    std::vector<Told> all;
    for (const HistoryWrite& write : history_.writes) {
      if (!write.is_increment || write.parts.front().key != key || write.outcome == Outcome::kRejected)
        continue;
      begun.push_back(write.begun);
      if (write.outcome != Outcome::kDone) continue;
      ended.push_back(write.ended);
      all.push_back({write.begun, write.ended, write.result, true});
    }
    for (const HistoryRead& read : history_.reads) {
      if (read.is_counter && read.key == key) all.push_back({read.begun, read.ended, read.number, false});
    }
    std::ranges::sort(begun);
    std::ranges::sort(ended);
    const auto before = [](const std::vector<HistoryTime>& times, HistoryTime time) {
      return std::lower_bound(times.begin(), times.end(), time) - times.begin();
    };
    std::map<std::int64_t, int> made;
    for (const Told& told : all) {
      if (told.is_increment && ++made[told.number] > 1) {
        Fault(absl::StrCat("H7: counter ", key, ": two increments made ", told.number));
      }
      const std::int64_t least = before(ended, told.begun) + (told.is_increment ? 1 : 0);
      const std::int64_t most = before(begun, told.ended);
      if (told.number < least || told.number > most) {
        Fault(absl::StrCat("H7: counter ", key, ": ", told.number, ", after ", least,
                           " increments that were acknowledged, of ", most, " that had begun"));
      }
    }
    std::ranges::sort(all, {}, &Told::begun);
    JudgeRising(key, all);
  }

  void JudgeRising(const std::string& key, const std::vector<Told>& all) {
    std::vector<std::pair<HistoryTime, std::int64_t>> ends;
    for (const Told& told : all) ends.emplace_back(told.ended, told.number);
    std::sort(ends.begin(), ends.end());
    std::int64_t highest = 0;
    auto next = ends.begin();
    for (const Told& told : all) {
      for (; next != ends.end() && next->first < told.begun; ++next)
        highest = std::max(highest, next->second);
      if (told.number < highest + (told.is_increment ? 1 : 0)) {
        Fault(absl::StrCat("H7: counter ", key, ": ", told.number, " after ", highest));
      }
    }
  }

  const History& history_;
  std::vector<std::string> faults_;
  std::unordered_map<std::uint64_t, const HistoryWrite*> by_id_;
  std::unordered_map<std::string, std::vector<Part>> deletes_;
  // By key, level, and how many crashes above that level came before.
  std::unordered_map<std::string, std::array<std::map<std::size_t, Knowledge>, kLevels>> knowledge_;
  std::unordered_map<std::uint64_t, std::vector<Sighting>> sightings_;
  std::unordered_map<std::uint64_t, std::uint64_t> owners_;  // id by version
  std::unordered_map<std::string, std::map<std::uint64_t, const HistoryWrite*>> done_;
  std::vector<const HistoryWrite*> conditional_;
  std::map<std::string, int> counters_;
};

}  // namespace

std::vector<std::string> Judge(const History& history) { return Judgement(history).Run(); }

}  // namespace remora
