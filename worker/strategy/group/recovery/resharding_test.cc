// Checks that ranks which become fewer or more divide the parameters anew, and then have the bits
// of as many ranks that were restored from a checkpoint.
#include "worker/strategy/group/recovery/resharding.h"

#include <algorithm>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "common/files/temp_folder.h"
#include "common/mesh/recovery_plan.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "worker/collectives/host/ranks_for_testing.h"
#include "worker/strategy/group/faulty_communicator_for_testing.h"
#include "worker/strategy/group/sharded_job_for_testing.h"
#include "worker/strategy/group/test_manifest.h"

namespace muster {
namespace {

// A group of ranks, and the clock to which it trains.
struct Stretch {
  std::vector<int> slots;
  uint64_t end = 0;
};

struct Trained {
  std::vector<float> weights;
  float loss_scale = 0;

  friend bool operator==(const Trained&, const Trained&) = default;
};

// Trains jobs of as many ranks as each stretch has, each of which is restored from the checkpoint
// of the one before.
Trained TrainByCheckpoints(ShardedJob job, const std::vector<Stretch>& stretches) {
  job.redundant = false;
  job.offload_folder.clear();
  MemoryStorage storage;
  Trained trained;
  std::string restore_uri;
  uint64_t clock = 0;
  for (const Stretch& stretch : stretches) {
    const int size = static_cast<int>(stretch.slots.size());
    // A job of a single data rank has no stages. Of several micro-batches it sums tied tensors in
    // another order than a shard group that has come down to one rank.
    job.may_shrink = size == job.tensor;
    job.ranks = job.may_shrink ? 2 * size : size;
    v1::CheckpointManifest manifest;
    Whole whole;
    TestRanks ranks(size);
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      const int rank = communicator->rank();
      ShardedTask task(job, rank, storage, restore_uri, clock);
      ASSERT_EQ(task.strategy().Join(std::move(communicator), absl::nullopt), absl::OkStatus());
      while (*task.strategy().replica_clock() < stretch.end) {
        ASSERT_EQ(task.Step(), absl::OkStatus());
      }
      const CutFiles files = task.strategy().Cut(stretch.end).value();
      ASSERT_TRUE(task.strategy().EndCut(CutEnd::kCommitted).ok());
      whole.Add(task.strategy().shard_state());
      if (rank > 0) return;
      manifest = TestManifest(Schema(job), stretch.end, files.by_partition);
      manifest.set_rank_files(size == 1 ? 0 : size);
      trained.loss_scale = task.strategy().loss_scale();
    });
    restore_uri = absl::StrCat("/root/job/", stretch.end);
    EXPECT_EQ(WriteManifest(storage, restore_uri, manifest), absl::OkStatus());
    clock = stretch.end;
    trained.weights = whole.weights();
  }
  return trained;
}

// The tasks of a job whose groups have some of its slots.
class Tasks {
 public:
  explicit Tasks(const ShardedJob& job) : job_(job), faults(job.ranks), tasks_(job.ranks) {}

  // Loses the tasks of all other slots, and starts tasks in slots that have none.
  void Place(const std::vector<int>& slots) {
    std::vector<std::unique_ptr<ShardedTask>> placed(job_.ranks);
    for (const int slot : slots) {
      placed[slot] = std::move(tasks_[slot]);
      if (placed[slot] == nullptr) {
        placed[slot] = std::make_unique<ShardedTask>(job_, slot, storage_);
      }
    }
    tasks_ = std::move(placed);
  }

  absl::StatusOr<RecoveryPlan> Plan(const std::vector<int>& slots) const {
    std::vector<RankHolding> holdings;
    for (const int slot : slots) holdings.push_back(tasks_[slot]->strategy().holding());
    return PlanRecovery(holdings, Mesh({.shard = static_cast<int>(slots.size())}));
  }

