#include "worker/runtime/device/cpu_reference_for_testing.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/models/create_model.h"
#include "worker/models/resolve_transformer.h"

namespace muster {
namespace {

// The key of dropout, everywhere in these tests.
constexpr uint64_t kSeed = 5;

template <typename Spec>
Spec Parse(const std::string& text) {
  Spec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

}  // namespace

CpuReference::CpuReference(const std::string& fields, int64_t vocabulary,
                           const std::string& compute) {
  const auto spec = Parse<v1::ModelSpec>(absl::StrCat("transformer { ", fields, " }"));
  shape_ = ResolveTransformer(spec.transformer(), vocabulary).value();
  const DatasetInfo data = {.examples = 100,
                            .context = shape_.context,
                            .vocabulary = vocabulary,
                            .classes = vocabulary,
                            .labels_per_example = shape_.context};
  model_ = CreateModel(spec, Parse<v1::ComputeSpec>(compute), data).value();
  micro_batch_ = model_->NewMicroBatch();
  for (const TensorSpec& tensor : tensors()) {
    const int64_t elements = tensor.tied_to.empty() ? tensor.elements() : 0;
    weights_.emplace_back(elements);
    gradients_.emplace_back(elements);
    moments_.emplace_back(2 * elements);
  }
  for (const TensorSpec& tensor : tensors()) {
    const std::string& owner = tensor.tied_to.empty() ? tensor.name : tensor.tied_to;
    size_t t = 0;
    while (tensors()[t].name != owner) ++t;
    weight_spans_.push_back(weights_[t]);
    gradient_spans_.push_back(absl::MakeSpan(gradients_[t]));
  }
  copies_ =
      std::make_unique<LowPrecisionCopies>(tensors(), ModelParameters{.values = weight_spans_});
}

void CpuReference::SetWeights(uint64_t seed) {
  for (size_t t = 0; t < weights_.size(); ++t) {
    const Philox random(seed, "test", tensors()[t].name);
    const bool matrix = tensors()[t].shape.size() > 1;
    // Wider matrices, smaller numbers: sums of about 1.
    const float scale = matrix ? 1.2f / std::sqrt(static_cast<float>(tensors()[t].shape[1])) : 0.3f;
    const bool gain = !matrix && tensors()[t].name.find("norm") != std::string::npos &&
                      tensors()[t].name.find("weight") != std::string::npos;
    for (size_t i = 0; i < weights_[t].size(); ++i) {
      weights_[t][i] = (gain ? 1.0f : 0.0f) + scale * random.Normal(i);
    }
  }
}

void CpuReference::BeginStep(uint64_t clock) {
  clock_ = clock;
  copies_->Outdate();
  loss_sum_ = 0;
  tokens_ = correct_ = 0;
  router_sums_ = {};
  expert_loads_.clear();
  for (std::vector<float>& each : gradients_) std::fill(each.begin(), each.end(), 0.0f);
}

void CpuReference::AddMicroBatch(const Batch& batch, uint64_t first_example) {
  const LayerContext context = {.seed = kSeed, .clock = clock_, .first_example = first_example};
  ASSERT_TRUE(model_->Load(batch, *micro_batch_).ok());
  const ModelParameters weights = copies_->parameters();
  const int last = model_->description().units - 1;
  for (int unit = 0; unit <= last; ++unit) copies_->Refresh(unit);
  for (int unit = 0; unit < last; ++unit) {
    ASSERT_TRUE(model_->Forward(context, unit, weights, *micro_batch_).ok());
  }
  ASSERT_TRUE(model_->RunLastUnit(context, weights, gradient_spans_, *micro_batch_).ok());
  for (int unit = last - 1; unit >= 0; --unit) {
    ASSERT_TRUE(model_->Backward(context, unit, weights, gradient_spans_, *micro_batch_).ok());
  }
  loss_sum_ += micro_batch_->loss_sum;
  tokens_ += micro_batch_->loss_weight;
  correct_ += micro_batch_->correct;
  AddRouters(micro_batch_->router_sums, micro_batch_->expert_loads, router_sums_, expert_loads_);
}

void AddRouters(const RouterSums& sums, absl::Span<const uint64_t> loads, RouterSums& all,
                std::vector<uint64_t>& all_loads) {
  all.auxiliary += sums.auxiliary;
  all.z += sums.z;
  all.entropy += sums.entropy;
  all.tokens += sums.tokens;
  all_loads.resize(loads.size());
  for (size_t i = 0; i < loads.size(); ++i) all_loads[i] += loads[i];
}

double CpuReference::GradientNorm() const {
  double squares = 0;
  for (const std::vector<float>& each : gradients_) {
    for (const float value : each) squares += double{value} * value;
  }
  return std::sqrt(squares) / static_cast<double>(tokens_);
}

void CpuReference::EndStep(float learning_rate, float weight_decay, double max_norm) {
  if (optimizer_ == nullptr) {
    optimizer_ =
        CreateOptimizer(Parse<v1::OptimizerSpec>(absl::StrCat(
                            "name: 'adamw' learning_rate: 1 weight_decay: ", weight_decay)),
                        Granularity::kElements)
            .value();
  }
  const double norm = GradientNorm();
  OptimizerStep step;
  step.learning_rate = learning_rate;
  step.step = ++steps_;
  step.gradient_scale =
      static_cast<float>((norm > max_norm ? max_norm / norm : 1) / static_cast<double>(tokens_));
  for (size_t t = 0; t < weights_.size(); ++t) {
    step.weight_decay = tensors()[t].weight_decay;
    optimizer_->Apply(step, gradients_[t], absl::MakeSpan(weights_[t]),
                      absl::MakeSpan(moments_[t]));
  }
}

Batch RandomSequences(int64_t sequences, int64_t length, int64_t vocabulary, uint64_t seed) {
  const Philox random(seed, "test", "tokens");
  Batch batch;
  batch.Clear();
  batch.examples = sequences;
  for (int64_t i = 0; i < sequences * length; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(random.Below(vocabulary, i)));
    batch.labels.push_back(i % 7 == 2 ? -1 : static_cast<int32_t>(random.Below(vocabulary, i, 1)));
  }
  return batch;
}

Batch SequencesOf(const Batch& batch, int64_t first, int64_t count) {
  const int64_t length = static_cast<int64_t>(batch.tokens.size()) / batch.examples;
  Batch part;
  part.Clear();
  part.examples = count;
  part.tokens.assign(batch.tokens.begin() + first * length,
                     batch.tokens.begin() + (first + count) * length);
  part.labels.assign(batch.labels.begin() + first * length,
                     batch.labels.begin() + (first + count) * length);
  if (!batch.positions.empty()) {
    part.positions.assign(batch.positions.begin() + first * length,
                          batch.positions.begin() + (first + count) * length);
  }
  return part;
}

double RelativeDistance(absl::Span<const float> a, absl::Span<const float> b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

}  // namespace muster
