// The marker of a data directory, and power cuts while it is made.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "store/durable/data_dir.h"
#include "test_files.h"

namespace remora {
namespace {

// After a power cut, a file that was not synced may have its full size, and zeros in place of its bytes.
TEST(DataDirMarkerTest, TheMarkerIsEmptyOrWhole) {
  TempDir temp;
  auto dir = DataDir::Open(temp.path());
  ASSERT_TRUE(dir.ok()) << dir.status();
  std::filesystem::create_hard_link(temp / "REMORA", temp / "first");
  ASSERT_TRUE((*dir)->MarkComplete().ok());
  EXPECT_EQ(ReadFile(temp / "first"), "") << "the marker was not replaced, but written to";
  EXPECT_EQ(ReadFile(temp / "REMORA"), "remora-store 1\n");
  EXPECT_EQ(DataDir::Open(temp.path()).status().code(), absl::StatusCode::kAlreadyExists)
      << "the lock went with the first marker";
  EXPECT_FALSE(std::filesystem::exists(temp / "REMORA.new"));
}

TEST(DataDirMarkerTest, APowerCutWhileTheMarkerIsMadeTakesNothing) {
  TempDir temp;
  ASSERT_TRUE(DataDir::Open(temp.path()).ok());
  WriteFile(temp / "REMORA.new", std::string("remora-\0\0\0", 10));
  auto dir = DataDir::Open(temp.path());
  ASSERT_TRUE(dir.ok()) << dir.status();
  EXPECT_TRUE((*dir)->fresh());
  ASSERT_TRUE((*dir)->MarkComplete().ok());
  EXPECT_EQ(ReadFile(temp / "REMORA"), "remora-store 1\n");
}

}  // namespace
}  // namespace remora
