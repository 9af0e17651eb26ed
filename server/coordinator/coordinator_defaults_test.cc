// What a job leaves out and the coordinator decides: threads of its tasks, and an end before its
// last step.
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CoordinatorDefaultsTest : public ::testing::Test {
 protected:
  void StartDaemons() {
    cluster_.AddServer("s0");
    cluster_.AddWorker("w0", 2);
  }

  SimulatedCluster cluster_;
};

TEST_F(CoordinatorDefaultsTest, ATaskComputesWithItsSharesOfTheWorkersProcessors) {
  cluster_.AddServer("s0");
  cluster_.AddWorker("w0", 4);
  const auto threads = [this](const v1::JobSpec& spec) {
    const std::string job = *cluster_.Submit(spec);
    const uint32_t ordered = cluster_.Order(job, 0)->spec().threads_per_worker();
    const std::string events = cluster_.coordinator().jobs().Events(job)->DebugString();
    EXPECT_THAT(events, HasSubstr(absl::StrCat("2 slots with ", ordered, " thread")));
    return ordered;
  };
  v1::JobSpec spec = SmallJob();
  EXPECT_EQ(threads(spec), SimulatedCluster::kProcessorsOfASlot);
  spec.set_threads_per_worker(5);
  EXPECT_EQ(threads(spec), 5);
}

TEST_F(CoordinatorDefaultsTest, AJobEndsWhenItsPatienceDoes) {
  StartDaemons();
  v1::JobSpec spec = SmallJob();
  spec.mutable_evaluation()->set_every_steps(2);
  spec.mutable_stop()->set_patience(1);
  const std::string job = *cluster_.Submit(spec);
  for (uint32_t slot = 0; slot < 2; ++slot) cluster_.Rendezvous(*cluster_.Order(job, slot));
  cluster_.EvaluateAll(job, 2);
  EXPECT_THAT(cluster_.Status(job).message(), Not(HasSubstr("patience")));
  cluster_.EvaluateAll(job, 4);
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr("stop.patience"));
  EXPECT_TRUE(cluster_.Checkpoint(*cluster_.Order(job, 0), 4).status().ok());
  cluster_.EndAll(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

}  // namespace
}  // namespace muster
