// Checks that jobs with several shards go on in place after a loss, with the bits of a run that
// nothing disturbed, whatever call the loss ends.
#include "worker/strategy/group/recovery/shard_recovery.h"

#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/checkpoint/memory_storage.h"
#include "common/mesh/recovery_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/host/ranks_for_testing.h"
#include "worker/strategy/group/faulty_communicator_for_testing.h"
#include "worker/strategy/group/sharded_job_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kLossClock = 2;
constexpr uint64_t kEnd = 4;

// The tasks of a job, in one round after another.
class Rounds {
 public:
  explicit Rounds(const ShardedJob& job) : job_(job), faults(job.ranks) {
    for (int rank = 0; rank < job.ranks; ++rank) Replace(rank);
  }

  // Puts a new task in place of a rank's.
  void Replace(int rank) { ReplaceAs(job_, rank); }
  void ReplaceAs(const ShardedJob& job, int rank) {
    if (rank >= static_cast<int>(tasks_.size())) tasks_.resize(rank + 1);
    tasks_[rank] = std::make_unique<ShardedTask>(job, rank, storage_);
  }

  ShardedStrategy& strategy(int rank) { return tasks_[rank]->strategy(); }
  ShardedTask& task(int rank) { return *tasks_[rank]; }

  std::vector<RankHolding> holdings() const {
    std::vector<RankHolding> holdings;
    for (const auto& task : tasks_) holdings.push_back(task->strategy().holding());
    return holdings;
  }
  absl::StatusOr<RecoveryPlan> Plan() const { return PlanRecovery(holdings(), job_.mesh()); }

  // Runs a round: all ranks join, go on in place if they can, and train to kEnd, or until a call
  // fails. Faults are armed in joins, or in the step at kLossClock. Ranks that died are replaced.
  void Run(bool in_join = false) {
    const absl::StatusOr<RecoveryPlan> plan = Plan();
    const absl::optional<int> source =
        plan.ok() ? absl::optional<int>(plan->leader) : absl::nullopt;
    std::vector<int> died(job_.ranks);
    TestRanks ranks(job_.ranks);
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      const int rank = communicator->rank();
      Fault& fault = faults[rank];
      fault.die = [&ranks, &died, rank] {
        died[rank] = 1;
        ranks.Kill(rank);
      };
      fault.armed = in_join;
      ShardedTask& task = *tasks_[rank];
      absl::Status status = task.strategy().Join(
          std::make_unique<FaultyCommunicator>(std::move(communicator), fault), source);
      fault.armed = false;
      while (status.ok() && *task.strategy().replica_clock() < kEnd) {
        const uint64_t clock = *task.strategy().replica_clock();
        if (clock == kLossClock && before_step) before_step(rank);
        fault.armed = !in_join && clock == kLossClock;
        status = task.Step();
        fault.armed = false;
        if (status.ok() && clock == kLossClock && after_step) after_step(rank);
        if (died[rank]) break;
      }
      if (died[rank]) {
        tasks_[rank] = nullptr;
      } else {
        task.strategy().Leave();
      }
    });
    for (int rank = 0; rank < job_.ranks; ++rank) {
      if (died[rank]) Replace(rank);
    }
    faults.assign(job_.ranks, Fault());
  }

  // Expects that all ranks have made all steps, with these weights.
  void ExpectEnd(const std::vector<float>& weights) {
    std::vector<Whole> groups(job_.ranks / job_.mesh().size(kStateAxes));
    for (int rank = 0; rank < job_.ranks; ++rank) {
      ASSERT_EQ(strategy(rank).replica_clock(), kEnd) << rank;
      groups[rank / job_.mesh().size(kStateAxes)].Add(strategy(rank).shard_state());
    }
    for (const Whole& group : groups) EXPECT_EQ(group.weights(), weights);
  }

 private:
  const ShardedJob job_;
  MemoryStorage storage_;
  std::vector<std::unique_ptr<ShardedTask>> tasks_;

 public:
  // The faults of the ranks in the next round.
  std::vector<Fault> faults;
  // Run on each rank before and after the step at kLossClock.
  std::function<void(int)> before_step;
  std::function<void(int)> after_step;
};

struct RecoveryCase {
  const char* name = "";
  uint32_t stage = 0;
  int ranks = 0;
  int shard = 0;
  bool copies = false;
  int tensor = 1;
  // Ranks that die. With replicas they have different shards, in different groups.
  std::vector<int> victims;
  bool has_rows = false;
  bool has_matrices = false;
};

