#ifndef MUSTER_WORKER_PREDICT_TRAINED_MODEL_H_
#define MUSTER_WORKER_PREDICT_TRAINED_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/safetensors/safetensors_file.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"
#include "worker/predict/exported_rows.h"

namespace muster {

namespace v1 {
class DataPreparation;
class JobSpec;
}  // namespace v1

// Returns how the data of exported weights were prepared, from the file's metadata; an empty one if
// they say nothing of that. InvalidArgument: it cannot be read; names the file.
absl::StatusOr<v1::DataPreparation> PreparationOf(const SafetensorsFile& weights);

// A job's model with the weights of a file of `muster export`, ready to predict on ComputeThreads()
// threads. Not thread-safe.
class TrainedModel {
 public:
  // `data` is the shape of the examples to predict, and `weights` outlives the model.
  // InvalidArgument: errors of CreateModel; a tensor is missing or has another shape than the model
  // of such examples (named, with both); errors of ExportedRows::Open.
  static absl::StatusOr<std::unique_ptr<TrainedModel>> Create(const v1::JobSpec& spec,
                                                              const SafetensorsFile& weights,
                                                              const DatasetInfo& data);

  // Returns how many classes the model tells apart; 0 if it predicts a number.
  int64_t classes() const { return model_->description().classes; }

  // Runs the examples forward, without dropout. Returns their results, with probabilities of
  // classifiers; valid until the next call. Errors are those of the model.
  absl::StatusOr<const MicroBatch*> Predict(const Batch& batch);

 private:
  explicit TrainedModel(std::unique_ptr<const Model> model);

  // Reads the dense tensors.
  absl::Status ReadTensors(const SafetensorsFile& weights, const DatasetInfo& data);

  const std::unique_ptr<const Model> model_;
  // All but the pass are const after Create. By tensor.
  std::vector<std::vector<float>> values_;
  std::vector<absl::Span<const float>> spans_;
  // One for each sparse table.
  std::vector<ExportedRows> rows_;
  const std::unique_ptr<MicroBatch> pass_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_PREDICT_TRAINED_MODEL_H_
