#ifndef MUSTER_WORKER_RUNTIME_TRAINING_CONFUSION_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_CONFUSION_H_

#include <cstdint>

#include "absl/types/span.h"
#include "worker/data/dataset.h"

namespace muster {

namespace v1 {
class Confusion;
}  // namespace v1

// Makes `confusion` the matrix of no examples, for a model that predicts `classes` classes. Labels
// are those that the weights were trained with (DatasetInfo::preparation), or the classes' numbers.
// A class beyond the labels of the training data is "class N". If there are too many classes
// (common/eval/confusion.h), there are neither labels nor counts.
void BeginConfusion(const DatasetInfo& data, int64_t classes, v1::Confusion& confusion);

// Counts examples: example i is of class labels[i], and the model predicts class predicted[i].
// REQUIRES: both are in [0, classes), and equally long; the matrix has counts.
void CountExamples(absl::Span<const int32_t> labels, absl::Span<const int32_t> predicted,
                   v1::Confusion& confusion);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_CONFUSION_H_
