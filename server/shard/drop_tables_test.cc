// Dropping a job's tables by generation, while they are open, being opened, or only on disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "common/checkpoint/manifest.h"
#include "proto/checkpoint.pb.h"
#include "server/shard/storage/mutation_log.h"
#include "server/shard/test_engine.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
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
    if (opening) opening(uri);
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

  std::function<void(absl::string_view uri)> opening;

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
  storage.opening = [&](absl::string_view) {
    dropped += engine_->DropTables(Drop(1)).ok() ? 1 : 0;
  };
  Open(Generation(2, TestDurableRequest()));
  EXPECT_GT(dropped, 0);
  EXPECT_TRUE(IsOpen());
  EXPECT_THAT(*store_->Partitions("job"), ElementsAre(0));
  EXPECT_EQ(files_.List("/logs")->size(), 1u);
}

// Of eight partitions, each with a block.
v1::OpenTablesRequest ManyPartitions() {
  v1::OpenTablesRequest request = TestDurableRequest();
  request.mutable_schema()->set_partitions(8);
  request.mutable_schema()->mutable_tensors(0)->set_shape(0, 8 * 4);
  request.clear_partitions();
  for (uint32_t partition = 0; partition < 8; ++partition) {
    request.add_partitions()->set_partition(partition);
  }
  return request;
}

class StopOpeningTest : public DropTablesTest {
 protected:
  // Has `stop` called on a thread of its own while the log of partition 2 is made, and goes on once
  // the generation is unwanted: whoever waits for its tables is told so then.
  void StopAtPartition2(std::function<void()> stop) {
    files_.set_fault([this, stop](FakeLogFileSystem::Operation operation, const std::string& path) {
      if (operation != FakeLogFileSystem::Operation::kOpen) return absl::OkStatus();
      logs_.insert(path.substr(0, path.rfind('/')));
      if (logs_.size() == 3 && !stopper_.joinable()) {
        stopper_ = std::thread(stop);
        waiting_ = engine_->OpenTables(ManyPartitions()).status();
      }
      return absl::OkStatus();
    });
  }

  // Folders of the logs that were made.
  std::set<std::string> logs_;
  std::thread stopper_;
  // What another task that wants the tables is answered.
  absl::Status waiting_;
};

TEST_F(StopOpeningTest, ADropEndsTheMakingOfItsTablesAtTheNextPartition) {
  ShardEngine::Options options = Options();
  // For the job once, not twice.
  options.memory_budget_bytes = 96 << 10;
  Start(options);
  StopAtPartition2([this] { EXPECT_TRUE(engine_->DropTables(Drop(1)).ok()); });
  const absl::Status stopped = engine_->OpenTables(ManyPartitions()).status();
  ASSERT_TRUE(stopper_.joinable());
  stopper_.join();
  EXPECT_TRUE(absl::IsAborted(stopped)) << stopped;
  EXPECT_TRUE(absl::IsAborted(waiting_)) << waiting_;
  EXPECT_EQ(logs_.size(), 3u) << "of 8";
  EXPECT_FALSE(IsOpen());
  EXPECT_THAT(*store_->Jobs(), IsEmpty());
  files_.set_fault(nullptr);
  EXPECT_THAT(*files_.List("/logs"), IsEmpty());
  // Its memory is there for others.
  v1::OpenTablesRequest other = ManyPartitions();
  other.set_job_id("other");
  Open(other);
  EXPECT_TRUE(IsOpen());
  EXPECT_TRUE(absl::IsResourceExhausted(engine_->OpenTables(ManyPartitions()).status()));
}

TEST_F(StopOpeningTest, ALaterGenerationEndsTheMakingOfAnEarlierOnes) {
  StopAtPartition2([this] { Open(Generation(2, ManyPartitions())); });
  const absl::Status stopped = engine_->OpenTables(ManyPartitions()).status();
  ASSERT_TRUE(stopper_.joinable());
  stopper_.join();
  EXPECT_TRUE(absl::IsAborted(stopped)) << stopped;
  EXPECT_TRUE(absl::IsAborted(waiting_)) << waiting_;
  EXPECT_TRUE(IsOpen());
  EXPECT_THAT(*store_->Partitions("job"), SizeIs(8));
}

TEST_F(StopOpeningTest, ADropOfEarlierGenerationsLeavesItAlone) {
  int dropped = 0;
  files_.set_fault([&](FakeLogFileSystem::Operation, const std::string&) {
    dropped += engine_->DropTables(Drop(1)).ok() ? 1 : 0;
    return absl::OkStatus();
  });
  Open(Generation(2, ManyPartitions()));
  EXPECT_GT(dropped, 0);
  EXPECT_THAT(*store_->Partitions("job"), SizeIs(8));
}

TEST_F(StopOpeningTest, AReplayOfALongLogEndsToo) {
  Open(TestDurableRequest());
  constexpr int kSteps = 300;
  for (uint64_t clock = 0; clock < kSteps; ++clock) Step(clock, 1);
  Start();
  // The log is read when the state is.
  int reads = 0;
  std::thread dropper;
  absl::Status waiting;
  v1::OpenTablesRequest again = TestDurableRequest();
  again.set_expect_state(true);
  files_.set_fault([&](FakeLogFileSystem::Operation operation, const std::string&) {
    if (operation == FakeLogFileSystem::Operation::kRead && reads++ == 0) {
      dropper = std::thread([this] { EXPECT_TRUE(engine_->DropTables(Drop(1)).ok()); });
      waiting = engine_->OpenTables(again).status();
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsAborted(engine_->OpenTables(again).status()));
  ASSERT_TRUE(dropper.joinable());
  dropper.join();
  EXPECT_TRUE(absl::IsAborted(waiting)) << waiting;
  EXPECT_THAT(*store_->Jobs(), IsEmpty());
}

// Also within its one partition.
TEST_F(StopOpeningTest, ARestoreEndsToo) {
  ObservedStorage storage;
  ShardEngine::Options options = Options();
  options.checkpoint_storage = &storage;
  Start(options);
  const v1::OpenTablesRequest request = TestOpenRequest(1);
  Open(request);
  const TestAnswer cut = Do(TestCut(0, 0));
  v1::CheckpointManifest manifest;
  manifest.set_job_id("job");
  manifest.set_generation(1);
  *manifest.mutable_schema() = request.schema();
  v1::CheckpointFile& file = *manifest.add_files();
  file.set_path(cut.reply().checkpoint_path());
  file.set_bytes(cut.reply().checkpoint_bytes());
  file.set_checksum(cut.reply().checkpoint_checksum());
  const std::string folder = CheckpointFolder("/checkpoints", "job", 0);
  ASSERT_TRUE(WriteManifest(storage, folder, manifest).ok());
  v1::OpenTablesRequest restored = Generation(2, request);
  restored.set_restore_uri(folder);
  storage.opening = [&](absl::string_view uri) {
    if (!absl::EndsWith(uri, "MANIFEST") || stopper_.joinable()) return;
    stopper_ = std::thread([this] { EXPECT_TRUE(engine_->DropTables(Drop(2)).ok()); });
    waiting_ = engine_->OpenTables(restored).status();
  };
  const absl::Status stopped = engine_->OpenTables(restored).status();
  ASSERT_TRUE(stopper_.joinable());
  stopper_.join();
  EXPECT_TRUE(absl::IsAborted(stopped)) << stopped;
  EXPECT_TRUE(absl::IsAborted(waiting_)) << waiting_;
  EXPECT_FALSE(IsOpen());
}

}  // namespace
}  // namespace muster
