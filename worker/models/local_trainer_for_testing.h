#ifndef MUSTER_WORKER_MODELS_LOCAL_TRAINER_FOR_TESTING_H_
#define MUSTER_WORKER_MODELS_LOCAL_TRAINER_FOR_TESTING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/nn/low_precision_copies.h"
#include "worker/nn/model.h"

namespace muster {

// For tests: holds a model's parameters and rows in this process and trains it by plain gradient
// descent. Not thread-safe.
class LocalTrainer {
 public:
  // Initial values follow from the seed. `model` must outlive this.
  LocalTrainer(const Model& model, uint64_t seed)
      : LocalTrainer(model, model.description().tensors, seed) {}
  // Holds a rank's shares of the model's tensors.
  LocalTrainer(const Model& model, const std::vector<TensorSpec>& tensors, uint64_t seed);

  // Runs the model forward on a batch; results lie in micro_batch().
  absl::Status Evaluate(const Batch& batch);

  // Forward and backward, then a step against the gradient of the mean loss. Returns the status of
  // the model.
  absl::Status Step(const Batch& batch, float learning_rate);

  // Takes a batch in and copies the rows it uses.
  absl::Status Load(const Batch& batch);

  // Runs all units forward and backward over what was loaded, backward in two actions if
  // micro_batch().split_backward. Writes gradients, which hold no number before.
  absl::Status Run(const LayerContext& context = {});

  // Does the same as a further micro-batch of a step: adds to gradients.
  absl::Status RunAgain() { return RunUnits({.gradients = Accumulation::kAdd}); }

  // Makes passes leave no gradient of a tensor, of which gradients() is then empty.
  void Freeze(size_t tensor) {
    gradient_spans_[tensor] = {};
    gradients_[tensor].clear();
  }

  MicroBatch& micro_batch() { return *micro_batch_; }
  double mean_loss() const { return micro_batch_->loss_sum / micro_batch_->loss_weight; }
  std::vector<std::vector<float>>& parameters() { return parameters_; }
  const std::vector<std::vector<float>>& gradients() const { return gradients_; }
  // The row of a key, made at first touch.
  std::vector<float>& Row(int table, uint64_t key);

 private:
  absl::Status RunUnits(const LayerContext& context);
  // Returns the parameters with copies of their present values.
  ModelParameters Rounded();

  const Model& model_;
  const uint64_t seed_;
  std::unique_ptr<MicroBatch> micro_batch_;
  std::vector<std::vector<float>> parameters_;
  std::vector<std::vector<float>> gradients_;
  std::vector<absl::Span<const float>> parameter_spans_;
  std::unique_ptr<LowPrecisionCopies> copies_;
  std::vector<absl::Span<float>> gradient_spans_;
  // By table.
  std::vector<absl::flat_hash_map<uint64_t, std::vector<float>>> rows_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_LOCAL_TRAINER_FOR_TESTING_H_
