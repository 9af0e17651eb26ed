#include "server/coordinator/lifecycle/recovery.h"

#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/cluster/shard_map.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RecoveryTest : public ::testing::Test {
 protected:
  RecoveryTest() : members_(absl::Seconds(5)) {
    for (const auto& [id, incarnation] :
         {std::pair{"s0", 1}, std::pair{"s1", 2}, std::pair{"w0", 3}, std::pair{"w1", 4}}) {
      v1::DaemonRecord daemon;
      daemon.set_id(id);
      daemon.set_kind(id[0] == 's' ? v1::SERVER : v1::WORKER);
      daemon.set_incarnation(incarnation);
      daemon.set_address(std::string(id) + ":1");
      members_.Restore(daemon, absl::ZeroDuration());
    }
    *record_.mutable_spec() = SmallJob();
    record_.set_generation(1);
    for (int slot = 0; slot < 2; ++slot) {
      v1::SlotRecord& holder = *record_.add_slots();
      holder.set_incarnation(1);
      holder.set_worker_id(slot == 0 ? "w0" : "w1");
      holder.set_worker_incarnation(slot == 0 ? 3 : 4);
    }
    DealShards({{.identity = {"s0", 1, "s0:1", 11}, .partitions = {0}},
                {.identity = {"s1", 2, "s1:1", 12}, .partitions = {1}}},
               record_);
  }

  void Restart(const std::string& id, uint64_t incarnation) {
    v1::DaemonRecord daemon = members_.Find(id)->record;
    daemon.set_incarnation(incarnation);
    daemon.set_address(id + ":2");
    members_.Restore(daemon, absl::ZeroDuration());
  }

  void Meet(uint64_t total_steps) { record_.mutable_met()->set_total_steps(total_steps); }

  void AddCheckpoint(uint64_t clock) {
    v1::CheckpointRecord& checkpoint = *record_.add_checkpoints();
    checkpoint.set_clock(clock);
    checkpoint.set_uri("/c/" + std::to_string(clock));
  }

  Membership members_;
  v1::JobRecord record_;
};

TEST_F(RecoveryTest, FindsNothingWhenAllLive) {
  const Losses losses = FindLosses(record_, members_);
  EXPECT_THAT(losses.slots, IsEmpty());
  EXPECT_FALSE(losses.any_server());
}

TEST_F(RecoveryTest, FindsLostAndReplacedDaemons) {
  members_.Leave("w1", 4, absl::ZeroDuration());
  members_.Leave("s0", 1, absl::ZeroDuration());
  Restart("s1", 9);
  const Losses losses = FindLosses(record_, members_);
  EXPECT_THAT(losses.slots, ElementsAre(1));
  EXPECT_THAT(losses.missing, ElementsAre("s0"));
  ASSERT_EQ(losses.returned.size(), 1);
  EXPECT_EQ(losses.returned[0].server_id, "s1");
  EXPECT_EQ(losses.returned[0].incarnation, 9);
  EXPECT_EQ(losses.returned[0].address, "s1:2");
}

TEST_F(RecoveryTest, ARestartedWorkerHasLostItsTasks) {
  Restart("w0", 9);
  EXPECT_THAT(FindLosses(record_, members_).slots, ElementsAre(0));
}

TEST_F(RecoveryTest, DoneSlotsCannotBeLost) {
  record_.mutable_slots(0)->set_done(true);
  Restart("w0", 9);
  EXPECT_THAT(FindLosses(record_, members_).slots, IsEmpty());
}

TEST_F(RecoveryTest, ContinuesInPlaceOnlyWithALogAndSomethingInIt) {
  EXPECT_FALSE(ContinuesInPlace(record_));
  Meet(10);
  EXPECT_FALSE(ContinuesInPlace(record_));
  record_.mutable_spec()->mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  EXPECT_TRUE(ContinuesInPlace(record_));
  record_.clear_met();
  EXPECT_FALSE(ContinuesInPlace(record_));
}

TEST_F(RecoveryTest, RollsBackToTheLastCheckpoint) {
  Meet(10);
  record_.mutable_round()->set_number(4);
  record_.set_has_run(true);
  AddCheckpoint(3);
  AddCheckpoint(6);
  record_.add_evaluations()->set_clock(5);
  record_.add_evaluations()->set_clock(8);
  record_.set_stop_clock(8);
  record_.mutable_slots(1)->set_done(true);
  RollBack(record_);
  EXPECT_EQ(record_.generation(), 2);
  EXPECT_EQ(record_.start_clock(), 6);
  EXPECT_EQ(record_.restore_uri(), "/c/6");
  EXPECT_FALSE(record_.restore_weights_only());
  EXPECT_FALSE(record_.has_met());
  EXPECT_FALSE(record_.has_round());
  EXPECT_FALSE(record_.has_run());
  EXPECT_EQ(record_.evaluations_size(), 1);
  EXPECT_EQ(record_.stop_clock(), 0);
  EXPECT_EQ(record_.servers_size(), 0);
  EXPECT_THAT(record_.former_servers(), ElementsAre("s0", "s1"));
  for (const v1::SlotRecord& slot : record_.slots()) {
    EXPECT_EQ(slot.incarnation(), 2);
    EXPECT_EQ(slot.worker_id(), "");
    EXPECT_FALSE(slot.done());
  }
}

TEST_F(RecoveryTest, RollsBackToTheInitialWeightsWithoutACheckpoint) {
  record_.set_initial_uri("/other/9");
  RollBack(record_);
  EXPECT_EQ(record_.restore_uri(), "/other/9");
  EXPECT_TRUE(record_.restore_weights_only());
  EXPECT_EQ(record_.start_clock(), 0);
}

TEST_F(RecoveryTest, RollsBackToTheCheckpointThatItResumedFrom) {
  record_.set_initial_uri("/other/9");
  record_.set_initial_resumes(true);
  record_.set_initial_clock(9);
  RollBack(record_);
  EXPECT_EQ(record_.restore_uri(), "/other/9");
  EXPECT_FALSE(record_.restore_weights_only());
  EXPECT_EQ(record_.start_clock(), 9);
  AddCheckpoint(12);
  RollBack(record_);
  EXPECT_EQ(record_.restore_uri(), "/c/12");
  EXPECT_EQ(record_.start_clock(), 12);
}

TEST_F(RecoveryTest, IsCompleteWithFinalCheckpointAndEvaluation) {
  EXPECT_FALSE(IsComplete(record_));
  Meet(10);
  AddCheckpoint(10);
  EXPECT_TRUE(IsComplete(record_)) << "the data was too small to hold an example out";
  record_.mutable_met()->set_held_out_examples(3);
  EXPECT_FALSE(IsComplete(record_)) << "held-out data is not evaluated yet";
  record_.add_evaluations()->set_clock(10);
  EXPECT_TRUE(IsComplete(record_));
  Meet(11);
  EXPECT_FALSE(IsComplete(record_));
  record_.set_stop_clock(10);
  EXPECT_TRUE(IsComplete(record_)) << "stopped early";
}

TEST_F(RecoveryTest, FailuresCountUntilThereIsProgress) {
  EXPECT_EQ(CountFailure(0, 0, record_), 1);
  EXPECT_EQ(CountFailure(0, 0, record_), 2);
  EXPECT_EQ(CountFailure(0, 4, record_), 1);
  EXPECT_EQ(CountFailure(0, 4, record_), 2);
  EXPECT_EQ(CountFailure(1, 0, record_), 1);
}

TEST_F(RecoveryTest, RollBacksCountUntilThereIsProgress) {
  EXPECT_EQ(CountRollBack(0, record_), 1);
  EXPECT_EQ(CountRollBack(0, record_), 2);
  EXPECT_EQ(CountRollBack(5, record_), 1) << "it got further than ever";
  EXPECT_EQ(CountRollBack(4, record_), 2);
  EXPECT_EQ(CountRollBack(5, record_), 3);
  AddCheckpoint(3);
  EXPECT_EQ(CountRollBack(4, record_), 1) << "it kept something";
  RollBack(record_);
  EXPECT_EQ(CountRollBack(5, record_), 2);
}

TEST_F(RecoveryTest, ChancesOutlastALease) {
  const absl::Duration lease = absl::Seconds(4);
  EXPECT_EQ(RespawnDelay(1, lease), absl::ZeroDuration());
  absl::Duration waited;
  for (uint32_t failures = 1; failures <= kMaxSlotFailures; ++failures) {
    waited += RespawnDelay(failures, lease);
  }
  EXPECT_GT(waited, lease);
}

TEST_F(RecoveryTest, ACheckpointIsProgressOfATaskThatReportedNone) {
  EXPECT_EQ(CountFailure(0, 0, record_), 1);
  EXPECT_EQ(CountFailure(0, 0, record_), 2);
  AddCheckpoint(3);
  EXPECT_EQ(CountFailure(0, 0, record_), 1);
  EXPECT_EQ(CountFailure(0, 0, record_), 2);
  AddCheckpoint(5);
  record_.mutable_checkpoints()->rbegin()->set_damage("a bit");
  EXPECT_EQ(CountFailure(0, 0, record_), 3);
  EXPECT_EQ(CountFailure(0, 4, record_), 1) << "the job went on from clock 3";
}

TEST_F(RecoveryTest, OnlyPassingTroubleIsTriedAgain) {
  using Code = absl::StatusCode;
  for (Code code : {Code::kAborted, Code::kUnavailable, Code::kDeadlineExceeded}) {
    EXPECT_TRUE(MayRespawn(static_cast<int>(code)));
  }
  for (Code code : {Code::kInvalidArgument, Code::kFailedPrecondition, Code::kNotFound,
                    Code::kOutOfRange, Code::kDataLoss, Code::kInternal, Code::kUnknown}) {
    EXPECT_FALSE(MayRespawn(static_cast<int>(code)));
  }
}

}  // namespace
}  // namespace muster
