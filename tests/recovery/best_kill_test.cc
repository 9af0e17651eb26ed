// `kill -9` between a job's best evaluation and the commit of the checkpoint that it asks for: of
// the task that commits, and of the coordinator, which knows of the evaluation.

#include <signal.h>
#include <sys/types.h>

#include <ostream>
#include <vector>

#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"
#include "tests/recovery/dying_job.h"

namespace muster {
namespace {

struct BestCase {
  const char* name;
  v1::UpdateSpec::Road road;
  int servers;
  // A call of slot 0 after the evaluation's answer and before the commit.
  const char* call;

  friend std::ostream& operator<<(std::ostream& out, const BestCase& param) {
    return out << param.name;
  }
};

class BestKillTest : public ::testing::TestWithParam<BestCase> {};

TEST_P(BestKillTest, TheBestIsThereOnceAndIntact) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_dense(GetParam().road);
  spec.mutable_update()->set_sparse(GetParam().road);
  // What it learns makes it worse on these examples, so that its first evaluation is its best.
  spec.mutable_data()->clear_holdout();
  *spec.mutable_validation() = spec.data();
  spec.mutable_validation()->mutable_synthetic_classification()->set_seed(99);
  spec.mutable_evaluation()->set_metric("loss");
  spec.mutable_evaluation()->set_every_steps(50);
  DyingJob job;
  ASSERT_NO_FATAL_FAILURE(job.StartAndStopAt(spec, GetParam().servers, 0, GetParam().call));
  ProcessCluster& cluster = job.cluster();
  const v1::JobStatus stopped = job.Status();
  ASSERT_EQ(stopped.evaluations_size(), 1);
  EXPECT_EQ(stopped.checkpoint_clock(), 0u);
  EXPECT_FALSE(stopped.has_best());
  const std::vector<pid_t> tasks = cluster.ChildrenOf(stopped.tasks(0).worker_id());
  ASSERT_EQ(tasks.size(), 1u);
  cluster.Kill("coordinator", SIGKILL);
  kill(tasks[0], SIGKILL);
  ASSERT_TRUE(cluster.Restart("coordinator").ok());

  const auto ended = cluster.AwaitEnd(job.id());
  ASSERT_TRUE(ended.ok()) << ended.status();
  ASSERT_EQ(ended->state(), v1::SUCCEEDED) << ended->message();
  EXPECT_EQ(Incarnations(*ended), Incarnations(stopped) + 1) << cluster.Diagnose(job.id());
  EXPECT_EQ(ended->best().clock(), 50u) << cluster.Diagnose(job.id());
  EXPECT_EQ(ended->evaluations_size(), 2);
  v1::ListCheckpointsReply list;
  ASSERT_TRUE(cluster.jobs().Checkpoints(job.id(), list).ok());
  ASSERT_EQ(list.checkpoints_size(), 2) << list.DebugString();
  EXPECT_TRUE(list.checkpoints(0).best());
  EXPECT_EQ(list.checkpoints(0).clock(), 50u);
  EXPECT_FALSE(list.checkpoints(1).best());
  v1::CheckpointRequest best;
  best.set_job_id(job.id());
  best.set_best(true);
  v1::VerifyCheckpointReply verified;
  ASSERT_TRUE(cluster.jobs().VerifyCheckpoint(best, verified).ok());
  EXPECT_EQ(verified.damage_size(), 0) << verified.DebugString();
  const auto weights = cluster.Export(best);
  ASSERT_TRUE(weights.ok()) << weights.status();

  spec.mutable_stop()->set_steps(50);
  spec.clear_evaluation();
  const auto undisturbed = cluster.Submit(spec);
  ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();
  ASSERT_TRUE(cluster.AwaitEnd(*undisturbed).ok());
  const auto expected = cluster.Export(*undisturbed);
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_TRUE(*weights == *expected);
}

INSTANTIATE_TEST_SUITE_P(Roads, BestKillTest,
                         ::testing::Values(BestCase{"Servers", v1::UpdateSpec::PARAMETER_SERVER, 2,
                                                    "before write of the cut"},
                                           BestCase{"AllReduce", v1::UpdateSpec::ALL_REDUCE, 0,
                                                    "before copies of the cut"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster
