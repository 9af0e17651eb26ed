// `kill -9` of workers that share out experts, at named calls: while rows go to other workers'
// experts and back, when gradients are pushed, and between a step and its checkpoint. Another task
// takes the lost one's slot in place, and the job goes on with exactly the weights of a run that
// nothing disturbed.

#include <signal.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/harness/endless_job.h"
#include "tests/harness/process_cluster.h"
#include "tests/recovery/dying_job.h"
#include "tests/recovery/small_transformer_job.h"

namespace muster {
namespace {

v1::JobSpec ExpertsJob(v1::UpdateSpec::Road road, uint32_t workers) {
  v1::JobSpec spec = SmallTransformerJob(road);
  v1::MoeSpec& moe = *spec.mutable_model()->mutable_transformer()->mutable_moe();
  moe.set_experts(4);
  moe.set_top_k(2);
  moe.set_auxiliary_loss(0.01f);
  moe.set_selection_bias(true);
  spec.set_workers(workers);
  spec.set_batch_size(2 * workers);
  spec.mutable_parallelism()->set_expert(2);
  // A test waits for some checkpoints after each loss.
  spec.mutable_checkpoint()->set_every_steps(5);
  return spec;
}

struct ExpertPoint {
  uint32_t slot;
  const char* call;
};

// Each n-th of the points, from this one on.
class ExpertKillTest : public ::testing::TestWithParam<Deaths> {
 protected:
  static std::vector<ExpertPoint> Chosen(const std::vector<ExpertPoint>& points) {
    std::vector<ExpertPoint> chosen;
    for (size_t i = GetParam().first; i < points.size(); i += GetParam().of) {
      chosen.push_back(points[i]);
    }
    return chosen;
  }
};

// Both workers repeat the clock. The server is lost, too.
TEST_P(ExpertKillTest, WorkersOnServersGoOnInPlaceWhereverATaskDies) {
  v1::JobSpec spec = ExpertsJob(v1::UpdateSpec::PARAMETER_SERVER, 2);
  spec.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  DyingJob job;
  ASSERT_NO_FATAL_FAILURE(job.Start(spec, /*servers=*/1));
  for (const ExpertPoint& point : Chosen({{1, "before rows by expert"},
                                          {0, "before to expert rank"},
                                          {1, "before from expert rank"},
                                          {0, "before push"},
                                          {1, "after push"},
                                          {1, "before close"},
                                          {0, "after clip"},
                                          {1, "before take of the cut"}})) {
    ASSERT_NO_FATAL_FAILURE(job.DieAt(point.slot, point.call));
  }
  const v1::JobStatus before = job.Status();
  job.cluster().Kill("server-0", SIGKILL);
  ASSERT_TRUE(job.cluster().Restart("server-0").ok());
  ASSERT_NO_FATAL_FAILURE(job.AwaitTasks(before, 0));
  job.ExpectTheSameBits();
}

// The lost worker's experts come from the one that has the same.
TEST_P(ExpertKillTest, WorkersGoOnInPlaceWhereverATaskDies) {
  DyingJob job;
  ASSERT_NO_FATAL_FAILURE(job.Start(ExpertsJob(v1::UpdateSpec::ALL_REDUCE, 4)));
  for (const ExpertPoint& point : Chosen({{1, "before rows by expert"},
                                          {2, "before to expert rank"},
                                          {3, "before from expert rank"},
                                          {0, "before examples and overflows"}})) {
    ASSERT_NO_FATAL_FAILURE(job.DieAt(point.slot, point.call));
  }
  job.ExpectTheSameBits();
}

// Workers 0 and 1 have all experts together, and so have 2 and 3. Here a lost daemon is noticed by
// its lease; then it is back.
TEST(ExpertElasticTest, TheOtherGroupGoesOnAlone) {
  auto started = ProcessCluster::Start({.servers = 0,
                                        .workers = 4,
                                        .lease = absl::Seconds(5),
                                        .coordinator_arguments = {"--elastic-wait-ms=500"}});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  v1::JobSpec spec = ExpertsJob(v1::UpdateSpec::ALL_REDUCE, 4);
  spec.set_min_workers(2);
  const auto id = cluster.Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  const auto running = AwaitRunning(cluster, *id);
  ASSERT_TRUE(running.ok()) << running.status();
  const std::string victim = running->tasks(0).worker_id();
  cluster.Kill(victim, SIGKILL);
  const auto smaller =
      cluster.Await(*id, [](const v1::JobStatus& status) { return !status.waiting_for().empty(); });
  ASSERT_TRUE(smaller.ok()) << smaller.status() << cluster.Diagnose(*id);
  const auto trained = AwaitCheckpointSince(cluster, *id);
  ASSERT_TRUE(trained.ok()) << trained.status() << cluster.Diagnose(*id);
  EXPECT_EQ(trained->generation(), 1u) << cluster.Diagnose(*id);
  ASSERT_TRUE(cluster.Restart(victim).ok());
  const auto whole =
      cluster.Await(*id, [](const v1::JobStatus& status) { return status.waiting_for().empty(); });
  ASSERT_TRUE(whole.ok()) << whole.status() << cluster.Diagnose(*id);
  const auto again = AwaitCheckpointSince(cluster, *id);
  ASSERT_TRUE(again.ok()) << again.status() << cluster.Diagnose(*id);
  EXPECT_EQ(again->generation(), 1u) << cluster.Diagnose(*id);
  EXPECT_EQ(cluster.ChildrenOf(victim).size(), 1u) << cluster.Diagnose(*id);
  const auto weights = EndAndTrainUndisturbed(cluster, *id);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_FALSE(weights->undisturbed.empty());
  // Two workers add up in another order than four, and the steps since have made more of that.
  EXPECT_LT(MostApart(weights->disturbed, weights->undisturbed), 0.01);
}

INSTANTIATE_TEST_SUITE_P(Points, ExpertKillTest, ::testing::Values(Deaths{0, 0, 3}));
INSTANTIATE_TEST_SUITE_P(ExhaustivePoints, ExpertKillTest, ::testing::Values(Deaths{}));

}  // namespace
}  // namespace muster
