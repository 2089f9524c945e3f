#include "client/cluster/topology.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/cluster/slots.h"
#include "client/cluster/topology_source.h"
#include "rdma/address_list.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/slot.h"

namespace remora {
namespace {

constexpr std::string_view kTopologyHead = "remora-topology";
constexpr std::string_view kTopologyVersion = "2";
constexpr std::string_view kRevisionComment = "# revision ";
constexpr std::string_view kOlderVersion = "1";  // without a cluster
constexpr std::uint16_t kNoShard = UINT16_MAX;
static_assert(kMaxShards < kNoShard);

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

std::string_view WithoutBlanks(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && (IsBlank(text.back()) || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

/// Takes the first word off a text without blanks at its ends.
std::string_view TakeWord(std::string_view* text) {
  const std::size_t size = std::min(text->find_first_of(" \t"), text->size());
  const std::string_view word = text->substr(0, size);
  *text = WithoutBlanks(text->substr(size));
  return word;
}

/// Returns the text for an error: in quotes, on one line, and not too long.
std::string Quoted(std::string_view text) {
  constexpr std::size_t kMaxShown = 80;
  const bool is_cut = text.size() > kMaxShown;
  return absl::StrCat("'", absl::CHexEscape(AbslView(text.substr(0, kMaxShown))), is_cut ? "...'" : "'");
}

/// Returns whether a line of the file would not give the address back.
bool IsUnwritable(std::string_view address) {
  return address != WithoutBlanks(address) || std::any_of(address.begin(), address.end(), [](char c) {
           return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
         });
}

std::string NameOf(SlotRange range) {
  return range.first == range.last ? absl::StrCat("slot ", range.first)
                                   : absl::StrCat("slots ", range.first, " to ", range.last);
}

std::vector<SlotRange> RangesOf(const ClusterSlots& slots) {
  std::vector<SlotRange> ranges;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (!slots.Has(slot)) continue;
    if (!ranges.empty() && ranges.back().last + 1 == slot) {
      ++ranges.back().last;
    } else {
      ranges.push_back({slot, slot});
    }
  }
  return ranges;
}

/// Reads a whole file of a topology.
absl::StatusOr<std::string> ReadTopologyFile(const std::string& path) {
  const auto failed = [&](absl::StatusCode code, absl::string_view why) {
    return absl::Status(code, absl::StrCat("topology file ", path, ": ", why));
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    const int error = errno;
    const absl::StatusCode code = error == ENOENT || error == ENOTDIR ? absl::StatusCode::kNotFound
                                  : error == EACCES                   ? absl::StatusCode::kPermissionDenied
                                                                      : absl::StatusCode::kUnavailable;
    return failed(code, std::strerror(error));
  }
  std::string text(kMaxTopologyBytes + 1, '\0');
  std::size_t size = 0;
  int error = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file, text.data() + size, text.size() - size);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      error = errno;
      break;
    }
    size += static_cast<std::size_t>(got);
  }
  ::close(file);
  if (error == EISDIR) {
    return failed(absl::StatusCode::kInvalidArgument, "it is a directory; name a file");
  }
  if (error != 0) return failed(absl::StatusCode::kUnavailable, std::strerror(error));
  if (size > kMaxTopologyBytes) {
    return failed(absl::StatusCode::kInvalidArgument,
                  absl::StrCat("it has more than ", kMaxTopologyBytes, " bytes, the most of a topology"));
  }
  text.resize(size);
  return text;
}

}  // namespace

std::string ShownAs(const ShardPlace& shard) {
  return absl::StrCat("shard ", shard.name, " (", shard.addresses, ")");
}

/// Reads lines into a topology. Line 0 stands for none, where there is no file.
class Topology::Parser {
 public:
  explicit Parser(std::string_view name) : name_(name) { topology_.shard_of_slot_.assign(kSlots, kNoShard); }

  absl::Status ReadLines(std::string_view text) {
    bool has_head = false;
    while (!text.empty()) {
      const std::size_t size = std::min(text.find('\n'), text.size());
      const std::string_view line = WithoutBlanks(text.substr(0, size));
      text.remove_prefix(std::min(size + 1, text.size()));
      ++line_;
      if (line.empty()) continue;
      if (line.front() == '#') {
        ReadComment(line);
        continue;
      }
      REMORA_RETURN_IF_ERROR(has_head ? ReadLine(line) : ReadHead(line));
      has_head = true;
    }
    line_ = 0;
    if (!has_head) {
      return Fail(absl::StrCat("it is empty; it begins with the line '", AbslView(kTopologyHead), " ",
                               AbslView(kTopologyVersion), "' (kvctl cluster init writes one)"));
    }
    if (has_cluster_ && topology_.cluster_ == 0) {
      return Fail("it has no line 'cluster ID'; take the one that kvctl cluster init wrote");
    }
    return absl::OkStatus();
  }

