// In order: each shard's scan stands at an entry that was not shown yet, except that of the entry shown last,
// which Next moves on first. So that scan's resume token is right for all shards: it says to continue behind
// the last key, and all keys that were shown come before.
#include "client/cluster/cluster_scan.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cluster/cluster_client.h"
#include "client/cluster/cluster_shard.h"
#include "store/base/absl_view.h"
#include "store/base/moved.h"
#include "store/base/status_macros.h"
#include "store/format/types/scan_range.h"

namespace remora {
namespace {

// Separates the parts of a resume token; no token of a ClientScan has it.
constexpr char kSeparator = '.';

}  // namespace

ClusterScan::ClusterScan(ClusterClient& client, const ScanOptions& options)
    : client_(client),
      options_(options),
      prefix_(options.prefix),
      begin_(options.begin),
      end_(options.end),
      scans_(client.size()),
      taken_(client.size()),
      division_(client.divisions_) {
  options_.prefix = prefix_;
  options_.begin = begin_;
  options_.end = end_;
  options_.resume_token = {};
}

ClusterScan::~ClusterScan() = default;

absl::Status ClusterScan::Begin(std::string_view resume_token) {
  ScanOptions first = options_;
  is_in_turn_ = options_.any_order;
  const std::size_t number_size = resume_token.find(kSeparator);
  if (number_size != std::string_view::npos) {
    const std::string_view number = resume_token.substr(0, number_size);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), current_);
    const std::size_t whole = resume_token.find(kSeparator, number_size + 1);
    if (error != std::errc() || end != number.data() + number.size() || whole == std::string_view::npos) {
      return absl::InvalidArgumentError("scan: the resume token is malformed; pass it as a scan returned it");
    }
    if (current_ >= scans_.size()) {
      return absl::InvalidArgumentError(absl::StrCat("scan: the resume token names shard number ", current_,
                                                     ", and this topology has only ", scans_.size(),
                                                     "; start a new scan"));
    }
    whole_ = resume_token.substr(whole + 1);
    resume_token = resume_token.substr(number_size + 1, whole - number_size - 1);
    is_in_turn_ = true;
  } else if (!resume_token.empty()) {
    const std::optional<ScanRange> range = ReadScanToken(resume_token);
    options_.reverse = range && range->reverse;
  }
  first.resume_token = resume_token;
  REMORA_RETURN_IF_ERROR(Open(current_, first));
  if (whole_.empty()) whole_ = scans_[current_]->resume_token();
  if (is_in_turn_) return absl::OkStatus();
  for (std::size_t i = 1; i < scans_.size(); ++i) REMORA_RETURN_IF_ERROR(Open(i, first));
  return absl::OkStatus();
}

absl::Status ClusterScan::Open(std::size_t shard, const ScanOptions& options) {
  REMORA_ASSIGN_OR_RETURN(Client* const client, client_.shard(shard));
  auto scan = client->Scan(options);
  if (!scan.ok()) return client_.shards_[shard]->Named(scan.status());
  scans_[shard] = *std::move(scan);
  taken_[shard] = 0;
  return absl::OkStatus();
}

absl::Status ClusterScan::Continue(std::size_t shard, const std::string& token) {
  REMORA_RETURN_IF_ERROR(Open(shard, {.limit = options_.limit,
                                      .keys_only = options_.keys_only,
                                      .resume_token = token,
                                      .one_moment = options_.one_moment,
                                      .one_sided = options_.one_sided}));
  return CheckDivision(/*looks=*/true);
}

absl::Status ClusterScan::CheckDivision(bool looks) const {
  if (looks) client_.Refresh();
  if (client_.divisions_ == division_) return absl::OkStatus();
  return MovedError("scan: slots moved between the shards since it began; begin a new scan");
}

bool ClusterScan::Advance(std::size_t shard) {
  for (;;) {
    while (scans_[shard]->Next()) {
      ++taken_[shard];
      // Which keys are the shard's is known for the division at its start alone.
      failure_ = CheckDivision(/*looks=*/false);
      if (!failure_.ok()) return false;
      if (client_.topology().ShardOf(scans_[shard]->key()) == shard) return true;
    }
    if (!scans_[shard]->status().ok()) {
      failure_ = client_.shards_[shard]->Named(scans_[shard]->status());
      return false;
    }
    // It is over, unless keys that are not the shard's counted for the limit.
    if (options_.limit == 0 || taken_[shard] < options_.limit) return false;
    failure_ = Continue(shard, scans_[shard]->resume_token());
    if (!failure_.ok()) return false;
  }
}

bool ClusterScan::IsBehind(std::size_t a, std::size_t b) const {
  const int order = scans_[a]->key().compare(scans_[b]->key());
  return options_.reverse ? order < 0 : order > 0;
}

bool ClusterScan::Next() {
  if (!failure_.ok()) return false;
  const bool is_full = options_.limit > 0 && shown_ == options_.limit;
  if (!is_full && (is_in_turn_ ? NextInTurn() : NextInOrder())) {
    ++shown_;
    return true;
  }
  // A shard's scan that was continued over a new connection may lack slots that the shard gave away.
  if (failure_.ok()) failure_ = CheckDivision(/*looks=*/true);
  return false;
}

bool ClusterScan::NextInOrder() {
  const auto is_behind = [this](std::size_t a, std::size_t b) { return IsBehind(a, b); };
  const auto push = [&](std::size_t shard) {
    heads_.push_back(shard);
    std::push_heap(heads_.begin(), heads_.end(), is_behind);
  };
  if (!std::exchange(has_begun_, true)) {
    for (std::size_t i = 0; i < scans_.size(); ++i) {
      if (Advance(i)) push(i);
      if (!failure_.ok()) return false;
    }
  } else if (shown_ > 0 && Advance(current_)) {
    push(current_);
  }
  if (!failure_.ok() || heads_.empty()) return false;
  std::pop_heap(heads_.begin(), heads_.end(), is_behind);
  current_ = heads_.back();
  heads_.pop_back();
  return true;
}

bool ClusterScan::NextInTurn() {
  while (!Advance(current_)) {
    if (!failure_.ok() || current_ + 1 == scans_.size()) return false;
    failure_ = Continue(current_ + 1, whole_);
    if (!failure_.ok()) return false;
    ++current_;
  }
  return true;
}

std::string ClusterScan::resume_token() const {
  if (is_in_turn_) {
    const std::string separator(1, kSeparator);
    return absl::StrCat(current_, separator, scans_[current_]->resume_token(), separator, whole_);
  }
  return shown_ == 0 ? whole_ : scans_[current_]->resume_token();
}

}  // namespace remora
