// Ranks that compute one model together get what one rank alone gets.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/compute/activation_layout.h"
#include "common/partition/local_tensors.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/data/packed_batches_for_testing.h"
#include "worker/models/local_trainer_for_testing.h"
#include "worker/models/mlp.h"
#include "worker/models/transformer.h"
#include "worker/nn/transformer/host_backend.h"
#include "worker/nn/transformer/transformer_tensors.h"
#include "worker/parallel/communicator_tensor_group.h"
#include "worker/strategy/group/test_ranks.h"

namespace muster {
namespace {

constexpr uint64_t kSeed = 11;

// Heads of GPT-2's kind, with a padded vocabulary and dropout everywhere.
TransformerShape Gpt2() {
  return {.layers = 2,
          .width = 48,
          .heads = 8,
          .kv_heads = 8,
          .feed_forward = 64,
          .vocabulary = 27,
          .padded_vocabulary = 32,
          .context = 9,
          .dropout = 0.2f,
          .attention_dropout = 0.1f};
}

// Grouped heads, of which there are fewer than ranks where there are four or eight.
TransformerShape Llama() {
  return {.layers = 2,
          .width = 64,
          .heads = 8,
          .kv_heads = 2,
          .feed_forward = 40,
          .vocabulary = 32,
          .context = 9,
          .norm = TransformerShape::Norm::kRmsNorm,
          .positions = TransformerShape::Positions::kRotary,
          .activation = TransformerShape::Activation::kSwiGlu,
          .tied_head = false,
          .biases = false};
}

Batch RandomBatch(const TransformerShape& shape, int64_t sequences) {
  const Philox random(3, "test", "tokens");
  Batch batch;
  batch.Clear();
  batch.examples = sequences;
  for (int64_t i = 0; i < sequences * shape.context; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(random.Below(shape.vocabulary, i)));
    batch.labels.push_back(i % 7 == 3 ? -1
                                      : static_cast<int32_t>(random.Below(shape.vocabulary, i, 1)));
  }
  return batch;
}

std::unique_ptr<const Model> ModelOf(const TransformerShape& shape, int ranks, DType type,
                                     Recompute recompute) {
  const Mesh mesh({.tensor = ranks});
  return MakeTransformer(shape, mesh, type, recompute,
                         std::make_unique<HostBackend>(ShapeOfRank(shape, mesh), type, recompute));
}

struct Results {
  double loss = 0;
  int64_t correct = 0;
  std::vector<std::vector<float>> gradients;
};

// Runs a micro-batch forward and backward; with a group on this rank of it.
Results Train(const Model& model, const Batch& batch, TensorGroup* group, bool sequence_parallel,
              bool split_backward) {
  const std::vector<TensorSpec> tensors =
      LocalTensors(model.description().tensors,
                   {Mesh({.tensor = group == nullptr ? 1 : group->size()})},
                   group == nullptr ? 0 : group->rank())
          .value();
  LocalTrainer trainer(model, tensors, kSeed);
  trainer.micro_batch().split_backward = split_backward;
  EXPECT_TRUE(trainer.Load(batch).ok());
  const absl::Status status = trainer.Run({.seed = kSeed,
                                           .clock = 5,
                                           .first_example = 3,
                                           .tensor_group = group,
                                           .sequence_parallel = sequence_parallel});
  EXPECT_TRUE(status.ok()) << status;
  return {trainer.micro_batch().loss_sum, trainer.micro_batch().correct, trainer.gradients()};
}

// Puts the ranks' gradients together. Those of what ranks have in common are sums over the ranks if
// they share out rows or heads, otherwise equal.
std::vector<std::vector<double>> Joined(const std::vector<TensorSpec>& whole,
                                        const std::vector<Results>& ranks, bool sequence_parallel) {
  std::vector<std::vector<double>> joined;
  for (const TensorSpec& tensor : whole) {
    joined.emplace_back(tensor.tied_to.empty() ? tensor.elements() : 0);
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto local = LocalTensors(whole, {Mesh({.tensor = static_cast<int>(ranks.size())})},
                                    static_cast<int>(rank))
                           .value();
    for (size_t t = 0; t < whole.size(); ++t) {
      if (joined[t].empty()) continue;
      const bool equal =
          whole[t].placement.kind == Placement::Kind::kReplicate && !sequence_parallel;
      const std::vector<float>& gradient = ranks[rank].gradients[t];
      ForEachGlobal(local[t], 0, gradient.size(),
                    [&](uint64_t first, uint64_t global, uint64_t count) {
                      for (uint64_t i = 0; i < count; ++i) {
                        double& at = joined[t][global + i];
                        at = equal ? gradient[first + i] : at + gradient[first + i];
                      }
                    });
    }
  }
  return joined;
}

double Distance(const std::vector<double>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += double{b[i]} * b[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

// Expects each of `ranks` ranks to get the results of one rank, up to `bound`. `model_of` makes the
// model for a number of ranks.
void ExpectResultsOfOneRank(const std::function<std::unique_ptr<const Model>(int ranks)>& model_of,
                            int ranks, const Batch& batch, bool sequence_parallel,
                            bool split_backward, double bound) {
  const std::unique_ptr<const Model> whole = model_of(1);
  const Results alone = Train(*whole, batch, nullptr, false, split_backward);
  std::vector<Results> results(ranks);
  TestRanks group(ranks);
  group.Run([&](std::unique_ptr<Communicator> communicator) {
    CommunicatorTensorGroup tensor_group(*communicator, absl::Minutes(5));
    results[communicator->rank()] =
        Train(*model_of(ranks), batch, &tensor_group, sequence_parallel, split_backward);
    group.AwaitAll();
  });
  for (const Results& result : results) {
    EXPECT_NEAR(result.loss, alone.loss, bound * std::abs(alone.loss));
    EXPECT_EQ(result.loss, results[0].loss);
    // Values of 16 bits may tie where those of 32 do not.
    if (bound <= 1e-5) {
      EXPECT_EQ(result.correct, alone.correct);
    }
  }
  const std::vector<TensorSpec>& tensors = whole->description().tensors;
  const auto joined = Joined(tensors, results, sequence_parallel);
  for (size_t t = 0; t < tensors.size(); ++t) {
    EXPECT_LE(Distance(joined[t], alone.gradients[t]), bound) << tensors[t].name;
  }
}

class TensorParallelTest : public ::testing::TestWithParam<std::tuple<int, int, bool, DType>> {
 protected:
  TransformerShape shape() const { return std::get<0>(GetParam()) == 0 ? Gpt2() : Llama(); }
  int ranks() const { return std::get<1>(GetParam()); }
  bool sequence_parallel() const { return std::get<2>(GetParam()); }
  DType type() const { return std::get<3>(GetParam()); }
  // Returns how far sums in another order may be apart. What is rounded to 16 bits is rounded once
  // more for each sum over ranks.
  double bound() const {
    switch (type()) {
      case DType::kBf16:
        return 3e-2;
      case DType::kF16:
        return 4e-3;
      default:
        return 1e-5;
    }
  }

  void Check(const Batch& batch, Recompute recompute, bool split_backward) {
    ExpectResultsOfOneRank([&](int ranks) { return ModelOf(shape(), ranks, type(), recompute); },
                           ranks(), batch, sequence_parallel(), split_backward, bound());
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
  const auto model_of = [&](int) {
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
    ExpectResultsOfOneRank(model_of, ranks, batch, /*sequence_parallel=*/false,
                           /*split_backward=*/false, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PerceptronParallelTest,
                         ::testing::Combine(::testing::Values(0, 1, 2, 3),
                                            ::testing::Values(2, 4, 8)));

}  // namespace
}  // namespace muster
