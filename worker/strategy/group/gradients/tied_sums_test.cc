#include "worker/strategy/group/gradients/tied_sums.h"

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/ranks_for_testing.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kTimeout = absl::Seconds(60);

// An embedding of one and a half messages, which the last of three units reads, too; a tensor of
// one stage alone.
constexpr int64_t kElements = 3 << 19;

std::vector<TensorSpec> TensorsOf(int stage) {
  std::vector<TensorSpec> tensors = {
      {.name = "embedding", .shape = {kElements}, .unit = stage == 0 ? 0u : 2u, .stages = 2},
      {.name = "block", .shape = {4}, .unit = 1}};
  tensors[0].first_stage = stage == 0;
  return tensors;
}

struct Gradients {
  explicit Gradients(float value) : embedding(kElements), block(4, value) {
    for (int64_t i = 0; i < kElements; ++i) embedding[i] = value + static_cast<float>(i % 1000);
    spans = {absl::MakeSpan(embedding), absl::MakeSpan(block)};
  }
  std::vector<float> embedding, block;
  std::vector<absl::Span<float>> spans;
};

TEST(TiedSumsTest, TheFirstStageHasTheSum) {
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> stages) {
    const int rank = stages->rank();
    const auto tied = TiedSums::Create(*stages, TensorsOf(rank), kTimeout);
    ASSERT_EQ(tied.status(), absl::OkStatus());
    for (const int step : {0, 1}) {
      Gradients gradients(rank == 0 ? 0.5f : static_cast<float>(step));
      if (rank == 1) {
        ASSERT_EQ((*tied)->SumOnFirst(2, gradients.spans), absl::OkStatus());
        ASSERT_EQ((*tied)->SumOnFirst(1, gradients.spans), absl::OkStatus());
      }
      // The second stage has not waited for the first.
      ranks.AwaitAll();
      if (rank == 0) {
        ASSERT_EQ((*tied)->SumOnFirst(1, gradients.spans), absl::OkStatus());
        ASSERT_EQ((*tied)->SumOnFirst(0, gradients.spans), absl::OkStatus());
      }
      ASSERT_EQ((*tied)->AwaitSent(), absl::OkStatus());
      const Gradients own(rank == 0 ? 0.5f : static_cast<float>(step));
      EXPECT_EQ(gradients.block, own.block);
      for (int64_t i = 0; i < kElements; ++i) {
        const float other = static_cast<float>(step) + static_cast<float>(i % 1000);
        ASSERT_EQ(gradients.embedding[i], own.embedding[i] + (rank == 0 ? other : 0)) << i;
      }
    }
  });
}

TEST(TiedSumsTest, BothStagesHaveTheSumOfTheirSlices) {
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> stages) {
    const int rank = stages->rank();
    const auto tied = TiedSums::Create(*stages, TensorsOf(rank), kTimeout);
    ASSERT_EQ(tied.status(), absl::OkStatus());
    Gradients gradients(rank == 0 ? 0.5f : 2.0f);
    const std::vector<float> block = gradients.block;
    ASSERT_EQ((*tied)->SumOnBoth(gradients.spans), absl::OkStatus());
    EXPECT_EQ(gradients.block, block) << "one stage alone has it";
    for (int64_t i = 0; i < kElements; ++i) {
      ASSERT_EQ(gradients.embedding[i], 2.5f + 2 * static_cast<float>(i % 1000)) << i;
    }
    // Neither has elements of another rank's slice.
    gradients.spans[0] = {};
    EXPECT_EQ((*tied)->SumOnBoth(gradients.spans), absl::OkStatus());
  });
}

TEST(TiedSumsTest, AStepThatIsGivenUpEndsItsMessages) {
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> stages) {
    const int rank = stages->rank();
    Gradients gradients(1);
    auto tied = TiedSums::Create(*stages, TensorsOf(rank), kTimeout).value();
    if (rank == 1) {
      ASSERT_EQ(tied->SumOnFirst(2, gradients.spans), absl::OkStatus());
      // The gradients may go away.
      tied.reset();
    }
    ranks.AwaitAll();
    if (rank == 0) {
      EXPECT_EQ(tied->SumOnFirst(0, gradients.spans).code(), absl::StatusCode::kAborted);
    }
  });
}

TEST(TiedSumsTest, RefusesStagesInAnotherOrder) {
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> stages) {
    const absl::Status status =
        TiedSums::Create(*stages, TensorsOf(1 - stages->rank()), kTimeout).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("tensor embedding is on 2 stages"));
  });
}

}  // namespace
}  // namespace muster
