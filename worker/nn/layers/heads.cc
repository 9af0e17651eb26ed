#include "worker/nn/layers/heads.h"

#include <algorithm>
#include <cmath>

#include "common/kernels/softmax_cross_entropy.h"

namespace muster {

namespace {

// Fills in the probabilities of two classes, unless they are not wanted.
void WriteBothProbabilities(const ClassPredictions& predictions) {
  for (size_t i = 0; 2 * i < predictions.probabilities.size(); ++i) {
    predictions.probabilities[2 * i] = 1 - predictions.scores[i];
    predictions.probabilities[2 * i + 1] = predictions.scores[i];
  }
}

}  // namespace

HeadResult SoftmaxHead::Forward(const LayerContext& context, absl::Span<const int32_t> labels,
                                absl::Span<float> logits,
                                const ClassPredictions& predictions) const {
  for (size_t i = 0; i < predictions.scores.size(); ++i) {
    predictions.scores[i] = 1 / (1 + std::exp(logits[2 * i] - logits[2 * i + 1]));
  }
  for (size_t i = 0; i < predictions.predicted.size(); ++i) {
    const absl::Span<const float> of_example = logits.subspan(i * classes_, classes_);
    predictions.predicted[i] =
        std::max_element(of_example.begin(), of_example.end()) - of_example.begin();
  }
  if (classes_ == 2) {
    WriteBothProbabilities(predictions);
  } else if (!predictions.probabilities.empty()) {
    Softmax(labels.size(), classes_, logits.data(), predictions.probabilities.data());
  }
  const LossSums sums =
      SoftmaxCrossEntropy(labels.size(), classes_, logits.data(), labels.data(), logits.data());
  return {.loss_sum = sums.loss, .correct = sums.correct};
}

HeadResult LogisticHead::Forward(const LayerContext& context, absl::Span<const int32_t> labels,
                                 absl::Span<float> logits,
                                 const ClassPredictions& predictions) const {
  for (size_t i = 0; i < predictions.predicted.size(); ++i) {
    predictions.predicted[i] = logits[i] > 0;
  }
  const LossSums sums = LogisticCrossEntropy(labels.size(), logits.data(), labels.data(),
                                             predictions.scores.data(), logits.data());
  WriteBothProbabilities(predictions);
  return {.loss_sum = sums.loss, .correct = sums.correct};
}

HeadResult RegressionHead::Forward(const LayerContext& context, absl::Span<const float> targets,
                                   absl::Span<float> outputs, absl::Span<float> predictions) const {
  HeadResult result;
  for (size_t i = 0; i < outputs.size(); ++i) {
    predictions[i] = outputs[i];
    const float error = outputs[i] - targets[i];
    const double size = std::abs(double{error});
    const double delta = loss_.huber_delta;
    switch (loss_.kind) {
      case RegressionLoss::Kind::kSquared:
        result.loss_sum += size * size / 2;
        outputs[i] = error;
        break;
      case RegressionLoss::Kind::kAbsolute:
        result.loss_sum += size;
        outputs[i] = static_cast<float>((error > 0) - (error < 0));
        break;
      case RegressionLoss::Kind::kHuber:
        result.loss_sum += size <= delta ? size * size / 2 : delta * (size - delta / 2);
        outputs[i] = std::clamp(error, -loss_.huber_delta, loss_.huber_delta);
        break;
    }
  }
  return result;
}

}  // namespace muster