class ShardRecoveryTest : public ::testing::TestWithParam<RecoveryCase> {
 protected:
  static const std::vector<int>& Victims() { return GetParam().victims; }
  static ShardedJob TheJob() {
    return {.stage = GetParam().stage,
            .ranks = GetParam().ranks,
            .shard = GetParam().shard,
            .micro_batches = 2,
            .max_norm = 3,
            .compute = DType::kBf16,
            .redundant = GetParam().copies,
            .tensor = GetParam().tensor,
            .has_matrices = GetParam().has_matrices,
            .has_rows = GetParam().has_rows};
  }
};

TEST_P(ShardRecoveryTest, ARankMayDieAtAnyCallOfAStep) {
  const ShardedJob job = TheJob();
  const std::vector<float> undisturbed = Train(job, kEnd);
  for (const int victim : Victims()) {
    int call = 0;
    for (bool died = true; died; ++call) {
      SCOPED_TRACE("rank " + std::to_string(victim) + " dies before call " + std::to_string(call));
      Rounds rounds(job);
      rounds.faults[victim].dies_before = call;
      rounds.Run();
      died = !rounds.strategy(victim).replica_clock().has_value();
      if (died) {
        const absl::StatusOr<RecoveryPlan> plan = rounds.Plan();
        ASSERT_TRUE(plan.ok()) << plan.status();
        // Others may have lost the last answer of the step before.
        EXPECT_GE(plan->clock + 1, kLossClock);
        rounds.Run();
      }
      rounds.ExpectEnd(undisturbed);
      if (HasFailure()) return;
    }
    EXPECT_GT(call, 10) << "the step's calls were not counted";
  }
}

// A rank dies once the others have made the step, except for one that lost the last answer.
TEST_P(ShardRecoveryTest, ARankThatIsBehindMakesTheStepWithItsOwnSums) {
  for (const bool overflows : {false, true}) {
    ShardedJob job = TheJob();
    if (overflows) {
      job.compute = DType::kF16;
      job.max_norm = 0;
    }
    Rounds undisturbed(job);
    const auto overflow = [overflows](Rounds& rounds) {
      if (!overflows) return;
      rounds.before_step = [&rounds](int rank) {
        if (rank == 0) rounds.task(rank).Overflow();
      };
    };
    overflow(undisturbed);
    undisturbed.Run();
    Whole weights;
    for (int rank = 0; rank < job.mesh().size(kStateAxes); ++rank) {
      weights.Add(undisturbed.strategy(rank).shard_state());
    }
    for (int behind = 0; behind < job.ranks; ++behind) {
      for (const int victim : Victims()) {
        if (victim == behind) continue;
        SCOPED_TRACE("rank " + std::to_string(behind) + " is behind, and rank " +
                     std::to_string(victim) + " dies");
        Rounds rounds(job);
        overflow(rounds);
        std::latch others(job.ranks - 1);
        rounds.faults[behind].loses_answer_of = job.has_matrices && !overflows
                                                    ? "all have directions"
                                                : job.max_norm > 0 ? "norms of cells"
                                                                   : "examples and overflows";
        rounds.faults[behind].meanwhile = [&others] { others.wait(); };
        rounds.after_step = [&](int rank) {
          ASSERT_NE(rank, behind) << "no call has this name";
          others.count_down();
          if (rank != victim) return;
          others.wait();
          rounds.faults[rank].die();
        };
        rounds.Run();
        rounds.before_step = rounds.after_step = nullptr;
        const std::vector<RankHolding> holdings = rounds.holdings();
        EXPECT_EQ(holdings[behind].clock, kLossClock);
        EXPECT_TRUE(holdings[behind].has_sums);
        ASSERT_TRUE(rounds.Plan().ok()) << rounds.Plan().status();
        EXPECT_EQ(rounds.Plan()->clock, kLossClock + 1);
        EXPECT_TRUE(rounds.Plan()->rolls_forward);
        rounds.Run();
        rounds.ExpectEnd(weights.weights());
        for (int rank = 0; rank < job.ranks; ++rank) {
          EXPECT_EQ(rounds.strategy(rank).loss_scale(), undisturbed.strategy(rank).loss_scale());
        }
        if (HasFailure()) return;
      }
    }
  }
}