  void SetCluster(std::uint64_t cluster) { topology_.cluster_ = cluster; }
  void SetRevision(std::uint64_t revision) { topology_.revision_ = revision; }

  /// Adds a shard, and checks it against those before.
  absl::Status Add(ShardPlace shard) {
    const std::string& name = shard.name;
    if (topology_.shards_.size() == kMaxShards) {
      return Fail(absl::StrCat("shard ", name, " is one too many; a cluster has up to ", kMaxShards));
    }
    if (const auto [other, is_new] = names_.try_emplace(name, line_); !is_new) {
      return Fail(absl::StrCat("shard ", name, " is there already", At(other->second),
                               "; give each shard a name of its own"));
    }
    if (IsUnwritable(shard.addresses)) {
      return Fail(absl::StrCat("shard ", name, ": the address ", Quoted(shard.addresses),
                               " has blanks at an end, or a control character; a line cannot have it"));
    }
    const absl::StatusOr<std::vector<rdma::Address>> addresses = rdma::ParseAddresses(shard.addresses);
    if (!addresses.ok()) {
      return Fail(absl::StrCat("shard ", name, ": ", addresses.status().message()));
    }
    for (const rdma::Address& address : *addresses) {
      const std::string text = address.ToString();
      const auto [other, is_new] = addresses_.try_emplace(text, name);
      if (is_new) continue;
      const bool is_same = other->second == name;
      return Fail(absl::StrCat(
          "shard ", name, " has the address ", text, ", ",
          is_same ? "twice; leave one out"
                  : absl::StrCat("and so has shard ", other->second, "; a server has one shard")));
    }
    const auto index = static_cast<std::uint16_t>(topology_.shards_.size());
    for (const SlotRange range : shard.slots) {
      for (std::uint32_t slot = range.first; slot <= range.last; ++slot) {
        std::uint16_t& owner = topology_.shard_of_slot_[slot];
        if (owner == kNoShard) {
          owner = index;
          continue;
        }
        if (owner == index) {
          return Fail(absl::StrCat("shard ", name, " has slot ", slot, " twice; leave one out"));
        }
        return Fail(absl::StrCat("shard ", name, " has slot ", slot, ", and so has shard ",
                                 topology_.shards_[owner].name, "; give each slot to one shard"));
      }
    }
    topology_.shards_.push_back(std::move(shard));
    return absl::OkStatus();
  }

  absl::StatusOr<Topology> Finish() {
    if (topology_.shards_.empty()) return Fail("it has no shard; add a line 'shard NAME SLOTS ADDRESS'");
    const std::vector<std::uint16_t>& owners = topology_.shard_of_slot_;
    const auto hole = std::find(owners.begin(), owners.end(), kNoShard);
    if (hole == owners.end()) return std::move(topology_);
    const auto end = std::find_if(hole, owners.end(), [](std::uint16_t owner) { return owner != kNoShard; });
    const SlotRange range{static_cast<std::uint32_t>(hole - owners.begin()),
                          static_cast<std::uint32_t>(end - owners.begin()) - 1};
    return Fail(absl::StrCat(NameOf(range), " of ", kSlots, " belong to no shard; give them to one"));
  }

 private:
  static std::string At(std::size_t line) { return line == 0 ? "" : absl::StrCat(" (line ", line, ")"); }

  absl::Status Fail(absl::string_view why) const {
    const std::string line = line_ == 0 ? "" : absl::StrCat(":", line_);
    return absl::InvalidArgumentError(absl::StrCat(AbslView(name_), line, ": ", why));
  }

  void ReadComment(std::string_view line) {
    if (!line.starts_with(kRevisionComment)) return;
    line.remove_prefix(kRevisionComment.size());
    std::uint64_t revision = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), revision);
    if (error == std::errc() && end == line.data() + line.size()) topology_.revision_ = revision;
  }

  absl::Status ReadHead(std::string_view line) {
    const std::string_view head = TakeWord(&line);
    if (head != kTopologyHead) {
      return Fail(absl::StrCat("no file of a topology; it begins with '", AbslView(kTopologyHead), " ",
                               AbslView(kTopologyVersion), "', this one with ", Quoted(head)));
    }
    if (line != kTopologyVersion && line != kOlderVersion) {
      return Fail(absl::StrCat("version ", Quoted(line), " of a topology; this release knows versions ",
                               AbslView(kOlderVersion), " and ", AbslView(kTopologyVersion)));
    }
    has_cluster_ = line == kTopologyVersion;
    return absl::OkStatus();
  }

  absl::Status ReadClusterLine(std::string_view line) {
    if (topology_.cluster_ != 0) return Fail("the cluster is there already; leave one line out");
    const std::optional<std::uint64_t> cluster = ClusterIn(line);
    if (!cluster) {
      return Fail(absl::StrCat("a cluster is called ", Quoted(line), "; it has ", kClusterDigits,
                               " digits 0 to 9 and a to f, not all 0 (kvctl cluster init draws one)"));
    }
    topology_.cluster_ = *cluster;
    return absl::OkStatus();
  }

  absl::Status ReadLine(std::string_view line) {
    const std::string_view word = TakeWord(&line);
    if (word == "cluster" && has_cluster_) return ReadClusterLine(line);
    if (word == "shard") return ReadShardLine(line);
    return Fail(
        absl::StrCat("a line begins with ", Quoted(word),
                     has_cluster_ ? "; only 'cluster' and 'shard' are known" : "; only 'shard' is known"));
  }

  absl::Status ReadShardLine(std::string_view line) {
    ShardPlace shard;
    shard.name = TakeWord(&line);
    if (!IsShardName(shard.name)) {
      return Fail(absl::StrCat("a shard is called ", Quoted(shard.name), "; a name has 1 to ",
                               kMaxShardNameSize, " letters, digits, dots, dashes and underscores"));
    }
    const std::string_view slots = TakeWord(&line);
    if (line.empty()) {
      return Fail(absl::StrCat("shard ", shard.name,
                               " has no address; a line is 'shard NAME SLOTS ADDRESS[,ADDRESS]...'"));
    }
    REMORA_RETURN_IF_ERROR(ReadSlots(slots, &shard));
    shard.addresses = line;
    return Add(std::move(shard));
  }

  absl::Status ReadSlots(std::string_view text, ShardPlace* shard) const {
    for (bool is_last = false; !is_last;) {
      const std::size_t size = std::min(text.find(','), text.size());
      is_last = size == text.size();
      const std::string_view word = text.substr(0, size);
      text.remove_prefix(is_last ? size : size + 1);
      const std::size_t dash = word.find('-');
      const std::optional<std::uint32_t> first = SlotIn(word.substr(0, dash));
      const std::optional<std::uint32_t> last =
          dash == std::string_view::npos ? first : SlotIn(word.substr(dash + 1));
      if (!first || !last) {
        return Fail(absl::StrCat("shard ", shard->name, ": ", Quoted(word), " is no slot; slots are 0 to ",
                                 kSlots - 1, ", as in 0-99,200"));
      }
      if (*first > *last) {
        return Fail(absl::StrCat("shard ", shard->name, ": the slots ", Quoted(word),
                                 " run backwards; write the smaller number first"));
      }
      shard->slots.push_back({*first, *last});
    }
    return absl::OkStatus();
  }

  const std::string_view name_;
  std::size_t line_ = 0;
  bool has_cluster_ = false;  // the version's lines include one
  Topology topology_;
  std::map<std::string, std::size_t> names_;      // line of each
  std::map<std::string, std::string> addresses_;  // shard of each
};

absl::StatusOr<Topology> Topology::Parse(std::string_view text, std::string_view name) {
  Parser parser(name);
  REMORA_RETURN_IF_ERROR(parser.ReadLines(text));
  return parser.Finish();
}

absl::StatusOr<Topology> Topology::Read(const std::string& path) {
  if (IsOfServers(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": this program reads a file; write one with `kvctl --topology=cluster://... cluster "
                     "topology`"));
  }
  REMORA_ASSIGN_OR_RETURN(const std::string text, ReadTopologyFile(path));
  REMORA_ASSIGN_OR_RETURN(Topology topology, Parse(text, path));
  topology.path_ = path;
  return topology;
}

