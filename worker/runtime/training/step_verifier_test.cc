#include "worker/runtime/training/step_verifier.h"

#include <cstdint>
#include <vector>

#include "common/mesh/mesh.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/training/trainer_fixture_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StepVerifierTest, EachSoManyStepsAreVerifiedIfThereIsAnotherDataRank) {
  v1::JobSpec spec;
  EXPECT_FALSE(IsVerified(spec, 2, 0));
  spec.set_verify_every(3);
  EXPECT_FALSE(IsVerified(spec, 2, 0));
  EXPECT_TRUE(IsVerified(spec, 2, 2));
  EXPECT_FALSE(IsVerified(spec, 1, 2));
  EXPECT_TRUE(IsVerified(spec, 2, 5));
}

class VerifyingTrainerTest : public TrainerTest {
 protected:
  // Runs data rank 0 of so many, each `every`-th step of which is verified.
  absl::Status RunRank0(uint32_t data_ranks, uint64_t every = 10) {
    v1::JobSpec spec = MlpSpec();
    spec.set_workers(data_ranks);
    spec.set_verify_every(every);
    options_.mesh = Mesh::FromSpec(spec.parallelism(), static_cast<int>(data_ranks)).value();
    return Run(spec);
  }

  static std::vector<uint32_t> RanksOf(const v1::VerifyStepRequest& request) {
    std::vector<uint32_t> ranks;
    for (const v1::ShareFingerprint& share : request.shares()) ranks.push_back(share.data_rank());
    return ranks;
  }
};

TEST_F(VerifyingTrainerTest, TellsBothSharesBeforeAnythingOfTheStepIsSent) {
  std::vector<size_t> sent;
  coordinator_.OnVerifyStep([&](const v1::VerifyStepRequest&) {
    sent.push_back(strategy_->sent_units().size());
    return v1::VerifyStepReply();
  });
  ASSERT_EQ(RunRank0(2), absl::OkStatus());
  const size_t units = strategy_->sent_units().size() / 40;
  EXPECT_THAT(sent, ElementsAre(9 * units, 19 * units, 29 * units, 39 * units));
  const std::vector<v1::VerifyStepRequest> verified = coordinator_.verified();
  EXPECT_EQ(verified[0].clock(), 9);
  EXPECT_THAT(RanksOf(verified[0]), ElementsAre(0, 1));
  EXPECT_NE(verified[0].shares(0).gradients(), verified[0].shares(1).gradients());
  EXPECT_FALSE(verified[0].processor().empty());
}

TEST_F(VerifyingTrainerTest, ComputesFurtherSharesOnDemandAndTellsAllOfThem) {
  coordinator_.OnVerifyStep([](const v1::VerifyStepRequest& request) {
    v1::VerifyStepReply reply;
    if (request.attempt() < 2) reply.set_next_distance(request.attempt() + 2);
    return reply;
  });
  ASSERT_EQ(RunRank0(2), absl::OkStatus());
  const std::vector<v1::VerifyStepRequest> verified = coordinator_.verified();
  ASSERT_EQ(verified.size(), 12);
  EXPECT_EQ(verified[2].attempt(), 2);
  EXPECT_THAT(RanksOf(verified[2]), ElementsAre(0, 1, 0, 1));
  for (const int again : {2, 3}) {
    EXPECT_EQ(verified[2].shares(again).gradients(), verified[2].shares(again - 2).gradients());
  }
  EXPECT_EQ(verified[3].attempt(), 0) << "the next step that is verified";
}

TEST_F(VerifyingTrainerTest, AStepThatIsNotRightChangesNothing) {
  coordinator_.OnVerifyStep(
      [](const v1::VerifyStepRequest&) -> absl::StatusOr<v1::VerifyStepReply> {
        return absl::AbortedError("computed wrong bits");
      });
  EXPECT_EQ(RunRank0(2).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(coordinator_status_.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(coordinator_.progress().back().clock(), 9);
}

TEST_F(VerifyingTrainerTest, AGradientThatIsNotFiniteIsToldOnceTheStepIsKnownToBeRight) {
  poisons_ = 1;
  EXPECT_EQ(RunRank0(2, /*every=*/1).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(coordinator_.verified().size(), 1);
  EXPECT_THAT(strategy_->sent_units(), IsEmpty());
}

TEST_F(VerifyingTrainerTest, AloneItHasNobodyToCompareWith) {
  ASSERT_EQ(RunRank0(1), absl::OkStatus());
  EXPECT_THAT(coordinator_.verified(), IsEmpty());
}

}  // namespace
}  // namespace muster
