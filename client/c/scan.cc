// Scans, counts and deletions of remora.h.
#include <memory>
#include <string>
#include <utility>

#include "client/c/call.h"
#include "client/c/remora.h"
#include "client/client.h"

struct remora_scan {
  std::unique_ptr<remora::ClientScan> scan;
  std::string token;
};

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
    auto opened =
        client->client->Scan({.prefix = View(taken.range.prefix),
                              .begin = View(taken.range.begin),
                              .end = View(taken.range.end),
                              .reverse = taken.reverse != 0,
                              .any_order = taken.any_order != 0,
                              .limit = taken.limit,
                              .keys_only = taken.keys_only != 0,
                              .resume_token = taken.resume_token != nullptr ? taken.resume_token : "",
                              .one_moment = taken.one_moment != 0});
    if (!opened.ok()) return opened.status();
    begun->scan = *std::move(opened);
    *scan = begun.release();
    return absl::OkStatus();
  });
}

remora_code remora_scan_next(remora_scan* scan, remora_bytes* key, remora_bytes* value, uint64_t* version) {
  return Call([&]() -> absl::Status {
    if (absl::Status status = CheckPointers(scan != nullptr && key != nullptr); !status.ok()) return status;
    if (!scan->scan->Next()) {
      return scan->scan->status().ok() ? absl::NotFoundError("scan: no more keys") : scan->scan->status();
    }
    *key = {scan->scan->key().data(), scan->scan->key().size()};
    if (value != nullptr) *value = {scan->scan->value().data(), scan->scan->value().size()};
    if (version != nullptr) *version = scan->scan->version();
    return absl::OkStatus();
  });
}

remora_code remora_scan_resume_token(remora_scan* scan, const char** token) {
  return Call([&]() -> absl::Status {
    if (absl::Status status = CheckPointers(scan != nullptr && token != nullptr); !status.ok()) return status;
    scan->token = scan->scan->resume_token();
    *token = scan->token.c_str();
    return absl::OkStatus();
  });
}

remora_code remora_scan_expiry(remora_scan* scan, uint64_t* expiry_ms) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(scan != nullptr && expiry_ms != nullptr);
    if (status.ok()) *expiry_ms = scan->scan->expiry_ms();
    return status;
  });
}

void remora_scan_end(remora_scan* scan) { delete scan; }

remora_code remora_count(remora_client* client, const remora_range* range, uint64_t* count) {
  return Call([&]() -> absl::Status {
    absl::Status status =
        CheckPointers(client != nullptr && count != nullptr && (range == nullptr || IsRange(*range)));
    if (!status.ok()) return status;
    return Take(range == nullptr ? client->client->Count() : client->client->Count(RangeOf(*range)), count);
  });
}

remora_code remora_delete_range(remora_client* client, const remora_range* range, uint64_t* deleted) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr && range != nullptr && IsRange(*range));
    return status.ok() ? Take(client->client->DeleteRange(RangeOf(*range)), deleted) : status;
  });
}

remora_code remora_delete_all(remora_client* client, uint64_t* deleted) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr);
    return status.ok() ? Take(client->client->DeleteAll(), deleted) : status;
  });
}
