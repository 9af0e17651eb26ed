// Jobs whose tasks find that a server's state, or a checkpoint, is no more: they go back to what
// can be read, and say so.
#include <algorithm>
#include <string>

#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/lifecycle/recovery.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kDataLoss = static_cast<int>(absl::StatusCode::kDataLoss);
constexpr int kFailedPrecondition = static_cast<int>(absl::StatusCode::kFailedPrecondition);

class LostStateTest : public ::testing::Test {
 protected:
  LostStateTest() {
    for (const char* server : {"s0", "s1"}) cluster_.AddServer(server);
    for (const char* worker : {"w0", "w1"}) cluster_.AddWorker(worker);
  }

  std::string Running(v1::UpdateSpec::Durability durability, uint32_t keep = 2) {
    v1::JobSpec spec = SmallJob();
    spec.mutable_update()->set_durability(durability);
    spec.mutable_checkpoint()->set_every_steps(2);
    spec.mutable_checkpoint()->set_keep(keep);
    return Started(*cluster_.Submit(spec));
  }
  std::string Started(const std::string& job) {
    cluster_.MeetAll(job);
    cluster_.ProgressAll(job, 3);
    EXPECT_EQ(cluster_.State(job), v1::RUNNING);
    return job;
  }
  v1::TaskOrder Order(const std::string& job, uint32_t slot) { return *cluster_.Order(job, slot); }
  absl::Status Checkpoint(const std::string& job, uint64_t clock) {
    return cluster_.Checkpoint(Order(job, 0), clock).status();
  }
  void LoseServerState(const std::string& job) {
    cluster_.End(Order(job, 1), kFailedPrecondition,
                 "open tables on 10.0.0.1:7: server s1: the log and values of partition 1 are not "
                 "on this server",
                 v1::TaskReport::SERVER_STATE);
  }
  void DamageCheckpoint(const std::string& job, const std::string& damage) {
    cluster_.End(Order(job, 0), kDataLoss, damage, v1::TaskReport::CHECKPOINT);
  }
  int Count(const std::string& job, v1::JobEvent::Kind kind) {
    const v1::ListEventsReply reply = *cluster_.coordinator().jobs().Events(job);
    return std::count_if(reply.events().begin(), reply.events().end(),
                         [kind](const v1::JobEvent& event) { return event.kind() == kind; });
  }
  v1::ListCheckpointsReply List(const std::string& job) {
    Answer<v1::ListCheckpointsReply> answer;
    cluster_.coordinator().checkpoints().List(job, answer.call());
    cluster_.Run();
    return *answer.get();
  }

  SimulatedCluster cluster_;
};

TEST_F(LostStateTest, ALostVolumeTakesAnEveryPushJobBackToItsLastCheckpoint) {
  const std::string job = Running(v1::UpdateSpec::EVERY_PUSH);
  ASSERT_EQ(Checkpoint(job, 2), absl::OkStatus());
  EXPECT_THAT(cluster_.Status(job).recovery(), HasSubstr("rolls back to clock 2"));
  cluster_.ProgressAll(job, 5);
  // Back, without its folder: in place, until a task looks.
  cluster_.RestartDaemon("s1");
  ASSERT_EQ(Order(job, 0).generation(), 1);
  const v1::TaskOrder other = Order(job, 0);
  LoseServerState(job);
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  const v1::TaskOrder order = Order(job, 0);
  EXPECT_EQ(order.generation(), 2);
  EXPECT_EQ(order.start_clock(), 2);
  EXPECT_EQ(order.restore_uri(), "/checkpoints/" + job + "/2");
  EXPECT_FALSE(order.expect_state()) << "the next generation starts afresh on every server";
  const auto lost = AllOf(HasSubstr("a server lost what it had acknowledged"),
                          HasSubstr("starts again from clock 2"), HasSubstr("server s1"),
                          HasSubstr("partition 1"));
  EXPECT_THAT(cluster_.Status(job).message(), lost);
  EXPECT_TRUE(cluster_.HasEvent(job, "generation 2 starts again from clock 2"));
  // The others find the same; it is known.
  cluster_.End(other, kFailedPrecondition, "the same", v1::TaskReport::SERVER_STATE);
  EXPECT_EQ(Order(job, 0).generation(), 2);
  // What follows shows, and the loss beside it, also after a restart of the coordinator.
  cluster_.MeetAll(job);
  EXPECT_THAT(cluster_.Status(job).message(),
              AllOf(HasSubstr("all 2 slots met in generation 2"), lost));
  cluster_.RestartCoordinator();
  cluster_.BeatAll();
  EXPECT_THAT(cluster_.Status(job).message(), lost);
  ASSERT_EQ(Checkpoint(job, 4), absl::OkStatus());
  EXPECT_THAT(cluster_.Status(job).message(), AllOf(HasSubstr("checkpoint at clock 4"), lost));
  // A later one takes its place.
  cluster_.RestartDaemon("s0");
  LoseServerState(job);
  EXPECT_THAT(cluster_.Status(job).message(),
              AllOf(HasSubstr("starts again from clock 4"), Not(HasSubstr("clock 2"))));
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
  EXPECT_EQ(cluster_.Status(job).message(), "");
}

