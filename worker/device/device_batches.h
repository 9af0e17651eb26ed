#ifndef MUSTER_WORKER_DEVICE_DEVICE_BATCHES_H_
#define MUSTER_WORKER_DEVICE_DEVICE_BATCHES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device/device.h"
#include "common/kernels/device/device_dropout.h"
#include "common/plan/device_memory_layout.h"
#include "worker/data/batch.h"
#include "worker/nn/transformer/transformer_arrays.h"
#include "worker/nn/transformer/transformer_shape.h"

namespace muster {

// Brings batches to the device by pinned memory: several places in turn, so that the host prepares
// one batch while the device has not come to those before it, and waits only when it is as many
// ahead. Used by one thread.
class DeviceBatches {
 public:
  // `most` is the largest micro-batch; `arrays` are where it goes.
  static absl::StatusOr<std::unique_ptr<DeviceBatches>> Create(const TransformerShape& shape,
                                                               const TokenRows& most,
                                                               const DeviceBatchArrays& arrays);

  // The extents of a batch. InvalidArgument: sequences are not of one length of at most the
  // largest's, there are too many, or tokens or labels are not in the vocabulary; says what.
  absl::StatusOr<TokenRows> Check(const Batch& batch) const;

  // Queues the copy of a batch that was checked. REQUIRES: at least one sequence.
  absl::Status Copy(DeviceStream& stream, const Batch& batch, const DropoutClock& clock);

 private:
  struct Place {
    DeviceBuffer memory;
    // Reached when it has been copied.
    std::unique_ptr<DeviceEvent> copied;
  };

  DeviceBatches(const TransformerShape& shape, const TokenRows& most,
                const DeviceBatchArrays& arrays);

  const TransformerShape shape_;
  const TokenRows most_;
  const DeviceBatchArrays arrays_;
  std::vector<Place> places_;
  // FillTokenOrder's.
  std::vector<int32_t> token_counts_;
  size_t next_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_BATCHES_H_
