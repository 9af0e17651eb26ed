#include "server/coordinator/lifecycle/round_record.h"

#include "common/job/test_jobs.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

class RoundRecordTest : public ::testing::Test {
 protected:
  RoundRecordTest() {
    *record_.mutable_spec() = AllReduceJob();
    for (uint32_t slot = 0; slot < 3; ++slot) record_.add_slots()->set_incarnation(1);
  }

  // Slots 1 and 2 train.
  void OpenRound() {
    record_.mutable_round()->set_number(1);
    for (uint32_t slot = 1; slot < 3; ++slot) {
      v1::RoundMember& member = *record_.mutable_round()->add_members();
      member.set_slot(slot);
      member.set_incarnation(1);
    }
  }

  v1::JobRecord record_;
  Rendezvous next_{3};
};

TEST_F(RoundRecordTest, BeforeTheFirstRoundAllTakePart) {
  EXPECT_FALSE(IsMember(record_, 1));
  EXPECT_FALSE(RoundLasts(record_, next_));
  EXPECT_EQ(SpeakingSlot(record_), 0);
  EXPECT_EQ(ReportingSlots(record_), 3);
  EXPECT_FALSE(EndsGeneration(record_, {0, 1, 2})) << "there are none";
  for (int slot = 0; slot < 3; ++slot) {
    EXPECT_FALSE(AllDone(record_));
    record_.mutable_slots(slot)->set_done(true);
  }
  EXPECT_TRUE(AllDone(record_));
}

TEST_F(RoundRecordTest, NewcomersBeginWhereServersAre) {
  record_.mutable_round()->set_number(1);
  record_.mutable_round()->set_clock(4);
  for (uint64_t clock : {5, 6, 0}) record_.mutable_progress()->add_clocks(clock);
  const Rendezvous::Round newcomers;
  EXPECT_EQ(BeginningOf(newcomers, record_), 0) << "by all-reduce nobody has the replicas";
  EXPECT_EQ(CountMeetings(newcomers, record_), 1 + record_.round().meetings());
  record_.mutable_spec()->mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_EQ(BeginningOf(newcomers, record_), 6);
  EXPECT_EQ(CountMeetings(newcomers, record_), 1);
}

TEST_F(RoundRecordTest, ARoundLastsUntilATaskIsReplacedOrLeaves) {
  OpenRound();
  EXPECT_FALSE(IsMember(record_, 0));
  EXPECT_TRUE(IsMember(record_, 1));
  EXPECT_TRUE(RoundLasts(record_, next_));
  EXPECT_EQ(SpeakingSlot(record_), 1);
  EXPECT_EQ(ReportingSlots(record_), 2);
  v1::RendezvousRequest request;
  ASSERT_TRUE(next_.Arrive(request).ok());
  EXPECT_TRUE(RoundLasts(record_, next_)) << "slot 0 is not in it";
  request.mutable_task()->set_slot(2);
  ASSERT_TRUE(next_.Arrive(request).ok());
  EXPECT_FALSE(RoundLasts(record_, next_));
  next_.Clear();
  record_.mutable_slots(1)->set_incarnation(2);
  EXPECT_FALSE(IsMember(record_, 1));
  EXPECT_FALSE(RoundLasts(record_, next_));
}

TEST_F(RoundRecordTest, ReplicasAreLostWithTheLastThatHoldsOne) {
  OpenRound();
  EXPECT_FALSE(EndsGeneration(record_, {0}));
  EXPECT_FALSE(EndsGeneration(record_, {1}));
  EXPECT_TRUE(EndsGeneration(record_, {1, 2}));
  record_.mutable_slots(2)->set_incarnation(2);
  EXPECT_TRUE(EndsGeneration(record_, {1}));
  record_.mutable_slots(2)->set_incarnation(1);
  record_.mutable_slots(2)->set_done(true);
  EXPECT_TRUE(EndsGeneration(record_, {1})) << "slot 2 is done and gives nothing";
  EXPECT_FALSE(AllDone(record_));
  record_.mutable_slots(1)->set_done(true);
  EXPECT_TRUE(AllDone(record_)) << "slot 0 does not train";
}

TEST_F(RoundRecordTest, AHybridCannotLoseAny) {
  *record_.mutable_spec() = HybridJob();
  EXPECT_FALSE(EndsGeneration(record_, {1}));
  OpenRound();
  EXPECT_TRUE(EndsGeneration(record_, {1}));
  *record_.mutable_spec() = SmallJob();
  EXPECT_FALSE(EndsGeneration(record_, {1, 2})) << "servers hold everything";
}

TEST_F(RoundRecordTest, RunsThatRepeatCannotLoseWhatPushesHaveRoundedAway) {
  *record_.mutable_spec() = SmallJob();
  v1::UpdateSpec& update = *record_.mutable_spec()->mutable_update();
  record_.mutable_met();
  for (const auto wire : {v1::UpdateSpec::F32, v1::UpdateSpec::BF16, v1::UpdateSpec::F16}) {
    update.set_wire(wire);
    update.set_deterministic(false);
    EXPECT_FALSE(EndsGeneration(record_, {1}));
    update.set_deterministic(true);
    EXPECT_EQ(EndsGeneration(record_, {1}), wire != v1::UpdateSpec::F32);
    EXPECT_FALSE(EndsGeneration(record_, {}));
  }
  record_.clear_met();
  EXPECT_FALSE(EndsGeneration(record_, {1})) << "nothing was pushed";
}

TEST_F(RoundRecordTest, AShardGroupCannotLoseAny) {
  *record_.mutable_spec() = AllReduceJob();
  record_.mutable_spec()->mutable_parallelism()->mutable_zero()->set_stage(1);
  EXPECT_FALSE(EndsGeneration(record_, {1})) << "there is no round yet";
  OpenRound();
  EXPECT_TRUE(EndsGeneration(record_, {1}));
  EXPECT_FALSE(EndsGeneration(record_, {0})) << "slot 0 is not in the round";
  record_.mutable_spec()->mutable_parallelism()->mutable_zero()->set_shard(1);
  EXPECT_FALSE(EndsGeneration(record_, {1})) << "each rank holds everything";
}

// It shows only when the others meet who has what of a lost shard.
TEST_F(RoundRecordTest, AShardGroupWithCopiesMayLoseAny) {
  record_.mutable_spec()->mutable_parallelism()->mutable_zero()->set_stage(1);
  record_.mutable_spec()->mutable_parallelism()->mutable_zero()->set_redundancy(1);
  OpenRound();
  EXPECT_FALSE(EndsGeneration(record_, {1}));
  EXPECT_TRUE(EndsGeneration(record_, {1, 2}));
  for (const uint32_t slot : {1, 2}) {
    v1::RendezvousRequest request;
    request.mutable_task()->set_slot(slot);
    ASSERT_TRUE(next_.Arrive(request).ok());
  }
  EXPECT_EQ(BrokeForGood(record_, next_), absl::nullopt);
}

TEST_F(RoundRecordTest, AShardGroupHasLeftForGoodOnceAllHave) {
  *record_.mutable_spec() = AllReduceJob();
  v1::RendezvousRequest one, two;
  one.mutable_task()->set_slot(1);
  two.mutable_task()->set_slot(2);
  record_.mutable_spec()->mutable_parallelism()->mutable_zero()->set_stage(1);
  EXPECT_EQ(BrokeForGood(record_, next_), absl::nullopt) << "there is no round yet";
  OpenRound();
  EXPECT_EQ(BrokeForGood(record_, next_), absl::nullopt);
  ASSERT_TRUE(next_.Arrive(two).ok());
  EXPECT_EQ(BrokeForGood(record_, next_), absl::nullopt) << "slot 1 may end with an error";
  ASSERT_TRUE(next_.Arrive(one).ok());
  EXPECT_EQ(BrokeForGood(record_, next_), 1);
  record_.mutable_spec()->mutable_parallelism()->mutable_zero()->set_shard(1);
  EXPECT_EQ(BrokeForGood(record_, next_), absl::nullopt) << "the next round opens";
  next_.Forget(1);
  record_.mutable_slots(1)->set_done(true);
  EXPECT_EQ(BrokeForGood(record_, next_), 2) << "slot 1 meets no more";
}

TEST_F(RoundRecordTest, AShardGroupThatDividesAnewMayLeaveToMeetNewcomers) {
  record_.mutable_spec()->set_workers(3);
  record_.mutable_spec()->set_min_workers(2);
  record_.mutable_spec()->mutable_parallelism()->mutable_zero()->set_stage(1);
  OpenRound();
  EXPECT_TRUE(EndsGeneration(record_, {1})) << "nobody else has its shard";
  for (const uint32_t slot : {1, 2}) {
    v1::RendezvousRequest request;
    request.mutable_task()->set_slot(slot);
    ASSERT_TRUE(next_.Arrive(request).ok());
  }
  EXPECT_EQ(BrokeForGood(record_, next_), absl::nullopt);
  record_.mutable_spec()->clear_min_workers();
  EXPECT_EQ(BrokeForGood(record_, next_), 1);
}

TEST_F(RoundRecordTest, HasAdvancedOnceAnythingWasMade) {
  record_.set_start_clock(4);
  record_.add_checkpoints()->set_clock(4);
  record_.add_evaluations()->set_clock(4);
  EXPECT_FALSE(HasAdvanced(record_));
  v1::JobRecord changed = record_;
  changed.add_checkpoints()->set_clock(5);
  EXPECT_TRUE(HasAdvanced(changed));
  changed = record_;
  changed.add_evaluations()->set_clock(5);
  EXPECT_TRUE(HasAdvanced(changed));
  record_.set_has_run(true);
  EXPECT_TRUE(HasAdvanced(record_));
}

}  // namespace
}  // namespace muster
