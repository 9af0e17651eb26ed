#ifndef MUSTER_COMMON_MODEL_FILES_UPCYCLED_WEIGHTS_H_
#define MUSTER_COMMON_MODEL_FILES_UPCYCLED_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model_files/weights.h"

namespace muster {

// A dense model's weights with experts in all blocks, each a copy of the block's feed-forward layer
// (Komatsuzaki et al., "Sparse Upcycling", 2023). Weights of a token's experts add up to 1, so the
// model computes at first what the dense one does, whatever routers choose; these have the initial
// values of a job with seed 1. The specification has an auxiliary loss, so that all come to be
// used.
class UpcycledWeights final : public Weights {
 public:
  // `weights` outlive this object. InvalidArgument: the model has experts already, or biases, which
  // experts do not have. REQUIRES: 2 <= experts, and 1 <= top_k <= experts.
  static absl::StatusOr<std::unique_ptr<const UpcycledWeights>> Create(const Weights& weights,
                                                                       uint32_t experts,
                                                                       uint32_t top_k);
  ~UpcycledWeights() override;

  const v1::TransformerSpec& spec() const override { return *spec_; }
  const std::vector<MusterTensor>& tensors() const override { return tensors_; }
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override;

 private:
  UpcycledWeights(const Weights& weights, uint32_t experts, uint32_t top_k);

  const Weights& weights_;
  // Const after construction.
  std::unique_ptr<v1::TransformerSpec> spec_;
  std::vector<MusterTensor> tensors_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_UPCYCLED_WEIGHTS_H_
