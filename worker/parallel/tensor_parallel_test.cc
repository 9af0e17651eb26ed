// Ranks that compute one model together get what one rank alone gets.
#include <cstdint>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/data/packed_batches_for_testing.h"
#include "worker/models/mlp.h"
#include "worker/parallel/ranks_of_a_model_for_testing.h"

namespace muster {
namespace {

class TensorParallelTest : public ::testing::TestWithParam<std::tuple<int, int, bool, DType>> {
 protected:
  TransformerShape shape() const { return ShapeForTesting(std::get<0>(GetParam()), 9); }
  int ranks() const { return std::get<1>(GetParam()); }
  bool sequence_parallel() const { return std::get<2>(GetParam()); }
  DType type() const { return std::get<3>(GetParam()); }

  void Check(const Batch& batch, Recompute recompute, bool split_backward) {
    ExpectResultsOfOneRank(
        [&](const Mesh& mesh) { return TransformerOf(shape(), mesh, type(), recompute); },
        {.mesh = Mesh({.tensor = ranks()}),
         .sequence_parallel = sequence_parallel(),
         .split_backward = split_backward},
        batch, BoundOf(type()));
  }
};

TEST_P(TensorParallelTest, LossAndGradientsAreThoseOfOneRank) {
  const Batch batch = RandomBatch(shape(), 3);
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    for (const bool split_backward : {false, true}) {
      SCOPED_TRACE(
          absl::StrCat("recompute ", static_cast<int>(recompute), ", split ", split_backward));
      Check(batch, recompute, split_backward);
    }
  }
}

// The border of the rows that ranks have for themselves is none of documents.
TEST_P(TensorParallelTest, PackedDocuments) {
  Batch batch = RandomBatch(shape(), 3);
  PackDocuments(batch, 1);
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    SCOPED_TRACE(absl::StrCat("recompute ", static_cast<int>(recompute)));
    Check(batch, recompute, /*split_backward=*/recompute == Recompute::kFull);
  }
}

// Fewer tokens than ranks: some have no rows of their own.
TEST_P(TensorParallelTest, RanksWithoutRows) {
  Batch batch = RandomBatch(shape(), 1);
  batch.tokens.resize(3);
  batch.labels.resize(3);
  Check(batch, Recompute::kNone, false);
}

INSTANTIATE_TEST_SUITE_P(
    All, TensorParallelTest,
    ::testing::Combine(::testing::Values(0, 1), ::testing::Values(2, 4, 8), ::testing::Bool(),
                       ::testing::Values(DType::kF32, DType::kBf16, DType::kF16)));

// Which expert a token goes to depends on rounding in 16 bits.
INSTANTIATE_TEST_SUITE_P(Experts, TensorParallelTest,
                         ::testing::Combine(::testing::Values(2), ::testing::Values(2, 4),
                                            ::testing::Bool(), ::testing::Values(DType::kF32)));

// Perceptrons of one to four layers.
class PerceptronParallelTest : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(PerceptronParallelTest, LossAndGradientsAreThoseOfOneRank) {
  const auto [hidden_layers, ranks] = GetParam();
  constexpr int64_t kFeatures = 7;
  constexpr int64_t kClasses = 5;
  // Widths of every other layer need not divide.
  constexpr uint32_t kHidden[] = {16, 9, 24};
  v1::MlpSpec spec;
  spec.set_classes(kClasses);
  for (int i = 0; i < hidden_layers; ++i) spec.add_hidden(kHidden[i]);
  const auto model_of = [&](const Mesh&) {
    return CreateMlp(spec, {.dense_features = kFeatures, .classes = kClasses}).value();
  };
  // An empty micro-batch, too.
  for (const int64_t examples : {0, 3, 21}) {
    SCOPED_TRACE(examples);
    const Philox random(5, "test", "features");
    Batch batch;
    batch.Clear();
    batch.examples = examples;
    for (int64_t i = 0; i < examples * kFeatures; ++i) {
      batch.dense.push_back(static_cast<float>(random.Below(2000, i)) / 1000 - 1);
    }
    for (int64_t i = 0; i < examples; ++i) {
      batch.labels.push_back(static_cast<int32_t>(random.Below(kClasses, i, 1)));
    }
    ExpectResultsOfOneRank(model_of, {.mesh = Mesh({.tensor = ranks})}, batch, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PerceptronParallelTest,
                         ::testing::Combine(::testing::Values(0, 1, 2, 3),
                                            ::testing::Values(2, 4, 8)));

}  // namespace
}  // namespace muster
