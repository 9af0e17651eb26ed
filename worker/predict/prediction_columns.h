#ifndef MUSTER_WORKER_PREDICT_PREDICTION_COLUMNS_H_
#define MUSTER_WORKER_PREDICT_PREDICTION_COLUMNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"

namespace muster {

// The columns that predictions become.
//
//   a number            predicted, in the target's own unit
//   up to 100 classes   predicted, and probability_CLASS for each class
//   more classes        predicted, and probability, that of the predicted class
//
// A class is written as the text that its label had in training, or as its number where labels were
// the classes. #N stands for an output N of the model, counted from 0, that no label of the
// training data had. Numbers have as many digits as give the same bits when they are read.
// Immutable, so thread-safe.
class PredictionColumns {
 public:
  static constexpr int64_t kMostProbabilities = 100;

  // Makes columns of numbers, normalised as `target` says.
  PredictionColumns(const TargetScale& target, char separator);
  // Of so many classes. `names` are the labels' texts by class; empty: labels were the classes.
  PredictionColumns(int64_t classes, const std::vector<std::string>& names, char separator);

  const std::vector<std::string>& names() const { return names_; }

  // Append a separator and the columns, quoted where they need be: the names, and an example's
  // predictions. REQUIRES: `results` are of a model that predicts such, with probabilities.
  void AppendNames(std::string& line) const;
  void AppendPredictions(const MicroBatch& results, int64_t example, std::string& line) const;

 private:
  void AppendField(absl::string_view field, std::string& line) const;

  const TargetScale target_;
  const char separator_;
  // Both const after construction. Texts by class; empty if numbers are predicted.
  std::vector<std::string> classes_;
  std::vector<std::string> names_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_PREDICT_PREDICTION_COLUMNS_H_
