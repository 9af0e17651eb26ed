// Checks that a group's cuts hold what training had come to when they were taken, whatever it does
// while their files are written, and that a loss leaves either all files or none to be committed.
#include "worker/strategy/group/group_cuts.h"

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "worker/collectives/host/ranks_for_testing.h"
#include "worker/strategy/group/faulty_communicator_for_testing.h"
#include "worker/strategy/group/recovery/held_storage_for_testing.h"
#include "worker/strategy/group/sharded_job_for_testing.h"
#include "worker/strategy/group/test_manifest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kCutClock = 2;
constexpr uint64_t kLastStep = 5;

// Rank 0 has the files written, as the trainer does.
absl::Status Take(ShardedTask& task, int rank, uint64_t clock) {
  BackgroundCuts& cuts = task.strategy().background_cuts();
  absl::Status status = cuts.Take(clock);
  if (status.ok() && rank == 0) cuts.Write(clock, absl::nullopt);
  return status;
}

struct CutCase {
  std::string name;
  ShardedJob job;
  bool offloads = false;
};

class GroupCutsTest : public ::testing::TestWithParam<CutCase> {
 protected:
  GroupCutsTest() : job_(GetParam().job) {
    if (GetParam().offloads) job_.offload_folder = folder_.path();
  }

  std::vector<std::string> Stored(uint64_t clock) const {
    return storage_.List(CheckpointFolder("/root", "job", clock))
        .value_or(std::vector<std::string>());
  }

  v1::CheckpointManifest Manifest(uint64_t clock, const CutFiles& files) const {
    v1::CheckpointManifest manifest = TestManifest(Schema(job_), clock, files.by_partition);
    if (job_.mesh().size(kStateAxes) > 1) manifest.set_rank_files(job_.ranks);
    return manifest;
  }

  const TempFolder folder_;
  ShardedJob job_;
  HeldStorage storage_;
};

TEST_P(GroupCutsTest, TrainingGoesOnAndTheFilesAreThoseOfTheClock) {
  CutFiles behind, waited;
  TestRanks ranks(job_.ranks);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    ShardedTask task(job_, rank, storage_);
    ASSERT_EQ(task.strategy().Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    for (uint64_t step = 0; step < kCutClock; ++step) ASSERT_EQ(task.Step(), absl::OkStatus());
    // The same state, waited for.
    const CutFiles files = task.strategy().Cut(kCutClock).value();
    ASSERT_EQ(task.strategy().EndCut(CutEnd::kCommitted).value(), CutEnd::kCommitted);
    if (rank == 0) storage_.Hold();
    ranks.AwaitAll();
    ASSERT_EQ(Take(task, rank, kCutClock), absl::OkStatus());
    // No file is durable while these steps are made.
    while (*task.strategy().replica_clock() < kLastStep) ASSERT_EQ(task.Step(), absl::OkStatus());
    BackgroundCuts& cuts = task.strategy().background_cuts();
    ranks.AwaitAll();
    if (rank == 0) {
      EXPECT_FALSE(cuts.Written());
      storage_.LetGo();
    }
    // Rank 0 learns between steps that all have written, in the same step as all others.
    double is_written = 0;
    while (is_written == 0) {
      ASSERT_EQ(task.Step(), absl::OkStatus());
      is_written = rank == 0 && cuts.Written() ? 1 : 0;
      CollectiveCall call;
      call.kind = Collective::kAllReduce;
      call.dtype = DType::kF64;
      call.in = call.out = &is_written;
      call.count = 1;
      call.timeout = absl::Minutes(1);
      ASSERT_EQ(const_cast<Communicator*>(task.strategy().communicator())->Run(call),
                absl::OkStatus());
    }
    if (rank != 0) return;
    waited = files;
    behind = cuts.AwaitFiles().value();
  });
  EXPECT_THAT(behind.failure, IsEmpty());
  ASSERT_EQ(behind.by_partition.size(), waited.by_partition.size());
  for (size_t i = 0; i < waited.by_partition.size(); ++i) {
    const PartitionFile& file = behind.by_partition[i];
    EXPECT_EQ(file.partition, waited.by_partition[i].partition);
    EXPECT_EQ(ReadFile(storage_, JoinUri("/root/job/2", file.path)).value(),
              ReadFile(storage_, JoinUri("/root/job/2", waited.by_partition[i].path)).value());
  }
  ASSERT_EQ(WriteManifest(storage_, "/root/job/2", Manifest(kCutClock, behind)), absl::OkStatus());
  ASSERT_EQ(VerifyCheckpoint(storage_, "/root/job/2"), absl::OkStatus());
}

TEST_P(GroupCutsTest, TheNextCutAndTheLastOneWaitForTheFiles) {
  TestRanks ranks(job_.ranks);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    ShardedTask task(job_, rank, storage_);
    BackgroundCuts& cuts = task.strategy().background_cuts();
    ASSERT_EQ(task.strategy().Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    for (uint64_t clock = 0; clock < 4; ++clock) {
      if (clock > 0) {
        // Rank 0 first asks for the files of the cut before.
        if (rank == 0 && clock > 1) EXPECT_FALSE(cuts.AwaitFiles()->by_partition.empty());
        ASSERT_EQ(Take(task, rank, clock), absl::OkStatus());
      }
      ASSERT_EQ(task.Step(), absl::OkStatus());
    }
    if (rank == 0) EXPECT_FALSE(cuts.AwaitFiles()->by_partition.empty());
    EXPECT_EQ(task.strategy().Cut(4)->failure, "");
    EXPECT_EQ(task.strategy().EndCut(CutEnd::kCommitted).value(), CutEnd::kCommitted);
  });
  for (uint64_t clock = 1; clock <= 4; ++clock) {
    EXPECT_EQ(Stored(clock).size(), Stored(4).size()) << clock;
  }
}

TEST_P(GroupCutsTest, WhatOneRankCannotWriteIsGivenUpByAll) {
  MemoryStorage blocked;
  ASSERT_EQ(WriteFile(blocked, "/root/job", "x"), absl::OkStatus());
  TestRanks ranks(job_.ranks);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    const bool cannot = rank == 1;
    CheckpointStorage& storage = cannot ? static_cast<CheckpointStorage&>(blocked) : storage_;
    ShardedTask task(job_, rank, storage);
    auto& cuts = static_cast<GroupCuts&>(task.strategy().background_cuts());
    ASSERT_EQ(task.strategy().Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    ASSERT_EQ(Take(task, rank, 0), absl::OkStatus());
    while (!cuts.rank_has_written()) std::this_thread::yield();
    ASSERT_EQ(task.Step(), absl::OkStatus());
    if (rank == 0) EXPECT_THAT(cuts.AwaitFiles()->failure, HasSubstr("could not write its part"));
    // The next one begins after that, and succeeds.
    if (cannot) ASSERT_EQ(blocked.DeleteRecursively("/root/job"), absl::OkStatus());
    ASSERT_EQ(Take(task, rank, 1), absl::OkStatus());
    ASSERT_EQ(task.Step(), absl::OkStatus());
    if (rank == 0) EXPECT_THAT(cuts.AwaitFiles()->failure, IsEmpty());
    EXPECT_TRUE(task.strategy().Cut(2).ok());
  });
  EXPECT_THAT(Stored(0), IsEmpty());
  EXPECT_THAT(Stored(1), Not(IsEmpty()));
}

TEST_P(GroupCutsTest, ACutThatTheGroupDoesNotEndIsGivenUp) {
  TestRanks ranks(job_.ranks);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    ShardedTask task(job_, rank, storage_);
    ASSERT_EQ(task.strategy().Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    if (rank == 0) storage_.Hold();
    ranks.AwaitAll();
    ASSERT_EQ(Take(task, rank, 0), absl::OkStatus());
    ASSERT_EQ(task.Step(), absl::OkStatus());
    task.strategy().Leave();
    ranks.AwaitAll();
    if (rank == 0) storage_.LetGo();
  });
  EXPECT_THAT(Stored(0), IsEmpty());
}

// A rank dies at any call from the cut on. Either rank 0 has all files, which are whole, or it has
// none; and those that it has not got are gone, unless the call that tells of them was under way.
TEST_P(GroupCutsTest, ARankMayDieAtAnyCall) {
  for (const int victim : {0, job_.ranks - 1}) {
    bool died = true;
    bool was_complete = false;
    for (int call = 0; died; ++call) {
      SCOPED_TRACE("rank " + std::to_string(victim) + " dies before call " + std::to_string(call));
      HeldStorage storage;
      std::vector<Fault> faults(job_.ranks);
      faults[victim].dies_before = call;
      absl::optional<CutFiles> files;
      TestRanks ranks(job_.ranks);
      ranks.Run([&](std::unique_ptr<Communicator> communicator) {
        const int rank = communicator->rank();
        Fault& fault = faults[rank];
        fault.die = [&ranks, rank] { ranks.Kill(rank); };
        ShardedTask task(job_, rank, storage);
        ASSERT_EQ(task.strategy().Join(
                      std::make_unique<FaultyCommunicator>(std::move(communicator), fault),
                      absl::nullopt),
                  absl::OkStatus());
        ranks.AwaitAll();
        fault.armed = true;
        absl::Status status = Take(task, rank, 0);
        if (status.ok()) status = task.Step();
        if (status.ok() && rank == 0) {
          absl::StatusOr<CutFiles> written = task.strategy().background_cuts().AwaitFiles();
          status = written.status();
          if (written.ok()) files = *std::move(written);
        }
        if (status.ok()) Take(task, rank, 1).IgnoreError();
        fault.armed = false;
      });
      died = faults[victim].happened;
      if (!files.has_value()) continue;
      was_complete = true;
      ASSERT_EQ(files->failure, "");
      ASSERT_EQ(WriteManifest(storage, "/root/job/0", Manifest(0, *files)), absl::OkStatus());
      ASSERT_EQ(VerifyCheckpoint(storage, "/root/job/0"), absl::OkStatus());
    }
    EXPECT_TRUE(was_complete);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, GroupCutsTest,
    ::testing::Values(CutCase{"Replicas", {.ranks = 2, .max_norm = 3}},
                      CutCase{"MoreRanksThanFiles", {.ranks = 4}},
                      CutCase{"Stage1", {.stage = 1, .ranks = 3, .micro_batches = 2}},
                      CutCase{"Stage2WithReplicas",
                              {.stage = 2, .ranks = 4, .shard = 2, .compute = DType::kBf16}},
                      CutCase{"Stage3WithCopies",
                              {.stage = 3, .ranks = 3, .max_norm = 3, .redundant = true}},
                      CutCase{"Rows", {.stage = 2, .ranks = 2, .has_rows = true}},
                      CutCase{"TensorRanks", {.stage = 1, .ranks = 4, .tensor = 2}},
                      CutCase{"InF16", {.stage = 1, .ranks = 2, .compute = DType::kF16}},
                      CutCase{"Offloaded", {.stage = 2, .ranks = 2}, /*offloads=*/true}),
    [](const ::testing::TestParamInfo<CutCase>& info) { return info.param.name; });

}  // namespace
}  // namespace muster
