#include "bench/kvbench/load/workload.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/format/memory/layout.h"

namespace remora::bench {
namespace {

OperationKind DrawKind(const Mix& mix, Random& random) {
  double left = random.NextDouble();
  if ((left -= mix.read) < 0) return OperationKind::kRead;
  if ((left -= mix.update) < 0) return OperationKind::kUpdate;
  if ((left -= mix.insert) < 0) return OperationKind::kInsert;
  if (left < mix.scan) return OperationKind::kScan;
  if (mix.read_modify_write > 0) return OperationKind::kReadModifyWrite;
  // The parts add up to a little less than 1, as sums of decimals do.
  return mix.read > 0     ? OperationKind::kRead
         : mix.update > 0 ? OperationKind::kUpdate
         : mix.scan > 0   ? OperationKind::kScan
                          : OperationKind::kInsert;
}

absl::Status ValidateMix(const Mix& mix) {
  const double sum = mix.read + mix.update + mix.insert + mix.scan + mix.read_modify_write;
  if (std::abs(sum - 1) > 1e-6) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the proportions add up to ", sum, " and not to 1: read ", mix.read, ", update ", mix.update,
        ", insert ", mix.insert, ", scan ", mix.scan, ", readmodifywrite ", mix.read_modify_write,
        " (readproportion is 0.95 and updateproportion 0.05 where nothing else is said)"));
  }
  return absl::OkStatus();
}

absl::Status ValidateScans(const Workload& workload, bool runs) {
  if (workload.mix.scan == 0) return absl::OkStatus();
  const ScanLengths& lengths = workload.scan_lengths;
  if (lengths.least > lengths.most) {
    return absl::InvalidArgumentError(absl::StrCat("workload: minscanlength=", lengths.least,
                                                   " is more than maxscanlength=", lengths.most));
  }
  if (lengths.zipfian && lengths.most - lengths.least < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("workload: scanlengthdistribution=zipfian takes three lengths or more, and not ",
                     lengths.least, " to ", lengths.most));
  }
  if (runs && workload.depth > 1) {
    return absl::InvalidArgumentError(
        "workload: a scan has its connection to itself; with scans, the depth is 1");
  }
  return absl::OkStatus();
}

absl::Status ValidateFields(const Fields& fields) {
  // Each of them is at most kMaxValueSize, so the product fits.
  if (const std::uint64_t size = fields.count * fields.longest();
      size < kMinBenchValueSize || size > kMaxValueSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("workload: fieldcount=", fields.count, " times fieldlength=", fields.longest(), " is ",
                     size, "; a value has ", kMinBenchValueSize, " to ", kMaxValueSize, " bytes"));
  }
  const bool is_histogram = fields.lengths == Fields::Lengths::kHistogram;
  if (is_histogram == fields.shares.empty()) {
    return absl::InvalidArgumentError(
        "workload: fieldlengthdistribution=histogram and the file fieldlengthhistogram need each other");
  }
  if (fields.least > fields.length) {
    return absl::InvalidArgumentError(
        absl::StrCat("workload: minfieldlength=", fields.least, " is more than fieldlength=", fields.length));
  }
  if (fields.least > 1 && (is_histogram || fields.lengths == Fields::Lengths::kConstant)) {
    return absl::InvalidArgumentError(
        absl::StrCat("workload: minfieldlength=", fields.least,
                     " needs fieldlengthdistribution=uniform or zipfian; the others have no least length"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const Workload& workload, bool runs) {
  REMORA_RETURN_IF_ERROR(ValidateMix(workload.mix));
  REMORA_RETURN_IF_ERROR(ValidateScans(workload, runs));
  if (workload.first_record >= workload.records ||
      workload.insert_count > workload.records - workload.first_record) {
    return absl::InvalidArgumentError(absl::StrCat("workload: insertstart=", workload.first_record,
                                                   " and insertcount=", workload.insert_count,
                                                   " reach beyond recordcount=", workload.records));
  }
  REMORA_RETURN_IF_ERROR(ValidateFields(workload.fields));
  if (const std::size_t size = KeyMaker(workload.keys).max_size(); size > kMaxKeySize) {
    return absl::InvalidArgumentError(absl::StrCat("workload: keyprefix and zeropadding make keys of ", size,
                                                   " bytes; they have ", kMaxKeySize, " at most"));
  }
  return absl::OkStatus();
}

Steps::Steps(const Workload& workload, std::uint64_t count, Random random, std::uint32_t worker,
             std::uint32_t workers)
    : drawn_(std::min<std::uint64_t>(
          count, std::clamp(kMaxDrawnByAll / std::max(workers, 1u), kLeastDrawn, kMaxDrawn))),
      sequential_(workload.distribution.kind == RequestDistribution::Kind::kSequential),
      records_(workload.inserted()),
      stride_(workers),
      sequence_(worker) {
  const RecordChooser chooser(workload.distribution, records_);
  for (std::uint64_t& step : drawn_) {
    const OperationKind kind = DrawKind(workload.mix, random);
    const bool draws = kind != OperationKind::kInsert && !sequential_;
    step = (draws ? chooser.Next(random) : 0) << kKindBits | static_cast<std::uint64_t>(kind);
  }
}

}  // namespace remora::bench
