// Transformers with low-rank adapters.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/partition/tensor_spec.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/models/create_model.h"
#include "worker/models/local_trainer_for_testing.h"
#include "worker/models/model_check_for_testing.h"
#include "worker/models/resolve_transformer.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

constexpr int64_t kLength = 6;
constexpr int64_t kTokens = 11;

struct AdapterCase {
  std::string name;
  std::string spec;
  std::string adapter;
};

void PrintTo(const AdapterCase& c, std::ostream* out) { *out << c.name; }

const AdapterCase kAdapterCases[] = {
    {"gpt2", "layers: 2 width: 8 heads: 2",
     "rank: 3 alpha: 6 targets: ['query', 'key', 'value', 'output', 'up', 'down']"},
    {"llama",
     "layers: 2 width: 8 heads: 4 kv_heads: 2 feed_forward: 12 norm: RMS_NORM positions: ROTARY "
     "activation: SWIGLU separate_head: true no_biases: true query_key_norm: PER_HEAD",
     "rank: 2 alpha: 3 targets: ['query', 'key', 'value', 'output', 'gate', 'up', 'down']"},
    {"usual", "layers: 2 width: 8 heads: 2", "rank: 2"},
};

Batch RandomTokens(int64_t sequences) {
  const Philox random(1, "test", "tokens");
  Batch batch;
  batch.Clear();
  batch.examples = sequences;
  for (int64_t i = 0; i < sequences * kLength; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(random.Below(kTokens, i)));
    batch.labels.push_back(static_cast<int32_t>(random.Below(kTokens, i, 1)));
  }
  batch.labels[2] = -1;
  return batch;
}

class AdapterTest : public ::testing::TestWithParam<AdapterCase> {
 protected:
  static std::unique_ptr<const Model> Make(const std::string& compute, float dropout = 0,
                                           bool with_adapters = true) {
    v1::ModelSpec spec;
    v1::ComputeSpec compute_spec;
    v1::AdapterSpec adapter;
    using google::protobuf::TextFormat;
    EXPECT_TRUE(TextFormat::ParseFromString(
        absl::StrCat("transformer { ", GetParam().spec, " context: ", kLength, " }"), &spec));
    EXPECT_TRUE(TextFormat::ParseFromString(compute, &compute_spec));
    EXPECT_TRUE(TextFormat::ParseFromString(GetParam().adapter, &adapter));
    adapter.set_dropout(dropout);
    auto model = CreateModel(spec, compute_spec,
                             {.examples = 100,
                              .context = kLength,
                              .vocabulary = kTokens,
                              .classes = kTokens,
                              .labels_per_example = kLength},
                             {Mesh(), with_adapters ? ResolveAdapter(adapter) : AdapterShape()});
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }

  static void SetRandom(LocalTrainer& trainer) {
    for (size_t t = 0; t < trainer.parameters().size(); ++t) {
      const std::vector<float> values = RandomValues(trainer.parameters()[t].size(), 10 + t);
      for (size_t i = 0; i < values.size(); ++i) trainer.parameters()[t][i] = 0.4f * values[i];
    }
  }

  // Returns the gradients of a pass of two micro-batches from random weights.
  static std::vector<std::vector<float>> Gradients(const Model& model, bool frozen, bool split) {
    LocalTrainer trainer(model, 1);
    SetRandom(trainer);
    const std::vector<TensorSpec>& tensors = model.description().tensors;
    for (size_t t = 0; frozen && t < tensors.size(); ++t) {
      if (!IsAdapter(tensors[t].name)) trainer.Freeze(t);
    }
    trainer.micro_batch().split_backward = split;
    EXPECT_TRUE(trainer.Load(RandomTokens(3)).ok());
    EXPECT_TRUE(trainer.Run().ok());
    EXPECT_TRUE(trainer.RunAgain().ok());
    return trainer.gradients();
  }
};

TEST_P(AdapterTest, GradientsMatchDifferences) { CheckModel(*Make(""), RandomTokens(2)); }

TEST_P(AdapterTest, GradientsWithDropoutMatchDifferences) {
  CheckModel(*Make("", 0.3f), RandomTokens(2));
}

TEST_P(AdapterTest, AddNothingAtFirst) {
  const auto adapted = Make(""), plain = Make("", 0, false);
  LocalTrainer with(*adapted, 7), without(*plain, 7);
  ASSERT_TRUE(with.Evaluate(RandomTokens(3)).ok());
  ASSERT_TRUE(without.Evaluate(RandomTokens(3)).ok());
  EXPECT_EQ(with.micro_batch().loss_sum, without.micro_batch().loss_sum);
}

TEST_P(AdapterTest, FrozenWeightsHaveNoGradientsAndChangeNoOthers) {
  for (const char* type : {"F32", "BF16", "F16"}) {
    const auto model = Make(absl::StrCat("type: ", type), 0.3f);
    const auto all = Gradients(*model, /*frozen=*/false, /*split=*/false);
    const auto frozen = Gradients(*model, /*frozen=*/true, /*split=*/false);
    const std::vector<TensorSpec>& tensors = model->description().tensors;
    int adapters = 0;
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (IsAdapter(tensors[t].name)) {
        ++adapters;
        EXPECT_EQ(frozen[t], all[t]) << tensors[t].name;
      } else {
        EXPECT_TRUE(frozen[t].empty()) << tensors[t].name;
      }
    }
    EXPECT_GT(adapters, 0);
  }
}

TEST_P(AdapterTest, SplitBackwardAndRecomputationGiveTheSameBits) {
  for (const bool frozen : {false, true}) {
    const auto kept = Make("", 0.3f);
    const auto expected = Gradients(*kept, frozen, /*split=*/false);
    EXPECT_EQ(Gradients(*kept, frozen, /*split=*/true), expected);
    for (const char* recompute : {"SELECTIVE", "FULL"}) {
      const auto model = Make(absl::StrCat("recompute: ", recompute), 0.3f);
      EXPECT_EQ(Gradients(*model, frozen, false), expected) << recompute;
      EXPECT_EQ(Gradients(*model, frozen, true), expected) << recompute;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AdapterTest, ::testing::ValuesIn(kAdapterCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster
