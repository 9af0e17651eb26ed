#include "common/checkpoint/root_mark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/checkpoint/memory_storage.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RootMarkTest, AMarkedRootIsKnownAgain) {
  MemoryStorage storage;
  ASSERT_TRUE(MarkCheckpointRoot(storage, "/root").ok());
  ASSERT_TRUE(MarkCheckpointRoot(storage, "file:///root").ok());
  EXPECT_TRUE(CheckCheckpointRoot(storage, "/root/", RootCheck::kMarked).ok());
  EXPECT_THAT(storage.List("/root").value(), ElementsAre(".muster-root"));
}

TEST(RootMarkTest, AnotherFolderOfTheSameNameIsRefusedAndLeftAlone) {
  MemoryStorage coordinators, servers;
  ASSERT_TRUE(MarkCheckpointRoot(coordinators, "/root").ok());
  ASSERT_TRUE(WriteFile(servers, "/root/job/file", "x").ok());
  const absl::Status refused = CheckCheckpointRoot(servers, "/root", RootCheck::kMarked);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr("/root"), HasSubstr("lacks"), HasSubstr("mount one volume")));
  EXPECT_THAT(servers.List("/root").value(), ElementsAre("job"));
  // Nobody has said that there is a coordinator.
  EXPECT_TRUE(CheckCheckpointRoot(servers, "/root", RootCheck::kWritable).ok());
}

TEST(RootMarkTest, ARootThatCannotBeWrittenIsRefused) {
  MemoryStorage storage;
  // Where the folder should be lies a file.
  ASSERT_TRUE(WriteFile(storage, "/root", "x").ok());
  const absl::Status refused = CheckCheckpointRoot(storage, "/root", RootCheck::kWritable);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_TRUE(
      absl::IsFailedPrecondition(CheckCheckpointRoot(storage, "root", RootCheck::kWritable)));
}

}  // namespace
}  // namespace muster
