// Jobs whose ranks hold different shards, or compute layers together, and what happens when some
// are lost.
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/lifecycle/recovery.h"
#include "server/coordinator/simulation/all_reduce_test_fixture.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(AllReduceTest, TensorGroupsAreOnOneWorkerAndTakePartWhole) {
  cluster_.AddWorker("w0", 2);
  cluster_.AddWorker("w1", 1);
  cluster_.AddWorker("w2", 1);
  v1::JobSpec spec = Job(4, 2);
  spec.mutable_parallelism()->set_tensor(2);
  const std::string job = Running(spec);
  EXPECT_EQ(Worker(job, 0), "w0");
  EXPECT_EQ(Worker(job, 1), "w0");
  EXPECT_THAT(cluster_.Status(job).split_groups(),
              ElementsAre("tensor group of slots 2-3 spans workers w1 and w2"));
  const v1::TaskStatus last = cluster_.Status(job).tasks(3);
  ASSERT_EQ(last.coordinates_size(), 2);
  EXPECT_EQ(last.coordinates(0).axis(), "data");
  EXPECT_EQ(last.coordinates(0).position(), 1);
  EXPECT_EQ(last.coordinates(1).axis(), "tensor");
  EXPECT_EQ(last.coordinates(1).position(), 1);
  // Without slot 3, slot 2 cannot compute its share either.
  Kill("w2");
  auto a = cluster_.Rendezvous(Order(job, 0));
  auto b = cluster_.Rendezvous(Order(job, 1));
  auto alone = cluster_.Rendezvous(Order(job, 2));
  cluster_.Pass(kElasticWait);
  ASSERT_TRUE(a.status().ok()) << a.status();
  ASSERT_EQ(a.get()->peers_size(), 2);
  EXPECT_EQ(a.get()->peers(1).slot(), 1);
  EXPECT_FALSE(alone.came());
  EXPECT_TRUE(cluster_.Progress(Order(job, 0), 5).ok());
  EXPECT_TRUE(cluster_.Progress(Order(job, 1), 5).ok());
  EXPECT_EQ(cluster_.progress_reply.meet_after_round(), 0) << "nobody could join";
  // A worker comes. The whole group joins.
  cluster_.AddWorker("w3");
  auto joins = cluster_.Rendezvous(AwaitOrder(job, 3));
  EXPECT_TRUE(cluster_.Progress(Order(job, 0), 6).ok());
  EXPECT_EQ(cluster_.progress_reply.meet_after_round(), 2);
  EXPECT_TRUE(cluster_.Progress(Order(job, 1), 6).ok());
  cluster_.Rendezvous(Order(job, 0));
  cluster_.Rendezvous(Order(job, 1));
  ASSERT_TRUE(alone.status().ok()) << alone.status();
  EXPECT_EQ(joins.get()->peers_size(), 4);
}

