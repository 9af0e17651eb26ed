// The transformer against PyTorch on the same weights: logits, gradients, and ten steps of AdamW,
// by values that make_transformer_fixtures.py has written.
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/bytes_of_file.h"
#include "common/kernels/gemm/row_sums.h"
#include "common/optim/optimizer.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/harness/safetensors_reader.h"
#include "worker/models/create_model.h"
#include "worker/models/resolve_transformer.h"
#include "worker/models/transformer_decoder.h"
#include "worker/nn/low_precision_copies.h"
#include "worker/nn/model.h"

namespace muster {
namespace {

struct Case {
  std::string name;
  std::string spec;
  std::string adapter;
  // Multiplies the bounds of gradients in 16 bits. What an adapter has between its matrices is
  // rounded, too.
  double rounding = 1;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"gpt2", "layers: 2 width: 32 heads: 4 context: 16"},
    {"llama",
     "layers: 2 width: 32 heads: 4 kv_heads: 2 feed_forward: 64 context: 16 norm: RMS_NORM "
     "positions: ROTARY activation: SWIGLU separate_head: true no_biases: true"},
    {"adapted_llama",
     "layers: 2 width: 32 heads: 4 kv_heads: 2 feed_forward: 64 context: 16 norm: RMS_NORM "
     "positions: ROTARY activation: SWIGLU separate_head: true no_biases: true",
     "rank: 3 alpha: 6 targets: ['query', 'key', 'value', 'output', 'gate', 'up', 'down']", 2}};

std::vector<int32_t> Ints(const ExportedTensor& tensor) {
  std::vector<int32_t> values(tensor.bytes.size() / sizeof(int32_t));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(difference / norm);
}

class TransformerReferenceTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto fixture = ReadSafetensors(
        BytesOfFile(absl::StrCat("tests/reference/testdata/", GetParam().name, ".safetensors")));
    ASSERT_TRUE(fixture.ok()) << fixture.status();
    fixture_ = *std::move(fixture);
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("transformer { ", GetParam().spec, " }"), &spec_));
    v1::AdapterSpec adapter;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(GetParam().adapter, &adapter));
    adapter_ = ResolveAdapter(adapter);
    const std::vector<int64_t>& logits = fixture_.at("logits").shape;
    sequences_ = logits[0];
    length_ = logits[1];
    vocabulary_ = logits[2];
  }

  void MakeModel(v1::ComputeSpec::Type type) {
    v1::ComputeSpec compute;
    compute.set_type(type);
    auto model = CreateModel(spec_, compute,
                             {.context = length_,
                              .vocabulary = vocabulary_,
                              .classes = vocabulary_,
                              .labels_per_example = length_},
                             {Mesh(), adapter_});
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    micro_batch_ = model_->NewMicroBatch();
    const std::vector<TensorSpec>& tensors = model_->description().tensors;
    std::map<std::string, size_t> by_name;
    for (const TensorSpec& tensor : tensors) {
      by_name[tensor.name] = parameters_.size();
      if (tensor.tied_to.empty()) {
        const ExportedTensor& weight = fixture_.at("weight." + tensor.name);
        EXPECT_EQ(weight.shape, tensor.shape) << tensor.name;
        parameters_.push_back(weight.Floats());
      } else {
        parameters_.emplace_back();
      }
      gradients_.emplace_back(parameters_.back().size());
    }
    for (const TensorSpec& tensor : tensors) {
      const size_t owner = by_name.at(tensor.tied_to.empty() ? tensor.name : tensor.tied_to);
      parameter_spans_.push_back(parameters_[owner]);
      gradient_spans_.push_back(absl::MakeSpan(gradients_[owner]));
    }
    copies_ =
        std::make_unique<LowPrecisionCopies>(tensors, ModelParameters{.values = parameter_spans_});
  }

  // Runs both passes, of the loss times loss_scale_, which gradients are then divided by; the mean
  // loss.
  double Run(const Batch& batch) {
    for (std::vector<float>& gradient : gradients_) gradient.assign(gradient.size(), 0);
    EXPECT_TRUE(model_->Load(batch, *micro_batch_).ok());
    const LayerContext context = {.loss_scale = loss_scale_};
    const ModelParameters parameters = copies_->parameters();
    const int last = model_->description().units - 1;
    copies_->Outdate();
    for (int unit = 0; unit <= last; ++unit) copies_->Refresh(unit);
    for (int unit = 0; unit < last; ++unit) {
      EXPECT_TRUE(model_->Forward(context, unit, parameters, *micro_batch_).ok());
    }
    EXPECT_TRUE(model_->RunLastUnit(context, parameters, gradient_spans_, *micro_batch_).ok());
    for (int unit = last - 1; unit >= 0; --unit) {
      EXPECT_TRUE(model_->Backward(context, unit, parameters, gradient_spans_, *micro_batch_).ok());
    }
    for (std::vector<float>& gradient : gradients_) {
      EXPECT_TRUE(Unscale(gradient.size(), 1 / loss_scale_, gradient.data()));
    }
    return micro_batch_->loss_sum / micro_batch_->loss_weight;
  }

  Batch FixtureBatch() const {
    Batch batch;
    batch.Clear();
    batch.examples = sequences_;
    batch.tokens = Ints(fixture_.at("tokens"));
    batch.labels = Ints(fixture_.at("labels"));
    return batch;
  }

  void ExpectGradients(double tolerance) {
    const std::vector<TensorSpec>& tensors = model_->description().tensors;
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (!tensors[t].tied_to.empty()) continue;
      std::vector<float> mean = gradients_[t];
      for (float& value : mean) value /= static_cast<float>(micro_batch_->loss_weight);
      EXPECT_LE(Distance(mean, fixture_.at("gradient." + tensors[t].name).Floats()), tolerance)
          << tensors[t].name;
    }
  }

  // The mean losses before each of the fixture's AdamW steps.
  std::vector<double> Train() {
    v1::OptimizerSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "name: 'adamw' learning_rate: 1e-3 beta1: 0.9 beta2: 0.95 epsilon: 1e-8 weight_decay: 0.1",
        &spec));
    const auto optimizer = CreateOptimizer(spec, Granularity::kElements).value();
    std::vector<std::vector<float>> moments;
    for (const std::vector<float>& values : parameters_) {
      moments.emplace_back(optimizer->state_floats(values.size()));
      optimizer->InitState(values, absl::MakeSpan(moments.back()));
    }
    const std::vector<int32_t> tokens = Ints(fixture_.at("step_tokens"));
    const int64_t steps = fixture_.at("step_tokens").shape[0];
    std::vector<double> losses;
    for (int64_t step = 0; step < steps; ++step) {
      Batch batch;
      batch.Clear();
      batch.examples = sequences_;
      for (int64_t s = 0; s < sequences_; ++s) {
        const auto row = tokens.begin() + (step * sequences_ + s) * (length_ + 1);
        batch.tokens.insert(batch.tokens.end(), row, row + length_);
        batch.labels.insert(batch.labels.end(), row + 1, row + length_ + 1);
      }
      losses.push_back(Run(batch));
      for (size_t t = 0; t < parameters_.size(); ++t) {
        OptimizerStep update;
        update.learning_rate = spec.learning_rate();
        update.step = static_cast<uint64_t>(step) + 1;
        update.gradient_scale = 1 / static_cast<float>(micro_batch_->loss_weight);
        update.weight_decay = model_->description().tensors[t].weight_decay;
        optimizer->Apply(update, gradients_[t], absl::MakeSpan(parameters_[t]),
                         absl::MakeSpan(moments[t]));
      }
    }
    return losses;
  }

  v1::ModelSpec spec_;
  AdapterShape adapter_;
  ExportedTensors fixture_;
  int64_t sequences_ = 0;
  int64_t length_ = 0;
  int64_t vocabulary_ = 0;
  float loss_scale_ = 1;
  std::unique_ptr<const Model> model_;
  std::unique_ptr<MicroBatch> micro_batch_;
  std::vector<std::vector<float>> parameters_;
  std::vector<std::vector<float>> gradients_;
  std::vector<absl::Span<const float>> parameter_spans_;
  std::unique_ptr<LowPrecisionCopies> copies_;
  std::vector<absl::Span<float>> gradient_spans_;
};

