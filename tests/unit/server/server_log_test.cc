#include "server/main/server_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <jansson.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>

#include "server/monitoring/log_events.h"
#include "store/base/check.h"
#include "tools/json/json.h"

namespace {
bool may_allocate = true;
}  // namespace

// Replaces that of the library, to find allocations.
void* operator new(std::size_t size) {
  if (!may_allocate) std::abort();
  void* const bytes = std::malloc(size);
  if (bytes == nullptr) throw std::bad_alloc();
  return bytes;
}
void operator delete(void* bytes) noexcept { std::free(bytes); }
void operator delete(void* bytes, std::size_t) noexcept { std::free(bytes); }

namespace remora {
namespace {

using testing::EndsWith;
using testing::StartsWith;

// 2026-11-27T09:30:00.125Z
constexpr std::int64_t kTime = 1'795'771'800'125;

std::string Last(LogFormat format, std::string_view message, std::int64_t unix_ms = kTime) {
  testing::internal::CaptureStderr();
  may_allocate = false;
  WriteLastLine(format, unix_ms, LogEvent::kMemoryExhausted, message);
  may_allocate = true;
  return testing::internal::GetCapturedStderr();
}

/// Returns a member of an object of JSON; "no JSON" if `line` is none.
std::string Member(const std::string& line, const char* name) {
  const json::Value object(json_loads(line.c_str(), 0, nullptr));
  const char* const text = json_string_value(json_object_get(object.get(), name));
  return text == nullptr ? "no JSON" : text;
}

TEST(ServerLog, TheLastLineIsThatOfTheLogWhereItIsJson) {
  for (const std::int64_t time : {kTime, std::int64_t{0}, kTime / 7, std::int64_t{951'782'399'999}}) {
    EXPECT_EQ(Last(LogFormat::kJson, "no memory", time),
              FormatLogLine(LogFormat::kJson, time, LogEvent::kMemoryExhausted, "no memory") + "\n");
  }
  EXPECT_EQ(Member(Last(LogFormat::kJson, "no memory"), "time"), "2026-11-27T09:30:00.125Z");
}

TEST(ServerLog, TheLastLineIsShortWhereItIsText) {
  EXPECT_EQ(Last(LogFormat::kText, "no memory"), "kvserver: no memory\n");
}

TEST(ServerLog, TheLastLineIsJsonWhateverTheMessageIs) {
  constexpr std::string_view kMessage = "a \"quote\", a \\ and a \t\n\x01 tab";
  EXPECT_EQ(Member(Last(LogFormat::kJson, kMessage), "message"), kMessage);
  const std::string longest(10'000, '"');
  const std::string cut = Last(LogFormat::kJson, longest);
  EXPECT_THAT(cut, EndsWith("\"}\n"));
  EXPECT_THAT(longest, StartsWith(Member(cut, "message")));
  EXPECT_EQ(Member(cut, "event"), "memory_exhausted");
  EXPECT_EQ(Member(Last(LogFormat::kJson, std::string(10'000, '\x01')), "message"), std::string(700, '\x01'));
}

TEST(ServerLog, AFailedCheckHasTheFormOfTheSink) {
  EXPECT_DEATH(REMORA_CHECK(2 + 2 == 5), "server_log_test.cc:[0-9]+: check failed: 2 \\+ 2 == 5\n");
  check_failure_sink = [](const char* line) {
    WriteLastLine(LogFormat::kJson, kTime, LogEvent::kCheckFailed, line);
  };
  EXPECT_DEATH(REMORA_CHECK(std::string_view("a") == "b"),
               "\"event\":\"check_failed\",\"message\":\"[^\"]*server_log_test.cc:[0-9]+: check failed: "
               "std::string_view\\(\\\\\"a\\\\\"\\) == \\\\\"b\\\\\"\"}\n");
  check_failure_sink = nullptr;
}

}  // namespace
}  // namespace remora
