// Dropping a job's tables by generation, while they are open, being opened, or only on disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "server/shard/storage/mutation_log.h"
#include "server/shard/test_engine.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

v1::OpenTablesRequest Generation(uint64_t generation, v1::OpenTablesRequest request) {
  request.set_generation(generation);
  return request;
}

v1::DropTablesRequest Drop(uint64_t generation) {
  v1::DropTablesRequest request;
  request.set_job_id("job");
  request.set_generation(generation);
  return request;
}

class DropTablesTest : public TestEngine {
 protected:
  bool IsOpen() const { return engine_->Stats().tables_size() > 0; }
};

TEST_F(DropTablesTest, DropsUpToItsGenerationAndKeepsLaterOnes) {
  Open(Generation(3, TestDurableRequest()));
  ASSERT_TRUE(engine_->DropTables(Drop(2)).ok());
  EXPECT_TRUE(IsOpen());
  EXPECT_THAT(*store_->Partitions("job"), ElementsAre(0));
  ASSERT_TRUE(engine_->DropTables(Drop(3)).ok());
  EXPECT_FALSE(IsOpen());
  EXPECT_THAT(*store_->Jobs(), IsEmpty());
  EXPECT_THAT(*files_.List("/logs"), IsEmpty());
  Open(Generation(4, TestDurableRequest()));
  ASSERT_TRUE(engine_->DropTables(Drop(7)).ok());
  EXPECT_FALSE(IsOpen());
}

TEST_F(DropTablesTest, WithoutAGenerationDropsWhateverIsThere) {
  Open(Generation(3, TestDurableRequest()));
  ASSERT_TRUE(engine_->DropTables(Drop(0)).ok());
  EXPECT_FALSE(IsOpen());
  EXPECT_THAT(*store_->Jobs(), IsEmpty());
}

TEST_F(DropTablesTest, StoredStateGoesByItsGenerationToo) {
  Open(Generation(3, TestDurableRequest()));
  Start();
  ASSERT_TRUE(engine_->DropTables(Drop(2)).ok());
  EXPECT_THAT(*store_->Partitions("job"), ElementsAre(0));
  EXPECT_EQ(files_.List("/logs")->size(), 1u);
  ASSERT_TRUE(engine_->DropTables(Drop(3)).ok());
  EXPECT_THAT(*store_->Jobs(), IsEmpty());
  EXPECT_THAT(*files_.List("/logs"), IsEmpty());
}

// It leaves dropping the older ones to the opening, which must not fail before.
TEST_F(DropTablesTest, AnOpeningThatFailsHasDroppedOlderGenerations) {
  Open(TestDurableRequest());
  Start();
  v1::OpenTablesRequest missing = Generation(2, TestDurableRequest());
  missing.set_checkpoint_root("no absolute path");
  EXPECT_FALSE(engine_->OpenTables(missing).ok());
  ASSERT_TRUE(engine_->DropTables(Drop(1)).ok());
  EXPECT_THAT(*store_->Jobs(), IsEmpty());
  EXPECT_THAT(*files_.List("/logs"), IsEmpty());
}

TEST_F(DropTablesTest, WhatCouldNotBeDroppedIsDroppedLater) {
  Open(Generation(3, TestDurableRequest()));
  files_.set_fault([](FakeLogFileSystem::Operation operation, const std::string&) {
    return operation == FakeLogFileSystem::Operation::kRemove ? absl::UnavailableError("I/O error")
                                                              : absl::OkStatus();
  });
  EXPECT_FALSE(engine_->DropTables(Drop(3)).ok());
  files_.set_fault(nullptr);
  EXPECT_FALSE(files_.List("/logs")->empty());
  // Whoever comes next, for whatever job.
  v1::OpenTablesRequest other = TestOpenRequest(1);
  other.set_job_id("other");
  Open(other);
  EXPECT_THAT(*files_.List("/logs"), IsEmpty());
}

TEST_F(DropTablesTest, WhatAnOpeningCouldNotDropIsDroppedLater) {
  Open(TestDurableRequest());
  Start();
  files_.set_fault([](FakeLogFileSystem::Operation operation, const std::string&) {
    return operation == FakeLogFileSystem::Operation::kRemove ? absl::UnavailableError("I/O error")
                                                              : absl::OkStatus();
  });
  EXPECT_FALSE(engine_->OpenTables(Generation(2, TestDurableRequest())).ok());
  files_.set_fault(nullptr);
  EXPECT_FALSE(files_.List("/logs")->empty());
  ASSERT_TRUE(engine_->DropTables(Drop(1)).ok());
  EXPECT_THAT(*files_.List("/logs"), IsEmpty());
  // What has come to later ones is fenced as before.
  EXPECT_TRUE(absl::IsAborted(engine_->OpenTables(TestDurableRequest()).status()));
}

TEST_F(DropTablesTest, AStartDropsLogsThatNobodyGoesOnFrom) {
  Open(TestDurableRequest());
  MutationLog::Options options;
  options.file_system = &files_;
  ASSERT_TRUE(MutationLog::Open("/logs/gone.3", options).ok());
  ASSERT_TRUE(files_.Open("/logs/notes", LogFileSystem::Mode::kCreate).ok());
  Start();
  EXPECT_THAT(*files_.List("/logs"), UnorderedElementsAre("job.0", "notes"));
}

// A store of checkpoints that tells when one is being opened.
class ObservedStorage final : public CheckpointStorage {
 public:
  absl::StatusOr<std::unique_ptr<StorageWriter>> Create(absl::string_view uri) override {
    return files_.Create(uri);
  }
  absl::StatusOr<std::unique_ptr<StorageReader>> Open(absl::string_view uri) const override {
    if (opening) opening();
    return files_.Open(uri);
  }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view uri) const override {
    return files_.List(uri);
  }
  absl::StatusOr<bool> Exists(absl::string_view uri) const override { return files_.Exists(uri); }
  absl::Status DeleteRecursively(absl::string_view uri) override {
    return files_.DeleteRecursively(uri);
  }
  absl::Status SyncFolder(absl::string_view uri) override { return files_.SyncFolder(uri); }

  std::function<void()> opening;

 private:
  MemoryStorage files_;
};

TEST_F(DropTablesTest, LeavesALaterGenerationThatIsBeingOpenedAlone) {
  ObservedStorage storage;
  ShardEngine::Options options = Options();
  options.checkpoint_storage = &storage;
  Start(options);
  Open(TestDurableRequest());
  int dropped = 0;
  storage.opening = [&] { dropped += engine_->DropTables(Drop(1)).ok() ? 1 : 0; };
  Open(Generation(2, TestDurableRequest()));
  EXPECT_GT(dropped, 0);
  EXPECT_TRUE(IsOpen());
  EXPECT_THAT(*store_->Partitions("job"), ElementsAre(0));
  EXPECT_EQ(files_.List("/logs")->size(), 1u);
}

TEST_F(DropTablesTest, WaitsForItsOwnGenerationThatIsBeingOpened) {
  ObservedStorage storage;
  ShardEngine::Options options = Options();
  options.checkpoint_storage = &storage;
  Start(options);
  absl::Notification opening;
  std::thread dropper([&] {
    opening.WaitForNotification();
    EXPECT_TRUE(engine_->DropTables(Drop(1)).ok());
  });
  storage.opening = [&] {
    if (!opening.HasBeenNotified()) opening.Notify();
  };
  ASSERT_TRUE(engine_->OpenTables(TestDurableRequest()).ok());
  dropper.join();
  EXPECT_FALSE(IsOpen());
  EXPECT_THAT(*store_->Jobs(), IsEmpty());
}

}  // namespace
}  // namespace muster
