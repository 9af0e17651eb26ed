#ifndef MUSTER_WORKER_DEVICE_MEMORY_DEVICE_PARAMETERS_H_
#define MUSTER_WORKER_DEVICE_MEMORY_DEVICE_PARAMETERS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/partition/dense_layout.h"
#include "common/partition/tensor_spec.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"
#include "worker/nn/transformer/arrays/transformer_tensors.h"

namespace muster {

// The places of a transformer's tensors, or of a rank's shares of them, in the flat spaces
// of weights, gradients and optimizer state on a device. In the order of DenseLayout (by unit, then
// by optimizer group), with every tensor padded to whole cache lines, which vector loads and
// cuBLASLt need; padding is 0 and stays so. Immutable.
class DeviceParameters {
 public:
  // `shares` are what the rank has of the transformer's tensors, in their order; empty: all of
  // them. InvalidArgument as DenseLayout::Create says.
  static absl::StatusOr<DeviceParameters> Create(const TransformerShape& shape,
                                                 absl::Span<const TensorSpec> shares = {});

  const TransformerTensors& tensors() const { return tensors_; }
  // The same tensors as rows of padded elements: what the layout and plans of buckets are made of.
  const std::vector<TensorSpec>& padded() const { return padded_; }
  const DenseLayout& layout() const { return layout_; }

  // Returns the number of elements of the flat space.
  uint64_t elements() const { return layout_.elements(); }
  // Returns where a tensor begins; a tied tensor begins where the one does that it is tied to.
  uint64_t offset(int tensor) const { return layout_.tensor_offset(tensor); }
  // Returns the number of a tensor's elements without padding.
  int64_t elements_of(int tensor) const { return tensors_.specs[tensor].elements(); }

 private:
  DeviceParameters(TransformerTensors tensors, std::vector<TensorSpec> padded, DenseLayout layout)
      : tensors_(std::move(tensors)), padded_(std::move(padded)), layout_(std::move(layout)) {}

  TransformerTensors tensors_;
  std::vector<TensorSpec> padded_;
  DenseLayout layout_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_MEMORY_DEVICE_PARAMETERS_H_
