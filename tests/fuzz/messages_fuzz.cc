// Bytes that a server reads out of a client's staging buffer: a batch, the opening of a scan, the fields of a
// request.
#include <optional>
#include <string>
#include <vector>

#include "server/request/request_decoder.h"
#include "store/format/types/expiry.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/scan_messages.h"
#include "store/format/wire/write_batch.h"
#include "tests/fuzz/input.h"

namespace remora {
namespace {

bool IsInside(std::string_view part, std::string_view whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

void ReadBatch(std::string_view bytes) {
  std::vector<Write> writes(1);
  const std::size_t count = AddBatch(bytes, &writes);
  FUZZ_CHECK(writes.size() == count + 1);  // all or nothing
  WriteBatch again;
  for (std::size_t i = 1; i < writes.size(); ++i) {
    const Write& write = writes[i];
    FUZZ_CHECK(IsInside(write.key, bytes) && IsInside(write.value, bytes));
    FUZZ_CHECK(write.continues_batch == (i < count));
    if (write.kind == Write::Kind::kDelete) {
      again.Delete(write.key, {.condition = write.condition});
    } else if (write.kind == Write::Kind::kCheck) {
      again.Check(write.key, write.condition);
    } else {
      again.Put(write.key, write.value, {.ttl = write.ttl, .condition = write.condition});
    }
  }
  // A batch within bounds is spelled in one way.
  if (count > 0 && again.fault().empty()) FUZZ_CHECK(again.bytes() == bytes);
}

void ReadScan(std::string_view bytes) {
  ScanRange range;
  const std::optional<ScanStart> start = ReadScanStart(bytes, &range);
  if (!start) return;
  FUZZ_CHECK(range.begin.size() <= kMaxBoundSize && range.end.size() <= kMaxBoundSize);
  FUZZ_CHECK(range.after.size() <= kMaxKeySize && (range.after.empty() || range.by_hash));
  FUZZ_CHECK(sizeof(ScanStart) + range.begin.size() + range.end.size() + range.after.size() == bytes.size());
  if (IsPage(start->window, start->page_offset, start->page_size)) {
    FUZZ_CHECK(start->page_offset + start->page_size <= start->window.size);
  }
}

void ReadRequest(std::string_view bytes) {
  Request request;
  if (!FromBytes(std::as_bytes(std::span(bytes)), &request)) return;
  if (IsWrite(request.operation) && Validate(request)) {
    const Condition condition = Condition::Decode(request.condition);
    FUZZ_CHECK(condition.Encode() == request.condition);
    const auto ttl = DecodeTtl(request.ttl_ms);
    FUZZ_CHECK(EncodeTtl(ttl) == request.ttl_ms);
  }
}

}  // namespace
}  // namespace remora

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  remora::Input input(data, size);
  switch (input.Take<std::uint8_t>() % 3) {
    case 0:
      remora::ReadBatch(input.rest());
      break;
    case 1:
      remora::ReadScan(input.rest());
      break;
    default:
      remora::ReadRequest(input.rest());
  }
  return 0;
}
