#include "worker/strategy/group/recovery/rank_cut.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/strategy/group/recovery/held_storage_for_testing.h"

namespace muster {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kFolder[] = "/root/job/7";

// Returns the contents of files without tensors.
std::vector<PartitionContent> Files(int count) {
  std::vector<PartitionContent> files(count);
  for (int i = 0; i < count; ++i) {
    files[i].job_id = "job";
    files[i].clock = 7;
    files[i].partition = static_cast<uint32_t>(i);
  }
  return files;
}

class RankCutTest : public ::testing::Test {
 protected:
  std::vector<std::string> Stored() const {
    return storage_.List(kFolder).value_or(std::vector<std::string>());
  }

  HeldStorage storage_;
};

TEST_F(RankCutTest, FilesAreWrittenMeanwhileAndTakenOver) {
  storage_.Hold();
  RankCut cut(storage_, "");
  cut.Begin("/root", Files(2));
  storage_.AwaitFile();
  EXPECT_FALSE(cut.Written());
  EXPECT_THAT(Stored(), IsEmpty());
  storage_.LetGo();
  const std::vector<PartitionFile> files = cut.Await().value();
  ASSERT_THAT(files, SizeIs(2));
  EXPECT_EQ(files[1].partition, 1);
  EXPECT_FALSE(cut.under_way());
  // A file that was taken over is not deleted with the rest.
  cut.GiveUp();
  EXPECT_THAT(Stored(), SizeIs(2));
  cut.Delete(files);
  EXPECT_THAT(Stored(), IsEmpty());
}

TEST_F(RankCutTest, ARankMayHaveNoFile) {
  RankCut cut(storage_, "");
  cut.Begin("/root", {});
  EXPECT_TRUE(cut.Written());
  EXPECT_THAT(cut.Await().value(), IsEmpty());
}

TEST_F(RankCutTest, AFailureLeavesNoFileAndTheNextCutDoesNotDependOnIt) {
  RankCut cut(storage_, "");
  storage_.FailAfter(1);
  cut.Begin("/root", Files(3));
  EXPECT_EQ(cut.Await().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Stored(), IsEmpty());
  storage_.FailAfter(-1);
  cut.Begin("/root", Files(3));
  EXPECT_THAT(cut.Await().value(), SizeIs(3));
}

TEST_F(RankCutTest, ACutGivenUpWhileItIsWrittenLeavesNoFile) {
  RankCut cut(storage_, "");
  storage_.Hold();
  cut.Begin("/root", Files(2));
  storage_.AwaitFile();
  // Does not wait for the file that is held.
  cut.GiveUp();
  EXPECT_FALSE(cut.under_way());
  storage_.LetGo();
  // The next one does, and is written.
  cut.Begin("/root", Files(1));
  EXPECT_THAT(cut.Await().value(), SizeIs(1));
  EXPECT_THAT(Stored(), SizeIs(1));
}

TEST_F(RankCutTest, WrittenFilesOfACutThatIsGivenUpAreDeleted) {
  for (const bool ends : {false, true}) {
    auto cut = std::make_unique<RankCut>(storage_, "");
    storage_.Hold();
    cut->Begin("/root", Files(2));
    storage_.LetGo();
    while (!cut->Written()) std::this_thread::yield();
    EXPECT_THAT(Stored(), SizeIs(2));
    if (ends) {
      cut.reset();
    } else {
      cut->GiveUp();
    }
    EXPECT_THAT(Stored(), IsEmpty());
  }
}

}  // namespace
}  // namespace muster
