// Scans, counts and deletions of remora.h.
#include <memory>
#include <string>
#include <utility>

#include "client/c/call.h"
#include "client/c/remora.h"
#include "client/client.h"

using namespace remora::c;  // NOLINT: every call here uses it

namespace {

bool IsRange(const remora_range& range) {
  return AreBytes(range.prefix.data, range.prefix.size) && AreBytes(range.begin.data, range.begin.size) &&
         AreBytes(range.end.data, range.end.size);
}

std::string_view View(const remora_bytes& bytes) { return remora::c::View(bytes.data, bytes.size); }
remora::RangeOptions RangeOf(const remora_range& range) {
  return {.prefix = View(range.prefix), .begin = View(range.begin), .end = View(range.end)};
}

absl::Status Take(const absl::StatusOr<std::uint64_t>& number, uint64_t* out) {
  if (number.ok() && out != nullptr) *out = *number;
  return number.status();
}

absl::Status BeginScan(remora_client& client, const remora::ScanOptions& options, remora_scan& scan) {
  if (client.cluster == nullptr) {
    auto opened = client.client->Scan(options);
    if (!opened.ok()) return opened.status();
    scan.scan = *std::move(opened);
    return absl::OkStatus();
  }
  auto opened = client.cluster->Scan(options);
  if (!opened.ok()) return opened.status();
  client.cluster_scans.insert(&scan);
  scan.client = &client;
  scan.cluster_scan = *std::move(opened);
  return absl::OkStatus();
}

// Returns the result of `body` with the scan of a server or of a cluster.
template <typename Body>
absl::Status WithScan(remora_scan& scan, const Body& body) {
  if (scan.scan != nullptr) return body(*scan.scan);
  if (scan.cluster_scan != nullptr) return body(*scan.cluster_scan);
  return absl::FailedPreconditionError("scan: its client is closed; begin a scan of an open client");
}

}  // namespace

void remora_scan_options_init(remora_scan_options* options) {
  *options = {};
  options->struct_size = sizeof(*options);
}

remora_code remora_scan_begin(remora_client* client, const remora_scan_options* options, remora_scan** scan) {
  return Call([&]() -> absl::Status {
    if (absl::Status status = CheckPointers(client != nullptr && scan != nullptr); !status.ok())
      return status;
    remora_scan_options taken;
    remora_scan_options_init(&taken);
    if (absl::Status status = TakeOptions(options, &taken); !status.ok()) return status;
    if (absl::Status status = CheckPointers(IsRange(taken.range)); !status.ok()) return status;
    if (absl::Status status = CheckToken(taken.resume_token, "scan"); !status.ok()) return status;
    auto begun = std::make_unique<remora_scan>();
    const remora::ScanOptions wanted{.prefix = View(taken.range.prefix),
                                     .begin = View(taken.range.begin),
                                     .end = View(taken.range.end),
                                     .reverse = taken.reverse != 0,
                                     .any_order = taken.any_order != 0,
                                     .limit = taken.limit,
                                     .keys_only = taken.keys_only != 0,
                                     .resume_token = taken.resume_token != nullptr ? taken.resume_token : "",
                                     .one_moment = taken.one_moment != 0,
                                     .one_sided = taken.one_sided != 0};
    if (absl::Status status = BeginScan(*client, wanted, *begun); !status.ok()) return status;
    *scan = begun.release();
    return absl::OkStatus();
  });
}

remora_code remora_scan_next(remora_scan* scan, remora_bytes* key, remora_bytes* value, uint64_t* version) {
  return Call([&]() -> absl::Status {
    if (absl::Status status = CheckPointers(scan != nullptr && key != nullptr); !status.ok()) return status;
    return WithScan(*scan, [&](auto& of) -> absl::Status {
      if (!of.Next()) return of.status().ok() ? absl::NotFoundError("scan: no more keys") : of.status();
      *key = {of.key().data(), of.key().size()};
      if (value != nullptr) *value = {of.value().data(), of.value().size()};
      if (version != nullptr) *version = of.version();
      return absl::OkStatus();
    });
  });
}

remora_code remora_scan_resume_token(remora_scan* scan, const char** token) {
  return Call([&]() -> absl::Status {
    if (absl::Status status = CheckPointers(scan != nullptr && token != nullptr); !status.ok()) return status;
    return WithScan(*scan, [&](const auto& of) -> absl::Status {
      scan->token = of.resume_token();
      *token = scan->token.c_str();
      return absl::OkStatus();
    });
  });
}

remora_code remora_scan_expiry(remora_scan* scan, uint64_t* expiry_ms) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(scan != nullptr && expiry_ms != nullptr);
    if (!status.ok()) return status;
    return WithScan(*scan, [&](const auto& of) {
      *expiry_ms = of.expiry_ms();
      return absl::OkStatus();
    });
  });
}

void remora_scan_end(remora_scan* scan) {
  if (scan != nullptr && scan->client != nullptr) scan->client->cluster_scans.erase(scan);
  delete scan;
}

remora_code remora_count(remora_client* client, const remora_range* range, uint64_t* count) {
  return Call([&]() -> absl::Status {
    absl::Status status =
        CheckPointers(client != nullptr && count != nullptr && (range == nullptr || IsRange(*range)));
    if (!status.ok()) return status;
    return With(*client, [&](auto& kv) {
      return Take(range == nullptr ? kv.Count() : kv.Count(RangeOf(*range)), count);
    });
  });
}

remora_code remora_delete_range(remora_client* client, const remora_range* range, uint64_t* deleted) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr && range != nullptr && IsRange(*range));
    if (!status.ok()) return status;
    return With(*client, [&](auto& kv) { return Take(kv.DeleteRange(RangeOf(*range)), deleted); });
  });
}

remora_code remora_delete_all(remora_client* client, uint64_t* deleted) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr);
    if (!status.ok()) return status;
    return With(*client, [&](auto& kv) { return Take(kv.DeleteAll(), deleted); });
  });
}
