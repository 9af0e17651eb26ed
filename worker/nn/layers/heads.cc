#include "worker/nn/layers/heads.h"

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

}  // namespace muster
