#ifndef MUSTER_WORKER_NN_LAYERS_HEADS_H_
#define MUSTER_WORKER_NN_LAYERS_HEADS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "worker/nn/class_predictions.h"
#include "worker/nn/layer_context.h"

namespace muster {

// What a model's end computes, summed over the examples. The loss of a classifier is the negative
// log-likelihood in nats.
struct HeadResult {
  double loss_sum = 0;
  int64_t correct = 0;
};

// The end of a classifier of C exclusive classes: softmax and cross-entropy in one pass, stable for
// logits of any finite size. Holds shapes only. Thread-safe.
class SoftmaxHead {
 public:
  explicit SoftmaxHead(int64_t classes) : classes_(classes) {}

  // Replaces the logits, [B, C], by the gradient of the loss sum with regard to them, and writes
  // the predictions. An example is correct if no logit is above its label's, and none equal to it
  // stands before it. REQUIRES: labels in [0, C); of two classes, scores where there are
  // probabilities.
  HeadResult Forward(const LayerContext& context, absl::Span<const int32_t> labels,
                     absl::Span<float> logits, const ClassPredictions& predictions) const;

 private:
  const int64_t classes_;
};

// The end of a binary classifier with one logit: the logistic loss. Thread-safe.
class LogisticHead {
 public:
  // Replaces the logits, [B], by the gradient of the loss sum with regard to them, and writes the
  // predictions. An example is correct if its logit is above 0 for class 1, or not for class 0.
  // REQUIRES: labels in [0, 2); scores are not empty.
  HeadResult Forward(const LayerContext& context, absl::Span<const int32_t> labels,
                     absl::Span<float> logits, const ClassPredictions& predictions) const;
};

// The loss of an error e = prediction - target.
struct RegressionLoss {
  enum class Kind {
    // e² / 2
    kSquared,
    // |e|, with slope 0 at 0
    kAbsolute,
    // e² / 2 up to |e| = delta, then delta · (|e| - delta / 2)
    kHuber,
  };
  Kind kind = Kind::kSquared;
  // Above 0.
  float huber_delta = 1;
};

// The end of a model that predicts a number, normalised as Batch::targets are: its one output.
// Nothing is `correct`. Thread-safe.
class RegressionHead {
 public:
  explicit RegressionHead(const RegressionLoss& loss) : loss_(loss) {}

  // Copies the outputs, [B], to `predictions`, [B], and replaces them by the gradient of the loss
  // sum with regard to them.
  HeadResult Forward(const LayerContext& context, absl::Span<const float> targets,
                     absl::Span<float> outputs, absl::Span<float> predictions) const;

 private:
  const RegressionLoss loss_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LAYERS_HEADS_H_
