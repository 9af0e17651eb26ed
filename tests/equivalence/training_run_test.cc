// Runs of tests find mistakes of the tests that ask for them.
#include "tests/equivalence/training_run.h"

#include "common/files/temp_folder.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include "tests/equivalence/tensor_jobs.h"

namespace muster {
namespace {

v1::JobSpec TwoStepJob() {
  static const TempFolder* const folder = new TempFolder();
  v1::JobSpec spec = TensorJob(TensorShape::kPerceptron, *folder);
  spec.mutable_stop()->set_steps(2);
  return spec;
}

// Returns options with a death in a step that the job does not have.
RunOptions DeathThatIsNeverReached() {
  RunOptions options;
  options.deaths = {{.slot = 1, .at = {Hook::kEndStep, 3, 1}}};
  return options;
}

constexpr char kNever[] = "the task of slot 1 never made the call at which it was to die";

TEST(TrainingRunTest, ADeathThatIsNeverReachedFailsTheTest) {
  EXPECT_NONFATAL_FAILURE_ON_ALL_THREADS(
      TrainByAllReduce(ByAllReduce(OnMesh(TwoStepJob(), 1, 2)), DeathThatIsNeverReached()), kNever);
  EXPECT_NONFATAL_FAILURE_ON_ALL_THREADS(
      TrainOnServers(OnMesh(TwoStepJob(), 1, 2), DeathThatIsNeverReached()), kNever);
  EXPECT_NONFATAL_FAILURE_ON_ALL_THREADS(
      TrainOnServers(OnMesh(TwoStepJob(), 2, 1), DeathThatIsNeverReached()), kNever);
}

}  // namespace
}  // namespace muster