TEST_F(AllReduceTest, WhoSitsOutARoundComesLikeANewcomer) {
  cluster_.AddWorker("w0", 2);
  cluster_.AddWorker("w1", 1);
  cluster_.AddWorker("w2", 1);
  v1::JobSpec spec = Job(4, 2);
  spec.mutable_parallelism()->set_tensor(2);
  const std::string job = Running(spec);
  Kill("w2");
  // It has made a step that the others go on to make with other examples.
  cluster_.rank(Order(job, 2)).clock = 5;
  cluster_.rank(Order(job, 2)).late = true;
  cluster_.rank(Order(job, 2)).failure = "slot 3 has left";
  auto alone = cluster_.Rendezvous(Order(job, 2));
  cluster_.Rendezvous(Order(job, 0));
  cluster_.Rendezvous(Order(job, 1));
  cluster_.Pass(kElasticWait);
  EXPECT_TRUE(cluster_.HasEvent(job, "goes on with 2 of 4 workers again in round 2"));
  EXPECT_TRUE(cluster_.HasEvent(job, "the last one ended: slot 2 on worker w1: slot 3 has left"));
  EXPECT_EQ(cluster_.rank(Order(job, 0)).round, 2u);
  EXPECT_EQ(cluster_.rank(Order(job, 0)).clock, 3u);
  // It calls again, and says the same.
  alone = cluster_.Rendezvous(Order(job, 2));
  // The two that go on do not hurry because it was late once.
  auto share = cluster_.Evaluate(Order(job, 0), 4);
  cluster_.Pass(2 * kLease);
  EXPECT_EQ(cluster_.Status(job).tasks(1).incarnation(), 1u);
  EXPECT_FALSE(share.came());
  cluster_.Evaluate(Order(job, 1), 4);
  EXPECT_TRUE(share.status().ok()) << share.status();
  EXPECT_TRUE(cluster_.Progress(Order(job, 0), 5).ok());
  EXPECT_TRUE(cluster_.Progress(Order(job, 1), 5).ok());
  cluster_.AddWorker("w3");
  cluster_.Rendezvous(AwaitOrder(job, 3));
  cluster_.Rendezvous(Order(job, 0));
  cluster_.Rendezvous(Order(job, 1));
  ASSERT_TRUE(alone.status().ok()) << alone.status();
  EXPECT_THAT(alone.get()->sat_out_slots(), ElementsAre(2));
  EXPECT_TRUE(
      cluster_.HasEvent(job, "all 4 slots met again in round 3, from slot 0's replica at clock 5"));
  EXPECT_FALSE(cluster_.HasEvent(job, "at clock 5; the last one ended"));
}

TEST_F(AllReduceTest, ATaskGoesWhereItsTensorGroupIs) {
  cluster_.AddWorker("w0", 4);
  cluster_.AddWorker("w1", 6);
  v1::JobSpec spec = Job(4);
  spec.mutable_parallelism()->set_tensor(2);
  const std::string job = Running(spec);
  EXPECT_EQ(Worker(job, 0), "w1");
  EXPECT_EQ(Worker(job, 3), "w0");
  EXPECT_EQ(cluster_.Status(job).recovery(),
            "continues with a replica of the lost worker's slice; without it, rolls back to clock "
            "0");
  // By then w1 has more slots free.
  cluster_.Die(Order(job, 2));
  AwaitOrder(job, 2);
  EXPECT_EQ(Worker(job, 2), "w0");
}

TEST_F(AllReduceTest, AShardGroupGoesBackWhateverRankIsLost) {
  AddWorkers(4);
  v1::JobSpec spec = AllReduceJob();
  spec.set_workers(4);
  spec.mutable_parallelism()->mutable_zero()->set_stage(1);
  const std::string job = *cluster_.Submit(spec);
  // No loss counts before the ranks have met.
  cluster_.Die(Order(job, 1));
  EXPECT_EQ(Order(job, 1).generation(), 1);
  cluster_.MeetAll(job);
  cluster_.ProgressAll(job, 3);
  // There are 2 partitions, and each of the 4 ranks writes a file.
  EXPECT_TRUE(cluster_.Checkpoint(Order(job, 0), 3).status().ok());
  cluster_.ProgressAll(job, 4);
  EXPECT_EQ(cluster_.Status(job).recovery(), "rolls back to clock 3");
  cluster_.Die(Order(job, 2));
  for (uint32_t slot = 0; slot < 4; ++slot) {
    EXPECT_EQ(Order(job, slot).generation(), 2);
    EXPECT_EQ(Order(job, slot).start_clock(), 3);
  }
  // Ranks are slots, in whatever order they come, so each has the shard index that it had.
  cluster_.Rendezvous(Order(job, 3));
  cluster_.Rendezvous(Order(job, 1));
  cluster_.Rendezvous(Order(job, 0));
  const auto last = cluster_.Rendezvous(Order(job, 2));
  ASSERT_TRUE(last.status().ok()) << last.status();
  ASSERT_EQ(last.get()->peers_size(), 4);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(last.get()->peers(rank).slot(), rank);
  EXPECT_FALSE(last.get()->has_source_slot());
  cluster_.ProgressAll(job, 5);
  // A collective call failed, though nobody is lost.
  cluster_.MeetAll(job);
  cluster_.BeatAll();
  EXPECT_EQ(Order(job, 0).generation(), 3);
  EXPECT_TRUE(cluster_.HasEvent(job, "slot 0 left round 1, which broke"));
  // A machine is lost with all its tasks.
  cluster_.MeetAll(job);
  cluster_.ProgressAll(job, 6);
  cluster_.RestartDaemon(Worker(job, 0));
  EXPECT_EQ(Order(job, 3).generation(), 4);
  cluster_.MeetAll(job);
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
}

TEST_F(AllReduceTest, CopiesOfShardsKeepTheJobInPlace) {
  AddWorkers(4);
  v1::JobSpec spec = Job(4);
  spec.mutable_parallelism()->mutable_zero()->set_stage(2);
  spec.mutable_parallelism()->mutable_zero()->set_redundancy(1);
  const std::string job = Running(spec);
  EXPECT_EQ(Order(job, 2).worker_id(), Worker(job, 2));
  EXPECT_EQ(
      cluster_.Status(job).recovery(),
      "continues with the copy of the lost worker's slice; without it, rolls back to clock 0");
  EXPECT_TRUE(cluster_.Checkpoint(Order(job, 0), 3).status().ok());
  for (uint32_t slot = 0; slot < 4; ++slot) cluster_.rank(Order(job, slot)).clock = 4;
  cluster_.ProgressAll(job, 4);
  // Ranks 0 and 2 do not keep one another's copies.
  cluster_.Die(Order(job, 0));
  cluster_.Die(Order(job, 2));
  cluster_.rank(Order(job, 3)).clock = 5;
  MeetAfterPause(job);
  EXPECT_EQ(cluster_.rank(Order(job, 0)).round, 2);
  EXPECT_EQ(cluster_.rank(Order(job, 0)).clock, 5) << "rank 1 rolls forward";
  EXPECT_EQ(Order(job, 0).generation(), 1);
  EXPECT_TRUE(cluster_.HasEvent(job, "from slot 3's replica at clock 5"));
  // Rank 2 keeps rank 1's copy.
  cluster_.ProgressAll(job, 5);
  cluster_.Die(Order(job, 1));
  EXPECT_EQ(Order(job, 0).generation(), 1);
  cluster_.Die(Order(job, 2));
  MeetAfterPause(job);
  cluster_.BeatAll();
  EXPECT_EQ(Order(job, 0).generation(), 2);
  EXPECT_EQ(Order(job, 0).start_clock(), 3);
  EXPECT_TRUE(cluster_.HasEvent(job, "no worker has shard 1 of 4 or a copy of it at step 5"));
  cluster_.MeetAll(job);
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
}

// The living tensor rank of a lost one leaves the round with it. What these two had is in copies of
// the other data rank.
class TensorGroupCopiesTest : public AllReduceTest,
                              public ::testing::WithParamInterface<std::tuple<uint32_t, uint32_t>> {
};

TEST_P(TensorGroupCopiesTest, OutliveTheGroup) {
  const auto [stage, lost] = GetParam();
  AddWorkers(4);
  v1::JobSpec spec = Job(4, 2);
  spec.mutable_parallelism()->set_tensor(2);
  spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
  spec.mutable_parallelism()->mutable_zero()->set_redundancy(1);
  const std::string job = Running(spec);
  for (uint32_t slot = 0; slot < 4; ++slot) cluster_.rank(Order(job, slot)).clock = 4;
  cluster_.ProgressAll(job, 4);
  Kill(Worker(job, lost));
  for (uint32_t slot = 0; slot < 4; ++slot) {
    if (slot != lost) cluster_.Rendezvous(Order(job, slot));
  }
  cluster_.Pass(kElasticWait);
  const uint32_t first = lost < 2 ? 2 : 0;
  for (const uint32_t slot : {first, first + 1}) {
    EXPECT_EQ(Order(job, slot).generation(), 1);
    EXPECT_EQ(cluster_.rank(Order(job, slot)).round, 2);
    EXPECT_EQ(cluster_.rank(Order(job, slot)).shards, 2);
    EXPECT_EQ(cluster_.rank(Order(job, slot)).clock, 4);
  }
}

