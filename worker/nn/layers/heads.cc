#include "worker/nn/layers/heads.h"

#include <algorithm>
#include <cmath>

#include "common/kernels/softmax_cross_entropy.h"

namespace muster {

HeadResult SoftmaxHead::Forward(const LayerContext& context, absl::Span<const int32_t> labels,
                                absl::Span<float> logits, absl::Span<float> scores) const {
  for (size_t i = 0; i < scores.size(); ++i) {
    scores[i] = 1 / (1 + std::exp(logits[2 * i] - logits[2 * i + 1]));
  }
  const LossSums sums =
      SoftmaxCrossEntropy(labels.size(), classes_, logits.data(), labels.data(), logits.data());
  return {.loss_sum = sums.loss, .correct = sums.correct};
}

HeadResult LogisticHead::Forward(const LayerContext& context, absl::Span<const int32_t> labels,
                                 absl::Span<float> logits, absl::Span<float> scores) const {
  const LossSums sums = LogisticCrossEntropy(labels.size(), logits.data(), labels.data(),
                                             scores.data(), logits.data());
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