TEST_F(LostStateTest, WithoutACheckpointItStartsFromInitialValuesAndSaysSo) {
  const std::string job = Running(v1::UpdateSpec::EVERY_PUSH);
  LoseServerState(job);
  EXPECT_EQ(Order(job, 0).start_clock(), 0);
  EXPECT_EQ(Order(job, 0).restore_uri(), "");
  EXPECT_TRUE(cluster_.HasEvent(job, "initial values: there is no checkpoint"));
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr("starts again from clock 0"));
}

TEST_F(LostStateTest, TheSameErrorWithoutALossFailsTheJob) {
  const std::string job = Running(v1::UpdateSpec::EVERY_PUSH);
  ASSERT_EQ(Checkpoint(job, 2), absl::OkStatus());
  cluster_.End(Order(job, 1), kFailedPrecondition, "the store has format 9, this server reads 1");
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr("format 9"));
}

TEST_F(LostStateTest, LosingStateAgainAndAgainEndsTheJob) {
  const std::string job = Running(v1::UpdateSpec::EVERY_PUSH);
  for (uint32_t loss = 1; loss <= kMaxRollBacks; ++loss) {
    LoseServerState(job);
    ASSERT_EQ(cluster_.State(job), v1::RECOVERING) << loss;
    cluster_.Pass(absl::Seconds(100));
    cluster_.MeetAll(job);
  }
  LoseServerState(job);
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr("went back 8 times in a row"));
}

TEST_F(LostStateTest, ADamagedCheckpointIsRememberedAndTheOneBeforeIsTaken) {
  const std::string job = Running(v1::UpdateSpec::CHECKPOINT, 3);
  for (const uint64_t clock : {2, 4, 6}) ASSERT_EQ(Checkpoint(job, clock), absl::OkStatus());
  cluster_.RestartDaemon("s0");
  ASSERT_EQ(Order(job, 0).start_clock(), 6);
  DamageCheckpoint(job, "the checkpoint file p0 has checksum 1, the manifest says 2");
  EXPECT_EQ(Order(job, 0).generation(), 3);
  EXPECT_EQ(Order(job, 0).start_clock(), 4);
  EXPECT_EQ(cluster_.Status(job).checkpoint_clock(), 4);
  EXPECT_TRUE(cluster_.HasEvent(job, "the checkpoint at clock 6 is damaged: the checkpoint file"));
  EXPECT_EQ(Count(job, v1::JobEvent::CHECKPOINT), 3);
  EXPECT_EQ(Count(job, v1::JobEvent::ROLLBACK), 2);
  EXPECT_EQ(Count(job, v1::JobEvent::LOSS), 0);
  cluster_.RestartCoordinator();
  const v1::JobStatus status = cluster_.Status(job);
  ASSERT_EQ(status.damaged_checkpoints_size(), 1);
  EXPECT_EQ(status.damaged_checkpoints(0).clock(), 6);
  EXPECT_THAT(status.damaged_checkpoints(0).damage(), HasSubstr("p0 has checksum 1"));
  cluster_.BeatAll();
  const v1::ListCheckpointsReply list = List(job);
  ASSERT_EQ(list.checkpoints_size(), 3);
  EXPECT_EQ(list.checkpoints(1).damage(), "");
  EXPECT_THAT(list.checkpoints(2).damage(), HasSubstr("p0 has checksum 1"));
  // On the way there again it is taken anew.
  cluster_.MeetAll(job);
  ASSERT_EQ(Checkpoint(job, 6), absl::OkStatus());
  EXPECT_EQ(cluster_.Status(job).checkpoint_clock(), 6);
  EXPECT_EQ(List(job).checkpoints(2).damage(), "");
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

TEST_F(LostStateTest, CheckpointsBeforeADamagedOneAreTakenAndKeptInOrder) {
  const std::string job = Running(v1::UpdateSpec::CHECKPOINT, 2);
  for (const uint64_t clock : {2, 6}) ASSERT_EQ(Checkpoint(job, clock), absl::OkStatus());
  EXPECT_TRUE(cluster_.HasEvent(job, "checkpoint at clock 6; that at 4 was given up"));
  cluster_.RestartDaemon("s0");
  DamageCheckpoint(job, "p0 is damaged");
  ASSERT_EQ(Order(job, 0).start_clock(), 2);
  cluster_.MeetAll(job);
  ASSERT_EQ(Checkpoint(job, 4), absl::OkStatus());
  v1::ListCheckpointsReply list = List(job);
  ASSERT_EQ(list.checkpoints_size(), 3) << "a damaged one does not count among those kept";
  EXPECT_EQ(list.checkpoints(0).clock(), 2);
  EXPECT_EQ(list.checkpoints(1).clock(), 4);
  EXPECT_EQ(list.checkpoints(2).clock(), 6);
  EXPECT_EQ(cluster_.Status(job).checkpoint_clock(), 4);
  EXPECT_EQ(Checkpoint(job, 3).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LostStateTest, DeltasOnADamagedCheckpointAreNoBetter) {
  const std::string job = Running(v1::UpdateSpec::CHECKPOINT, 4);
  cluster_.archive.bases = {{6, 4}, {8, 6}};
  for (const uint64_t clock : {2, 4, 6, 8}) ASSERT_EQ(Checkpoint(job, clock), absl::OkStatus());
  EXPECT_TRUE(cluster_.HasEvent(job, "checkpoint at clock 8, a delta on that at 6"));
  cluster_.RestartDaemon("s0");
  ASSERT_EQ(Order(job, 0).start_clock(), 8);
  // It is the full one that is damaged, which shows step by step.
  for (const uint64_t next : {6, 4, 2}) {
    DamageCheckpoint(job, "4/p0 is damaged");
    ASSERT_EQ(Order(job, 0).start_clock(), next);
  }
  DamageCheckpoint(job, "2/p1 is damaged");
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(),
              AllOf(HasSubstr("every checkpoint of the job is damaged"),
                    HasSubstr("at clock 2: 2/p1"), HasSubstr("at clock 8: 4/p0")));
}

TEST_F(LostStateTest, ADeltaOnWhatIsNotKeptIsRefused) {
  const std::string job = Running(v1::UpdateSpec::CHECKPOINT);
  cluster_.archive.bases = {{4, 2}};
  EXPECT_EQ(Checkpoint(job, 4).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cluster_.archive.folders.count("/checkpoints/" + job + "/4"), 0u);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  cluster_.archive.bases.clear();
  EXPECT_EQ(Checkpoint(job, 6), absl::OkStatus());
}

TEST_F(LostStateTest, ADamagedCheckpointOfAnotherJobFailsTheJobByName) {
  const std::string source = Running(v1::UpdateSpec::CHECKPOINT);
  ASSERT_EQ(Checkpoint(source, 4), absl::OkStatus());
  cluster_.Finish(source);
  v1::JobSpec spec = SmallJob();
  spec.set_initial_weights(source);
  const std::string job = *cluster_.Submit(spec);
  const std::string uri = Order(job, 0).restore_uri();
  ASSERT_NE(uri, "");
  DamageCheckpoint(job, "p0 is damaged");
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(), AllOf(HasSubstr(uri), HasSubstr("p0 is damaged")));
}

TEST_F(LostStateTest, ALossAfterAllIsDoneIsNoLoss) {
  const std::string job = Running(v1::UpdateSpec::EVERY_PUSH);
  ASSERT_EQ(Checkpoint(job, 10), absl::OkStatus());
  cluster_.EvaluateAll(job, 10);
  LoseServerState(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

}  // namespace
}  // namespace muster
