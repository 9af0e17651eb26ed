#include "client/chaos/committed_files.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Bytes(uint64_t clock, int file) { return absl::StrCat("file ", file, " at ", clock); }
std::string Name(int file) { return absl::StrCat("partition-", file); }

// A job that keeps two checkpoints.
class CommittedFilesTest : public ::testing::Test {
 protected:
  CommittedFilesTest() : committed_(storage_, 2) {
    fs::remove_all(root_);
    fs::create_directories(CheckpointJobFolder(root_, "job-1"));
  }

  std::string Folder(uint64_t clock) const { return CheckpointFolder(root_, "job-1", clock); }
  std::string Path(uint64_t clock, int file) const { return Folder(clock) + "/" + Name(file); }

  // As a renamed temporary file does.
  static void Replace(const std::string& path, const std::string& bytes) {
    std::ofstream(path + ".new") << bytes;
    fs::rename(path + ".new", path);
  }

  void Commit(uint64_t clock, int64_t created_unix_ms = 5) {
    v1::CheckpointManifest manifest;
    manifest.set_job_id("job-1");
    manifest.set_generation(1);
    manifest.set_clock(clock);
    manifest.set_created_unix_ms(created_unix_ms);
    manifest.mutable_schema()->set_partitions(2);
    fs::create_directories(Folder(clock));
    for (int file = 0; file < 2; ++file) {
      const std::string bytes = Bytes(clock, file);
      if (!fs::exists(Path(clock, file))) Replace(Path(clock, file), bytes);
      v1::CheckpointFile& entry = *manifest.add_files();
      entry.set_partition(file);
      entry.set_path(Name(file));
      entry.set_bytes(bytes.size());
      entry.set_checksum(Fingerprint(bytes));
    }
    ASSERT_TRUE(WriteManifest(storage_, Folder(clock), manifest).ok());
    std::erase_if(listed_, [clock](const CommittedCheckpoint& one) { return one.clock == clock; });
    listed_.push_back({clock, Folder(clock)});
  }

  // Deletes a checkpoint as the coordinator does, which forgets it first.
  void Delete(uint64_t clock) {
    std::erase_if(listed_, [clock](const CommittedCheckpoint& one) { return one.clock == clock; });
    ASSERT_TRUE(DeleteCheckpoint(storage_, Folder(clock)).ok());
  }

  void Look() { committed_.Look(listed_); }
  absl::Status LookAndCheck() {
    Look();
    return committed_.Check(listed_);
  }
  void ExpectFault(const ::testing::Matcher<std::string>& matcher) {
    const absl::Status status = LookAndCheck();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), matcher);
  }

  const std::string root_ = ::testing::TempDir() + "/committed_files";
  LocalStorage storage_;
  // What the coordinator lists.
  std::vector<CommittedCheckpoint> listed_;
  CommittedFiles committed_;
};

TEST_F(CommittedFilesTest, WhatStaysAsItWasIsFineAndSoIsWhatNewerOnesRetire) {
  EXPECT_TRUE(LookAndCheck().ok());
  for (const uint64_t clock : {10, 20, 30}) {
    Commit(clock);
    EXPECT_TRUE(LookAndCheck().ok());
  }
  Delete(10);
  EXPECT_TRUE(LookAndCheck().ok()) << LookAndCheck();
  EXPECT_EQ(committed_.seen(), 3u);
  EXPECT_EQ(committed_.clocks(), (std::vector<uint64_t>{20, 30}));
}

TEST_F(CommittedFilesTest, WhatGoesWhileItIsLookedAtMayBeRetired) {
  for (const uint64_t clock : {10, 20, 30}) Commit(clock);
  Look();
  const std::vector<CommittedCheckpoint> listed_before = listed_;
  Delete(10);
  committed_.Look(listed_before);
  EXPECT_TRUE(LookAndCheck().ok()) << LookAndCheck();
}

// It was newer than what it retired, though nobody saw it whole.
TEST_F(CommittedFilesTest, WhatGoesWhileItIsLookedAtHasRetiredOthers) {
  Commit(10);
  Look();
  Commit(20);
  Commit(30);
  Delete(10);
  ASSERT_TRUE(DeleteCheckpoint(storage_, Folder(20)).ok());
  Look();
  Delete(20);
  Commit(40);
  EXPECT_EQ(LookAndCheck(), absl::OkStatus());
}

TEST_F(CommittedFilesTest, AFileThatIsWrittenAgainShows) {
  Commit(10);
  Look();
  Replace(Path(10, 1), "another history");
  ExpectFault(AllOf(HasSubstr("at clock 10"), HasSubstr(Name(1)), HasSubstr("with other bytes")));
}

TEST_F(CommittedFilesTest, AFileThatIsWrittenAgainShowsWithTheSameBytesToo) {
  Commit(10);
  Look();
  Replace(Path(10, 1), Bytes(10, 1));
  ExpectFault(AllOf(HasSubstr(Name(1)), HasSubstr("with the same bytes")));
}

TEST_F(CommittedFilesTest, AFaultIsRememberedWhenItsCheckpointIsRetired) {
  Commit(10);
  Look();
  Replace(Path(10, 0), "another history");
  Look();
  Commit(20);
  Commit(30);
  Delete(10);
  ExpectFault(HasSubstr("with other bytes"));
}

TEST_F(CommittedFilesTest, AFileThatDiffersFromItsManifestShowsAtOnce) {
  fs::create_directories(Folder(10));
  std::string wrong = Bytes(10, 0);
  wrong[0] ^= 1;
  Replace(Path(10, 0), wrong);
  Commit(10);
  ExpectFault(HasSubstr(Name(0)));
}

TEST_F(CommittedFilesTest, ASecondManifestShows) {
  Commit(10);
  Look();
  fs::remove(Folder(10) + "/MANIFEST");
  Commit(10, /*created_unix_ms=*/6);
  ExpectFault(HasSubstr("another MANIFEST"));
}

TEST_F(CommittedFilesTest, WhatGoesBeforeItsTimeShows) {
  Commit(10);
  Commit(20);
  Look();
  Delete(10);
  ExpectFault(AllOf(HasSubstr("at clock 10"), HasSubstr("1 newer ones")));
}

TEST_F(CommittedFilesTest, AFileThatGoesShows) {
  Commit(10);
  Look();
  fs::remove(Path(10, 1));
  ExpectFault(AllOf(HasSubstr(Name(1)), HasSubstr("is gone")));
}

TEST_F(CommittedFilesTest, AClockThatWasRetiredIsNotCommittedAgain) {
  for (const uint64_t clock : {10, 20, 30}) Commit(clock);
  Look();
  Delete(10);
  Look();
  Commit(10);
  ExpectFault(HasSubstr("committed again"));
}

}  // namespace
}  // namespace muster
