#include "worker/strategy/group/exchange/step_agreement.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/ranks_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Makes one step with these examples.
absl::StatusOr<StepTotal> Step(StepAgreement& agreement, uint64_t examples, int overflowed = -1,
                               absl::Span<const double> cells = {}) {
  agreement.BeginStep(/*has_written=*/false);
  agreement.BeforeBackward(examples - 1, SeriesPosition::kMoreFollow);
  agreement.BeforeBackward(1, SeriesPosition::kLast);
  return agreement.Run(overflowed, cells);
}

class StepAgreementTest : public ::testing::TestWithParam<StepAgreement::Extent> {};

TEST_P(StepAgreementTest, AddsUpTheExamples) {
  TestRanks ranks(3);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    StepAgreement agreement(*communicator, {.extent = GetParam()});
    for (int step = 0; step < 2; ++step) {
      const StepTotal total = Step(agreement, 10 + communicator->rank()).value();
      EXPECT_EQ(total.examples, 33);
      EXPECT_EQ(total.overflowed, -1);
      EXPECT_THAT(total.cells, IsEmpty());
    }
    EXPECT_EQ(agreement.traffic().sent, communicator->traffic().sent);
  });
}

TEST_P(StepAgreementTest, ADeadRankIsAnError) {
  TestRanks ranks(2);
  ranks.Run([&ranks](std::unique_ptr<Communicator> communicator) {
    if (communicator->rank() == 1) return ranks.Kill(1);
    StepAgreement agreement(*communicator, {.extent = GetParam()});
    EXPECT_EQ(Step(agreement, 4).status().code(), absl::StatusCode::kUnavailable);
  });
}

INSTANTIATE_TEST_SUITE_P(Extents, StepAgreementTest,
                         ::testing::Values(StepAgreement::Extent::kAll,
                                           StepAgreement::Extent::kExamples));

TEST(StepAgreementOverflowTest, AllKnowTheFirstTensorThatOverflowed) {
  TestRanks ranks(3);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    StepAgreement agreement(*communicator, {});
    const int overflowed[] = {-1, 7, 3};
    EXPECT_EQ(Step(agreement, 1, overflowed[communicator->rank()])->overflowed, 3);
    EXPECT_EQ(Step(agreement, 1)->overflowed, -1);
  });
}

TEST(StepAgreementCellsTest, CellsComeInOrderOfRank) {
  TestRanks ranks(3);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    const std::vector<std::vector<double>> cells = {{0.1, 0.2}, {}, {0.3}};
    StepAgreement agreement(*communicator, {.cells_by_rank = {2, 0, 1}});
    EXPECT_EQ(agreement.own_cells(), cells[rank].size());
    EXPECT_THAT(Step(agreement, 1, -1, cells[rank])->cells, ElementsAre(0.1, 0.2, 0.3));
  });
}

TEST(StepAgreementCellsTest, WithoutNormsOnlyExamplesAndOverflowsTravel) {
  TestRanks ranks(2);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    StepAgreement agreement(
        *communicator, {.counts_examples = communicator->rank() == 0, .cells_by_rank = {0, 0}});
    EXPECT_EQ(Step(agreement, 4)->examples, 4);
    EXPECT_EQ(agreement.traffic().sent, 2 * sizeof(int64_t));
  });
}

TEST(StepAgreementExamplesTest, AStepThatIsGivenUpKeepsNobodyWaiting) {
  TestRanks ranks(2);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    auto agreement = std::make_unique<StepAgreement>(
        *communicator, StepAgreement::Options{.extent = StepAgreement::Extent::kExamples});
    if (communicator->rank() == 0) {
      agreement->BeforeBackward(4, SeriesPosition::kLast);
      agreement.reset();
      return;
    }
    // The other rank's part may have come before it gave up.
    const absl::StatusOr<StepTotal> total = Step(*agreement, 4);
    EXPECT_TRUE(total.ok() || absl::IsAborted(total.status())) << total.status();
  });
}

}  // namespace
}  // namespace muster