TEST_P(TransformerReferenceTest, Logits) {
  MakeModel(v1::ComputeSpec::F32);
  TransformerShape shape = ResolveTransformer(spec_.transformer(), vocabulary_).value();
  shape.adapter = adapter_;
  const auto decoder = TransformerDecoder::Create(shape, parameter_spans_).value();
  const std::vector<int32_t> tokens = Ints(fixture_.at("tokens"));
  const std::vector<float> expected = fixture_.at("logits").Floats();
  for (int64_t s = 0; s < sequences_; ++s) {
    decoder->Reset();
    for (int64_t t = 0; t < length_; ++t) {
      const int64_t row = s * length_ + t;
      const absl::Span<const float> logits = decoder->Prefill({tokens[row]}).value();
      for (int64_t v = 0; v < vocabulary_; ++v) {
        EXPECT_NEAR(logits[v], expected[row * vocabulary_ + v], 1e-4) << row << ", " << v;
      }
    }
  }
}

TEST_P(TransformerReferenceTest, LossAndGradients) {
  MakeModel(v1::ComputeSpec::F32);
  EXPECT_NEAR(Run(FixtureBatch()), fixture_.at("loss").Floats()[0], 1e-5);
  ExpectGradients(1e-5);
}

TEST_P(TransformerReferenceTest, TenStepsOfAdamW) {
  MakeModel(v1::ComputeSpec::F32);
  const std::vector<float> expected = fixture_.at("step_losses").Floats();
  const std::vector<double> losses = Train();
  ASSERT_EQ(losses.size(), 10);
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4) << i;
}

// bf16 has 8 bits: each product's inputs are off by up to 2^-9, and so, norm-wise, are gradients
// by a few times that.
TEST_P(TransformerReferenceTest, Bf16) {
  MakeModel(v1::ComputeSpec::BF16);
  EXPECT_NEAR(Run(FixtureBatch()), fixture_.at("loss").Floats()[0], 1e-2);
  ExpectGradients(2e-2 * GetParam().rounding);
  const std::vector<float> expected = fixture_.at("step_losses").Floats();
  const std::vector<double> losses = Train();
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 2e-2) << i;
}

// Three more bits than bf16, so an eighth of its bounds, as long as small gradients are kept.
TEST_P(TransformerReferenceTest, F16) {
  loss_scale_ = 1024;
  MakeModel(v1::ComputeSpec::F16);
  EXPECT_NEAR(Run(FixtureBatch()), fixture_.at("loss").Floats()[0], 1.25e-3);
  ExpectGradients(2.5e-3 * GetParam().rounding);
  const std::vector<float> expected = fixture_.at("step_losses").Floats();
  const std::vector<double> losses = Train();
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 2.5e-3) << i;
}

INSTANTIATE_TEST_SUITE_P(Models, TransformerReferenceTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster
