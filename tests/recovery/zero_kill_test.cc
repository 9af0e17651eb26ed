// `kill -9` in the middle of jobs with ZeRO, whose steps are of several micro-batches. By
// all-reduce a lost task is replaced in place if others have its slice; otherwise the job goes back
// to its last checkpoint. On servers a lost task is replaced in place, and so is a lost server
// under EVERY_PUSH. In all cases the job goes on with exactly the weights of a run that nothing
// disturbed.

#include <signal.h>

#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/endless_job.h"
#include "tests/harness/process_cluster.h"
#include "tests/recovery/dying_job.h"
#include "tests/recovery/no_lease_for_testing.h"
#include "tests/recovery/small_transformer_job.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

struct ZeroCase {
  const char* name;
  v1::UpdateSpec::Road road;
  uint32_t stage;
  v1::UpdateSpec::Durability durability;
  // The servers or workers' tasks that are killed, one after the other.
  std::vector<std::string> victims;
  uint32_t seed;
  // True if the model has sparse tables, whose rows are divided, too.
  bool has_rows = false;

  friend std::ostream& operator<<(std::ostream& out, const ZeroCase& param) {
    return out << param.name;
  }
};

v1::JobSpec ZeroJob(v1::UpdateSpec::Road road, uint32_t stage) {
  v1::JobSpec spec = SmallTransformerJob(road);
  spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
  return spec;
}

// Gives the job a model with sparse tables, whose rows the ranks divide, too.
void DivideRows(v1::JobSpec& spec) {
  spec.mutable_model()->mutable_deep_fm()->set_embedding_dim(4);
  spec.mutable_model()->mutable_deep_fm()->add_hidden(16);
  v1::DataSpec& data = *spec.mutable_data();
  data.Clear();
  v1::SyntheticClicksData& clicks = *data.mutable_synthetic_clicks();
  clicks.set_examples(2000);
  clicks.set_fields(6);
  clicks.set_cardinality(500);
  clicks.set_seed(3);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
}

class ZeroKillTest : public ::testing::TestWithParam<ZeroCase> {
 protected:
  // Returns whether the loss takes the job back to its last checkpoint.
  static bool TakesTheJobBack(const std::string& victim) {
    const ZeroCase& param = GetParam();
    if (param.road == v1::UpdateSpec::ALL_REDUCE) return true;
    return IsServer(victim) && param.durability == v1::UpdateSpec::CHECKPOINT;
  }

  // Kills the victim anywhere in the next steps, and waits until its loss was noticed. The job is
  // given time for a checkpoint first: one that goes back twice without progress pauses for a part
  // of the lease, which is an hour here.
  void KillAndAwait(ProcessCluster& cluster, const std::string& id, const std::string& victim) {
    v1::JobStatus now;
    ASSERT_TRUE(cluster.jobs().Get(id, now).ok());
    const uint64_t at = now.progress().step() + 1 + random_() % (2 * kTransformerCheckpointSteps);
    const auto before = cluster.Await(id, [&](const v1::JobStatus& status) {
      return status.progress().step() >= at && status.checkpoint_clock() > now.checkpoint_clock();
    });
    ASSERT_TRUE(before.ok()) << before.status();
    const std::string other = victim == "worker-0" ? "worker-1" : "worker-0";
    const std::vector<pid_t> others = cluster.ChildrenOf(other);
    if (IsServer(victim)) {
      cluster.Kill(victim, SIGKILL);
      ASSERT_TRUE(cluster.Restart(victim).ok());
    } else {
      const std::vector<pid_t> tasks = cluster.ChildrenOf(victim);
      ASSERT_EQ(tasks.size(), 1u);
      kill(tasks[0], SIGKILL);
    }
    const auto noticed = cluster.Await(id, [&](const v1::JobStatus& status) {
      if (TakesTheJobBack(victim)) return status.generation() > before->generation();
      return IsServer(victim) || Incarnations(status) > Incarnations(*before);
    });
    ASSERT_TRUE(noticed.ok()) << noticed.status();
    if (!TakesTheJobBack(victim)) {
      EXPECT_EQ(noticed->generation(), before->generation());
      EXPECT_EQ(cluster.ChildrenOf(other), others) << "the other task was restarted";
    }
  }

 private:
  static bool IsServer(const std::string& victim) { return absl::StartsWith(victim, "server"); }

  std::mt19937 random_{GetParam().seed};
};

TEST_P(ZeroKillTest, JobGoesOnWithTheSameBits) {
  const bool on_servers = GetParam().road == v1::UpdateSpec::PARAMETER_SERVER;
  auto started = ProcessCluster::Start({.servers = on_servers ? 2 : 0, .lease = kNoLease});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  v1::JobSpec spec = ZeroJob(GetParam().road, GetParam().stage);
  spec.mutable_update()->set_durability(GetParam().durability);
  if (GetParam().has_rows) DivideRows(spec);
  // Files of optimizer state go with their tasks, and come back from the checkpoint.
  const bool offloads = !on_servers && GetParam().stage == 3;
  if (offloads) {
    spec.mutable_parallelism()->mutable_zero()->set_offload(v1::ZeroSpec::OPTIMIZER_STATE);
  }
  const auto id = cluster.Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  const auto running = AwaitRunning(cluster, *id);
  ASSERT_TRUE(running.ok()) << running.status();
  bool went_back = false;
  for (const std::string& victim : GetParam().victims) {
    SCOPED_TRACE(victim);
    ASSERT_NO_FATAL_FAILURE(KillAndAwait(cluster, *id, victim)) << cluster.Diagnose(*id);
    went_back = went_back || TakesTheJobBack(victim);
  }
  const auto trained = AwaitCheckpointSince(cluster, *id);
  ASSERT_TRUE(trained.ok()) << trained.status();
  if (!went_back) EXPECT_EQ(trained->generation(), 1u) << cluster.Diagnose(*id);
  const auto weights = EndAndTrainUndisturbed(cluster, *id);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_FALSE(weights->undisturbed.empty());
  EXPECT_TRUE(weights->disturbed == weights->undisturbed)
      << "the weights at clock " << weights->clock << " differ from an undisturbed run's\n"
      << cluster.Diagnose(*id);
}

INSTANTIATE_TEST_SUITE_P(Stages, ZeroKillTest,
                         ::testing::Values(ZeroCase{"Stage1ByAllReduce",
                                                    v1::UpdateSpec::ALL_REDUCE,
                                                    1,
                                                    v1::UpdateSpec::CHECKPOINT,
                                                    {"worker-0", "worker-1"},
                                                    31},
                                           ZeroCase{"Stage3ByAllReduce",
                                                    v1::UpdateSpec::ALL_REDUCE,
                                                    3,
                                                    v1::UpdateSpec::CHECKPOINT,
                                                    {"worker-1", "worker-0"},
                                                    32},
                                           ZeroCase{"Stage2WithRowsByAllReduce",
                                                    v1::UpdateSpec::ALL_REDUCE,
                                                    2,
                                                    v1::UpdateSpec::CHECKPOINT,
                                                    {"worker-0", "worker-1"},
                                                    35,
                                                    /*has_rows=*/true},
                                           ZeroCase{"Stage3OnServersCheckpoint",
                                                    v1::UpdateSpec::PARAMETER_SERVER,
                                                    3,
                                                    v1::UpdateSpec::CHECKPOINT,
                                                    {"server-1", "worker-0", "worker-1"},
                                                    33},
                                           ZeroCase{"Stage3OnServersEveryPush",
                                                    v1::UpdateSpec::PARAMETER_SERVER,
                                                    3,
                                                    v1::UpdateSpec::EVERY_PUSH,
                                                    {"server-0", "worker-1", "server-1"},
                                                    34}),
                         [](const auto& info) { return info.param.name; });

struct InPlaceJob {
  uint32_t tensor = 1;
  // The model has sparse tables.
  bool has_rows = false;
};

// Jobs of which others have a lost task's slice, on workers of one slot each.
class ZeroInPlaceTest : public ::testing::TestWithParam<Deaths> {
 protected:
  // Starts a job of workers that keep copies, or of groups of two.
  void Start(int workers, bool copies, InPlaceJob options = {}) {
    v1::JobSpec spec = ZeroJob(v1::UpdateSpec::ALL_REDUCE, GetParam().stage);
    if (options.has_rows) DivideRows(spec);
    spec.set_workers(workers);
    spec.set_batch_size(2 * workers);
    spec.mutable_parallelism()->set_tensor(options.tensor);
    if (GetParam().stage > 0) {
      v1::ZeroSpec& zero = *spec.mutable_parallelism()->mutable_zero();
      if (copies) zero.set_redundancy(1);
      if (!copies) zero.set_shard(2);
    }
    job_.Start(spec);
  }

  // Lets tasks die at the points that are the case's; slot `slot` at the first of all, the next one
  // of `slots` at the next.
  template <size_t kCount>
  void DieAtPoints(const char* const (&points)[kCount], uint32_t slots, uint32_t slot = 0) {
    for (size_t i = GetParam().first; i < kCount; i += GetParam().of) {
      ASSERT_NO_FATAL_FAILURE(job_.DieAt((slot + i) % slots, points[i]));
    }
  }

  DyingJob job_;
};

// The calls of a step at which a task dies, in their order.
const char* const kPoints[] = {"before gradients of unit 2",    "before gradients of unit 0",
                               "before examples and overflows", "after examples and overflows",
                               "after norms of cells",          "before weights of unit 0",
                               "before weights of unit 2",      "before copies of the cut",
                               "before lengths of cuts",        "after files of cuts"};

TEST_P(ZeroInPlaceTest, CopiesTakeTheJobOnWhereverATaskDies) {
  ASSERT_NO_FATAL_FAILURE(Start(/*workers=*/3, /*copies=*/true));
  ASSERT_NO_FATAL_FAILURE(job_.DieAt(2, "before sums for copies"));
  ASSERT_NO_FATAL_FAILURE(DieAtPoints(kPoints, 3));
  job_.ExpectTheSameBits();
}

TEST_P(ZeroInPlaceTest, ReplicasTakeTheJobOnWhereverATaskDies) {
  ASSERT_NO_FATAL_FAILURE(Start(/*workers=*/4, /*copies=*/false));
  ASSERT_NO_FATAL_FAILURE(DieAtPoints(kPoints, 4));
  const v1::JobStatus before = job_.Status();
  // Of different shards, in different groups.
  ASSERT_NO_FATAL_FAILURE(job_.Kill({0, 3}));
  ASSERT_NO_FATAL_FAILURE(job_.AwaitTasks(before, 2));
  job_.ExpectTheSameBits();
}

const Deaths kThirdOfDeaths[] = {{1, 0, 3}, {2, 1, 3}, {3, 2, 3}};
const Deaths kAllDeaths[] = {{1}, {2}, {3}};
INSTANTIATE_TEST_SUITE_P(Stages, ZeroInPlaceTest, ::testing::ValuesIn(kThirdOfDeaths));
INSTANTIATE_TEST_SUITE_P(ExhaustiveStages, ZeroInPlaceTest, ::testing::ValuesIn(kAllDeaths));

class TwoDeathsTest : public ZeroInPlaceTest {};

// Slot 1 keeps slot 0's copy, and slot 2 that of slot 1.
TEST_P(TwoDeathsTest, TwoTasksThatDieAtOnceMayBeTooMany) {
  ASSERT_NO_FATAL_FAILURE(Start(/*workers=*/4, /*copies=*/true));
  const v1::JobStatus before = job_.Status();
  ASSERT_NO_FATAL_FAILURE(job_.Kill({1, 3}));
  ASSERT_NO_FATAL_FAILURE(job_.AwaitTasks(before, 2));
  ASSERT_NO_FATAL_FAILURE(job_.Kill({0, 1}));
  ASSERT_NO_FATAL_FAILURE(job_.AwaitReturn(before));
  job_.ExpectTheSameBits();
}

INSTANTIATE_TEST_SUITE_P(Stages, TwoDeathsTest, ::testing::Values(Deaths{1}, Deaths{3}));
INSTANTIATE_TEST_SUITE_P(ExhaustiveStages, TwoDeathsTest, ::testing::Values(Deaths{2}));

// The calls at which a task dies whose job divides rows, too.
const char* const kRowPoints[] = {"before keys of rows", "before gradients of rows",
                                  "before examples and overflows", "after norms of cells"};

class RowsInPlaceTest : public ZeroInPlaceTest {};

TEST_P(RowsInPlaceTest, CopiesHaveRowsToo) {
  ASSERT_NO_FATAL_FAILURE(Start(/*workers=*/3, /*copies=*/true, {.has_rows = true}));
  ASSERT_NO_FATAL_FAILURE(job_.DieAt(2, "before sums of rows for copies"));
  ASSERT_NO_FATAL_FAILURE(DieAtPoints(kRowPoints, 3));
  job_.ExpectTheSameBits();
}

TEST_P(RowsInPlaceTest, ReplicasHaveRowsToo) {
  ASSERT_NO_FATAL_FAILURE(Start(/*workers=*/4, /*copies=*/false, {.has_rows = true}));
  ASSERT_NO_FATAL_FAILURE(DieAtPoints(kRowPoints, 4));
  job_.ExpectTheSameBits();
}

INSTANTIATE_TEST_SUITE_P(Stages, RowsInPlaceTest, ::testing::Values(Deaths{2}));

// True: the model has sparse tables, so nobody keeps copies, and a loss takes the job back.
class ZeroElasticTest : public ::testing::TestWithParam<bool> {};

// A worker dies with its task and is missed, so the others divide the parameters anew; then it is
// back. Here a lost daemon is noticed by its lease. While two of the three are there, one of them
// has an empty micro-batch in each step; and evaluations are of one example, which one rank has.
TEST_P(ZeroElasticTest, TheOthersDivideTheParametersAnewAndAgainWhenTheWorkerIsBack) {
  const bool has_rows = GetParam();
  auto started = ProcessCluster::Start({.servers = 0,
                                        .workers = 3,
                                        .lease = absl::Seconds(5),
                                        .coordinator_arguments = {"--elastic-wait-ms=500"}});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  v1::JobSpec spec = ZeroJob(v1::UpdateSpec::ALL_REDUCE, 3);
  if (has_rows) {
    DivideRows(spec);
    spec.mutable_optimizer()->set_name("sgd");
    spec.mutable_optimizer()->clear_state_type();
  }
  spec.set_workers(3);
  spec.set_batch_size(7);
  spec.set_micro_batches(1);
  spec.set_min_workers(2);
  spec.mutable_data()->set_holdout(0.1);
  spec.mutable_evaluation()->set_every_steps(10);
  spec.mutable_evaluation()->set_max_examples(1);
  spec.mutable_parallelism()->mutable_zero()->set_redundancy(has_rows ? 0 : 1);
  const auto id = cluster.Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  const auto running = AwaitRunning(cluster, *id);
  ASSERT_TRUE(running.ok()) << running.status();
  const std::string victim = running->tasks(0).worker_id();
  const auto other_tasks = [&] {
    std::vector<pid_t> tasks;
    for (const std::string worker : {"worker-0", "worker-1", "worker-2"}) {
      if (worker != victim) tasks.push_back(cluster.ChildrenOf(worker)[0]);
    }
    return tasks;
  };
  std::vector<pid_t> others = other_tasks();
  cluster.Kill(victim, SIGKILL);
  // A status's message is of the last event, which the next checkpoint's replaces: what stays is
  // that the job waits for a slot while it trains.
  const auto smaller =
      cluster.Await(*id, [](const v1::JobStatus& status) { return !status.waiting_for().empty(); });
  ASSERT_TRUE(smaller.ok()) << smaller.status() << cluster.Diagnose(*id);
  const auto trained = AwaitCheckpointSince(cluster, *id);
  ASSERT_TRUE(trained.ok()) << trained.status() << cluster.Diagnose(*id);
  EXPECT_EQ(trained->generation(), has_rows ? 2u : 1u) << cluster.Diagnose(*id);
  // A job that went back fills its lowest slots.
  EXPECT_THAT(trained->waiting_for(), HasSubstr(has_rows ? "slot 2" : "slot 0"))
      << cluster.Diagnose(*id);
  if (has_rows) others = other_tasks();
  ASSERT_TRUE(cluster.Restart(victim).ok());
  const auto whole =
      cluster.Await(*id, [](const v1::JobStatus& status) { return status.waiting_for().empty(); });
  ASSERT_TRUE(whole.ok()) << whole.status() << cluster.Diagnose(*id);
  const auto again = AwaitCheckpointSince(cluster, *id);
  ASSERT_TRUE(again.ok()) << again.status() << cluster.Diagnose(*id);
  EXPECT_EQ(again->generation(), trained->generation()) << cluster.Diagnose(*id);
  EXPECT_EQ(cluster.ChildrenOf(victim).size(), 1u) << cluster.Diagnose(*id);
  EXPECT_EQ(other_tasks(), others) << "the other tasks were restarted";
  const auto weights = EndAndTrainUndisturbed(cluster, *id);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_FALSE(weights->undisturbed.empty());
  // Two ranks add up in another order than three, and the steps since have made more of that.
  // Weights that came to a wrong place would differ by as much as weights do.
  EXPECT_LT(MostApart(weights->disturbed, weights->undisturbed), 0.01);
}

INSTANTIATE_TEST_SUITE_P(Models, ZeroElasticTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "WithRows" : "Dense"; });

// The calls of tensor ranks at which a task dies.
const char* const kTensorPoints[] = {"before tensor rows", "after sums of tensor rows",
                                     "before shared gradients of unit 1",
                                     "after examples and overflows"};

class TensorInPlaceTest : public ZeroInPlaceTest {};

// Under stage 0 the state comes from the peer in the other tensor group, otherwise from a copy.
TEST_P(TensorInPlaceTest, TensorRanksGoOnInPlaceWhereverATaskDies) {
  ASSERT_NO_FATAL_FAILURE(Start(/*workers=*/4, /*copies=*/true, {.tensor = 2}));
  ASSERT_NO_FATAL_FAILURE(DieAtPoints(kTensorPoints, 4, /*slot=*/1));
  job_.ExpectTheSameBits();
}

INSTANTIATE_TEST_SUITE_P(Stages, TensorInPlaceTest,
                         ::testing::Values(Deaths{0, 0, 2}, Deaths{1, 1, 2}, Deaths{3, 0, 2}));
INSTANTIATE_TEST_SUITE_P(ExhaustiveStages, TensorInPlaceTest,
                         ::testing::Values(Deaths{0}, Deaths{1}, Deaths{3}));

// Nobody else has the share of a tensor rank that is alone with it.
class LoneTensorRankTest : public ZeroInPlaceTest {};

TEST_P(LoneTensorRankTest, ALossTakesTheJobBackToItsCheckpoint) {
  ASSERT_NO_FATAL_FAILURE(Start(/*workers=*/2, /*copies=*/false, {.tensor = 2}));
  const v1::JobStatus before = job_.Status();
  ASSERT_NO_FATAL_FAILURE(job_.Kill({1}));
  ASSERT_NO_FATAL_FAILURE(job_.AwaitReturn(before));
  job_.ExpectTheSameBits();
}

INSTANTIATE_TEST_SUITE_P(Stages, LoneTensorRankTest, ::testing::Values(Deaths{0}));

}  // namespace
}  // namespace muster
