// Files that kvbench and kvctl read: workloads, reports, exports, sets of backups.
#include <string>
#include <vector>

#include "bench/kvbench/load/properties.h"
#include "bench/kvbench/report/report.h"
#include "tests/fuzz/input.h"
#include "tools/json/json.h"
#include "tools/kvctl/export_format.h"
#include "tools/kvctl/sets/backup_set.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace remora;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  const std::uint8_t which = input.Take<std::uint8_t>() % 5;
  const std::string text(input.rest());
  if (which == 0) {
    const auto properties = bench::ParseProperties(text, "fuzz");
    if (!properties.ok()) return 0;
    bench::Workload workload;
    for (const bench::Property& property : *properties) bench::Apply(property, &workload).IgnoreError();
  } else if (which == 1) {
    // Numbers are printed with as many digits as the next reader needs, so the second time nothing changes.
    const auto report = bench::ParseReport(text);
    if (!report.ok()) return 0;
    const auto again = bench::ParseReport(bench::ToJson(*report));
    FUZZ_CHECK(again.ok());
  } else if (which == 2) {
    const auto phase = bench::ParsePhase(text);
    if (!phase.ok()) return 0;
    const auto again = bench::ParsePhase(bench::ToJson(*phase));
    FUZZ_CHECK(again.ok());
  } else if (which == 4) {
    // A checksum that fits, as one alone does not keep a bad file out.
    const json::Value object = json::Parse(text);
    if (!json_is_object(object.get())) return 0;
    const auto set = kvctl::ParseBackupSet(kvctl::WithChecksum(text), "fuzz");
    if (!set.ok()) return 0;
    const std::string written = kvctl::ToText(*set);
    const auto again = kvctl::ParseBackupSet(written, "fuzz");
    FUZZ_CHECK(again.ok() && kvctl::ToText(*again) == written);
    FUZZ_CHECK(set->number != 0 && set->backups.size() == set->topology.shards().size());
  } else {
    const auto line = kvctl::ParseExportLine(text);
    if (!line.ok() || line->kind != kvctl::ExportLine::Kind::kRecord) return 0;
    std::string written;
    kvctl::AddRecord(line->key, line->value, line->expires_ms, 1, &written);
    written.pop_back();
    const auto again = kvctl::ParseExportLine(written);
    FUZZ_CHECK(again.ok() && again->key == line->key && again->value == line->value &&
               again->expires_ms == line->expires_ms);
  }
  return 0;
}
