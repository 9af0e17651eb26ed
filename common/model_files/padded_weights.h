#ifndef MUSTER_COMMON_MODEL_FILES_PADDED_WEIGHTS_H_
#define MUSTER_COMMON_MODEL_FILES_PADDED_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/model_files/weights.h"

namespace muster {

// Other weights, with the rows of the embedding and the head padded with zeros to a multiple of a
// number (TransformerSpec.pad_vocabulary_to). Jobs that pad start from such weights.
class PaddedWeights final : public Weights {
 public:
  // `weights` have no padding, and outlive this object. REQUIRES: multiple >= 1.
  PaddedWeights(const Weights& weights, uint32_t multiple);
  ~PaddedWeights() override;

  const v1::TransformerSpec& spec() const override { return *spec_; }
  const std::vector<MusterTensor>& tensors() const override { return tensors_; }
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override;

 private:
  const Weights& weights_;
  // Const after construction.
  std::unique_ptr<v1::TransformerSpec> spec_;
  std::vector<MusterTensor> tensors_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_PADDED_WEIGHTS_H_
