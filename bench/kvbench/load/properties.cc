#include "bench/kvbench/load/properties.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/memory/layout.h"
#include "tools/command_line/nearest.h"
#include "tools/command_line/number_text.h"

namespace remora::bench {
namespace {

using command_line::Number;
using command_line::NumberRule;

// --- What keys mean -----------------------------------------------------------------------------------

/// Takes the value, or says what is allowed.
using Setter = std::function<std::optional<std::string>(const std::string& value, Workload* workload)>;

struct KnownKey {
  std::string_view name;
  Setter set;
};

std::string_view Trimmed(std::string_view text) {
  const auto stripped = absl::StripAsciiWhitespace(AbslView(text));
  return {stripped.data(), stripped.size()};
}

/// A number into a member. `Reach` finds the member in a workload.
template <typename Reach>
Setter Numeric(const NumberRule& rule, Reach reach) {
  return [=](const std::string& value, Workload* workload) -> std::optional<std::string> {
    const std::optional<Number> number = rule.Read(value);
    if (!number) return rule.Allowed();
    auto& member = reach(*workload);
    member = static_cast<std::remove_reference_t<decltype(member)>>(*number);
    return std::nullopt;
  };
}

template <typename Reach>
Setter Whole(std::uint64_t least, std::uint64_t most, Reach reach) {
  return Numeric({.least = static_cast<Number>(least), .most = static_cast<Number>(most)}, reach);
}

/// `open` leaves out the bounds themselves.
template <typename Reach>
Setter Real(double least, double most, bool open, Reach reach) {
  return Numeric({.form = NumberRule::Form::kReal, .least = least, .most = most, .without_bounds = open},
                 reach);
}

template <typename Value>
struct Name {
  std::string_view name;
  Value value;
};

/// One of some names into a member.
template <typename Value, typename Reach>
Setter OneOf(std::vector<Name<Value>> names, Reach reach) {
  return [=](const std::string& value, Workload* workload) -> std::optional<std::string> {
    for (const Name<Value>& name : names) {
      if (value != name.name) continue;
      reach(*workload) = name.value;
      return std::nullopt;
    }
    std::string allowed;
    for (std::size_t i = 0; i < names.size(); ++i) {
      absl::StrAppend(&allowed, i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", AbslView(names[i].name));
    }
    return allowed;
  };
}

template <typename Reach>
Setter Truth(Reach reach) {
  return OneOf<bool>({{"true", true}, {"false", false}}, reach);
}

/// A key that YCSB knows and that changes nothing here; its values are not looked at.
Setter WithoutEffect() {
  return [](const std::string&, Workload*) { return std::optional<std::string>(); };
}

std::optional<std::string> SetClass(const std::string& value, Workload*) {
  if (value == "CoreWorkload" || absl::EndsWith(value, ".CoreWorkload")) return std::nullopt;
  return "CoreWorkload, with or without its package";
}

std::optional<std::string> SetFieldLengths(const std::string& value, Workload* workload) {
  using Lengths = Fields::Lengths;
  static const Setter set = OneOf<Lengths>({{"constant", Lengths::kConstant},
                                            {"uniform", Lengths::kUniform},
                                            {"zipfian", Lengths::kZipfian},
                                            {"histogram", Lengths::kHistogram}},
                                           [](Workload& w) -> Lengths& { return w.fields.lengths; });
  return set(value, workload);
}

/// Reads a file in the form of YCSB: the size of a block, then the places of blocks and their shares.
std::optional<std::string> SetHistogram(const std::string& path, Workload* workload) {
  constexpr std::uint64_t kMostShares = std::uint64_t{1} << 32;
  constexpr std::uint64_t kMostBlocks = std::uint64_t{1} << 20;
  std::string error =
      "the path of a file with the lines BlockSize, a tab and bytes; then a block's number from 0, a tab and "
      "its "
      "share; up to 1048576 blocks, and 64 MiB";
  std::ifstream file(path);
  std::string word;
  std::size_t block = 0;
  if (!(file >> word >> block) || word != "BlockSize" || block == 0 || block > kMaxValueSize) return error;
  std::map<std::uint64_t, std::uint64_t> blocks;
  std::uint64_t number = 0;
  std::uint64_t share = 0;
  while (file >> number) {
    if (!(file >> share) || number >= std::min<std::uint64_t>(kMaxValueSize / block, kMostBlocks) ||
        share > kMostShares)
      return error;
    if (!blocks.emplace(number, share).second) return error;
  }
  std::erase_if(blocks, [](const auto& entry) { return entry.second == 0; });
  if (!file.eof() || blocks.empty()) return error;
  Fields& fields = workload->fields;
  fields.block = block;
  fields.shares.assign(blocks.rbegin()->first + 1, 0);
  for (const auto& [place, count] : blocks) fields.shares[place] = count;
  std::partial_sum(fields.shares.begin(), fields.shares.end(), fields.shares.begin());
  return std::nullopt;
}

const std::vector<KnownKey>& KnownKeys() {
  using Kind = RequestDistribution::Kind;
  constexpr std::uint64_t kMaxOperations = std::uint64_t{1} << 62;
  static const std::vector<KnownKey> keys = {
      {"workload", SetClass},
      {"recordcount", Whole(1, kMaxRecords, [](Workload& w) -> auto& { return w.records; })},
      {"insertstart", Whole(0, kMaxRecords, [](Workload& w) -> auto& { return w.first_record; })},
      {"insertcount", Whole(0, kMaxRecords, [](Workload& w) -> auto& { return w.insert_count; })},
      {"operationcount", Whole(0, kMaxOperations, [](Workload& w) -> auto& { return w.operations; })},
      {"maxexecutiontime", Real(0, 1e9, false, [](Workload& w) -> auto& { return w.max_seconds; })},
      {"threadcount", Whole(1, 1024, [](Workload& w) -> auto& { return w.threads; })},
      {"target", Real(0, 1e12, false, [](Workload& w) -> auto& { return w.rate; })},
      {"readproportion", Real(0, 1, false, [](Workload& w) -> auto& { return w.mix.read; })},
      {"updateproportion", Real(0, 1, false, [](Workload& w) -> auto& { return w.mix.update; })},
      {"insertproportion", Real(0, 1, false, [](Workload& w) -> auto& { return w.mix.insert; })},
      {"scanproportion", Real(0, 1, false, [](Workload& w) -> auto& { return w.mix.scan; })},
      {"readmodifywriteproportion",
       Real(0, 1, false, [](Workload& w) -> auto& { return w.mix.read_modify_write; })},
      {"requestdistribution", OneOf<Kind>({{"uniform", Kind::kUniform},
                                           {"zipfian", Kind::kZipfian},
                                           {"latest", Kind::kLatest},
                                           {"hotspot", Kind::kHotspot},
                                           {"exponential", Kind::kExponential},
                                           {"sequential", Kind::kSequential}},
                                          [](Workload& w) -> auto& { return w.distribution.kind; })},
      {"hotspotdatafraction",
       Real(0, 1, false, [](Workload& w) -> auto& { return w.distribution.hot_data_fraction; })},
      {"hotspotopnfraction",
       Real(0, 1, false, [](Workload& w) -> auto& { return w.distribution.hot_operation_fraction; })},
      {"exponential.percentile",
       Real(0, 100, true, [](Workload& w) -> auto& { return w.distribution.exponential_percentile; })},
      {"exponential.frac",
       Real(0, 1000, true, [](Workload& w) -> auto& { return w.distribution.exponential_fraction; })},
      {"fieldcount", Whole(1, kMaxValueSize, [](Workload& w) -> auto& { return w.fields.count; })},
      {"minfieldlength", Whole(1, kMaxValueSize, [](Workload& w) -> auto& { return w.fields.least; })},
      {"fieldlength", Whole(1, kMaxValueSize, [](Workload& w) -> auto& { return w.fields.length; })},
      {"fieldlengthdistribution", SetFieldLengths},
      {"fieldlengthhistogram", SetHistogram},
      {"readallfields", WithoutEffect()},
      {"writeallfields", Truth([](Workload& w) -> auto& { return w.write_all_fields; })},
      {"dataintegrity", Truth([](Workload& w) -> auto& { return w.verify; })},
      {"insertorder",
       OneOf<bool>({{"hashed", false}, {"ordered", true}}, [](Workload& w) -> auto& { return w.keys.ordered; })},
      {"zeropadding", Whole(1, 1024, [](Workload& w) -> auto& { return w.keys.digits.emplace(); })},
      {"keyprefix",
       [](const std::string& value, Workload* workload) {
         workload->keys.prefix = value;
         return std::optional<std::string>();
       }},
      {"maxscanlength", Whole(1, kMaxRecords, [](Workload& w) -> auto& { return w.scan_lengths.most; })},
      {"minscanlength", Whole(1, kMaxRecords, [](Workload& w) -> auto& { return w.scan_lengths.least; })},
      {"scanlengthdistribution",
       OneOf<bool>({{"uniform", false}, {"zipfian", true}},
                   [](Workload& w) -> auto& { return w.scan_lengths.zipfian; })},
      // A store has one table; flags choose the measurements and their format.
      {"table", WithoutEffect()},
      {"fieldnameprefix", WithoutEffect()},
      {"measurementtype", WithoutEffect()},
      {"histogram.buckets", WithoutEffect()},
      {"hdrhistogram.percentiles", WithoutEffect()},
      {"timeseries.granularity", WithoutEffect()},
      {"core_workload_insertion_retry_limit", WithoutEffect()},
      {"core_workload_insertion_retry_interval", WithoutEffect()},
  };
  return keys;
}

std::vector<std::string> KnownNames() {
  std::vector<std::string> names;
  for (const KnownKey& known : KnownKeys()) names.emplace_back(known.name);
  return names;
}

// --- Texts --------------------------------------------------------------------------------------------

struct CoreText {
  char letter;
  const char* text;
};

// The files of bench/workloads/, as they were when this was built.
constexpr CoreText kCoreTexts[] = {
#include "bench/core_workloads.inc"
};

}  // namespace

absl::StatusOr<std::vector<Property>> ParseProperties(std::string_view text, std::string_view origin) {
  std::vector<Property> properties;
  int number = 0;
  std::string line;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::vector<absl::string_view> parts = absl::StrSplit(AbslView(text), '\n');
  for (const absl::string_view& part : parts) {
    ++number;
    absl::StrAppend(&line, absl::StripAsciiWhitespace(part));
    const bool is_comment = !line.empty() && (line[0] == '#' || line[0] == '!');
    if (!is_comment && !line.empty() && line.back() == '\\') {
      line.pop_back();
      if (&part != &parts.back()) continue;
    }
    if (!is_comment && !line.empty()) {
      REMORA_ASSIGN_OR_RETURN(Property property,
                              ParseProperty(line, std::string(absl::StrCat(AbslView(origin), ":", number))));
      properties.push_back(std::move(property));
    }
    line.clear();
  }
  return properties;
}

absl::StatusOr<std::vector<Property>> ReadProperties(const std::string& path) {
  errno = 0;
  const std::ifstream file(path);
  std::ostringstream text;
  if (file.is_open()) text << file.rdbuf();
  // An empty file fails, too, but then the system does not say why.
  if (!file.is_open() || (text.fail() && errno != 0))
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  return ParseProperties(text.str(), path);
}

absl::StatusOr<Property> ParseProperty(std::string_view text, std::string_view origin) {
  const std::size_t end = std::min(text.find_first_of("=: \t"), text.size());
  const std::string_view key = Trimmed(text.substr(0, end));
  if (key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(AbslView(origin), ": '", AbslView(text), "' is no key=value"));
  }
  std::string_view value = Trimmed(text.substr(end));
  if (!value.empty() && (value[0] == '=' || value[0] == ':')) value = Trimmed(value.substr(1));
  return Property{std::string(key), std::string(value), std::string(origin)};
}

absl::Status Apply(const Property& property, Workload* workload) {
  for (const KnownKey& known : KnownKeys()) {
    if (known.name != property.key) continue;
    const std::optional<std::string> allowed = known.set(property.value, workload);
    if (!allowed) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(property.origin, ": ", property.key, "=", property.value, ": allowed is ", *allowed));
  }
  const std::string nearest = command_line::SayNearest(property.key, KnownNames());
  return absl::InvalidArgumentError(absl::StrCat(
      property.origin, ": there is no property ", property.key,
      nearest.empty() ? "; one of another binding may stand in a file (-P), where it is ignored" : nearest));
}

bool IsForOthers(const Property& property) {
  std::vector<std::string> names = KnownNames();
  if (std::ranges::find(names, property.key) != names.end()) return false;
  // A key with a dot is no mistyped one without.
  const auto has_dot = [](const std::string& name) { return name.find('.') != std::string::npos; };
  if (has_dot(property.key)) std::erase_if(names, std::not_fn(has_dot));
  return command_line::SayNearest(property.key, names).empty();
}

absl::StatusOr<std::vector<Property>> CoreWorkload(std::string_view letter) {
  for (const CoreText& core : kCoreTexts) {
    if (letter.size() == 1 && absl::ascii_tolower(static_cast<unsigned char>(letter[0])) == core.letter) {
      return ParseProperties(core.text, absl::StrCat("workload", std::string(1, core.letter)));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("workload: none is called '", AbslView(letter), "'; there are a to f"));
}

absl::StatusOr<Fields> ParseValueSizes(std::string_view text) {
  constexpr std::string_view kRange = "..";
  static const NumberRule rule = {
      .form = NumberRule::Form::kSize, .least = Number{kMinBenchValueSize}, .most = Number{kMaxValueSize}};
  const std::size_t range = text.find(kRange);
  const bool is_range = range != std::string_view::npos;
  const std::optional<Number> least = rule.Read(text.substr(0, range));
  const std::optional<Number> most = is_range ? rule.Read(text.substr(range + kRange.size())) : least;
  if (!least || !most) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", AbslView(text), "': allowed is ", rule.Allowed(), "; or two of them, as 4K..1M"));
  }
  if (*least > *most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", AbslView(text), "': the first size is more than the second; name the smaller first"));
  }
  Fields fields{.count = 1, .length = static_cast<std::size_t>(*most)};
  if (is_range) {
    fields.least = static_cast<std::size_t>(*least);
    fields.lengths = Fields::Lengths::kUniform;
  }
  return fields;
}

Workload YcsbDefaults() {
  Workload workload;
  workload.fields = {.count = 10, .length = 100};
  workload.distribution.kind = RequestDistribution::Kind::kUniform;
  return workload;
}

}  // namespace remora::bench
