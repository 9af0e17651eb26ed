#include "common/examination/disk_facts.h"

#include <filesystem>

#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/examination.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(DiskFactsTest, MeasuresAndLeavesNothingBehind) {
  const TempFolder folder;
  v1::DiskFacts facts;
  MeasureDisk(folder.path(), {.bytes = 4 << 20, .syncs = 3, .longest = absl::Minutes(5)}, facts);
  EXPECT_EQ(facts.error(), "");
  EXPECT_EQ(facts.path(), folder.path());
  EXPECT_EQ(facts.written_bytes(), 4u << 20);
  EXPECT_GT(facts.write_us(), 0u);
  EXPECT_EQ(facts.syncs(), 3u);
  EXPECT_GE(facts.slowest_sync_us(), facts.mean_sync_us());
  EXPECT_GT(facts.total_bytes(), facts.free_bytes());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DiskFactsTest, OneThatIsNotWantedAnyMoreWritesNothing) {
  const TempFolder folder;
  v1::DiskFacts facts;
  MeasureDisk(folder.path(), {.stopping = [] { return true; }}, facts);
  EXPECT_EQ(facts.written_bytes(), 0u);
  EXPECT_EQ(facts.syncs(), 0u);
  EXPECT_GT(facts.total_bytes(), 0u);
}

TEST(DiskFactsTest, AFolderThatIsNotThereIsNamed) {
  v1::DiskFacts disk;
  MeasureDisk("/nowhere/at-all", {}, disk);
  EXPECT_THAT(disk.error(), HasSubstr("/nowhere/at-all"));
  v1::FolderFacts folder;
  ReadFolderFacts("/nowhere/at-all", folder);
  EXPECT_THAT(folder.error(), HasSubstr("/nowhere/at-all"));
}

TEST(FolderFactsTest, EqualNamesHaveEqualHashes) {
  const TempFolder one, same, other;
  for (const TempFolder* folder : {&one, &same, &other}) folder->Write("train.csv", "1");
  one.Write("test.csv", "1");
  same.Write("test.csv", "2");
  same.Write(".hidden", "");
  v1::FolderFacts of_one, of_same, of_other;
  ReadFolderFacts(one.path(), of_one);
  ReadFolderFacts(same.path(), of_same);
  ReadFolderFacts(other.path(), of_other);
  EXPECT_EQ(of_one.names(), 2u);
  EXPECT_EQ(of_one.names_hash(), of_same.names_hash());
  EXPECT_NE(of_one.names_hash(), of_other.names_hash());
}

}  // namespace
}  // namespace muster
