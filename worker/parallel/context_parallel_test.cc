// Ranks that share out sequences get together what one rank alone gets of whole ones.
#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/data/packed_batches_for_testing.h"
#include "worker/parallel/ranks_of_a_model_for_testing.h"

namespace muster {
namespace {

// Divided by two chunks of each of 2, 3 or 4 ranks, which are no tiles of a kernel's.
constexpr int64_t kTokens = 120;

class ContextParallelTest
    : public ::testing::TestWithParam<std::tuple<int, int, int, ContextExchange, DType>> {
 protected:
  TransformerShape shape() const { return ShapeForTesting(std::get<0>(GetParam()), kTokens); }
  Mesh mesh() const {
    return Mesh({.context_copies = std::get<1>(GetParam()), .tensor = std::get<2>(GetParam())});
  }
  DType type() const { return std::get<4>(GetParam()); }

  void Check(const Batch& batch, Recompute recompute, bool split_backward) {
    SCOPED_TRACE(
        absl::StrCat("recompute ", static_cast<int>(recompute), ", split ", split_backward));
    ExpectResultsOfOneRank(
        [&](const Mesh& mesh) { return TransformerOf(shape(), mesh, type(), recompute); },
        {.mesh = mesh(),
         .sequence_parallel = mesh().size(Axis::kTensor) > 1,
         .exchange = std::get<3>(GetParam()),
         .split_backward = split_backward},
        batch, BoundOf(type()));
  }
};

TEST_P(ContextParallelTest, LossAndGradientsAreThoseOfOneRank) {
  const Batch batch = RandomBatch(shape(), 2);
  Check(batch, Recompute::kNone, /*split_backward=*/false);
  Check(batch, Recompute::kSelective, /*split_backward=*/true);
  Check(batch, Recompute::kFull, /*split_backward=*/false);
}

// Some of the chunks of a pair have no document in common.
TEST_P(ContextParallelTest, PackedDocuments) {
  Batch batch = RandomBatch(shape(), 3);
  PackDocuments(batch, 1);
  Check(batch, Recompute::kNone, /*split_backward=*/true);
}

INSTANTIATE_TEST_SUITE_P(
    All, ContextParallelTest,
    ::testing::Combine(::testing::Values(0, 1), ::testing::Values(2, 3, 4), ::testing::Values(1, 2),
                       ::testing::Values(ContextExchange::kRing, ContextExchange::kGather),
                       ::testing::Values(DType::kF32, DType::kBf16)));

// Ranks that divide the 8 heads. Of 2 key-value heads, or of one of a tensor rank's, several have
// copies.
INSTANTIATE_TEST_SUITE_P(Heads, ContextParallelTest,
                         ::testing::Combine(::testing::Values(0, 1), ::testing::Values(2, 4),
                                            ::testing::Values(1, 2),
                                            ::testing::Values(ContextExchange::kHeads),
                                            ::testing::Values(DType::kF32, DType::kBf16)));

// Which expert a token goes to depends on rounding in 16 bits.
INSTANTIATE_TEST_SUITE_P(Experts, ContextParallelTest,
                         ::testing::Combine(::testing::Values(2), ::testing::Values(2, 3),
                                            ::testing::Values(1, 2),
                                            ::testing::Values(ContextExchange::kRing),
                                            ::testing::Values(DType::kF32)));

// At each of its calls in the forward and backward pass. Nobody waits for it for ever, and nobody
// has the loss of all without it.
TEST(ContextParallelDeathTest, OthersLearnOfARankThatDies) {
  const TransformerShape shape = LlamaForTesting(kTokens);
  const Batch batch = RandomBatch(shape, 1);
  const auto model_of = [&](const Mesh& mesh) {
    return TransformerOf(shape, mesh, DType::kF32, Recompute::kNone);
  };
  const struct {
    ContextExchange exchange;
    int ranks;
    // Calls up to the sum of losses: two blocks' turns, of which each is started and awaited.
    int forward;
  } cases[] = {{ContextExchange::kRing, 3, 2 * 2 * 2 + 1},
               {ContextExchange::kGather, 3, 2 + 1},
               {ContextExchange::kHeads, 4, 2 * 2 + 1}};
  for (const auto& [exchange, ranks, forward] : cases) {
    int call = 0;
    while (true) {
      SCOPED_TRACE(absl::StrCat("exchange ", static_cast<int>(exchange), ", call ", call));
      const std::vector<absl::Status> statuses = StatusesAfterDeath(
          model_of, {.mesh = Mesh({.context_copies = ranks}), .exchange = exchange}, batch, call);
      if (statuses.empty()) break;
      for (const absl::Status& status : statuses) {
        // Who has had its last call with the dead rank may end well.
        EXPECT_TRUE(!status.ok() || call >= forward);
      }
      ++call;
    }
    EXPECT_GE(call, 2 * forward - 1);
  }
}

}  // namespace
}  // namespace muster