  // Makes a group of the slots, which go on in place or begin anew, and trains to the stretch's
  // end, or until a call fails. Faults are armed in the join, or in the last step.
  void Train(const Stretch& stretch, bool in_join = true) {
    Place(stretch.slots);
    const absl::StatusOr<RecoveryPlan> plan = Plan(stretch.slots);
    const absl::optional<int> source =
        plan.ok() ? absl::optional<int>(plan->leader) : absl::nullopt;
    std::vector<int> died(job_.ranks);
    TestRanks ranks(static_cast<int>(stretch.slots.size()));
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      const int rank = communicator->rank();
      const int slot = stretch.slots[rank];
      Fault& fault = faults[slot];
      fault.die = [&ranks, &died, rank, slot] {
        died[slot] = 1;
        ranks.Kill(rank);
      };
      ShardedStrategy& strategy = tasks_[slot]->strategy();
      fault.armed = in_join;
      absl::Status status = strategy.Join(
          std::make_unique<FaultyCommunicator>(std::move(communicator), fault), source);
      fault.armed = false;
      while (status.ok() && *strategy.replica_clock() < stretch.end) {
        const bool is_last = *strategy.replica_clock() + 1 == stretch.end;
        fault.armed = !in_join && is_last;
        status = tasks_[slot]->Step();
        fault.armed = false;
        if (status.ok() && is_last && after_last_step) after_last_step(slot);
        if (died[slot]) break;
      }
      if (died[slot] == 0) strategy.Leave();
    });
    for (int slot = 0; slot < job_.ranks; ++slot) {
      if (died[slot]) tasks_[slot] = nullptr;
    }
    faults.assign(job_.ranks, Fault());
  }

  // Has the slots hand over what those that are not in `next` alone have.
  void HandOver(const std::vector<int>& slots, const std::vector<int>& next) {
    const absl::StatusOr<RecoveryPlan> plan = Plan(slots);
    ASSERT_TRUE(plan.ok()) << plan.status();
    std::vector<int> leaving;
    for (size_t rank = 0; rank < slots.size(); ++rank) {
      if (std::find(next.begin(), next.end(), slots[rank]) == next.end()) leaving.push_back(rank);
    }
    TestRanks ranks(static_cast<int>(slots.size()));
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      ShardedStrategy& strategy = tasks_[slots[communicator->rank()]]->strategy();
      EXPECT_EQ(strategy.HandOver(std::move(communicator), plan->leader, leaving),
                absl::OkStatus());
      strategy.Leave();
    });
  }

  bool IsAlive(int slot) const { return tasks_[slot] != nullptr; }
  RankHolding holding(int slot) const { return tasks_[slot]->strategy().holding(); }
  void Forget(int slot) { tasks_[slot]->strategy().Forget(); }

  // Expects that the stretch's ranks have come to its end, with these parameters.
  void ExpectEnd(const Stretch& stretch, const Trained& expected) {
    Whole whole;
    for (const int slot : stretch.slots) {
      const ShardedStrategy& strategy = tasks_[slot]->strategy();
      ASSERT_EQ(strategy.replica_clock(), stretch.end) << slot;
      EXPECT_EQ(strategy.shard_state().shard().mesh.world_size(),
                static_cast<int>(stretch.slots.size()));
      EXPECT_EQ(strategy.loss_scale(), expected.loss_scale) << slot;
      whole.Add(strategy.shard_state());
    }
    EXPECT_EQ(whole.weights(), expected.weights);
  }

 private:
  const ShardedJob job_;
  MemoryStorage storage_;

 public:
  // The holdings of each slot for the next group.
  std::vector<Fault> faults;
  // Run by each rank after the stretch's last step.
  std::function<void(int slot)> after_last_step;

 private:
  std::vector<std::unique_ptr<ShardedTask>> tasks_;
};

// A stage, and a number of tensor ranks.
class ReshardingTest : public ::testing::TestWithParam<std::tuple<uint32_t, int>> {
 protected:
  static uint32_t stage() { return std::get<0>(GetParam()); }
  static int tensor() { return std::get<1>(GetParam()); }

  // Three kinds of weights, and of what a stage may keep besides.
  static ShardedJob TheJob() {
    ShardedJob job = {
        .stage = stage(), .ranks = 4 * tensor(), .micro_batches = 2, .may_shrink = true};
    if (stage() == 1) job.compute = DType::kF16;
    if (stage() > 1) job.max_norm = 3;
    if (stage() == 2) job.compute = DType::kBf16;
    if (stage() == 3) job.kept_bytes = 1 << 20;
    job.tensor = tensor();
    return job;
  }
  static ShardedJob WithRows() {
    ShardedJob job = TheJob();
    job.has_rows = true;
    return job;
  }
  static ShardedJob WithCopies() {
    ShardedJob job = TheJob();
    job.redundant = true;
    return job;
  }

