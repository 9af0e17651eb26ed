// `kill -9` of the coordinator and of tasks while a job's rate falls on a plateau: what is decided,
// and the weights, are those of a run that nothing disturbed.

#include <signal.h>
#include <sys/types.h>

#include "gtest/gtest.h"
#include "proto/status.pb.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"

namespace muster {
namespace {

class PlateauKillTest : public ::testing::TestWithParam<v1::UpdateSpec::Road> {
 protected:
  // Returns a job whose evaluations get worse from the first one on.
  v1::JobSpec Job() const {
    v1::JobSpec spec = SmallJob();
    spec.mutable_update()->set_dense(GetParam());
    spec.mutable_update()->set_sparse(GetParam());
    spec.mutable_data()->clear_holdout();
    *spec.mutable_validation() = spec.data();
    spec.mutable_validation()->mutable_synthetic_classification()->set_seed(99);
    spec.mutable_evaluation()->set_metric("loss");
    spec.mutable_evaluation()->set_every_steps(10);
    spec.mutable_checkpoint()->set_every_steps(50);
    spec.mutable_stop()->set_steps(400);
    v1::PlateauSpec& plateau = *spec.mutable_schedule()->mutable_plateau();
    plateau.set_patience(4);
    plateau.set_factor(0.5);
    return spec;
  }
};

TEST_P(PlateauKillTest, TheSameIsDecidedAndTrained) {
  auto started = ProcessCluster::Start({.servers = 1, .workers = 2});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  const auto expected = cluster.Submit(Job());
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto undisturbed = cluster.AwaitEnd(*expected);
  ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();
  ASSERT_EQ(undisturbed->state(), v1::SUCCEEDED) << undisturbed->message();
  ASSERT_GT(undisturbed->adjustments_size(), 3);
  EXPECT_EQ(undisturbed->adjustments(1).rate_factor(), 0.25);

  const auto id = cluster.Submit(Job());
  ASSERT_TRUE(id.ok()) << id.status();
  for (const int decisions : {1, 2}) {
    const auto decided = cluster.Await(*id, [decisions](const v1::JobStatus& status) {
      return status.adjustments_size() >= decisions;
    });
    ASSERT_TRUE(decided.ok()) << decided.status();
    if (decisions == 1) {
      cluster.Kill("coordinator", SIGKILL);
      ASSERT_TRUE(cluster.Restart("coordinator").ok());
    } else {
      for (const pid_t task : cluster.ChildrenOf("worker-1")) kill(task, SIGKILL);
    }
  }
  const auto end = cluster.AwaitEnd(*id);
  ASSERT_TRUE(end.ok()) << end.status();
  ASSERT_EQ(end->state(), v1::SUCCEEDED) << end->message() << cluster.Diagnose(*id);
  ASSERT_EQ(end->adjustments_size(), undisturbed->adjustments_size());
  for (int i = 0; i < end->adjustments_size(); ++i) {
    EXPECT_EQ(end->adjustments(i).clock(), undisturbed->adjustments(i).clock());
    EXPECT_EQ(end->adjustments(i).rate_factor(), undisturbed->adjustments(i).rate_factor());
  }
  const auto weights = cluster.Export(*id);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto expected_weights = cluster.Export(*expected);
  ASSERT_TRUE(expected_weights.ok()) << expected_weights.status();
  EXPECT_TRUE(*weights == *expected_weights);
}

INSTANTIATE_TEST_SUITE_P(Roads, PlateauKillTest,
                         ::testing::Values(v1::UpdateSpec::PARAMETER_SERVER,
                                           v1::UpdateSpec::ALL_REDUCE),
                         [](const auto& info) {
                           const bool servers = info.param == v1::UpdateSpec::PARAMETER_SERVER;
                           return servers ? "OnServers" : "ByAllReduce";
                         });

}  // namespace
}  // namespace muster
