#ifndef MUSTER_WORKER_RUNTIME_DEVICE_CPU_REFERENCE_FOR_TESTING_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_CPU_REFERENCE_FOR_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/kernels/moe/expert_arrays.h"
#include "common/optim/optimizer.h"
#include "worker/data/batch.h"
#include "worker/nn/low_precision_copies.h"
#include "worker/nn/model.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

// The model of the CPU and its optimizer, trained as a device does: gradients are sums,
// divided once by the step's tokens, clipped by global norm, then AdamW. What the device is
// compared with.
class CpuReference {
 public:
  // `fields` are those of a TransformerSpec beside the vocabulary, `compute` those of a
  // ComputeSpec, in text form. Fails the test where they are wrong.
  CpuReference(const std::string& fields, int64_t vocabulary, const std::string& compute);

  const TransformerShape& shape() const { return shape_; }
  const std::vector<TensorSpec>& tensors() const { return model_->description().tensors; }

  // Return the values of each tensor; tied tensors are empty.
  std::vector<std::vector<float>>& weights() { return weights_; }
  const std::vector<std::vector<float>>& gradients() const { return gradients_; }
  // Weights at which no logit is certain.
  void SetWeights(uint64_t seed);

  void BeginStep(uint64_t clock);
  void AddMicroBatch(const Batch& batch, uint64_t first_example);
  double loss_sum() const { return loss_sum_; }
  int64_t tokens() const { return tokens_; }
  int64_t correct() const { return correct_; }
  // Return what StepSums has.
  const RouterSums& router_sums() const { return router_sums_; }
  const std::vector<uint64_t>& expert_loads() const { return expert_loads_; }
  // Returns the norm of the mean gradient.
  double GradientNorm() const;
  void EndStep(float learning_rate, float weight_decay, double max_norm);

 private:
  TransformerShape shape_;
  std::unique_ptr<const Model> model_;
  std::unique_ptr<const Optimizer> optimizer_;
  std::unique_ptr<MicroBatch> micro_batch_;
  std::vector<std::vector<float>> weights_;
  std::vector<std::vector<float>> gradients_;
  std::vector<std::vector<float>> moments_;
  std::vector<absl::Span<const float>> weight_spans_;
  std::unique_ptr<LowPrecisionCopies> copies_;
  std::vector<absl::Span<float>> gradient_spans_;
  uint64_t clock_ = 0;
  uint64_t steps_ = 0;
  double loss_sum_ = 0;
  int64_t tokens_ = 0;
  int64_t correct_ = 0;
  RouterSums router_sums_;
  std::vector<uint64_t> expert_loads_;
};

// `sequences` of random tokens, of which every seventh has no label.
Batch RandomSequences(int64_t sequences, int64_t length, int64_t vocabulary, uint64_t seed);
// Sequences [first, first + count) of a batch.
Batch SequencesOf(const Batch& batch, int64_t first, int64_t count);

// Adds what routers are judged by, and the loads of experts.
void AddRouters(const RouterSums& sums, absl::Span<const uint64_t> loads, RouterSums& all,
                std::vector<uint64_t>& all_loads);

// |a - b| / |b|, or |a - b| where b is 0.
double RelativeDistance(absl::Span<const float> a, absl::Span<const float> b);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_CPU_REFERENCE_FOR_TESTING_H_
