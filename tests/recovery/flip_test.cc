// A kernel that errs: one bit of a task's gradients is flipped in a step that is verified. The
// worker is named and left in that step, the job goes on elsewhere, and ends with exactly the
// weights of a run that nothing disturbed.

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/recovery/dying_job.h"
#include "tests/recovery/small_transformer_job.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct FlipCase {
  const char* name;
  v1::UpdateSpec::Road road;
  uint32_t stage = 0;
  uint32_t tensor = 1;
  uint32_t data = 3;
  // A share is computed in two passes: 1 and 2 are the task's own, 3 and 4 the next data rank's.
  const char* order = "flip once in pass 1";

  friend std::ostream& operator<<(std::ostream& out, const FlipCase& param) {
    return out << param.name;
  }
};

v1::JobSpec VerifiedJob(const FlipCase& param) {
  v1::JobSpec spec = SmallTransformerJob(param.road);
  spec.set_workers(param.tensor * param.data);
  spec.set_batch_size(2 * param.data);
  spec.set_verify_every(4);
  spec.mutable_parallelism()->set_tensor(param.tensor);
  if (param.stage > 0) spec.mutable_parallelism()->mutable_zero()->set_stage(param.stage);
  return spec;
}

class FlipTest : public ::testing::TestWithParam<FlipCase> {};

TEST_P(FlipTest, AFlippedBitIsNamedAndChangesNothing) {
  const FlipCase& param = GetParam();
  DyingJob job;
  const int servers = param.road == v1::UpdateSpec::PARAMETER_SERVER ? 1 : 0;
  ASSERT_NO_FATAL_FAILURE(job.Start(VerifiedJob(param), servers, /*spare_workers=*/1));
  const uint32_t slot = param.tensor;
  const std::string worker = job.Status().tasks(static_cast<int>(slot)).worker_id();
  const v1::JobStatus left = job.Flip(slot, param.order, /*workers=*/1);
  ASSERT_EQ(left.left_workers_size(), 1) << job.cluster().Diagnose(job.id());
  EXPECT_EQ(left.left_workers(0).worker_id(), worker);
  EXPECT_THAT(
      left.left_workers(0).reason(),
      AllOf(HasSubstr("wrong bits"), HasSubstr(absl::StrCat("slot ", slot, "'s gradients"))));
  job.ExpectTheSameBits();
  const v1::JobStatus after = job.Status();
  EXPECT_EQ(after.left_workers_size(), 1) << job.cluster().Diagnose(job.id());
}

INSTANTIATE_TEST_SUITE_P(
    Roads, FlipTest,
    ::testing::Values(FlipCase{.name = "OnServers", .road = v1::UpdateSpec::PARAMETER_SERVER},
                      FlipCase{.name = "ByAllReduce", .road = v1::UpdateSpec::ALL_REDUCE},
                      FlipCase{.name = "InEveryPass",
                               .road = v1::UpdateSpec::ALL_REDUCE,
                               .order = "flip in every pass"},
                      FlipCase{.name = "AnothersShareOfTwo",
                               .road = v1::UpdateSpec::ALL_REDUCE,
                               .data = 2,
                               .order = "flip once in pass 4"},
                      FlipCase{.name = "Stage3", .road = v1::UpdateSpec::ALL_REDUCE, .stage = 3},
                      FlipCase{
                          .name = "TensorRanks", .road = v1::UpdateSpec::ALL_REDUCE, .tensor = 2}),
    [](const auto& info) { return info.param.name; });

TEST(FlipOfTwoTest, WhereNobodyCanTellTheJobFailsAndNamesBoth) {
  DyingJob job;
  ASSERT_NO_FATAL_FAILURE(
      job.Start(VerifiedJob({.name = "", .road = v1::UpdateSpec::ALL_REDUCE, .data = 2})));
  const v1::JobStatus failed = job.Flip(1, "flip in every pass", /*workers=*/1);
  EXPECT_EQ(failed.state(), v1::FAILED);
  EXPECT_THAT(failed.message(), AllOf(HasSubstr("nobody can tell who is wrong"),
                                      HasSubstr("slot 0 (worker "), HasSubstr("slot 1 (worker ")));
}

}  // namespace
}  // namespace muster