  // Returns the slots of data ranks.
  static std::vector<int> Slots(const std::vector<int>& data_ranks) {
    std::vector<int> slots;
    for (const int data_rank : data_ranks) {
      for (int rank = 0; rank < tensor(); ++rank) slots.push_back(data_rank * tensor() + rank);
    }
    return slots;
  }
  // Returns a group of data ranks, and the clock to which it trains.
  static Stretch Of(const std::vector<int>& data_ranks, uint64_t end) {
    return {Slots(data_ranks), end};
  }

  static std::vector<Stretch> FewerAndMore() {
    return {Of({0, 1, 2, 3}, 2), Of({0, 2, 3}, 4),
            // Another newcomer: rank 1 is to have what rank 2 had.
            Of({0, 1, 3}, 5), Of({0, 3}, 6), Of({3}, 7), Of({1, 3}, 8), Of({0, 1, 2, 3}, 9)};
  }

  // Ranks do this before they leave.
  enum class Leaving { kNothing, kHandOver };

  // Trains stretch after stretch, each of which is to go on in place.
  static void ExpectInPlace(const ShardedJob& job, const std::vector<Stretch>& stretches,
                            Leaving leaving = Leaving::kNothing) {
    Tasks tasks(job);
    std::vector<Stretch> so_far;
    for (const Stretch& stretch : stretches) {
      SCOPED_TRACE(absl::StrCat("to step ", stretch.end));
      if (leaving == Leaving::kHandOver && !so_far.empty()) {
        tasks.HandOver(so_far.back().slots, stretch.slots);
      }
      tasks.Place(stretch.slots);
      if (!so_far.empty()) {
        const absl::StatusOr<RecoveryPlan> plan = tasks.Plan(stretch.slots);
        ASSERT_TRUE(plan.ok()) << plan.status();
        EXPECT_EQ(plan->clock, so_far.back().end);
      }
      tasks.Train(stretch);
      so_far.push_back(stretch);
      tasks.ExpectEnd(stretch, TrainByCheckpoints(job, so_far));
      if (HasFailure()) return;
    }
  }

  // See below.
  void DieAtAnyCall(bool by_default);

  const TempFolder folder_;
};

TEST_P(ReshardingTest, RanksThatHandOverLeaveNothingUndone) {
  ExpectInPlace(TheJob(), FewerAndMore(), Leaving::kHandOver);
  if (tensor() == 1) ExpectInPlace(WithRows(), FewerAndMore(), Leaving::kHandOver);
}

TEST_P(ReshardingTest, CopiesLetTheRanksBecomeFewerAndMore) {
  ExpectInPlace(WithCopies(), FewerAndMore());
}

// Tensor ranks divide no sparse tables.
TEST_P(ReshardingTest, CopiesHaveRowsToo) {
  if (tensor() > 1) GTEST_SKIP() << "no job has both";
  ShardedJob job = WithRows();
  job.redundant = true;
  ExpectInPlace(job, FewerAndMore());
}

TEST_P(ReshardingTest, WithoutCopiesTheRanksBecomeMore) {
  for (const ShardedJob& job : {TheJob(), WithRows()}) {
    if (job.has_rows && tensor() > 1) continue;
    SCOPED_TRACE(job.has_rows ? "with rows" : "without rows");
    ExpectInPlace(job, {Of({2}, 1), Of({0, 2}, 2), Of({0, 2, 3}, 4), Of({0, 1, 2, 3}, 6)});
    Tasks tasks(job);
    tasks.Train(Of({0, 1, 2, 3}, 2));
    const Stretch left = Of({0, 1, 3}, 3);
    tasks.Place(left.slots);
    EXPECT_FALSE(tasks.Plan(left.slots).ok()) << "nobody has the lost shard";
    tasks.Train(left);
    tasks.ExpectEnd(left, TrainByCheckpoints(job, {left}));
  }
}

// A rank that forgets is like one that sat out a round.
TEST_P(ReshardingTest, WhoForgetsTakesItsShardLikeANewcomer) {
  const Stretch first = Of({0, 1, 2, 3}, 2);
  const Stretch all = Of({0, 1, 2, 3}, 4);
  const Trained expected = TrainByCheckpoints(WithCopies(), {first, all});
  const int slot = 2 * tensor();
  Tasks tasks(WithCopies());
  tasks.Train(first);
  EXPECT_EQ(tasks.holding(slot).clock, 2u);
  EXPECT_FALSE(tasks.holding(slot).copies.empty());
  tasks.Forget(slot);
  EXPECT_FALSE(tasks.holding(slot).clock.has_value());
  EXPECT_TRUE(tasks.holding(slot).copies.empty());
  ASSERT_TRUE(tasks.Plan(all.slots).ok()) << tasks.Plan(all.slots).status();
  EXPECT_EQ(tasks.Plan(all.slots)->transfers.size(), 1u);
  tasks.Train(all);
  tasks.ExpectEnd(all, expected);
}

