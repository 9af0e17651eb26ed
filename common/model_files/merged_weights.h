#ifndef MUSTER_COMMON_MODEL_FILES_MERGED_WEIGHTS_H_
#define MUSTER_COMMON_MODEL_FILES_MERGED_WEIGHTS_H_

#include <memory>
#include <string>
#include <vector>

#include "common/model_files/adapter_layout.h"
#include "common/model_files/transformer_layout.h"
#include "common/model_files/weights.h"

namespace muster {

// Other weights with their adapters added to the matrices that these lie beside, so that a
// transformer without adapters computes the same: weight + alpha / rank · up · down, added up in
// f32.
class MergedWeights final : public Weights {
 public:
  // `weights` have the adapters of the specification, and outlive this object.
  MergedWeights(const Weights& weights, const v1::AdapterSpec& adapter);
  ~MergedWeights() override;

  const v1::TransformerSpec& spec() const override { return weights_.spec(); }
  const std::vector<MusterTensor>& tensors() const override { return tensors_; }
  // InvalidArgument: an adapter has another shape than its specification says.
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override;

 private:
  const Weights& weights_;
  // Const after construction.
  std::unique_ptr<v1::AdapterSpec> adapter_;
  std::vector<MusterTensor> tensors_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_MERGED_WEIGHTS_H_
