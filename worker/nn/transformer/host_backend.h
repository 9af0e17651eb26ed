#ifndef MUSTER_WORKER_NN_TRANSFORMER_HOST_BACKEND_H_
#define MUSTER_WORKER_NN_TRANSFORMER_HOST_BACKEND_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "common/compute/activation_layout.h"
#include "common/tensor/dtype.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"
#include "worker/nn/transformer/transformer_backend.h"

namespace muster {

// This machine's processors. Calls run at once; results are there after the call that computes
// them. Thread-safe.
class HostBackend final : public TransformerBackend {
 public:
  // Computes in `type`: f32, bf16 or f16.
  HostBackend(const TransformerShape& shape, DType type, Recompute recompute);

  const float* rotary_table() const override {
    return rotary_table_.empty() ? nullptr : rotary_table_.data();
  }
  int64_t most_examples() const override { return std::numeric_limits<int64_t>::max(); }
  bool on_device() const override { return false; }
  std::unique_ptr<TransformerMicroBatch> NewMicroBatch() const override;

 private:
  const TransformerShape shape_;
  const DType type_;
  const Recompute recompute_;
  const std::vector<float> rotary_table_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_HOST_BACKEND_H_