TEST_P(ReshardingTest, OffloadedStateIsDividedAnew) {
  ShardedJob job = TheJob();
  job.offload_folder = folder_.path();
  ExpectInPlace(job, {Of({0, 2}, 2), Of({0, 1, 2, 3}, 4)});
}

// A rank dies when the others, except for one, have made the step.
TEST_P(ReshardingTest, ARankThatIsBehindMakesTheStepFirst) {
  const ShardedJob job = WithCopies();
  const Stretch first = Of({0, 1, 2, 3}, 3);
  const Stretch last = Of({0, 1, 3}, 5);
  const Trained expected = TrainByCheckpoints(job, {first, last});
  for (const int behind : last.slots) {
    SCOPED_TRACE(absl::StrCat("rank ", behind, " is behind"));
    Tasks tasks(job);
    std::latch others(job.ranks - 1);
    tasks.faults[behind].loses_answer_of =
        job.max_norm > 0 ? "norms of cells" : "examples and overflows";
    tasks.faults[behind].meanwhile = [&others] { others.wait(); };
    tasks.after_last_step = [&others](int) { others.count_down(); };
    tasks.Train(first, /*in_join=*/false);
    tasks.after_last_step = nullptr;
    ASSERT_EQ(tasks.holding(behind).clock, 2u);
    tasks.Place(last.slots);
    ASSERT_TRUE(tasks.Plan(last.slots).ok()) << tasks.Plan(last.slots).status();
    EXPECT_TRUE(tasks.Plan(last.slots)->rolls_forward);
    EXPECT_FALSE(tasks.Plan(last.slots)->former.empty());
    tasks.Train(last);
    tasks.ExpectEnd(last, expected);
  }
}

// One rank makes a step whose end the other does not hear of; both meet with a newcomer, which
// dies, and then with another. The rank that is behind still has its sums of rows.
TEST_P(ReshardingTest, ARankThatIsBehindMakesTheStepWithItsRowsFirst) {
  if (tensor() > 1) GTEST_SKIP() << "no job has both";
  const ShardedJob job = WithRows();
  const Stretch first = {{0, 2}, 3}, last = {{0, 1, 2}, 5};
  const Trained expected = TrainByCheckpoints(job, {first, last});
  for (const int behind : first.slots) {
    SCOPED_TRACE(absl::StrCat("slot ", behind, " is behind"));
    Tasks tasks(job);
    std::latch others(1);
    tasks.faults[behind].loses_answer_of =
        job.max_norm > 0 ? "norms of cells" : "examples and overflows";
    tasks.faults[behind].meanwhile = [&others] { others.wait(); };
    tasks.after_last_step = [&others](int) { others.count_down(); };
    tasks.Train(first, /*in_join=*/false);
    tasks.after_last_step = nullptr;
    ASSERT_EQ(tasks.holding(behind).clock, 2u);
    tasks.Place(last.slots);
    tasks.faults[1].dies_before = 0;
    tasks.Train(last);
    ASSERT_FALSE(tasks.IsAlive(1));
    ASSERT_EQ(tasks.holding(behind).clock, 2u) << "it has made the step before the newcomer died";
    tasks.Place(last.slots);
    ASSERT_TRUE(tasks.Plan(last.slots).ok()) << tasks.Plan(last.slots).status();
    EXPECT_TRUE(tasks.Plan(last.slots)->rolls_forward);
    tasks.Train(last);
    tasks.ExpectEnd(last, expected);
  }
}

