// Jobs whose checkpoints were restored under another root than the one that their records name.
#include "server/coordinator/checkpoints/moved_root.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/fake_clock_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/checkpoints/fake_checkpoint_archive.h"
#include "server/coordinator/store/memory_job_store_for_testing.h"

namespace muster {
namespace {

class MovedRootTest : public ::testing::Test {
 protected:
  MovedRootTest() { table_ = *JobTable::Load(store_, clock_, {}); }

  // Adds a job that has a checkpoint at clock 4 under `root`, and goes on from it.
  Job& AddJob(const std::string& root) {
    v1::JobRecord record;
    record.set_state(v1::PENDING);
    record.mutable_spec()->set_workers(1);
    Job& job = **table_->Create(record, "submitted");
    JobChange change{.record = job.record};
    change.record.add_checkpoints()->set_clock(4);
    change.record.mutable_checkpoints(0)->set_uri(absl::StrCat(root, "/", job.id(), "/4"));
    change.record.set_restore_uri(change.record.checkpoints(0).uri());
    EXPECT_TRUE(table_->Commit(job, std::move(change)).ok());
    return job;
  }

  // Returns the folders that the job's record names, as the store has them.
  std::vector<std::string> StoredFolders(const Job& job) {
    const auto read = *JobTable::Load(store_, clock_, {});
    const v1::JobRecord& record = read->Find(job.id())->record;
    return {record.checkpoints(0).uri(), record.restore_uri(), record.initial_uri()};
  }

  MemoryJobStore store_;
  FakeClock clock_;
  FakeCheckpointArchive archive_;
  std::unique_ptr<JobTable> table_;
};

TEST_F(MovedRootTest, RecordsNameWhatIsUnderTheNewRoot) {
  Job& job = AddJob("/before");
  JobChange change{.record = job.record};
  change.record.set_initial_uri(absl::StrCat("/before/", AddJob("/before").id(), "/4"));
  ASSERT_TRUE(table_->Commit(job, change).ok());
  const std::string source = absl::StrCat("/checkpoints/", table_->jobs().rbegin()->second->id());
  archive_.folders = {absl::StrCat("/checkpoints/", job.id(), "/4"), source + "/4"};
  ASSERT_TRUE(FollowMovedRoot(*table_, archive_).ok());
  const std::string now = absl::StrCat("/checkpoints/", job.id(), "/4");
  EXPECT_THAT(StoredFolders(job), ::testing::ElementsAre(now, now, source + "/4"));
  EXPECT_THAT(job.events.back().text(), ::testing::HasSubstr("are under /checkpoints now"));

  const size_t events = job.events.size();
  ASSERT_TRUE(FollowMovedRoot(*table_, archive_).ok());
  EXPECT_EQ(job.events.size(), events) << "once is enough";
}

TEST_F(MovedRootTest, WhatIsStillThereOrNowhereKeepsItsName) {
  Job& there = AddJob("/before");
  Job& nowhere = AddJob("/before");
  archive_.folders = {absl::StrCat("/before/", there.id(), "/4"),
                      absl::StrCat("/checkpoints/", there.id(), "/4")};
  ASSERT_TRUE(FollowMovedRoot(*table_, archive_).ok());
  EXPECT_EQ(StoredFolders(there)[0], absl::StrCat("/before/", there.id(), "/4"));
  EXPECT_EQ(StoredFolders(nowhere)[0], absl::StrCat("/before/", nowhere.id(), "/4"));
}

TEST_F(MovedRootTest, AUsersOwnFolderIsNoJobs) {
  Job& job = AddJob("/checkpoints");
  JobChange change{.record = job.record};
  change.record.set_initial_uri("/weights/mine/4");
  ASSERT_TRUE(table_->Commit(job, change).ok());
  archive_.folders = {"/checkpoints/mine/4"};
  ASSERT_TRUE(FollowMovedRoot(*table_, archive_).ok());
  EXPECT_EQ(StoredFolders(job)[2], "/weights/mine/4");
}

}  // namespace
}  // namespace muster