bool Topology::HasShardsOf(const Topology& other) const {
  return cluster_ == other.cluster_ &&
         std::ranges::equal(shards_, other.shards_, [](const ShardPlace& a, const ShardPlace& b) {
           return a.name == b.name && a.addresses == b.addresses;
         });
}

bool Topology::HasNamesOf(const Topology& other) const {
  return cluster_ == other.cluster_ &&
         std::ranges::equal(shards_, other.shards_, {}, &ShardPlace::name, &ShardPlace::name);
}

absl::StatusOr<Topology> Topology::Even(std::span<const std::string> servers, std::uint64_t cluster) {
  if (servers.empty() || servers.size() > kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat("topology: ", servers.size(), " servers; a cluster has 1 to ", kMaxShards));
  }
  Parser parser("topology");
  parser.SetCluster(cluster);
  for (std::size_t i = 0; i < servers.size(); ++i) {
    REMORA_RETURN_IF_ERROR(parser.Add({absl::StrCat(i), servers[i], {EvenSlots(i, servers.size())}}));
  }
  return parser.Finish();
}

absl::StatusOr<Topology> Topology::OfServer(std::string_view addresses) {
  REMORA_RETURN_IF_ERROR(rdma::ParseAddresses(addresses).status());
  Topology topology;
  topology.shards_.push_back({"", std::string(addresses), {{0, kSlots - 1}}});
  topology.shard_of_slot_.resize(kSlots);
  return topology;
}

absl::StatusOr<Topology> Topology::WithAddresses(std::span<const std::string> servers) const {
  if (servers.size() != shards_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("topology: ", servers.size(), " servers for ", shards_.size(), " shards"));
  }
  Parser parser("topology");
  parser.SetCluster(cluster_);
  parser.SetRevision(revision_);
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    REMORA_RETURN_IF_ERROR(parser.Add({shards_[i].name, servers[i], shards_[i].slots}));
  }
  return parser.Finish();
}

absl::StatusOr<Topology> Topology::WithMoved(const ClusterSlots& slots, std::string_view from,
                                             std::string_view to) const {
  const auto index_of = [&](std::string_view name) {
    return static_cast<std::size_t>(std::ranges::find(shards_, name, &ShardPlace::name) - shards_.begin());
  };
  const std::size_t source = index_of(from), destination = index_of(to);
  if (source == shards_.size() || destination == shards_.size()) {
    return absl::NotFoundError(
        absl::StrCat("topology: there is no shard ", AbslView(source == shards_.size() ? from : to)));
  }
  Topology next = *this;
  ClusterSlots kept, grown;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    std::uint16_t& owner = next.shard_of_slot_[slot];
    if (slots.Has(slot) && owner != source) {
      return absl::FailedPreconditionError(absl::StrCat("topology: slot ", slot, " is that of shard ",
                                                        shards_[owner].name, ", not of ", AbslView(from),
                                                        "; take the present topology"));
    }
    if (slots.Has(slot)) owner = static_cast<std::uint16_t>(destination);
    if (owner == source) kept.Add(slot, slot);
    if (owner == destination) grown.Add(slot, slot);
  }
  if (kept.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("topology: shard ", AbslView(from), " would have no slot left; leave it one"));
  }
  next.shards_[source].slots = RangesOf(kept);
  next.shards_[destination].slots = RangesOf(grown);
  ++next.revision_;
  return next;
}

std::size_t Topology::ShardOf(std::string_view key) const { return ShardOfSlot(SlotOf(key)); }

std::string Topology::ToText() const {
  std::string text = absl::StrCat(AbslView(kTopologyHead), " ",
                                  AbslView(cluster_ == 0 ? kOlderVersion : kTopologyVersion), "\n");
  if (cluster_ != 0) absl::StrAppend(&text, "cluster ", ClusterText(cluster_), "\n");
  if (revision_ != 0) absl::StrAppend(&text, AbslView(kRevisionComment), revision_, "\n");
  for (const ShardPlace& shard : shards_) {
    absl::StrAppend(&text, "shard ", shard.name);
    char before = ' ';
    for (const SlotRange range : shard.slots) {
      absl::StrAppend(&text, std::string(1, std::exchange(before, ',')), range.first);
      if (range.last != range.first) absl::StrAppend(&text, "-", range.last);
    }
    absl::StrAppend(&text, " ", shard.addresses, "\n");
  }
  return text;
}

}  // namespace remora