// The newcomer dies at each call in which rows are divided anew. The others have theirs until all
// have their new ones.
TEST_P(ReshardingTest, ANewcomerMayDieWhileRowsAreDividedAnew) {
  if (tensor() > 1) GTEST_SKIP() << "no job has both";
  const Stretch before = {{0, 2}, 2}, now = {{0, 1, 2}, 4}, last = {{0, 2}, 4};
  const Trained in_place = TrainByCheckpoints(WithRows(), {before, last});
  const Trained anew = TrainByCheckpoints(WithRows(), {last});
  int survived = 0, call = 0;
  for (bool died = true; died; ++call) {
    SCOPED_TRACE(absl::StrCat("the newcomer dies before call ", call));
    Tasks tasks(WithRows());
    tasks.Train(before);
    tasks.Place(now.slots);
    tasks.faults[1].dies_before = call;
    tasks.Train(now);
    died = !tasks.IsAlive(1);
    if (!died) {
      tasks.ExpectEnd(now, TrainByCheckpoints(WithRows(), {before, now}));
      break;
    }
    const bool goes_on = tasks.Plan(last.slots).ok();
    survived += goes_on;
    tasks.Train(last);
    tasks.ExpectEnd(last, goes_on ? in_place : anew);
    if (HasFailure()) return;
  }
  EXPECT_GT(survived, 10) << "rows were lost before all had their new ones";
  EXPECT_GT(call, survived);
}

// A rank dies at each call in which its group divides the parameters anew. What is left goes on in
// place if it has everything, and begins anew otherwise. By default one rank does: of a group that
// becomes smaller an old one, of a growing group the newcomer; or else each other one in turn.
void ReshardingTest::DieAtAnyCall(bool by_default) {
  struct Case {
    Stretch before;
    Stretch now;
    // The least number of deaths of each victim that the others survive in place.
    int survived = 0;
    // The data rank that dies by default.
    int first_victim = 0;
  };
  const std::vector<Case> cases = {{Of({0, 1, 2, 3}, 2), Of({0, 2, 3}, 4), 0, 2},
                                   {Of({0, 2}, 2), Of({0, 1, 2}, 4), 5, 1}};
  for (const Case& test : cases) {
    for (const int victim : test.now.slots) {
      // Tensor ranks are alike in this.
      if (victim % tensor() != tensor() - 1) continue;
      if ((victim / tensor() == test.first_victim) != by_default) continue;
      std::vector<int> left;
      for (const int slot : test.now.slots) {
        if (slot / tensor() != victim / tensor()) left.push_back(slot);
      }
      const Stretch last = {left, 4};
      const Trained in_place = TrainByCheckpoints(WithCopies(), {test.before, last});
      const Trained anew = TrainByCheckpoints(WithCopies(), {last});
      int survived = 0, call = 0;
      for (bool died = true; died; ++call) {
        SCOPED_TRACE(absl::StrCat("slot ", victim, " dies before call ", call, " of a group of ",
                                  test.now.slots.size()));
        Tasks tasks(WithCopies());
        tasks.Train(test.before);
        tasks.Place(test.now.slots);
        tasks.faults[victim].dies_before = call;
        tasks.Train(test.now);
        died = !tasks.IsAlive(victim);
        if (!died) {
          tasks.ExpectEnd(test.now, TrainByCheckpoints(WithCopies(), {test.before, test.now}));
          break;
        }
        const bool goes_on = tasks.Plan(left).ok();
        survived += goes_on;
        tasks.Train(last);
        tasks.ExpectEnd(last, goes_on ? in_place : anew);
        if (HasFailure()) return;
      }
      EXPECT_GT(call, 10) << "the join's calls were not counted";
      EXPECT_GE(survived, test.survived);
    }
  }
}

TEST_P(ReshardingTest, ARankMayDieAtAnyCall) { DieAtAnyCall(/*by_default=*/true); }

TEST_P(ReshardingTest, AnyOtherRankMayDieAtAnyCallExhaustive) {
  DieAtAnyCall(/*by_default=*/false);
}

std::string NameOfResharding(const ::testing::TestParamInfo<ReshardingTest::ParamType>& info) {
  return absl::StrCat("Stage", std::get<0>(info.param), "Tensor", std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(EveryStage, ReshardingTest,
                         ::testing::Values(ReshardingTest::ParamType{1, 1},
                                           ReshardingTest::ParamType{2, 2},
                                           ReshardingTest::ParamType{3, 1}),
                         NameOfResharding);
INSTANTIATE_TEST_SUITE_P(ExhaustiveEveryStage, ReshardingTest,
                         ::testing::Values(ReshardingTest::ParamType{1, 2},
                                           ReshardingTest::ParamType{2, 1},
                                           ReshardingTest::ParamType{3, 2}),
                         NameOfResharding);

}  // namespace
}  // namespace muster
