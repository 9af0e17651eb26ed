#ifndef MUSTER_WORKER_NN_CLASS_PREDICTIONS_H_
#define MUSTER_WORKER_NN_CLASS_PREDICTIONS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace muster {

// Where the end of a classifier of C classes writes what it predicts of B examples. A span that is
// empty is not written.
struct ClassPredictions {
  // The probability of class 1, [B]; of two classes alone.
  absl::Span<float> scores;
  // The probability of each class, [B, C]; of two classes 1 - score and score.
  absl::Span<float> probabilities;
  // The predicted class, [B]: that of the largest logit, which is the label of an example that
  // counts as correct. Rounding may give the class beside it the same probability.
  absl::Span<int32_t> predicted;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_CLASS_PREDICTIONS_H_