// A second rank dies, or the newcomer once more, while the ranks become whole again.
TEST_P(ShardRecoveryTest, ARankMayDieAtAnyCallOfAJoin) {
  const ShardedJob job = TheJob();
  const std::vector<float> undisturbed = Train(job, kEnd);
  constexpr int kFirst = 1;
  int recovered = 0;
  for (const int victim : Victims()) {
    int call = 0;
    for (bool died = true; died; ++call) {
      SCOPED_TRACE("rank " + std::to_string(victim) + " dies before call " + std::to_string(call));
      Rounds rounds(job);
      rounds.faults[kFirst].dies_before = 8;
      rounds.Run();
      ASSERT_TRUE(rounds.Plan().ok()) << rounds.Plan().status();
      rounds.faults[victim].dies_before = call;
      rounds.Run(/*in_join=*/true);
      died = !rounds.strategy(victim).replica_clock().has_value();
      if (!died) {
        rounds.ExpectEnd(undisturbed);
        break;
      }
      const bool goes_on = rounds.Plan().ok();
      if (victim == kFirst) EXPECT_TRUE(goes_on) << "nothing else was lost";
      if (!job.redundant) EXPECT_TRUE(goes_on) << "each shard has a replica";
      recovered += goes_on;
      // What cannot go on begins anew, which gives the same.
      rounds.Run();
      rounds.ExpectEnd(undisturbed);
      if (HasFailure()) return;
    }
    EXPECT_GT(call, 4) << "the join's calls were not counted";
  }
  EXPECT_GT(recovered, 3 * static_cast<int>(Victims().size()));
}

std::string NameOfRecovery(const ::testing::TestParamInfo<RecoveryCase>& info) {
  return info.param.name;
}

// Every stage, replicas and copies, rows and tensor ranks, with one victim each. Victim 1 is the
// newcomer that dies once more, others are a second loss.
INSTANTIATE_TEST_SUITE_P(
    EveryStage, ShardRecoveryTest,
    ::testing::Values(RecoveryCase{"Stage3Replicas", 3, 4, 2, false, 1, {1}},
                      RecoveryCase{"Stage3Copies", 3, 3, 0, true, 1, {1}},
                      RecoveryCase{"Stage1ReplicasWithRows", 1, 4, 2, false, 1, {2}, true},
                      RecoveryCase{"Stage2CopiesWithRows", 2, 3, 0, true, 1, {1}, true},
                      RecoveryCase{"Tensor2Stage0", 0, 4, 0, false, 2, {0}},
                      RecoveryCase{"Tensor2Stage2Copies", 2, 4, 0, true, 2, {2}},
                      RecoveryCase{"Tensor2Stage3Replicas", 3, 8, 2, false, 2, {1}},
                      RecoveryCase{"MatricesStage2Copies", 2, 3, 0, true, 1, {1}, false, true},
                      RecoveryCase{
                          "MatricesTensor2Stage3Replicas", 3, 8, 2, false, 2, {1}, false, true}),
    NameOfRecovery);
// The other victims and cases. How often jobs with copies must have recovered is known of all their
// victims together.
INSTANTIATE_TEST_SUITE_P(
    ExhaustiveEveryStage, ShardRecoveryTest,
    ::testing::Values(RecoveryCase{"Stage1Replicas", 1, 4, 2, false, 1, {1, 2}},
                      RecoveryCase{"Stage2Replicas", 2, 4, 2, false, 1, {1, 2}},
                      RecoveryCase{"Stage3Replicas", 3, 4, 2, false, 1, {2}},
                      RecoveryCase{"Stage1Copies", 1, 3, 0, true, 1, {0, 1, 2}},
                      RecoveryCase{"Stage2Copies", 2, 3, 0, true, 1, {0, 1, 2}},
                      RecoveryCase{"Stage3Copies", 3, 3, 0, true, 1, {0, 1, 2}},
                      RecoveryCase{"Stage1ReplicasWithRows", 1, 4, 2, false, 1, {1}, true},
                      RecoveryCase{"Stage3ReplicasWithRows", 3, 4, 2, false, 1, {1, 2}, true},
                      RecoveryCase{"Stage2CopiesWithRows", 2, 3, 0, true, 1, {0, 1, 2}, true},
                      RecoveryCase{"Tensor2Stage0", 0, 4, 0, false, 2, {1, 2}},
                      RecoveryCase{"Tensor4Stage0", 0, 8, 0, false, 4, {1}},
                      RecoveryCase{"Tensor2Stage1Copies", 1, 4, 0, true, 2, {1}},
                      RecoveryCase{"Tensor2Stage3Copies", 3, 4, 0, true, 2, {0, 1}},
                      RecoveryCase{"MatricesTensor2Stage0", 0, 4, 0, false, 2, {1}, false, true},
                      RecoveryCase{
                          "MatricesTensor2Stage1Copies", 1, 4, 0, true, 2, {1, 2}, false, true}),
    NameOfRecovery);

class KeptCopiesTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  static ShardedJob TheJob() { return {.stage = GetParam(), .ranks = 4, .redundant = true}; }
};

TEST_P(KeptCopiesTest, TwoRanksMayDieUnlessOneKeepsTheOthersCopy) {
  const std::vector<float> undisturbed = Train(TheJob(), kEnd);
  for (int one = 0; one < 4; ++one) {
    for (int two = one + 1; two < 4; ++two) {
      SCOPED_TRACE(std::to_string(one) + " and " + std::to_string(two) + " die");
      Rounds rounds(TheJob());
      std::latch stepped(4);
      rounds.after_step = [&](int rank) {
        stepped.arrive_and_wait();
        if (rank == one || rank == two) rounds.faults[rank].die();
      };
      rounds.Run();
      rounds.after_step = nullptr;
      const bool neighbours = two == one + 1 || (one == 0 && two == 3);
      EXPECT_EQ(rounds.Plan().ok(), !neighbours) << rounds.Plan().status();
      rounds.Run();
      rounds.ExpectEnd(undisturbed);
    }
  }
}

// Copies cost one slice of f32 sums, sent and received.
TEST_P(KeptCopiesTest, SumsTravelOnceMore) {
  uint64_t sent[2] = {}, received[2] = {}, slice = 0;
  for (const bool redundant : {false, true}) {
    ShardedJob job = TheJob();
    job.redundant = redundant;
    job.micro_batches = 2;
    Rounds rounds(job);
    rounds.Run();
    const StrategyCounters counters = rounds.strategy(2).counters();
    sent[redundant] = counters.bytes_sent;
    received[redundant] = counters.bytes_received;
    slice = rounds.strategy(2).shard_state().shard_layout().slice_elements() * sizeof(float);
  }
  EXPECT_EQ(sent[1] - sent[0], kEnd * slice);
  EXPECT_EQ(received[1] - received[0], kEnd * slice);
}

std::vector<int> CopiesOf(const RankHolding& holding) {
  std::vector<int> shards;
  for (const RankHolding::Copy& copy : holding.copies) shards.push_back(copy.shard);
  return shards;
}

TEST_P(KeptCopiesTest, CopiesAreOnOtherDaemonsAndFollowTheRanks) {
  ShardedJob job = TheJob();
  job.ranks_per_daemon = 2;
  const std::vector<float> undisturbed = Train(job, kEnd);
  Rounds rounds(job);
  rounds.faults[3].dies_before = 0;
  rounds.Run();
  EXPECT_THAT(CopiesOf(rounds.holdings()[0]), ElementsAre(2));
  EXPECT_THAT(CopiesOf(rounds.holdings()[1]), ElementsAre(3));
  EXPECT_THAT(CopiesOf(rounds.holdings()[2]), ElementsAre(0));
  // Its next task is on the first daemon, where rank 1 is.
  ShardedJob moved = job;
  moved.ranks_per_daemon = 4;
  rounds.ReplaceAs(moved, 3);
  rounds.Run();
  rounds.ExpectEnd(undisturbed);
  EXPECT_THAT(CopiesOf(rounds.holdings()[0]), ElementsAre());
  EXPECT_THAT(CopiesOf(rounds.holdings()[1]), ElementsAre());
  EXPECT_THAT(CopiesOf(rounds.holdings()[2]), ElementsAre(0, 1, 3));
  EXPECT_THAT(CopiesOf(rounds.holdings()[3]), ElementsAre(2));
  for (const RankHolding& holding : rounds.holdings()) {
    for (const RankHolding::Copy& copy : holding.copies) EXPECT_EQ(copy.clock, kEnd);
  }
}

TEST_P(KeptCopiesTest, ThereAreNoneOnASingleDaemon) {
  ShardedJob job = TheJob();
  job.ranks_per_daemon = 4;
  Rounds rounds(job);
  rounds.faults[1].dies_before = 3;
  rounds.Run();
  EXPECT_FALSE(rounds.Plan().ok());
  for (const RankHolding& holding : rounds.holdings()) EXPECT_TRUE(holding.copies.empty());
  rounds.Run();
  rounds.ExpectEnd(Train(job, kEnd));
}

INSTANTIATE_TEST_SUITE_P(EveryStage, KeptCopiesTest, ::testing::Values(3));
INSTANTIATE_TEST_SUITE_P(ExhaustiveEveryStage, KeptCopiesTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace muster
