#ifndef MUSTER_COMMON_EVAL_CONFUSION_H_
#define MUSTER_COMMON_EVAL_CONFUSION_H_

namespace muster {

// Most classes of which an evaluation has a confusion matrix: 10,000 counts, of which a message has
// less than 100 KB, and a coordinator keeps one per evaluated job.
inline constexpr int kMostConfusionClasses = 100;
inline constexpr int kMostConfusionCounts = kMostConfusionClasses * kMostConfusionClasses;

// Most bytes of a class's label in it. CSV files have shorter ones
// (worker/data/csv/csv_labels.h).
inline constexpr int kMostConfusionLabelBytes = 256;

}  // namespace muster

#endif  // MUSTER_COMMON_EVAL_CONFUSION_H_