INSTANTIATE_TEST_SUITE_P(StagesAndSlots, TensorGroupCopiesTest,
                         ::testing::Combine(::testing::Values(1, 2, 3),
                                            ::testing::Values(0, 1, 2, 3)));

// True: the ranks keep copies of one another's shards.
class NewShardsTest : public AllReduceTest, public ::testing::WithParamInterface<bool> {};

// With copies the remaining workers have all shards. Without, they start from a checkpoint. Either
// way they take a newcomer in where they are.
TEST_P(NewShardsTest, AreDividedAmongThoseThatAreThere) {
  const bool copies = GetParam();
  AddWorkers(3);
  v1::JobSpec spec = Job(3, 2);
  spec.mutable_parallelism()->mutable_zero()->set_stage(2);
  if (copies) spec.mutable_parallelism()->mutable_zero()->set_redundancy(1);
  const std::string job = Running(spec);
  EXPECT_TRUE(cluster_.Checkpoint(Order(job, 0), 3).status().ok());
  for (uint32_t slot = 0; slot < 3; ++slot) cluster_.rank(Order(job, slot)).clock = 4;
  cluster_.ProgressAll(job, 4);
  Kill(Worker(job, 1));
  cluster_.Pass(kElasticWait);
  EXPECT_EQ(Order(job, 0).generation(), copies ? 1 : 2);
  // A job that went back fills its lowest slots.
  const std::vector<uint32_t> left = {0, copies ? 2u : 1u};
  const uint32_t missing = copies ? 1 : 2;
  for (const uint32_t slot : left) cluster_.Rendezvous(Order(job, slot));
  cluster_.Pass(kElasticWait);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const SimulatedCluster::Rank& known = cluster_.rank(Order(job, left[rank]));
    EXPECT_EQ(known.shards, 2);
    EXPECT_EQ(known.shard, rank);
    EXPECT_EQ(known.clock, copies ? 4 : 3);
  }
  const uint64_t generation = Order(job, 0).generation();
  for (const uint32_t slot : left) cluster_.rank(Order(job, slot)).clock = 6;
  cluster_.ProgressAll(job, 6);
  cluster_.AddWorker("w9");
  const v1::TaskOrder newcomer = Order(job, missing);
  auto joins = cluster_.Rendezvous(newcomer);
  for (const uint32_t slot : left) cluster_.Rendezvous(Order(job, slot));
  ASSERT_TRUE(joins.status().ok()) << joins.status();
  EXPECT_EQ(joins.get()->peers_size(), 3);
  EXPECT_EQ(joins.get()->source_slot(), 0);
  EXPECT_EQ(cluster_.rank(newcomer).clock, 6) << "nobody goes back to take it in";
  EXPECT_EQ(newcomer.generation(), generation);
  cluster_.ProgressAll(job, 8);
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
}

INSTANTIATE_TEST_SUITE_P(Copies, NewShardsTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? "WithCopies" : "WithoutCopies";
});

TEST_F(AllReduceTest, CopiesNeedTwoWorkerDaemons) {
  v1::JobSpec spec = Job(2);
  spec.mutable_parallelism()->mutable_zero()->set_stage(1);
  spec.mutable_parallelism()->mutable_zero()->set_redundancy(1);
  const std::string job = *cluster_.Submit(spec);
  cluster_.AddWorker("w0", 2);
  cluster_.Pass(absl::Seconds(1));
  EXPECT_EQ(cluster_.State(job), v1::PENDING) << "it waits for workers";
  EXPECT_THAT(cluster_.Status(job).waiting_for(),
              testing::HasSubstr("on another worker daemon, but only worker w0 has slots"));
  const absl::Status refused = cluster_.Submit(spec, "again").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("parallelism.zero.redundancy is 1"));
  cluster_.AddWorker("w1", 1);
  cluster_.Pass(absl::Seconds(1));
  EXPECT_NE(Worker(job, 0), Worker(job, 1));
  // A job that has begun goes on where it can.
  cluster_.MeetAll(job);
  Kill("w1");
  EXPECT_EQ(AwaitOrder(job, 1).worker_id(), "w0");
}

// Ranks keep copies on other workers alone.
TEST_F(AllReduceTest, ALostSlotGoesToAnotherWorkerThanTheRanksThatAreLeft) {
  cluster_.AddWorker("w0", 5);
  cluster_.AddWorker("w1", 1);
  v1::JobSpec spec = Job(2);
  spec.mutable_parallelism()->mutable_zero()->set_stage(1);
  spec.mutable_parallelism()->mutable_zero()->set_redundancy(1);
  const std::string job = *cluster_.Submit(spec);
  cluster_.MeetAll(job);
  ASSERT_EQ(Worker(job, 0), "w0");
  ASSERT_EQ(Worker(job, 1), "w1");
  cluster_.AddWorker("w2", 1);
  Kill("w1");
  EXPECT_EQ(Worker(job, 1), "w2") << "though w0 has the most free slots";
  Kill("w2");
  EXPECT_EQ(AwaitOrder(job, 1).worker_id(), "w0") << "the only one";
}

// Two tensor ranks whose parameters are on a server.
class TensorServersTest : public AllReduceTest {
 protected:
  TensorServersTest() {
    AddWorkers(2);
    cluster_.AddServer("s0");
  }

  std::string RunningOnServers() {
    v1::JobSpec spec = SmallJob();
    spec.mutable_parallelism()->set_tensor(2);
    return Running(spec);
  }
};

TEST_F(TensorServersTest, ALostRankBringsTheOthersToMeetAgain) {
  const std::string job = RunningOnServers();
  cluster_.Die(Order(job, 0));
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  EXPECT_EQ(Order(job, 1).incarnation(), 1) << "its task goes on";
  // It may wait for the server, and learns that the round is over.
  EXPECT_TRUE(cluster_.Progress(Order(job, 1), 4).ok());
  EXPECT_EQ(cluster_.progress_reply.meet_after_round(), 1);
  auto survivor = cluster_.Rendezvous(Order(job, 1));
  EXPECT_FALSE(survivor.came());
  auto newcomer = cluster_.Rendezvous(Order(job, 0));
  ASSERT_TRUE(survivor.status().ok()) << survivor.status();
  EXPECT_EQ(survivor.get()->round(), 2);
  EXPECT_EQ(survivor.get()->peers_size(), 2);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
}

TEST_F(TensorServersTest, WhenAllRanksAreLostTheServersStillHaveWhatTheyNeed) {
  const std::string job = RunningOnServers();
  cluster_.Die(Order(job, 0));
  cluster_.Die(Order(job, 1));
  MeetAfterPause(job);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_EQ(Order(job, 0).generation(), 1);
}

TEST_F(TensorServersTest, ARankCannotBeReplacedOnceAnotherHasEnded) {
  const std::string job = RunningOnServers();
  cluster_.ProgressAll(job, 10);
  cluster_.End(Order(job, 0));
  cluster_.Die(Order(job, 1));
  EXPECT_EQ(AwaitOrder(job, 0).generation(), 2);
}

}  // namespace
}  // namespace muster
