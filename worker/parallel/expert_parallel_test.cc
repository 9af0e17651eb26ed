// Ranks that share out experts get together what one rank alone gets with all of them.
#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/parallel/ranks_of_a_model_for_testing.h"

namespace muster {
namespace {

constexpr int64_t kSequenceTokens = 120;

// Context ranks, of which so many share out the experts; and tensor ranks.
class ExpertParallelTest : public ::testing::TestWithParam<std::tuple<int, int, int>> {
 protected:
  void Check(const TransformerShape& shape, const Batch& batch, Recompute recompute,
             bool split_backward = false) {
    SCOPED_TRACE(absl::StrCat("recompute ", static_cast<int>(recompute), split_backward));
    const auto [context, expert, tensor] = GetParam();
    const Mesh mesh({.context_copies = context, .tensor = tensor, .expert = expert});
    ExpectResultsOfOneRank(
        [&](const Mesh& mesh) { return TransformerOf(shape, mesh, DType::kF32, recompute); },
        {.mesh = mesh, .sequence_parallel = tensor > 1, .split_backward = split_backward}, batch,
        BoundOf(DType::kF32));
  }
  void CheckAll(const TransformerShape& shape, const Batch& batch) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      Check(shape, batch, recompute);
      Check(shape, batch, recompute, /*split_backward=*/true);
    }
  }
};

TEST_P(ExpertParallelTest, LossAndGradientsAreThoseOfOneRank) {
  const TransformerShape shape = ExpertsForTesting(kSequenceTokens, 8);
  CheckAll(shape, RandomBatch(shape, 2));
}

// Equal tokens go to the same experts: their ranks take several rounds, and others none.
TEST_P(ExpertParallelTest, AllTokensToTheSameExperts) {
  for (const int64_t top_k : {1, 2}) {
    TransformerShape shape = ExpertsForTesting(kSequenceTokens, 8);
    shape.experts.top_k = top_k;
    Batch batch = RandomBatch(shape, 2);
    std::fill(batch.tokens.begin(), batch.tokens.end(), 7);
    CheckAll(shape, batch);
  }
}

TEST_P(ExpertParallelTest, WithoutSharedExpertAndGates) {
  TransformerShape shape = ExpertsForTesting(kSequenceTokens, 8);
  shape.experts.shared_gate = false;
  Check(shape, RandomBatch(shape, 1), Recompute::kFull);
  shape.experts.shared_width = 0;
  shape.activation = TransformerShape::Activation::kGelu;
  Check(shape, RandomBatch(shape, 1), Recompute::kNone);
}

INSTANTIATE_TEST_SUITE_P(All, ExpertParallelTest,
                         ::testing::Values(std::tuple(2, 2, 1), std::tuple(4, 2, 1),
                                           std::tuple(4, 4, 1), std::tuple(2, 2, 2)));

// At each of its calls: numbers of rows, rows on their way, results, and the same backward.
TEST(ExpertParallelDeathTest, OthersLearnOfARankThatDies) {
  const TransformerShape shape = ExpertsForTesting(kSequenceTokens, 6);
  const Batch batch = RandomBatch(shape, 1);
  const auto model_of = [&](const Mesh& mesh) {
    return TransformerOf(shape, mesh, DType::kF32, Recompute::kNone);
  };
  // Numbers, and rows and results, of which each is started and awaited.
  constexpr int kForward = 1 + 2 * 2;
  int call = 0;
  while (true) {
    SCOPED_TRACE(absl::StrCat("call ", call));
    const std::vector<absl::Status> statuses = StatusesAfterDeath(
        model_of, {.mesh = Mesh({.context_copies = 3, .expert = 3})}, batch, call);
    if (statuses.empty()) break;
    for (const absl::Status& status : statuses) {
      // Who has had its last call with the dead rank may end well.
      EXPECT_TRUE(!status.ok() || call >= kForward);
    }
    ++call;
  }
  EXPECT_GE(call, kForward + 2 * 2);
}

}  // namespace
}  // namespace muster
