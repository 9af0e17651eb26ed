#ifndef MUSTER_WORKER_DEVICE_WEIGHTS_DEVICE_SPACES_H_
#define MUSTER_WORKER_DEVICE_WEIGHTS_DEVICE_SPACES_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/device/device.h"
#include "common/plan/device/device_memory_layout.h"
#include "common/tensor/dtype.h"
#include "worker/device/memory/device_options.h"
#include "worker/device/memory/device_parameters.h"
#include "worker/nn/layer.h"
#include "worker/nn/model_parameters.h"

namespace muster {

// The memory of a transformer's parameters on a device. Of a shard, its slices
// (DeviceExtents::shard); otherwise flat spaces: weights, which have copies in 16 bits
// where these are computed with, gradients and, where the optimizer is here, Adam's moments. All
// are 0 at first. Used by one thread, by way of one stream.
class DeviceSpaces {
 public:
  // DeviceFaultError: others have taken the memory meanwhile; otherwise the device's errors.
  static absl::StatusOr<std::unique_ptr<DeviceSpaces>> Create(DeviceParameters parameters,
                                                              const DeviceComputeOptions& options,
                                                              const DeviceExtents& extents,
                                                              DeviceStream& stream);

  const DeviceParameters& places() const { return places_; }
  const DeviceState& state() const { return state_; }

  // By tensor; empty for slices of a shard. The addresses never change.
  ModelParameters parameters() const { return {weights_, rounded_}; }
  GradientSpans gradients() const { return gradients_; }

  // Queues copying one tensor's weights, [elements], from the host, and rounding them. `values` may
  // change when it returns, unless they are pinned. REQUIRES: a tensor that is not tied.
  void CopyWeights(DeviceStream& stream, int tensor, absl::Span<const float> values);

  // Queues making the copies in 16 bits of all weights, which others have written.
  void RoundWeights(DeviceStream& stream) { Round(stream, 0, places_.elements()); }

  // Queues zeroing of all gradients.
  void ZeroGradients(DeviceStream& stream);

  // Writes the weights that every worker and server begins with for this seed. Waits.
  absl::Status WriteInitialValues(DeviceStream& stream, uint64_t seed);

 private:
  DeviceSpaces(DeviceParameters places, DType type) : places_(std::move(places)), type_(type) {}

  // Queues the copies in 16 bits of elements [begin, begin + count).
  void Round(DeviceStream& stream, uint64_t begin, uint64_t count);

  const DeviceParameters places_;
  const DType type_;
  DeviceBuffer buffer_;
  DeviceState state_;
  // By tensor; none rounded in f32.
  std::vector<absl::Span<const float>> weights_;
  std::vector<const void*> rounded_;
  std::vector<absl::Span<float>> gradients_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_WEIGHTS_DEVICE_SPACES_H_
